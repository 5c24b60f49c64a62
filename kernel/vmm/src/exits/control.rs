//! Control and debug registers, where a backend has to intercept them.

use super::exception::DR7_GD;
use crate::memory::{GuestMemory, Width};
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use x86defs::addr::Gpa;
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::event::{Event, Exception};
use x86defs::gpr::Gpr;
use x86defs::segment::{Attributes, SegmentName};

/// DR6.BD: a debug register was accessed while GD was set.
const DR6_BD: u64 = 1 << 13;
/// Bits 31:5 that hold a PAE page-directory-pointer table's address (SDM 3, 4.4.1).
const PAE_CR3: u64 = 0xffff_ffe0;
/// Reserved bits of a PDPTE below the physical address width: 2:1 and 8:5 (SDM 3, table 4-8).
const PDPTE_RESERVED: u64 = 0b1_1110_0110;

/// The guest asked for something that the CPU answers with #GP(0).
pub(super) struct Refused;

/// MOV to a control register.
pub(super) fn write<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, register: u8, from: Gpr) {
    let value = operand(vcpu, from);
    let done = match register {
        0 => write_cr0(vcpu, state, value),
        3 => {
            vcpu.set_cr3(value);
            Ok(())
        }
        4 => write_cr4(vcpu, state, value),
        8 => write_cr8(vcpu, state, value),
        _ => return vcpu.inject(Event::UD),
    };
    finish(vcpu, done);
}

/// What a general register gives to a control or debug register: outside 64-bit code it has 32 bits.
fn operand<V: Vcpu>(vcpu: &V, from: Gpr) -> u64 {
    let long = vcpu.efer().contains(Efer::LMA)
        && vcpu.segment(SegmentName::Cs).attributes.contains(Attributes::LONG);
    vcpu.gpr(from) & if long { u64::MAX } else { 0xffff_ffff }
}

fn finish<V: Vcpu>(vcpu: &mut V, done: Result<(), Refused>) {
    match done {
        Ok(()) => vcpu.skip(),
        Err(Refused) => vcpu.inject(Event::GP0),
    }
}

/// MOV from a control register.
pub(super) fn read<V: Vcpu>(vcpu: &mut V, register: u8, to: Gpr) {
    let value = match register {
        0 => vcpu.cr0().bits(),
        2 => vcpu.cr2(),
        3 => vcpu.cr3(),
        4 => vcpu.cr4().bits(),
        8 => vcpu.cr8().into(),
        _ => return vcpu.inject(Event::UD),
    };
    vcpu.set_gpr(to, value);
    vcpu.skip();
}

pub(super) fn clts<V: Vcpu>(vcpu: &mut V) {
    vcpu.set_cr0(vcpu.cr0() - Cr0::TS);
    vcpu.skip();
}

/// LMSW sets PE, MP, EM and TS, and cannot clear PE (SDM 2, LMSW).
pub(super) fn lmsw<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, value: u16) {
    let low = Cr0::PE | Cr0::MP | Cr0::EM | Cr0::TS;
    let old = vcpu.cr0();
    let new = (old - (low - Cr0::PE)) | (Cr0::from_bits_retain(value.into()) & low);
    let done = write_cr0(vcpu, state, new.bits());
    finish(vcpu, done);
}

/// SDM 3, 2.5 and 4.1.2.
fn write_cr0<V: Vcpu>(vcpu: &mut V, state: &VcpuState, value: u64) -> Result<(), Refused> {
    if value >> 32 != 0 {
        return Err(Refused);
    }
    let new = Cr0::from_bits_truncate(value) | Cr0::ET;
    let old = vcpu.cr0();
    let bad_paging = new.contains(Cr0::PG) && !new.contains(Cr0::PE);
    let bad_cache = new.contains(Cr0::NW) && !new.contains(Cr0::CD);
    if bad_paging || bad_cache {
        return Err(Refused);
    }
    let starts = new.contains(Cr0::PG) && !old.contains(Cr0::PG);
    let stops = old.contains(Cr0::PG) && !new.contains(Cr0::PG);
    let (cr4, efer) = (vcpu.cr4(), vcpu.efer());
    let code_is_long = || vcpu.segment(SegmentName::Cs).attributes.contains(Attributes::LONG);
    let long = efer.contains(Efer::LME);
    if starts && long && (!cr4.contains(Cr4::PAE) || code_is_long()) {
        return Err(Refused);
    }
    if stops && (efer.contains(Efer::LMA) && code_is_long() || cr4.contains(Cr4::PCIDE)) {
        return Err(Refused);
    }
    if new.contains(Cr0::PG) && cr4.contains(Cr4::PAE) && !long {
        let pdptes = read_pdptes(vcpu.cr3(), state.vm.memory())?;
        vcpu.set_pdptes(pdptes);
    }
    vcpu.set_cr0(new);
    if (old ^ new).intersects(Cr0::PG | Cr0::WP) {
        vcpu.flush_tlb(None);
    }
    Ok(())
}

/// SDM 3, 2.5.
fn write_cr4<V: Vcpu>(vcpu: &mut V, state: &VcpuState, value: u64) -> Result<(), Refused> {
    if value & !state.cpuid.allowed_cr4().bits() != 0 {
        return Err(Refused);
    }
    let new = Cr4::from_bits_retain(value);
    let old = vcpu.cr4();
    let long = vcpu.efer().contains(Efer::LMA);
    let paging = vcpu.cr0().contains(Cr0::PG);
    if long && !new.contains(Cr4::PAE) {
        return Err(Refused);
    }
    if new.contains(Cr4::PCIDE) && !old.contains(Cr4::PCIDE) && (!long || vcpu.cr3() & 0xfff != 0) {
        return Err(Refused);
    }
    let paging_bits = Cr4::PAE | Cr4::PSE | Cr4::PGE | Cr4::SMEP;
    if paging && !long && new.contains(Cr4::PAE) && (old ^ new).intersects(paging_bits) {
        let pdptes = read_pdptes(vcpu.cr3(), state.vm.memory())?;
        vcpu.set_pdptes(pdptes);
    }
    vcpu.set_cr4(new);
    Ok(())
}

fn write_cr8<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, value: u64) -> Result<(), Refused> {
    if value > 15 {
        return Err(Refused);
    }
    vcpu.set_cr8(value as u8);
    state.lapic.set_cr8(value as u8);
    state.port.alert(crate::hazard::EVENT);
    Ok(())
}

/// The four PDPTEs that PAE paging loads from where CR3 points (SDM 3, 4.4.1).
pub(super) fn read_pdptes(cr3: u64, memory: &dyn GuestMemory) -> Result<[u64; 4], Refused> {
    let table = Gpa(cr3 & PAE_CR3);
    let mut pdptes = [0; 4];
    for (index, entry) in pdptes.iter_mut().enumerate() {
        let at = table.offset(8 * index as u64);
        // What is not RAM reads as ones, and ones have reserved bits.
        *entry = memory.load(at, Width::Qword).unwrap_or(u64::MAX);
        if *entry & 1 != 0 && *entry & PDPTE_RESERVED != 0 {
            return Err(Refused);
        }
    }
    Ok(pdptes)
}

/// MOV to or from a debug register (SDM 2, MOV—Move to/from Debug Registers).
pub(super) fn mov_dr<V: Vcpu>(vcpu: &mut V, register: u8, gpr: Gpr, is_write: bool) {
    let aliased = match register {
        4 | 5 if vcpu.cr4().contains(Cr4::DE) => return vcpu.inject(Event::UD),
        4 | 5 => register + 2,
        _ => register,
    };
    if vcpu.dr7() & DR7_GD != 0 {
        vcpu.set_dr6(vcpu.dr6() | DR6_BD);
        vcpu.set_dr7(vcpu.dr7() & !DR7_GD);
        return vcpu.inject(Event::exception(Exception::Debug));
    }
    let value = operand(vcpu, gpr);
    match (aliased, is_write) {
        (6 | 7, true) if value >> 32 != 0 => return vcpu.inject(Event::GP0),
        (6, true) => vcpu.set_dr6(value),
        (7, true) => vcpu.set_dr7(value),
        (6, false) => vcpu.set_gpr(gpr, vcpu.dr6()),
        (7, false) => vcpu.set_gpr(gpr, vcpu.dr7()),
        // DR0 to DR3 are the guest's own while it is resident, and no backend intercepts them.
        _ => {}
    }
    vcpu.skip();
}

/// XSETBV (SDM 2, XSETBV).
pub(super) fn xsetbv<V: Vcpu>(vcpu: &mut V, state: &VcpuState) {
    let index = vcpu.gpr(Gpr::Rcx) as u32;
    let value = vcpu.gpr(Gpr::Rax) & 0xffff_ffff | vcpu.gpr(Gpr::Rdx) << 32;
    match state.cpuid.xsave().check_xsetbv(index, value) {
        Ok(xcr0) if vcpu.cpl() == 0 => {
            vcpu.set_xcr0(xcr0.bits());
            vcpu.skip();
        }
        _ => vcpu.inject(Event::GP0),
    }
}

//! MOV to and from control registers, CLTS, LMSW and XSETBV: each combination that the manual refuses, and the
//! legal ones beside it.

use crate::exit::Exit;
use crate::fake::{FakeVcpu, Machine, RAM};
use crate::hazard;
use crate::memory::Width;
use crate::vcpu::Vcpu;
use x86defs::addr::Gpa;
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::event::Event;
use x86defs::gpr::Gpr;
use x86defs::segment::{Attributes, SegmentName};

/// Paging bits of CR0 in a guest that has them.
const PAGED: Cr0 = Cr0::PE.union(Cr0::PG).union(Cr0::ET);
/// A page-directory-pointer table, and an entry that points nowhere in particular.
const PDPT: u64 = 0x1000;
const PRESENT: u64 = 1;

fn write(vcpu: FakeVcpu, register: u8, value: u64) -> Machine {
    write_to(Machine::new(vcpu), register, value)
}

fn write_to(mut machine: Machine, register: u8, value: u64) -> Machine {
    machine.vcpu.set_gpr(Gpr::R9, value);
    machine.exit(Exit::WriteCr(register, Gpr::R9));
    machine
}

#[track_caller]
fn assert_refused(vcpu: FakeVcpu, register: u8, value: u64) {
    let machine = write(vcpu.clone(), register, value);
    machine.assert_raises(Event::GP0);
    let kept = (machine.vcpu.cr0, machine.vcpu.cr4, machine.vcpu.cr8, machine.vcpu.efer);
    assert_eq!(kept, (vcpu.cr0, vcpu.cr4, vcpu.cr8, vcpu.efer), "a refused value changes nothing");
}

/// Code of 32 bits in long mode.
fn compatibility() -> FakeVcpu {
    let mut vcpu = FakeVcpu::long(PDPT);
    let cs = &mut vcpu.segment_mut(SegmentName::Cs).attributes;
    *cs = (*cs - Attributes::LONG) | Attributes::DEFAULT_BIG;
    vcpu
}

/// Protected mode about to switch to long mode.
fn before_long() -> FakeVcpu {
    let mut vcpu = FakeVcpu::protected32();
    vcpu.efer = Efer::LME;
    vcpu.cr4 = Cr4::PAE;
    vcpu
}

/// A machine with PAE paging switched on but for CR0.PG or CR4.PAE, and its four PDPTEs.
fn with_pdptes(vcpu: FakeVcpu, entries: [u64; 4]) -> Machine {
    let mut machine = Machine::new(vcpu);
    machine.vcpu.cr3 = PDPT;
    for (at, entry) in (PDPT..).step_by(8).zip(entries) {
        machine.state.vm.memory().store(Gpa(at), Width::Qword, entry).expect("RAM");
    }
    machine
}

#[test]
fn cr0_refuses_what_the_manual_refuses() {
    let long_code_before_long = || {
        let mut vcpu = before_long();
        vcpu.segment_mut(SegmentName::Cs).attributes |= Attributes::LONG;
        vcpu
    };
    let with_pcids = || FakeVcpu { cr4: Cr4::PAE | Cr4::PCIDE, ..compatibility() };
    let without_pae = || FakeVcpu { cr4: Cr4::empty(), ..before_long() };
    for (why, vcpu, value) in [
        ("upper half", FakeVcpu::long(0), 1 << 32 | PAGED.bits()),
        ("paging without protection", FakeVcpu::real(), Cr0::PG.bits()),
        ("protection dropped under paging", FakeVcpu::long(0), Cr0::PG.bits()),
        ("NW without CD", FakeVcpu::protected32(), (Cr0::PE | Cr0::NW).bits()),
        ("long mode without PAE", without_pae(), PAGED.bits()),
        ("long mode entered from 64-bit code", long_code_before_long(), PAGED.bits()),
        ("paging stopped in 64-bit code", FakeVcpu::long(0), Cr0::PE.bits()),
        ("paging stopped with PCIDs", with_pcids(), Cr0::PE.bits()),
    ] {
        std::println!("{why}");
        assert_refused(vcpu, 0, value);
    }
}

#[test]
fn cr0_takes_the_legal_values() {
    let cached_off = Cr0::PE | Cr0::CD | Cr0::NW;
    for (vcpu, value) in [
        (FakeVcpu::real(), Cr0::PE),
        (FakeVcpu::protected32(), Cr0::empty()),
        (FakeVcpu::protected32(), PAGED),
        (FakeVcpu::protected32(), cached_off),
        (FakeVcpu::protected32(), Cr0::PE | Cr0::CD),
        (FakeVcpu::long(0), PAGED | Cr0::WP | Cr0::AM | Cr0::NE),
    ] {
        let machine = write(vcpu, 0, value.bits());
        machine.assert_skipped();
        assert_eq!(machine.vcpu.cr0, value | Cr0::ET, "ET is fixed to one");
    }
}

#[test]
fn unknown_bits_of_cr0_are_dropped() {
    let unknown = 1 << 6 | 1 << 15 | 1 << 28;
    let machine = write(FakeVcpu::protected32(), 0, Cr0::PE.bits() | unknown);
    machine.assert_skipped();
    assert_eq!(machine.vcpu.cr0, Cr0::PE | Cr0::ET);
}

#[test]
fn paging_switches_long_mode_on_and_off() {
    let machine = write(before_long(), 0, PAGED.bits());
    machine.assert_skipped();
    assert_eq!(machine.vcpu.efer, Efer::LME | Efer::LMA);
    assert_eq!(machine.vcpu.pdptes, None, "long mode has none");
    let machine = write(compatibility(), 0, Cr0::PE.bits());
    machine.assert_skipped();
    assert!(!machine.vcpu.efer.contains(Efer::LMA));
}

#[test]
fn translations_are_dropped_where_cr0_changes_them() {
    let flushes = |value: Cr0| write(FakeVcpu::long(0), 0, value.bits()).vcpu.flushes;
    assert_eq!(flushes(PAGED | Cr0::NE), [None], "WP goes");
    assert_eq!(flushes(PAGED | Cr0::NE | Cr0::WP | Cr0::TS), [], "TS has no part in it");
    assert_eq!(write(FakeVcpu::protected32(), 0, PAGED.bits()).vcpu.flushes, [None], "PG comes");
}

#[test]
fn outside_64_bit_code_registers_have_32_bits() {
    let machine = write(FakeVcpu::protected32(), 0, 1 << 32 | Cr0::PE.bits());
    machine.assert_skipped();
    let machine = write(FakeVcpu::protected32(), 3, 0xffff_ffff_0000_1000);
    machine.assert_skipped();
    assert_eq!(machine.vcpu.cr3, 0x1000);
    let machine = write(FakeVcpu::long(0), 3, 0xff_0000_1000);
    assert_eq!(machine.vcpu.cr3, 0xff_0000_1000);
}

#[test]
fn pae_paging_loads_its_four_entries() {
    let entries = [PRESENT | 0x2000, 0, PRESENT | 0x3000, 0b110];
    let pae = || FakeVcpu { cr4: Cr4::PAE, ..FakeVcpu::protected32() };
    let machine = write_to(with_pdptes(pae(), entries), 0, PAGED.bits());
    machine.assert_skipped();
    assert_eq!(machine.vcpu.pdptes, Some(entries), "an entry that is not present may hold anything");

    let paged = FakeVcpu { cr0: PAGED, ..FakeVcpu::protected32() };
    let machine = write_to(with_pdptes(paged, entries), 4, Cr4::PAE.bits());
    machine.assert_skipped();
    assert_eq!((machine.vcpu.pdptes, machine.vcpu.cr4), (Some(entries), Cr4::PAE));
}

#[test]
fn pae_paging_refuses_reserved_bits_in_its_entries() {
    let pae = || FakeVcpu { cr4: Cr4::PAE, ..FakeVcpu::protected32() };
    for reserved in [1, 2, 5, 6, 7, 8] {
        let machine = with_pdptes(pae(), [0, 0, 0, PRESENT | 1 << reserved]);
        let machine = write_to(machine, 0, PAGED.bits());
        machine.assert_raises(Event::GP0);
        assert_eq!((machine.vcpu.pdptes, machine.vcpu.cr0), (None, Cr0::PE | Cr0::ET), "bit {reserved}");
    }
    let beyond_ram = FakeVcpu { cr3: RAM as u64, ..pae() };
    write(beyond_ram, 0, PAGED.bits()).assert_raises(Event::GP0);
    let paged = FakeVcpu { cr0: PAGED, ..FakeVcpu::protected32() };
    let machine = write_to(with_pdptes(paged, [PRESENT | 1 << 1; 4]), 4, Cr4::PAE.bits());
    machine.assert_raises(Event::GP0);
    assert_eq!(machine.vcpu.cr4, Cr4::empty());
}

#[test]
fn cr4_takes_just_the_bits_that_cpuid_offers() {
    let allowed = Machine::new(FakeVcpu::long(0)).state.cpuid.allowed_cr4();
    assert!(allowed.contains(Cr4::PAE | Cr4::OSXSAVE | Cr4::SMEP) && !allowed.contains(Cr4::VMXE));
    for bit in 0..64 {
        let value = Cr4::from_bits_retain(Cr4::PAE.bits() | 1 << bit);
        if allowed.contains(value) {
            let machine = write(FakeVcpu::long(0), 4, value.bits());
            machine.assert_skipped();
            assert_eq!(machine.vcpu.cr4, value);
        } else {
            assert_refused(FakeVcpu::long(0), 4, value.bits());
        }
    }
}

#[test]
fn cr4_refuses_what_the_mode_forbids() {
    assert_refused(FakeVcpu::long(0), 4, 0);
    assert_refused(FakeVcpu::protected32(), 4, (Cr4::PAE | Cr4::PCIDE).bits());
    let pcids = (Cr4::PAE | Cr4::PCIDE).bits();
    assert_refused(FakeVcpu::long(0x1001), 4, pcids);
    write(FakeVcpu::long(0x1000), 4, pcids).assert_skipped();
    let already = FakeVcpu { cr4: Cr4::from_bits_retain(pcids), ..FakeVcpu::long(0x1001) };
    write(already, 4, pcids).assert_skipped();
}

#[test]
fn cr8_is_the_local_apics_task_priority() {
    for value in 0..=15 {
        let machine = write(FakeVcpu::long(0), 8, value);
        machine.assert_skipped();
        assert_eq!((u64::from(machine.vcpu.cr8), u64::from(machine.state.lapic.cr8())), (value, value));
        assert_eq!(machine.state.port.hazard.take(), hazard::EVENT, "an interrupt may have been waiting");
    }
    for value in [16, 1 << 32, u64::MAX] {
        assert_refused(FakeVcpu::long(0), 8, value);
    }
}

#[test]
fn control_registers_can_be_read() {
    let mut vcpu = FakeVcpu::long(0x5000);
    (vcpu.cr2, vcpu.cr8) = (0xdead_f000, 9);
    let (cr0, cr4) = (vcpu.cr0.bits(), vcpu.cr4.bits());
    for (register, value) in [(0, cr0), (2, 0xdead_f000), (3, 0x5000), (4, cr4), (8, 9)] {
        let mut machine = Machine::new(vcpu.clone());
        machine.exit(Exit::ReadCr(register, Gpr::R12));
        machine.assert_skipped();
        assert_eq!(machine.vcpu.gpr(Gpr::R12), value, "CR{register}");
    }
}

#[test]
fn other_control_registers_do_not_exist() {
    for register in [1, 5, 6, 7, 9, 15] {
        write(FakeVcpu::long(0), register, 0).assert_raises(Event::UD);
        let mut machine = Machine::new(FakeVcpu::long(0));
        machine.exit(Exit::ReadCr(register, Gpr::Rax));
        machine.assert_raises(Event::UD);
    }
}

#[test]
fn clts_clears_ts_alone() {
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.vcpu.cr0 |= Cr0::TS | Cr0::MP;
    let before = machine.vcpu.cr0;
    machine.exit(Exit::Clts);
    machine.assert_skipped();
    assert_eq!(machine.vcpu.cr0, before - Cr0::TS);
}

#[test]
fn lmsw_changes_four_bits_and_never_clears_pe() {
    let low = Cr0::PE | Cr0::MP | Cr0::EM | Cr0::TS;
    let lmsw = |mut vcpu: FakeVcpu, before: Cr0, operand| {
        vcpu.cr0 = before;
        let mut machine = Machine::new(vcpu);
        machine.exit(Exit::Lmsw(operand));
        machine.assert_skipped();
        machine.vcpu.cr0
    };
    assert_eq!(lmsw(FakeVcpu::real(), Cr0::ET, u16::MAX), Cr0::ET | low);
    assert_eq!(lmsw(FakeVcpu::protected32(), Cr0::ET | Cr0::NE | low, 0), Cr0::ET | Cr0::NE | Cr0::PE);
    assert_eq!(lmsw(FakeVcpu::real(), Cr0::ET | Cr0::MP, Cr0::TS.bits() as u16), Cr0::ET | Cr0::TS);
}

#[test]
fn xsetbv_is_for_ring_0_and_checks_its_value() {
    let xsetbv = |cpl, register, value: u64| {
        const IGNORED: u64 = 0xffff_ffff_0000_0000;
        let mut machine = Machine::new(FakeVcpu { cpl, ..FakeVcpu::long(0) });
        machine.vcpu.set_gpr(Gpr::Rcx, IGNORED | register);
        machine.vcpu.set_gpr(Gpr::Rax, IGNORED | value & 0xffff_ffff);
        machine.vcpu.set_gpr(Gpr::Rdx, IGNORED | value >> 32);
        machine.exit(Exit::Xsetbv);
        machine
    };
    let machine = xsetbv(0, 0, 0b111);
    machine.assert_skipped();
    assert_eq!(machine.vcpu.xcr0, 0b111);
    for (cpl, register, value) in [(3, 0, 0b111), (0, 1, 0b111), (0, 0, 0b110), (0, 0, 1 << 32 | 0b111)] {
        let machine = xsetbv(cpl, register, value);
        machine.assert_raises(Event::GP0);
        assert_eq!(machine.vcpu.xcr0, 1, "CPL {cpl}, register {register}, value {value:#x}");
    }
}

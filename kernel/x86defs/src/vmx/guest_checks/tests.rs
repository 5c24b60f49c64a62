//! Good states pass, and each broken rule is named.

use super::*;
use crate::reset::{ResetKind, ResetState};
use std::collections::BTreeMap;
use std::vec::Vec;

const LIMITS: Limits =
    Limits { cr0_fixed: (0x8000_0021, 0xffff_ffff), cr4_fixed: (0x2000, 0x0037_27ff), physical_bits: 40 };

struct Vmcs(BTreeMap<u32, u64>);

impl Vmcs {
    /// What a virtual CPU starts with.
    fn reset() -> Vmcs {
        let state = ResetState::new(ResetKind::Reset, 0, Cr0::empty());
        let mut vmcs = Vmcs(BTreeMap::new());
        vmcs.set(vmcs::GUEST_CR0, Cr0::NE.bits() | Cr0::ET.bits());
        vmcs.set(vmcs::GUEST_CR4, Cr4::VMXE.bits());
        vmcs.set(vmcs::GUEST_RFLAGS, state.rflags.bits());
        vmcs.set(vmcs::GUEST_RIP, state.rip);
        vmcs.set(vmcs::GUEST_DR7, state.dr7);
        vmcs.set(vmcs::VMCS_LINK_POINTER, u64::MAX);
        vmcs.set(vmcs::GUEST_GDTR_LIMIT, 0xffff);
        for (name, segment) in SegmentName::ALL.into_iter().zip(state.segments) {
            let fields = SegmentFields::of(name);
            vmcs.set(fields.selector, segment.selector);
            vmcs.set(fields.base, segment.base);
            vmcs.set(fields.limit, segment.limit);
            vmcs.set(fields.access_rights, segment.attributes.bits());
        }
        vmcs
    }

    /// A 64-bit kernel.
    fn long() -> Vmcs {
        let mut vmcs = Vmcs::reset();
        vmcs.set(vmcs::GUEST_CR0, LIMITS.cr0_fixed.0);
        vmcs.set(vmcs::GUEST_CR4, (Cr4::VMXE | Cr4::PAE).bits());
        vmcs.set(vmcs::GUEST_CS_ACCESS_RIGHTS, 0xa09b);
        vmcs.set(vmcs::GUEST_CS_LIMIT, u32::MAX);
        vmcs.set(vmcs::GUEST_CS_BASE, 0);
        vmcs.set(vmcs::GUEST_RIP, 0xffff_ffff_8100_0000);
        vmcs.set(vmcs::GUEST_IA32_EFER, (Efer::LME | Efer::LMA).bits());
        let controls = EntryControls::IA32E_MODE_GUEST | EntryControls::LOAD_IA32_EFER;
        vmcs.set(vmcs::VM_ENTRY_CONTROLS, controls.bits());
        vmcs
    }

    fn set<F: Field>(&mut self, field: F, value: F::Value) {
        self.0.insert(field.encoding().0, F::widen(value));
    }

    fn failures(&self) -> Vec<&'static str> {
        let mut rules = Vec::new();
        check_guest_state(&|e| self.0.get(&e.0).copied(), &LIMITS, &mut |v| {
            assert!(!v.fields.is_empty());
            rules.push(v.rule);
        });
        rules
    }
}

/// A good state passes; each row breaks one rule and only that.
#[test]
fn good_states_pass() {
    assert_eq!(Vmcs::reset().failures(), [""; 0]);
    assert_eq!(Vmcs::long().failures(), [""; 0]);
}

fn broken<F: Field>(mut vmcs: Vmcs, field: F, value: F::Value) -> Vec<&'static str> {
    vmcs.set(field, value);
    vmcs.failures()
}

#[test]
fn control_registers() {
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_CR0, 0x10), ["CR0 has the bits that VMX operation fixes"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_CR0, 0x8000_0030), ["CR0.PG needs CR0.PE"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_CR4, 0), ["CR4 has the bits that VMX operation fixes"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_CR4, 0x2_2000), ["CR4.PCIDE needs IA-32e mode"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_CR4, 0x2000), ["an IA-32e mode guest has CR4.PAE"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_CR3, 1 << 40), ["CR3 is a physical address"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_DR7, 1 << 32), ["the high half of DR7 is zero"]);
}

#[test]
fn efer() {
    assert_eq!(
        broken(Vmcs::long(), vmcs::GUEST_IA32_EFER, 0x100),
        ["EFER.LMA agrees with IA-32e mode guest", "with paging on, EFER.LMA agrees with EFER.LME"]
    );
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_IA32_EFER, 0x1500), ["EFER has no reserved bits"]);
}

#[test]
fn segments() {
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_TR_ACCESS_RIGHTS, 0x1_0000), ["CS and TR are usable"]);
    assert_eq!(
        broken(Vmcs::reset(), vmcs::GUEST_SS_LIMIT, 0xf_ffff_u32 + 1),
        ["the limit agrees with the granularity"]
    );
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_DS_ACCESS_RIGHTS, 0x92), ["the type suits the register"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_DS_BASE, 1 << 32), ["the base fits the register"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_GS_BASE, 1 << 47), ["the base fits the register"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_TR_SELECTOR, 4), ["LDTR and TR refer to the GDT"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_CS_ACCESS_RIGHTS, 0xe09b), ["64-bit code has CS.D clear"]);
    assert_eq!(
        broken(Vmcs::long(), vmcs::GUEST_CS_ACCESS_RIGHTS, 0xa0fb),
        ["non-conforming CS has the DPL of SS"]
    );
    assert_eq!(
        broken(Vmcs::reset(), vmcs::GUEST_FS_ACCESS_RIGHTS, 0x193),
        ["no reserved access rights are set"]
    );
    // An unusable data segment is not looked at.
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_DS_ACCESS_RIGHTS, 0x1_0000), [""; 0]);
}

#[test]
fn flags_and_pointers() {
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_RFLAGS, 0), ["bit 1 of RFLAGS is set"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_RFLAGS, 0x2a), ["RFLAGS has no reserved bits"]);
    assert_eq!(broken(Vmcs::reset(), vmcs::GUEST_RIP, 1 << 32), ["RIP fits the mode"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_RIP, 1 << 60), ["RIP fits the mode"]);
    assert_eq!(
        broken(Vmcs::reset(), vmcs::VM_ENTRY_INTERRUPTION_INFORMATION, 0x8000_0031),
        ["an interrupt is injected only with RFLAGS.IF"]
    );
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_IDTR_BASE, 1 << 50), ["the address is canonical"]);
    assert_eq!(broken(Vmcs::long(), vmcs::GUEST_GDTR_LIMIT, 1 << 16), ["the limit has 16 bits"]);
    assert_eq!(broken(Vmcs::long(), vmcs::VMCS_LINK_POINTER, 0), ["the VMCS link pointer is unused"]);
}

#[test]
fn blocking_and_single_step() {
    let mut stepping = Vmcs::long();
    stepping.set(vmcs::GUEST_RFLAGS, (Rflags::ONE | Rflags::TF | Rflags::IF).bits());
    stepping.set(vmcs::GUEST_INTERRUPTIBILITY_STATE, 1);
    assert_eq!(
        stepping.failures(),
        ["while STI or MOV SS block, or in HLT, a single step is pending if RFLAGS.TF is set"]
    );
    assert_eq!(broken(stepping, vmcs::GUEST_PENDING_DEBUG_EXCEPTIONS, PendingDebug::BS.bits()), [""; 0]);
    assert_eq!(
        broken(Vmcs::long(), vmcs::GUEST_INTERRUPTIBILITY_STATE, 1),
        ["blocking by STI needs RFLAGS.IF"]
    );
    let mut nmi = Vmcs::long();
    nmi.set(vmcs::VM_ENTRY_INTERRUPTION_INFORMATION, 0x8000_0202);
    assert_eq!(
        broken(nmi, vmcs::GUEST_INTERRUPTIBILITY_STATE, 8),
        ["no NMI is injected while NMIs or MOV SS block"]
    );
    assert_eq!(
        broken(Vmcs::long(), vmcs::GUEST_ACTIVITY_STATE, 4),
        ["the activity state is one that exists"]
    );
}

#[test]
fn pdptes_of_a_pae_guest() {
    let mut pae = Vmcs::reset();
    pae.set(vmcs::GUEST_CR0, LIMITS.cr0_fixed.0);
    pae.set(vmcs::GUEST_CR4, (Cr4::VMXE | Cr4::PAE).bits());
    pae.set(vmcs::GUEST_PDPTE1, 0x1e6);
    assert_eq!(pae.failures(), [""; 0]);
    assert_eq!(broken(pae, vmcs::GUEST_PDPTE1, 0x1007), ["a PDPTE has no reserved bits"]);
}

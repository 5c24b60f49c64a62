//! The checks that a VM entry makes on the guest state (SDM 3, 27.3.1), to name the one that failed: the CPU
//! itself only says that one did. "Unrestricted guest" and EPT are taken as on.

use super::EntryControls;
use super::event_info::{ActivityState, EventInfo, Interruptibility, PendingDebug};
use crate::control::{Cr0, Cr4, Efer, Rflags};
use crate::event::EventKind;
use crate::msr::is_canonical as canonical;
use crate::segment::{Attributes, SegmentName};
use crate::vmcs::{self, Encoding, Field, SegmentFields};

/// What this CPU allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// IA32_VMX_CR0_FIXED0 and IA32_VMX_CR0_FIXED1.
    pub cr0_fixed: (u64, u64),
    /// IA32_VMX_CR4_FIXED0 and IA32_VMX_CR4_FIXED1.
    pub cr4_fixed: (u64, u64),
    /// MAXPHYADDR.
    pub physical_bits: u32,
}

/// A check that fails, and the fields it looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation<'a> {
    /// What should hold.
    pub rule: &'static str,
    /// The fields that say otherwise.
    pub fields: &'a [Encoding],
}

/// Reports each check that fails. `read` gives a field, or nothing where the CPU lacks it, which reads as zero.
pub fn check_guest_state(
    read: &dyn Fn(Encoding) -> Option<u64>,
    limits: &Limits,
    report: &mut dyn FnMut(Violation<'_>),
) {
    let mut checker = Checker { read, limits, report };
    checker.control_registers();
    checker.efer();
    for name in SegmentName::ALL {
        checker.segment(name);
    }
    checker.privilege();
    checker.tables_and_pointers();
    checker.flags();
    checker.activity();
    checker.interruptibility();
    checker.pending_debug();
    checker.pdptes();
}

/// Type of a descriptor: the low bits of its attributes.
const TYPE: u32 = 0xf;
const TYPE_LDT: u32 = 2;
const TYPE_DATA_READ_WRITE_ACCESSED: u32 = 3;
const TYPE_BUSY_TSS16: u32 = 3;
const TYPE_BUSY_TSS: u32 = 11;
/// Attributes that every segment has in virtual-8086 mode.
const V86_ACCESS_RIGHTS: u32 = 0xf3;
/// Table indicator of a selector.
const TI: u16 = 1 << 2;
/// Type of a descriptor: non-conforming code lies below, conforming code from here on.
const TYPE_CONFORMING: u32 = 13;

struct Checker<'a> {
    read: &'a dyn Fn(Encoding) -> Option<u64>,
    limits: &'a Limits,
    report: &'a mut dyn FnMut(Violation<'_>),
}

impl Checker<'_> {
    fn get<F: Field>(&self, field: F) -> F::Value {
        F::narrow((self.read)(field.encoding()).unwrap_or(0))
    }

    fn demand(&mut self, holds: bool, rule: &'static str, fields: &[Encoding]) {
        if !holds {
            (self.report)(Violation { rule, fields });
        }
    }

    fn cr0(&self) -> Cr0 {
        Cr0::from_bits_retain(self.get(vmcs::GUEST_CR0))
    }
    fn cr4(&self) -> Cr4 {
        Cr4::from_bits_retain(self.get(vmcs::GUEST_CR4))
    }
    fn rflags(&self) -> Rflags {
        Rflags::from_bits_retain(self.get(vmcs::GUEST_RFLAGS))
    }
    fn entry_controls(&self) -> EntryControls {
        EntryControls::from_bits_retain(self.get(vmcs::VM_ENTRY_CONTROLS))
    }
    fn ia32e(&self) -> bool {
        self.entry_controls().contains(EntryControls::IA32E_MODE_GUEST)
    }
    fn access_rights(&self, name: SegmentName) -> Attributes {
        Attributes::from_bits_retain(self.get(SegmentFields::of(name).access_rights))
    }
    fn injection(&self) -> EventInfo {
        EventInfo(self.get(vmcs::VM_ENTRY_INTERRUPTION_INFORMATION))
    }
    fn injects(&self, kind: EventKind) -> bool {
        self.injection().valid() && self.injection().kind() == Some(kind)
    }

    /// 27.3.1.1, CR0, CR3, CR4 and DR7.
    fn control_registers(&mut self) {
        const CR0: Encoding = vmcs::GUEST_CR0.encoding();
        const CR4: Encoding = vmcs::GUEST_CR4.encoding();
        const ENTRY: Encoding = vmcs::VM_ENTRY_CONTROLS.encoding();
        let (cr0, cr4) = (self.cr0(), self.cr4());
        let exempt = (Cr0::PE | Cr0::PG).bits();
        let (zero, one) = self.limits.cr0_fixed;
        let fixed = zero & !exempt & !cr0.bits() == 0 && cr0.bits() & !one == 0;
        self.demand(fixed, "CR0 has the bits that VMX operation fixes", &[CR0]);
        let paging = cr0.contains(Cr0::PG);
        self.demand(!paging || cr0.contains(Cr0::PE), "CR0.PG needs CR0.PE", &[CR0]);
        let (zero, one) = self.limits.cr4_fixed;
        let fixed = zero & !cr4.bits() == 0 && cr4.bits() & !one == 0;
        self.demand(fixed, "CR4 has the bits that VMX operation fixes", &[CR4]);
        let cet = !cr4.contains(Cr4::CET) || cr0.contains(Cr0::WP);
        self.demand(cet, "CR4.CET needs CR0.WP", &[CR0, CR4]);
        if self.ia32e() {
            self.demand(paging, "an IA-32e mode guest has CR0.PG", &[CR0, ENTRY]);
            self.demand(cr4.contains(Cr4::PAE), "an IA-32e mode guest has CR4.PAE", &[CR4, ENTRY]);
        } else {
            self.demand(!cr4.contains(Cr4::PCIDE), "CR4.PCIDE needs IA-32e mode", &[CR4, ENTRY]);
        }
        let cr3 = self.get(vmcs::GUEST_CR3) >> self.limits.physical_bits == 0;
        self.demand(cr3, "CR3 is a physical address", &[vmcs::GUEST_CR3.encoding()]);
        let dr7 = self.get(vmcs::GUEST_DR7) >> 32 == 0;
        self.demand(dr7, "the high half of DR7 is zero", &[vmcs::GUEST_DR7.encoding()]);
    }

    /// 27.3.1.1, EFER.
    fn efer(&mut self) {
        if !self.entry_controls().contains(EntryControls::LOAD_IA32_EFER) {
            return;
        }
        const FIELDS: [Encoding; 2] = [vmcs::GUEST_IA32_EFER.encoding(), vmcs::VM_ENTRY_CONTROLS.encoding()];
        let efer = Efer::from_bits_retain(self.get(vmcs::GUEST_IA32_EFER));
        let known = Efer::SCE | Efer::LME | Efer::LMA | Efer::NXE;
        self.demand(known.contains(efer), "EFER has no reserved bits", &FIELDS);
        let lma = efer.contains(Efer::LMA);
        self.demand(lma == self.ia32e(), "EFER.LMA agrees with IA-32e mode guest", &FIELDS);
        let lme = !self.cr0().contains(Cr0::PG) || lma == efer.contains(Efer::LME);
        self.demand(lme, "with paging on, EFER.LMA agrees with EFER.LME", &FIELDS);
    }

    /// 27.3.1.2, what concerns one segment register.
    fn segment(&mut self, name: SegmentName) {
        let fields = SegmentFields::of(name);
        let (rights, base) = (self.access_rights(name), self.get(fields.base));
        let (selector, limit) = (self.get(fields.selector), self.get(fields.limit));
        let named = [fields.selector.encoding(), fields.access_rights.encoding()];
        let based = [fields.base.encoding(), fields.access_rights.encoding()];
        let limited = [fields.limit.encoding(), fields.access_rights.encoding()];
        let system = matches!(name, SegmentName::Ldtr | SegmentName::Tr);
        if !system && self.rflags().contains(Rflags::VM) {
            let v86 =
                base == u64::from(selector) << 4 && limit == 0xffff && rights.bits() == V86_ACCESS_RIGHTS;
            let all = [named[0], based[0], limited[0], named[1]];
            return self.demand(v86, "virtual-8086 mode fixes base, limit and access rights", &all);
        }
        let always_usable = matches!(name, SegmentName::Cs | SegmentName::Tr);
        if rights.contains(Attributes::UNUSABLE) {
            return self.demand(!always_usable, "CS and TR are usable", &named);
        }
        let whole = matches!(name, SegmentName::Fs | SegmentName::Gs) || system;
        let base_fits = if whole { canonical(base) } else { base >> 32 == 0 };
        self.demand(base_fits, "the base fits the register", &based);
        self.demand(!system || selector & TI == 0, "LDTR and TR refer to the GDT", &named);
        self.demand(self.type_allowed(name, rights.bits() & TYPE), "the type suits the register", &named);
        let kind = rights.contains(Attributes::NON_SYSTEM) != system;
        self.demand(kind, "LDTR and TR are system segments, the others are not", &named);
        self.demand(rights.contains(Attributes::PRESENT), "a usable segment is present", &named);
        let reserved = !Attributes::all().bits();
        self.demand(rights.bits() & reserved == 0, "no reserved access rights are set", &named);
        let granular = rights.contains(Attributes::GRANULARITY);
        let limit_fits = if granular { limit & 0xfff == 0xfff } else { limit >> 20 == 0 };
        self.demand(limit_fits, "the limit agrees with the granularity", &limited);
    }

    fn type_allowed(&self, name: SegmentName, kind: u32) -> bool {
        match name {
            SegmentName::Cs => matches!(kind, TYPE_DATA_READ_WRITE_ACCESSED | 9 | 11 | 13 | 15),
            SegmentName::Ss => matches!(kind, 3 | 7),
            SegmentName::Ldtr => kind == TYPE_LDT,
            SegmentName::Tr => kind == TYPE_BUSY_TSS || kind == TYPE_BUSY_TSS16 && !self.ia32e(),
            // Accessed, and readable if it is code.
            _ => kind & 1 != 0 && (kind & 8 == 0 || kind & 2 != 0),
        }
    }

    /// 27.3.1.2, privilege levels and the size of code.
    fn privilege(&mut self) {
        const FIELDS: [Encoding; 2] =
            [vmcs::GUEST_CS_ACCESS_RIGHTS.encoding(), vmcs::GUEST_SS_ACCESS_RIGHTS.encoding()];
        if self.rflags().contains(Rflags::VM) {
            return;
        }
        let (cs, ss) = (self.access_rights(SegmentName::Cs), self.access_rights(SegmentName::Ss));
        let dpl = |rights: Attributes| (rights & Attributes::DPL).bits() >> 5;
        let (rule, holds) = match cs.bits() & TYPE {
            TYPE_DATA_READ_WRITE_ACCESSED => {
                ("CS of type 3 has DPL 0, and so has SS", dpl(cs) == 0 && dpl(ss) == 0)
            }
            kind if kind < TYPE_CONFORMING => ("non-conforming CS has the DPL of SS", dpl(cs) == dpl(ss)),
            _ => ("conforming CS has at most the DPL of SS", dpl(cs) <= dpl(ss)),
        };
        self.demand(holds, rule, &FIELDS);
        let real = !self.cr0().contains(Cr0::PE);
        self.demand(!real || dpl(ss) == 0, "in real mode the DPL of SS is 0", &FIELDS);
        let both = Attributes::LONG | Attributes::DEFAULT_BIG;
        let size = !self.ia32e() || !cs.contains(both);
        self.demand(size, "64-bit code has CS.D clear", &FIELDS[..1]);
    }

    /// 27.3.1.3, and canonical addresses of 27.3.1.1.
    fn tables_and_pointers(&mut self) {
        for field in [
            vmcs::GUEST_GDTR_BASE,
            vmcs::GUEST_IDTR_BASE,
            vmcs::GUEST_IA32_SYSENTER_ESP,
            vmcs::GUEST_IA32_SYSENTER_EIP,
        ] {
            self.demand(canonical(self.get(field)), "the address is canonical", &[field.encoding()]);
        }
        for field in [vmcs::GUEST_GDTR_LIMIT, vmcs::GUEST_IDTR_LIMIT] {
            self.demand(self.get(field) >> 16 == 0, "the limit has 16 bits", &[field.encoding()]);
        }
        const LINK: Encoding = vmcs::VMCS_LINK_POINTER.encoding();
        self.demand(
            self.get(vmcs::VMCS_LINK_POINTER) == u64::MAX,
            "the VMCS link pointer is unused",
            &[LINK],
        );
    }

    /// 27.3.1.4.
    fn flags(&mut self) {
        const RFLAGS: Encoding = vmcs::GUEST_RFLAGS.encoding();
        const RIP: Encoding = vmcs::GUEST_RIP.encoding();
        const CS: Encoding = vmcs::GUEST_CS_ACCESS_RIGHTS.encoding();
        let (rip, flags) = (self.get(vmcs::GUEST_RIP), self.rflags());
        let long = self.ia32e() && self.access_rights(SegmentName::Cs).contains(Attributes::LONG);
        let rip_fits = if long { canonical(rip) } else { rip >> 32 == 0 };
        self.demand(rip_fits, "RIP fits the mode", &[RIP, CS]);
        let reserved = !Rflags::all().bits();
        self.demand(flags.bits() & reserved == 0, "RFLAGS has no reserved bits", &[RFLAGS]);
        self.demand(flags.contains(Rflags::ONE), "bit 1 of RFLAGS is set", &[RFLAGS]);
        let protected = self.cr0().contains(Cr0::PE) && !self.ia32e();
        self.demand(!flags.contains(Rflags::VM) || protected, "RFLAGS.VM needs protected mode", &[RFLAGS]);
        let open = !self.injects(EventKind::External) || flags.contains(Rflags::IF);
        let injection = vmcs::VM_ENTRY_INTERRUPTION_INFORMATION.encoding();
        self.demand(open, "an interrupt is injected only with RFLAGS.IF", &[RFLAGS, injection]);
    }

    fn state(&self) -> Interruptibility {
        Interruptibility::from_bits_retain(self.get(vmcs::GUEST_INTERRUPTIBILITY_STATE))
    }

    /// 27.3.1.5, activity state.
    fn activity(&mut self) {
        const FIELD: Encoding = vmcs::GUEST_ACTIVITY_STATE.encoding();
        const SS: Encoding = vmcs::GUEST_SS_ACCESS_RIGHTS.encoding();
        const STATE: Encoding = vmcs::GUEST_INTERRUPTIBILITY_STATE.encoding();
        let activity = self.get(vmcs::GUEST_ACTIVITY_STATE);
        let known = activity <= ActivityState::WaitForSipi as u32;
        self.demand(known, "the activity state is one that exists", &[FIELD]);
        let ring0 = (self.access_rights(SegmentName::Ss) & Attributes::DPL).is_empty();
        self.demand(activity != ActivityState::Hlt as u32 || ring0, "HLT state needs CPL 0", &[FIELD, SS]);
        let active = activity == ActivityState::Active as u32;
        let blocked = self.state().intersects(Interruptibility::ONE_INSTRUCTION);
        self.demand(active || !blocked, "STI and MOV SS block only an active CPU", &[FIELD, STATE]);
    }

    /// 27.3.1.5, interruptibility state.
    fn interruptibility(&mut self) {
        const STATE: Encoding = vmcs::GUEST_INTERRUPTIBILITY_STATE.encoding();
        const RFLAGS: Encoding = vmcs::GUEST_RFLAGS.encoding();
        const INJECTION: Encoding = vmcs::VM_ENTRY_INTERRUPTION_INFORMATION.encoding();
        let state = self.state();
        let both = state.contains(Interruptibility::ONE_INSTRUCTION);
        self.demand(!both, "STI and MOV SS do not block at once", &[STATE]);
        let sti = state.contains(Interruptibility::BLOCKING_BY_STI);
        let open = self.rflags().contains(Rflags::IF);
        self.demand(!sti || open, "blocking by STI needs RFLAGS.IF", &[STATE, RFLAGS]);
        let blocked = state.intersects(Interruptibility::ONE_INSTRUCTION);
        let interrupt = self.injects(EventKind::External) && blocked;
        self.demand(!interrupt, "no interrupt is injected while STI or MOV SS block", &[STATE, INJECTION]);
        let blocks_nmi = Interruptibility::BLOCKING_BY_MOV_SS | Interruptibility::BLOCKING_BY_NMI;
        let nmi = self.injects(EventKind::Nmi) && state.intersects(blocks_nmi);
        self.demand(!nmi, "no NMI is injected while NMIs or MOV SS block", &[STATE, INJECTION]);
        let smi = state.contains(Interruptibility::BLOCKING_BY_SMI);
        self.demand(!smi, "outside SMM nothing blocks SMIs", &[STATE]);
    }

    /// 27.3.1.5, pending debug exceptions.
    fn pending_debug(&mut self) {
        /// IA32_DEBUGCTL.BTF: single-step on branches.
        const BTF: u64 = 1 << 1;
        const FIELDS: [Encoding; 3] = [
            vmcs::GUEST_PENDING_DEBUG_EXCEPTIONS.encoding(),
            vmcs::GUEST_INTERRUPTIBILITY_STATE.encoding(),
            vmcs::GUEST_RFLAGS.encoding(),
        ];
        let halted = self.get(vmcs::GUEST_ACTIVITY_STATE) == ActivityState::Hlt as u32;
        if !halted && !self.state().intersects(Interruptibility::ONE_INSTRUCTION) {
            return;
        }
        let pending = PendingDebug::from_bits_retain(self.get(vmcs::GUEST_PENDING_DEBUG_EXCEPTIONS));
        let steps = self.rflags().contains(Rflags::TF) && self.get(vmcs::GUEST_IA32_DEBUGCTL) & BTF == 0;
        let agrees = steps == pending.contains(PendingDebug::BS);
        self.demand(
            agrees,
            "while STI or MOV SS block, or in HLT, a single step is pending if RFLAGS.TF is set",
            &FIELDS,
        );
    }

    /// 27.3.1.6.
    fn pdptes(&mut self) {
        let pae = self.cr0().contains(Cr0::PG) && self.cr4().contains(Cr4::PAE) && !self.ia32e();
        if !pae {
            return;
        }
        /// Bits 2:1 and 8:5 of a PDPTE (SDM 3, table 4-8).
        const RESERVED_LOW: u64 = 0x1e6;
        for field in [vmcs::GUEST_PDPTE0, vmcs::GUEST_PDPTE1, vmcs::GUEST_PDPTE2, vmcs::GUEST_PDPTE3] {
            let entry = self.get(field);
            let reserved = entry & RESERVED_LOW != 0 || entry >> self.limits.physical_bits != 0;
            self.demand(entry & 1 == 0 || !reserved, "a PDPTE has no reserved bits", &[field.encoding()]);
        }
    }
}

#[cfg(test)]
mod tests;

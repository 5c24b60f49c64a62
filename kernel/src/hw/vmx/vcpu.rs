//! [`vmm::Vcpu`] on a VMCS, which is current on this CPU while its guest is resident.
//!
//! Nothing is read ahead: a handler that asks pays one VMREAD. What changes only through an exit (EFER, the guest's
//! view of host-owned CR0 and CR4 bits, the controls) is kept beside the VMCS, so that it is never read and written only
//! when it differs.
#![allow(unsafe_code, reason = "debug registers, CR2 and MSRs that belong to the resident guest")]

use super::capabilities::Capabilities;
use super::instructions::{Invvpid, invept, invvpid, vmread, vmwrite};
use super::owned_bits::OwnedBits;
use super::setup::{self, Pages};
use crate::cpu;
use crate::hw::VcpuSetup;
use core::arch::asm;
use vmm::vcpu::{Mode, StateMsr, Vcpu, Window};
use x86defs::addr::Gva;
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::event::{Event, EventKind, Exception};
use x86defs::gpr::{Gpr, Gprs};
use x86defs::reset::XCR0_RESET;
use x86defs::segment::{Attributes, DescriptorTable, Segment, SegmentName};
use x86defs::vmcs::{self, SegmentFields};
use x86defs::vmx::{
    EntryControls, EptVpid, EventInfo, ExitControls, Interruptibility, PrimaryControls, SecondaryControls,
};
use x86defs::{msr, vmx::DebugException};

/// A virtual CPU; its first field is filled by the exit stub.
#[repr(C, align(16))]
pub struct VmxVcpu {
    gprs: Gprs,
    /// The event in the VM-entry interruption-information field.
    pending: Option<Event>,
    efer: Efer,
    host_efer: Efer,
    cr0: OwnedBits,
    cr4: OwnedBits,
    primary: PrimaryControls,
    exit: ExitControls,
    entry: EntryControls,
    /// What was asked for; the field holds less while CR8 is below it.
    tpr_threshold: u8,
    tpr_threshold_field: u8,
    tsc_offset: u64,
    xcr0: u64,
    pat: u64,
    vpid: u16,
    pages: Pages,
}

impl VmxVcpu {
    /// A virtual CPU with a VMCS of its own, current on this CPU.
    pub(super) fn new(setup: &VcpuSetup, vpid: u16) -> Self {
        let capabilities = Capabilities::get();
        let pages = setup::new_vmcs(setup, vpid);
        setup::reset_resident_state();
        let mut vcpu = Self {
            gprs: Gprs::default(),
            pending: None,
            efer: Efer::empty(),
            host_efer: cpu::read_efer(),
            cr0: OwnedBits::cr0(&capabilities.limits),
            cr4: OwnedBits::cr4(&capabilities.limits, setup.allowed_cr4),
            primary: capabilities.primary,
            exit: capabilities.exit,
            entry: capabilities.entry,
            tpr_threshold: 0,
            tpr_threshold_field: 0,
            tsc_offset: 0,
            xcr0: XCR0_RESET,
            pat: msr::PAT_RESET,
            vpid,
            pages,
        };
        vcpu.set_tsc_offset(setup.tsc_origin.wrapping_neg());
        vcpu.set_cr0(Cr0::ET);
        vcpu.set_cr4(Cr4::empty());
        vcpu.set_efer(Efer::empty());
        vcpu
    }

    /// First thing after an exit: what was to be injected has been.
    #[inline(always)]
    pub(super) fn after_exit(&mut self) {
        self.pending = None;
    }

    /// Puts an event up again whose delivery the exit has cut short. `nmi_unblocking`: the exit hit an IRET that had
    /// already ended blocking by NMI (SDM 3, 28.2.3, 28.2.4).
    pub(super) fn redeliver(&mut self, nmi_unblocking: bool) {
        let info = EventInfo(vmread(vmcs::IDT_VECTORING_INFORMATION));
        if !info.valid() {
            if nmi_unblocking {
                let state = self.interruptibility() | Interruptibility::BLOCKING_BY_NMI;
                vmwrite(vmcs::GUEST_INTERRUPTIBILITY_STATE, state.bits());
            }
            return;
        }
        let error_code = if info.has_error_code() { vmread(vmcs::IDT_VECTORING_ERROR_CODE) } else { 0 };
        let Some(event) = info.interrupted_event(error_code, vmread(vmcs::VM_EXIT_INSTRUCTION_LENGTH)) else {
            return;
        };
        if event.kind == EventKind::Nmi {
            // Its delivery blocks NMIs anew.
            let state = self.interruptibility() - Interruptibility::BLOCKING_BY_NMI;
            vmwrite(vmcs::GUEST_INTERRUPTIBILITY_STATE, state.bits());
        }
        self.inject(event);
    }

    fn interruptibility(&self) -> Interruptibility {
        Interruptibility::from_bits_retain(vmread(vmcs::GUEST_INTERRUPTIBILITY_STATE))
    }

    fn set_tsc_offset(&mut self, offset: u64) {
        self.tsc_offset = offset;
        vmwrite(vmcs::TSC_OFFSET, offset);
    }

    fn set_primary(&mut self, control: PrimaryControls, on: bool) {
        if self.primary.contains(control) != on {
            self.primary.set(control, on);
            vmwrite(vmcs::PRIMARY_PROCESSOR_BASED_CONTROLS, self.primary.bits());
        }
    }

    fn set_entry(&mut self, control: EntryControls, on: bool) {
        if self.entry.contains(control) != on {
            self.entry.set(control, on);
            vmwrite(vmcs::VM_ENTRY_CONTROLS, self.entry.bits());
        }
    }

    fn set_exit(&mut self, control: ExitControls, on: bool) {
        if self.exit.contains(control) != on {
            self.exit.set(control, on);
            vmwrite(vmcs::PRIMARY_VM_EXIT_CONTROLS, self.exit.bits());
        }
    }

    /// An entry wants the field at or below CR8 (SDM 3, 27.2.1.1).
    fn update_tpr_threshold(&mut self) {
        let field = self.tpr_threshold.min(self.cr8());
        if field != self.tpr_threshold_field {
            self.tpr_threshold_field = field;
            vmwrite(vmcs::TPR_THRESHOLD, field.into());
        }
    }

    /// RIP behind an instruction that crossed into another 64 KiB, which only 64-bit code may do freely.
    #[cold]
    fn wrap(&self, rip: u64) -> u64 {
        match Mode::of(self).bitness() {
            64 => rip,
            32 => rip & 0xffff_ffff,
            _ => rip & 0xffff,
        }
    }

    #[cold]
    fn single_step(&mut self) {
        self.set_dr6(self.dr6() | DebugException::BS.bits());
        self.inject(Event::exception(Exception::Debug));
    }

    /// The number of an MSR that lives in the CPU itself.
    fn resident_msr(msr: StateMsr) -> Option<u32> {
        Some(match msr {
            StateMsr::KernelGsBase => msr::KERNEL_GS_BASE,
            StateMsr::Star => msr::STAR,
            StateMsr::Lstar => msr::LSTAR,
            StateMsr::Cstar => msr::CSTAR,
            StateMsr::Fmask => msr::FMASK,
            _ => return None,
        })
    }
}

impl Vcpu for VmxVcpu {
    #[inline(always)]
    fn gpr(&self, register: Gpr) -> u64 {
        match register {
            Gpr::Rsp => vmread(vmcs::GUEST_RSP),
            r => self.gprs.0[r as usize],
        }
    }
    #[inline(always)]
    fn set_gpr(&mut self, register: Gpr, value: u64) {
        match register {
            Gpr::Rsp => vmwrite(vmcs::GUEST_RSP, value),
            r => self.gprs.0[r as usize] = value,
        }
    }
    fn rip(&self) -> u64 {
        vmread(vmcs::GUEST_RIP)
    }
    fn set_rip(&mut self, value: u64) {
        vmwrite(vmcs::GUEST_RIP, value);
    }
    fn rflags(&self) -> Rflags {
        Rflags::from_bits_retain(vmread(vmcs::GUEST_RFLAGS))
    }
    fn set_rflags(&mut self, value: Rflags) {
        vmwrite(vmcs::GUEST_RFLAGS, value.bits());
    }

    fn cpl(&self) -> u8 {
        // DPL of SS, in every mode (SDM 3, 25.4.1).
        let rights = Attributes::from_bits_retain(vmread(vmcs::GUEST_SS_ACCESS_RIGHTS));
        Segment { attributes: rights, ..Segment::default() }.dpl()
    }
    fn segment(&self, name: SegmentName) -> Segment {
        let fields = SegmentFields::of(name);
        Segment {
            selector: vmread(fields.selector),
            attributes: Attributes::from_bits_retain(vmread(fields.access_rights)),
            limit: vmread(fields.limit),
            base: vmread(fields.base),
        }
    }
    fn set_segment(&mut self, name: SegmentName, value: Segment) {
        let fields = SegmentFields::of(name);
        let mut attributes = value.attributes;
        attributes.set(Attributes::UNUSABLE, !attributes.contains(Attributes::PRESENT));
        vmwrite(fields.selector, value.selector);
        vmwrite(fields.access_rights, attributes.bits());
        vmwrite(fields.limit, value.limit);
        vmwrite(fields.base, value.base);
    }
    fn gdtr(&self) -> DescriptorTable {
        DescriptorTable { base: vmread(vmcs::GUEST_GDTR_BASE), limit: vmread(vmcs::GUEST_GDTR_LIMIT) as u16 }
    }
    fn set_gdtr(&mut self, value: DescriptorTable) {
        vmwrite(vmcs::GUEST_GDTR_BASE, value.base);
        vmwrite(vmcs::GUEST_GDTR_LIMIT, value.limit.into());
    }
    fn idtr(&self) -> DescriptorTable {
        DescriptorTable { base: vmread(vmcs::GUEST_IDTR_BASE), limit: vmread(vmcs::GUEST_IDTR_LIMIT) as u16 }
    }
    fn set_idtr(&mut self, value: DescriptorTable) {
        vmwrite(vmcs::GUEST_IDTR_BASE, value.base);
        vmwrite(vmcs::GUEST_IDTR_LIMIT, value.limit.into());
    }

    fn cr0(&self) -> Cr0 {
        Cr0::from_bits_retain(self.cr0.get())
    }
    fn set_cr0(&mut self, value: Cr0) {
        self.cr0.set(value.bits());
        let mut efer = self.efer;
        efer.set(Efer::LMA, value.contains(Cr0::PG) && efer.contains(Efer::LME));
        self.set_efer(efer);
        self.flush_tlb(None);
    }
    fn cr2(&self) -> u64 {
        let value: u64;
        // SAFETY: CR2 is the guest's: the host takes no page fault and goes on.
        unsafe { asm!("mov {}, cr2", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }
    fn set_cr2(&mut self, value: u64) {
        // SAFETY: as in `cr2`.
        unsafe { asm!("mov cr2, {}", in(reg) value, options(nomem, nostack, preserves_flags)) };
    }
    fn cr3(&self) -> u64 {
        vmread(vmcs::GUEST_CR3)
    }
    fn set_cr3(&mut self, value: u64) {
        vmwrite(vmcs::GUEST_CR3, value);
        self.flush_tlb(None);
    }
    fn cr4(&self) -> Cr4 {
        Cr4::from_bits_retain(self.cr4.get())
    }
    fn set_cr4(&mut self, value: Cr4) {
        self.cr4.set(value.bits());
        self.flush_tlb(None);
    }
    fn set_pdptes(&mut self, value: [u64; 4]) {
        let fields = [vmcs::GUEST_PDPTE0, vmcs::GUEST_PDPTE1, vmcs::GUEST_PDPTE2, vmcs::GUEST_PDPTE3];
        for (field, entry) in fields.into_iter().zip(value) {
            vmwrite(field, entry);
        }
    }
    fn cr8(&self) -> u8 {
        // SAFETY: a byte of a page that belongs to this object; the CPU writes it only while the guest runs.
        unsafe { self.pages.vtpr().read_volatile() >> 4 }
    }
    fn set_cr8(&mut self, value: u8) {
        // SAFETY: as in `cr8`.
        unsafe { self.pages.vtpr().write_volatile(value << 4) };
        self.update_tpr_threshold();
    }
    fn efer(&self) -> Efer {
        self.efer
    }
    fn set_efer(&mut self, value: Efer) {
        self.efer = value;
        let differs = value != self.host_efer;
        if differs {
            vmwrite(vmcs::GUEST_IA32_EFER, value.bits());
        }
        self.set_entry(EntryControls::LOAD_IA32_EFER, differs);
        self.set_exit(ExitControls::LOAD_IA32_EFER, differs);
        self.set_entry(EntryControls::IA32E_MODE_GUEST, value.contains(Efer::LMA));
        self.flush_tlb(None);
    }
    fn dr7(&self) -> u64 {
        vmread(vmcs::GUEST_DR7)
    }
    fn set_dr7(&mut self, value: u64) {
        vmwrite(vmcs::GUEST_DR7, value);
    }
    fn dr6(&self) -> u64 {
        let value: u64;
        // SAFETY: DR6 is the guest's: the host arms no breakpoint.
        unsafe { asm!("mov {}, dr6", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }
    fn set_dr6(&mut self, value: u64) {
        // SAFETY: as in `dr6`; its high half is zero, as the caller has checked.
        unsafe { asm!("mov dr6, {}", in(reg) value & 0xffff_ffff, options(nomem, nostack, preserves_flags)) };
    }
    fn xcr0(&self) -> u64 {
        self.xcr0
    }
    fn set_xcr0(&mut self, value: u64) {
        self.xcr0 = value;
        cpu::write_xcr0(value);
    }
    fn state_msr(&self, msr: StateMsr) -> u64 {
        match msr {
            StateMsr::FsBase => vmread(vmcs::GUEST_FS_BASE),
            StateMsr::GsBase => vmread(vmcs::GUEST_GS_BASE),
            StateMsr::SysenterCs => vmread(vmcs::GUEST_IA32_SYSENTER_CS).into(),
            StateMsr::SysenterEsp => vmread(vmcs::GUEST_IA32_SYSENTER_ESP),
            StateMsr::SysenterEip => vmread(vmcs::GUEST_IA32_SYSENTER_EIP),
            StateMsr::DebugCtl => vmread(vmcs::GUEST_IA32_DEBUGCTL),
            StateMsr::Pat => self.pat,
            StateMsr::TscAux => cpu::tsc_aux(),
            resident => Self::resident_msr(resident).and_then(cpu::rdmsr_safe).unwrap_or(0),
        }
    }
    fn set_state_msr(&mut self, msr: StateMsr, value: u64) {
        match msr {
            StateMsr::FsBase => vmwrite(vmcs::GUEST_FS_BASE, value),
            StateMsr::GsBase => vmwrite(vmcs::GUEST_GS_BASE, value),
            StateMsr::SysenterCs => vmwrite(vmcs::GUEST_IA32_SYSENTER_CS, value as u32),
            StateMsr::SysenterEsp => vmwrite(vmcs::GUEST_IA32_SYSENTER_ESP, value),
            StateMsr::SysenterEip => vmwrite(vmcs::GUEST_IA32_SYSENTER_EIP, value),
            StateMsr::DebugCtl => vmwrite(vmcs::GUEST_IA32_DEBUGCTL, value),
            StateMsr::Pat => self.pat = value,
            StateMsr::TscAux => cpu::set_tsc_aux(value),
            resident => {
                if let Some(number) = Self::resident_msr(resident) {
                    // SAFETY: the host uses neither SYSCALL nor SWAPGS; a value that the CPU refuses is fixed up.
                    unsafe { cpu::wrmsr_safe(number, value) };
                }
            }
        }
    }

    #[inline(always)]
    fn skip(&mut self) {
        self.skip_len(vmread(vmcs::VM_EXIT_INSTRUCTION_LENGTH) as u8);
    }
    #[inline(always)]
    fn skip_len(&mut self, len: u8) {
        let from = self.rip();
        let mut to = from.wrapping_add(len.into());
        if (from ^ to) >> 16 != 0 {
            to = self.wrap(to);
        }
        self.set_rip(to);
        let blocking = self.interruptibility();
        if blocking.intersects(Interruptibility::ONE_INSTRUCTION) {
            vmwrite(
                vmcs::GUEST_INTERRUPTIBILITY_STATE,
                (blocking - Interruptibility::ONE_INSTRUCTION).bits(),
            );
        }
        if self.rflags().contains(Rflags::TF) {
            self.single_step();
        }
    }
    fn inject(&mut self, mut event: Event) {
        // In real mode exceptions push no error code (SDM 3, 27.2.1.3).
        if !self.cr0().contains(Cr0::PE) {
            event.error_code = None;
        }
        if let Some(error_code) = event.error_code {
            vmwrite(vmcs::VM_ENTRY_EXCEPTION_ERROR_CODE, error_code);
        }
        if event.instruction_len != 0 {
            vmwrite(vmcs::VM_ENTRY_INSTRUCTION_LENGTH, event.instruction_len.into());
        }
        if event.kind == EventKind::Nmi {
            // Some CPUs refuse an NMI in the shadow of STI (SDM 3, 27.3.1.5), which its delivery ends anyway.
            let state = self.interruptibility() - Interruptibility::BLOCKING_BY_STI;
            vmwrite(vmcs::GUEST_INTERRUPTIBILITY_STATE, state.bits());
        }
        vmwrite(vmcs::VM_ENTRY_INTERRUPTION_INFORMATION, EventInfo::of(&event).0);
        self.pending = Some(event);
    }
    fn pending_event(&self) -> Option<Event> {
        self.pending
    }
    fn take_pending_event(&mut self) -> Option<Event> {
        if self.pending.is_some() {
            vmwrite(vmcs::VM_ENTRY_INTERRUPTION_INFORMATION, 0);
        }
        self.pending.take()
    }
    fn can_take_interrupt(&self) -> bool {
        self.pending.is_none()
            && self.rflags().contains(Rflags::IF)
            && !self.interruptibility().intersects(Interruptibility::ONE_INSTRUCTION)
    }
    fn in_interrupt_shadow(&self) -> bool {
        self.interruptibility().intersects(Interruptibility::ONE_INSTRUCTION)
    }
    fn can_take_nmi(&self) -> bool {
        // STI does not hold an NMI back; its window would open at once.
        let blocking = Interruptibility::BLOCKING_BY_MOV_SS | Interruptibility::BLOCKING_BY_NMI;
        self.pending.is_none() && !self.interruptibility().intersects(blocking)
    }
    fn block_nmis(&mut self, blocked: bool) {
        let mut state = self.interruptibility();
        state.set(Interruptibility::BLOCKING_BY_NMI, blocked);
        vmwrite(vmcs::GUEST_INTERRUPTIBILITY_STATE, state.bits());
    }
    fn set_window(&mut self, window: Window, open: bool) {
        let control = match window {
            Window::Interrupt => PrimaryControls::INTERRUPT_WINDOW_EXITING,
            Window::Nmi => PrimaryControls::NMI_WINDOW_EXITING,
        };
        self.set_primary(control, open);
    }
    fn set_tpr_threshold(&mut self, class: u8) {
        self.tpr_threshold = class;
        self.update_tpr_threshold();
    }

    fn tsc(&self) -> u64 {
        cpu::rdtsc().wrapping_add(self.tsc_offset)
    }
    fn tsc_offset(&self) -> u64 {
        self.tsc_offset.wrapping_neg()
    }
    fn set_tsc(&mut self, value: u64) {
        self.set_tsc_offset(value.wrapping_sub(cpu::rdtsc()));
    }
    fn flush_tlb(&mut self, page: Option<Gva>) {
        let capabilities = Capabilities::get();
        // Without VPID every entry flushes.
        if !capabilities.secondary.contains(SecondaryControls::ENABLE_VPID) {
            return;
        }
        match page {
            Some(page) if capabilities.ept_vpid.contains(EptVpid::INVVPID_INDIVIDUAL_ADDRESS) => {
                invvpid(self.vpid, Invvpid::Address(page));
            }
            _ => invvpid(self.vpid, Invvpid::Context),
        }
    }
    fn flush_nested(&mut self) {
        invept(vmread(vmcs::EPT_POINTER));
    }
}

//! [`vmm::Vcpu`] on a VMCB.
//!
//! FS, GS, TR, LDTR and the SYSCALL and SYSENTER MSRs are in the CPU from the guest's VMLOAD on; they are
//! fetched by VMSAVE when a handler asks, and never on a light exit.
#![allow(unsafe_code, reason = "the VMCB is shared with the CPU; VMLOAD, VMSAVE, XSETBV")]

use super::controls;
use super::nmi::IretStep;
use crate::mem;
use core::ptr::NonNull;
use vmm::vcpu::{StateMsr, Vcpu, Window};
use x86defs::addr::{Gva, Hpa};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::event::{Event, EventKind, Exception};
use x86defs::gpr::{Gpr, Gprs};
use x86defs::segment::{DescriptorTable, Segment, SegmentName};
use x86defs::svm::{
    Clean, ControlArea, INTERRUPT_SHADOW, Intercept3, SaveArea, SvmFeatures, TlbControl, VirtualInterrupt,
    Vmcb, event_field, exit_code,
};

/// DR6.BS: a single step (SDM 3, 18.2.3).
const DR6_BS: u64 = 1 << 14;

/// The bit of CR8 in the vector of intercepted control-register writes.
const INTERCEPT_CR8: u16 = 1 << 8;

/// A virtual CPU; its first field is filled by the exit stub.
#[repr(C)]
pub struct SvmVcpu {
    pub(super) gprs: Gprs,
    pub(super) vmcb: NonNull<Vmcb>,
    pub(super) vmcb_pa: u64,
    pub(super) features: SvmFeatures,
    /// An NMI was delivered and its IRET has not been seen.
    nmi_blocked: bool,
    /// An NMI waits for the end of that one's handler.
    pub(super) nmi_waits: bool,
    pub(super) iret_step: Option<IretStep>,
    /// Its VMLOAD state is in the CPU.
    pub(super) resident: bool,
    interrupt_window: bool,
    /// An interrupt waits for a lower CR8.
    waits_for_tpr: bool,
}

impl Drop for SvmVcpu {
    fn drop(&mut self) {
        let msr_map = Hpa(self.control().msrpm_base_pa);
        // SAFETY: this virtual CPU runs nowhere any more, and nobody else refers to its pages.
        unsafe {
            mem::free(msr_map, controls::MSRPM_BYTES);
            mem::free(Hpa(self.vmcb_pa), size_of::<Vmcb>());
        }
    }
}

impl SvmVcpu {
    /// A virtual CPU around a zeroed VMCB page.
    pub(super) fn new(vmcb_pa: Hpa, features: SvmFeatures) -> Self {
        Self {
            gprs: Gprs::default(),
            vmcb: mem::direct(vmcb_pa).cast(),
            vmcb_pa: vmcb_pa.0,
            features,
            nmi_blocked: false,
            nmi_waits: false,
            iret_step: None,
            resident: false,
            interrupt_window: false,
            waits_for_tpr: false,
        }
    }

    pub(super) fn control(&self) -> &ControlArea {
        // SAFETY: the page belongs to this object alone, and the CPU writes it only during VMRUN and VMSAVE,
        // when no reference is live.
        unsafe { &self.vmcb.as_ref().control }
    }

    /// The control area, to be changed; `clean` names the groups that the caller changes.
    pub(super) fn control_mut(&mut self, changed: Clean) -> &mut ControlArea {
        // SAFETY: as in `control`; `&mut self` makes it exclusive.
        let control = unsafe { &mut self.vmcb.as_mut().control };
        control.clean.remove(changed);
        control
    }

    pub(super) fn save(&self) -> &SaveArea {
        // SAFETY: as in `control`.
        unsafe { &self.vmcb.as_ref().save }
    }

    pub(super) fn save_mut(&mut self, changed: Clean) -> &mut SaveArea {
        // SAFETY: as in `control`; `&mut self` makes it exclusive.
        let vmcb = unsafe { self.vmcb.as_mut() };
        vmcb.control.clean.remove(changed);
        &mut vmcb.save
    }

    /// First thing after an exit: everything is unchanged so far, a flush has been done, and an event whose
    /// delivery was cut short is put up again.
    #[inline(always)]
    pub(super) fn after_exit(&mut self) {
        let control = self.control_mut(Clean::empty());
        control.clean = Clean::all();
        control.tlb_control = TlbControl::None as u32;
        if control.exitintinfo & event_field::VALID != 0 {
            self.redeliver();
        }
    }

    #[inline(always)]
    /// Whether the CPU saves nRIP and decodes what is needed; else `older_cpus` does.
    pub(super) fn tells_everything(&self) -> bool {
        self.features.contains(SvmFeatures::NRIPS.union(SvmFeatures::DECODE_ASSISTS))
    }

    /// The whole VMCB.
    pub(super) fn vmcb(&self) -> &Vmcb {
        // SAFETY: as in `control`.
        unsafe { self.vmcb.as_ref() }
    }

    /// INT n, INT3 and INTO run again by themselves: the exit has left RIP at them.
    #[cold]
    fn redeliver(&mut self) {
        const BREAKPOINT: u64 = Exception::Breakpoint as u64;
        const OVERFLOW: u64 = Exception::Overflow as u64;
        let info = self.control().exitintinfo;
        let software = match info >> 8 & 7 {
            kind if kind == EventKind::SoftwareInterrupt as u64 => true,
            kind if kind == EventKind::Exception as u64 => matches!(info & 0xff, BREAKPOINT | OVERFLOW),
            _ => false,
        };
        if !software {
            self.control_mut(Clean::empty()).eventinj = info;
        }
    }

    /// Fetches what lives in the CPU while this virtual CPU is resident.
    fn vmsave(&self) {
        if !self.resident {
            return;
        }
        // SAFETY: the page is this vCPU's VMCB, and this vCPU's state is in the CPU.
        unsafe { core::arch::asm!("vmsave rax", in("rax") self.vmcb_pa, options(nostack, preserves_flags)) };
    }

    pub(super) fn vmload(&self) {
        // SAFETY: the page is this vCPU's VMCB; the host uses none of what VMLOAD replaces (hw::svm).
        unsafe { core::arch::asm!("vmload rax", in("rax") self.vmcb_pa, options(nostack, preserves_flags)) };
    }

    /// MOV to CR8 is intercepted only while an interrupt waits for it; and while a window is open, since QEMU 7.2
    /// aborts when a guest writes CR8 with V_IRQ set.
    fn update_cr8_intercept(&mut self) {
        let wanted = self.waits_for_tpr || self.interrupt_window;
        let writes = &mut self.control_mut(Clean::I).intercept_cr_writes;
        *writes = *writes & !INTERCEPT_CR8 | if wanted { INTERCEPT_CR8 } else { 0 };
    }

    fn lives_in_cpu(name: SegmentName) -> bool {
        matches!(name, SegmentName::Fs | SegmentName::Gs | SegmentName::Ldtr | SegmentName::Tr)
    }

    fn state_slot(save: &mut SaveArea, msr: StateMsr) -> &mut u64 {
        match msr {
            StateMsr::FsBase => &mut save.fs.base,
            StateMsr::GsBase => &mut save.gs.base,
            StateMsr::KernelGsBase => &mut save.kernel_gs_base,
            StateMsr::Star => &mut save.star,
            StateMsr::Lstar => &mut save.lstar,
            StateMsr::Cstar => &mut save.cstar,
            StateMsr::Fmask => &mut save.sfmask,
            StateMsr::SysenterCs => &mut save.sysenter_cs,
            StateMsr::SysenterEsp => &mut save.sysenter_esp,
            StateMsr::SysenterEip => &mut save.sysenter_eip,
            StateMsr::Pat => &mut save.g_pat,
            StateMsr::DebugCtl => &mut save.dbgctl,
            StateMsr::TscAux => unreachable!("TSC_AUX is not in the VMCB"),
        }
    }
}

impl Vcpu for SvmVcpu {
    #[inline(always)]
    fn gpr(&self, register: Gpr) -> u64 {
        match register {
            Gpr::Rsp => self.save().rsp,
            r => self.gprs.0[r as usize],
        }
    }
    #[inline(always)]
    fn set_gpr(&mut self, register: Gpr, value: u64) {
        match register {
            Gpr::Rsp => self.save_mut(Clean::empty()).rsp = value,
            r => self.gprs.0[r as usize] = value,
        }
    }
    fn rip(&self) -> u64 {
        self.save().rip
    }
    fn set_rip(&mut self, value: u64) {
        self.save_mut(Clean::empty()).rip = value;
    }
    fn rflags(&self) -> Rflags {
        Rflags::from_bits_retain(self.save().rflags)
    }
    fn set_rflags(&mut self, value: Rflags) {
        self.save_mut(Clean::empty()).rflags = value.bits();
    }

    fn cpl(&self) -> u8 {
        self.save().cpl
    }
    fn segment(&self, name: SegmentName) -> Segment {
        if Self::lives_in_cpu(name) {
            self.vmsave();
        }
        self.save().segment(name).into()
    }
    fn set_segment(&mut self, name: SegmentName, value: Segment) {
        let in_cpu = Self::lives_in_cpu(name);
        if in_cpu {
            self.vmsave();
        }
        *self.save_mut(Clean::SEG).segment_mut(name) = value.into();
        if in_cpu && self.resident {
            self.vmload();
        }
        if name == SegmentName::Ss {
            self.save_mut(Clean::SEG).cpl = value.dpl();
        }
    }
    fn gdtr(&self) -> DescriptorTable {
        let t = &self.save().gdtr;
        DescriptorTable { base: t.base, limit: t.limit as u16 }
    }
    fn set_gdtr(&mut self, value: DescriptorTable) {
        let t = &mut self.save_mut(Clean::DT).gdtr;
        (t.base, t.limit) = (value.base, value.limit.into());
    }
    fn idtr(&self) -> DescriptorTable {
        let t = &self.save().idtr;
        DescriptorTable { base: t.base, limit: t.limit as u16 }
    }
    fn set_idtr(&mut self, value: DescriptorTable) {
        let t = &mut self.save_mut(Clean::DT).idtr;
        (t.base, t.limit) = (value.base, value.limit.into());
    }

    fn cr0(&self) -> Cr0 {
        Cr0::from_bits_retain(self.save().cr0)
    }
    fn set_cr0(&mut self, value: Cr0) {
        let save = self.save_mut(Clean::CRX);
        save.cr0 = value.bits();
        let mut efer = Efer::from_bits_retain(save.efer);
        efer.set(Efer::LMA, value.contains(Cr0::PG) && efer.contains(Efer::LME));
        save.efer = efer.bits();
    }
    fn cr2(&self) -> u64 {
        self.save().cr2
    }
    fn set_cr2(&mut self, value: u64) {
        self.save_mut(Clean::CR2).cr2 = value;
    }
    fn cr3(&self) -> u64 {
        self.save().cr3
    }
    fn set_cr3(&mut self, value: u64) {
        self.save_mut(Clean::CRX).cr3 = value;
        self.flush_tlb(None);
    }
    fn cr4(&self) -> Cr4 {
        Cr4::from_bits_retain(self.save().cr4)
    }
    fn set_cr4(&mut self, value: Cr4) {
        self.save_mut(Clean::CRX).cr4 = value.bits();
        self.flush_tlb(None);
    }
    fn set_pdptes(&mut self, _: [u64; 4]) {
        // With nested paging the CPU reads PDPTEs from memory at each walk (APM 2, 15.25.10).
    }
    fn cr8(&self) -> u8 {
        (self.control().v_int & VirtualInterrupt::V_TPR).bits() as u8
    }
    fn set_cr8(&mut self, value: u8) {
        let v_int = &mut self.control_mut(Clean::TPR).v_int;
        v_int.remove(VirtualInterrupt::V_TPR);
        *v_int |= VirtualInterrupt::from_bits_retain(u64::from(value & 0xf));
    }
    fn efer(&self) -> Efer {
        // The CPU wants SVME set while a guest runs; the guest does not see it.
        Efer::from_bits_retain(self.save().efer) - Efer::SVME
    }
    fn set_efer(&mut self, value: Efer) {
        self.save_mut(Clean::CRX).efer = (value | Efer::SVME).bits();
    }
    fn dr7(&self) -> u64 {
        self.save().dr7
    }
    fn set_dr7(&mut self, value: u64) {
        self.save_mut(Clean::DRX).dr7 = value;
    }
    fn dr6(&self) -> u64 {
        self.save().dr6
    }
    fn set_dr6(&mut self, value: u64) {
        self.save_mut(Clean::DRX).dr6 = value;
    }
    fn xcr0(&self) -> u64 {
        crate::cpu::read_xcr0()
    }
    fn set_xcr0(&mut self, value: u64) {
        crate::cpu::write_xcr0(value);
    }
    fn state_msr(&self, msr: StateMsr) -> u64 {
        if msr == StateMsr::TscAux {
            return crate::cpu::tsc_aux();
        }
        self.vmsave();
        let mut vmcb = self.vmcb;
        // SAFETY: as in `control`; no other reference is live.
        *Self::state_slot(unsafe { &mut vmcb.as_mut().save }, msr)
    }
    fn set_state_msr(&mut self, msr: StateMsr, value: u64) {
        if msr == StateMsr::TscAux {
            return crate::cpu::set_tsc_aux(value);
        }
        self.vmsave();
        *Self::state_slot(self.save_mut(Clean::NP | Clean::LBR), msr) = value;
        if self.resident {
            self.vmload();
        }
    }

    #[inline(always)]
    fn skip(&mut self) {
        let control = self.control();
        // An I/O exit always says where the next instruction is; for others `exit` has filled in nRIP where the
        // CPU does not save it.
        let next = if control.exitcode as u32 == exit_code::IOIO { control.exitinfo2 } else { control.nrip };
        self.advance(next);
    }
    fn skip_len(&mut self, len: u8) {
        let next = self.save().rip.wrapping_add(len.into());
        self.advance(match vmm::vcpu::Mode::of(self).bitness() {
            64 => next,
            32 => next & 0xffff_ffff,
            _ => next & 0xffff,
        });
    }
    fn inject(&mut self, event: Event) {
        if event.kind == EventKind::Nmi {
            self.block_nmis(true);
        }
        // SVM delivers INT3 and INTO as exceptions and does not know the other software kinds.
        let kind = match event.kind {
            EventKind::SoftwareException | EventKind::PrivilegedSoftwareException => EventKind::Exception,
            kind => kind,
        };
        let error = event.error_code.map_or(0, |code| u64::from(code) << 32 | event_field::ERROR_CODE_VALID);
        self.control_mut(Clean::empty()).eventinj =
            u64::from(event.vector) | (kind as u64) << 8 | event_field::VALID | error;
    }
    fn pending_event(&self) -> Option<Event> {
        let info = self.control().eventinj;
        if info & event_field::VALID == 0 {
            return None;
        }
        let kind = match info >> 8 & 7 {
            0 => EventKind::External,
            2 => EventKind::Nmi,
            4 => EventKind::SoftwareInterrupt,
            _ => EventKind::Exception,
        };
        let error_code = (info & event_field::ERROR_CODE_VALID != 0).then_some((info >> 32) as u32);
        Some(Event { vector: info as u8, kind, error_code, instruction_len: 0 })
    }
    fn take_pending_event(&mut self) -> Option<Event> {
        let event = self.pending_event();
        self.control_mut(Clean::empty()).eventinj = 0;
        event
    }
    fn can_take_interrupt(&self) -> bool {
        self.iret_step.is_none()
            && self.rflags().contains(Rflags::IF)
            && !self.in_interrupt_shadow()
            && self.control().eventinj & event_field::VALID == 0
    }
    fn in_interrupt_shadow(&self) -> bool {
        self.control().interrupt_shadow & INTERRUPT_SHADOW != 0
    }
    fn can_take_nmi(&self) -> bool {
        !self.nmi_blocked && !self.in_interrupt_shadow() && self.control().eventinj & event_field::VALID == 0
    }
    fn block_nmis(&mut self, blocked: bool) {
        self.nmi_blocked = blocked;
        self.control_mut(Clean::I).intercept3.set(Intercept3::IRET, blocked);
    }
    fn set_window(&mut self, window: Window, open: bool) {
        match window {
            // The end of the step is a window of its own.
            Window::Interrupt if self.iret_step.is_some() => {}
            Window::Interrupt if open != self.interrupt_window => {
                self.interrupt_window = open;
                // A virtual interrupt that TPR does not hold back exits when the guest could take it.
                let control = self.control_mut(Clean::I | Clean::TPR);
                control.intercept3.set(Intercept3::VINTR, open);
                control.v_int.set(VirtualInterrupt::V_IRQ, open);
                control.v_int.set(VirtualInterrupt::V_IGN_TPR, open);
                self.update_cr8_intercept();
            }
            // The IRET intercept, set when an NMI is delivered, is the NMI window.
            Window::Nmi => self.nmi_waits = open,
            Window::Interrupt => {}
        }
    }
    fn set_tpr_threshold(&mut self, class: u8) {
        let waits = class != 0;
        if waits != self.waits_for_tpr {
            self.waits_for_tpr = waits;
            self.update_cr8_intercept();
        }
    }

    fn tsc(&self) -> u64 {
        crate::cpu::rdtsc().wrapping_add(self.control().tsc_offset)
    }
    fn tsc_offset(&self) -> u64 {
        self.control().tsc_offset.wrapping_neg()
    }
    fn set_tsc(&mut self, value: u64) {
        let offset = value.wrapping_sub(crate::cpu::rdtsc());
        self.control_mut(Clean::I).tsc_offset = offset;
    }
    fn flush_tlb(&mut self, _: Option<Gva>) {
        let how = if self.features.contains(SvmFeatures::FLUSH_BY_ASID) {
            TlbControl::Guest
        } else {
            TlbControl::All
        };
        self.control_mut(Clean::empty()).tlb_control = how as u32;
    }
    fn flush_nested(&mut self) {
        self.flush_tlb(None);
    }
}

impl SvmVcpu {
    #[inline(always)]
    fn advance(&mut self, next: u64) {
        let save = self.save_mut(Clean::empty());
        save.rip = next;
        let single_step = save.rflags & Rflags::TF.bits() != 0;
        if single_step {
            save.dr6 |= DR6_BS;
        }
        let control = self.control_mut(Clean::empty());
        control.interrupt_shadow = 0;
        if single_step {
            control.clean.remove(Clean::DRX);
            self.inject(Event::exception(Exception::Debug));
        }
    }
}

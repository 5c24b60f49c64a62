//! The seam between the exit handlers and the two backends: lazy access to a virtual CPU's state.

use x86defs::addr::Gva;
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::event::Event;
use x86defs::gpr::Gpr;
use x86defs::segment::{DescriptorTable, Segment, SegmentName};

/// A model-specific register whose value lives in the hardware or in the backend's control structure.
/// Every other MSR is modelled in `msr`.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMsr {
    FsBase,
    GsBase,
    KernelGsBase,
    Star,
    Lstar,
    Cstar,
    Fmask,
    SysenterCs,
    SysenterEsp,
    SysenterEip,
    Pat,
    TscAux,
    DebugCtl,
}

/// What to be told about by an exit as soon as the guest can take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A maskable interrupt.
    Interrupt,
    /// A non-maskable interrupt.
    Nmi,
}

/// A virtual CPU as the handlers see it. Reading may cost a VMREAD, so read what is needed and no more.
/// Values are the guest's own view: bits that the hardware forces are hidden by the backend.
pub trait Vcpu {
    /// A general register.
    fn gpr(&self, register: Gpr) -> u64;
    /// Sets a general register, all 64 bits.
    fn set_gpr(&mut self, register: Gpr, value: u64);
    /// Instruction pointer, not including CS.base.
    fn rip(&self) -> u64;
    /// Sets the instruction pointer; use [`Vcpu::skip`] to step over an intercepted instruction.
    fn set_rip(&mut self, value: u64);
    /// Flags.
    fn rflags(&self) -> Rflags;
    /// Sets the flags.
    fn set_rflags(&mut self, value: Rflags);

    /// Current privilege level.
    fn cpl(&self) -> u8;
    /// A segment register with its hidden part.
    fn segment(&self, name: SegmentName) -> Segment;
    /// Sets a segment register with its hidden part.
    fn set_segment(&mut self, name: SegmentName, value: Segment);
    /// GDTR.
    fn gdtr(&self) -> DescriptorTable;
    /// Sets GDTR.
    fn set_gdtr(&mut self, value: DescriptorTable);
    /// IDTR.
    fn idtr(&self) -> DescriptorTable;
    /// Sets IDTR.
    fn set_idtr(&mut self, value: DescriptorTable);

    /// CR0.
    fn cr0(&self) -> Cr0;
    /// Sets CR0 to a value that has been validated. Switches EFER.LMA with paging (SDM 3, 10.8.5), and loads
    /// the four PDPTEs from `pdptes` where PAE paging becomes active.
    fn set_cr0(&mut self, value: Cr0);
    /// CR2.
    fn cr2(&self) -> u64;
    /// Sets CR2.
    fn set_cr2(&mut self, value: u64);
    /// CR3.
    fn cr3(&self) -> u64;
    /// Sets CR3 and drops the guest's non-global translations.
    fn set_cr3(&mut self, value: u64);
    /// CR4.
    fn cr4(&self) -> Cr4;
    /// Sets CR4 to a value that has been validated.
    fn set_cr4(&mut self, value: Cr4);
    /// Gives the four page-directory-pointer entries that PAE paging uses; ignored by a backend that reads
    /// them from memory by itself.
    fn set_pdptes(&mut self, value: [u64; 4]);
    /// CR8: the task priority, 0 to 15.
    fn cr8(&self) -> u8;
    /// Sets CR8.
    fn set_cr8(&mut self, value: u8);
    /// EFER.
    fn efer(&self) -> Efer;
    /// Sets EFER to a value that has been validated.
    fn set_efer(&mut self, value: Efer);
    /// DR7.
    fn dr7(&self) -> u64;
    /// Sets DR7 to a value that has been validated.
    fn set_dr7(&mut self, value: u64);
    /// DR6.
    fn dr6(&self) -> u64;
    /// Sets DR6 to a value that has been validated.
    fn set_dr6(&mut self, value: u64);
    /// XCR0.
    fn xcr0(&self) -> u64;
    /// Sets XCR0 to a value that has been validated.
    fn set_xcr0(&mut self, value: u64);
    /// An MSR that lives in hardware.
    fn state_msr(&self, msr: StateMsr) -> u64;
    /// Sets an MSR that lives in hardware to a value that has been validated.
    fn set_state_msr(&mut self, msr: StateMsr, value: u64);

    /// Ends the intercepted instruction: moves RIP past it (wrapping as the mode demands), drops blocking by
    /// STI and MOV SS, and raises the single-step #DB if TF is set.
    fn skip(&mut self);
    /// As [`Vcpu::skip`] for an instruction whose length is known, e.g. from decoding it.
    fn skip_len(&mut self, len: u8);
    /// Delivers an event at the next entry. There is one place for it; a contributory fault on top of a
    /// pending exception has become a double fault before this is called.
    fn inject(&mut self, event: Event);
    /// The event that waits for the next entry.
    fn pending_event(&self) -> Option<Event>;
    /// Withdraws the event that waits for the next entry.
    fn take_pending_event(&mut self) -> Option<Event>;
    /// Whether a maskable interrupt can be delivered at the next entry: IF set, no blocking by STI or MOV SS,
    /// no event waiting.
    fn can_take_interrupt(&self) -> bool;
    /// Whether STI or MOV SS blocks interrupts until the next instruction is over.
    fn in_interrupt_shadow(&self) -> bool;
    /// Whether an NMI can be delivered at the next entry.
    fn can_take_nmi(&self) -> bool;
    /// Blocks NMIs as the delivery of one does, or lets them in again as IRET does.
    fn block_nmis(&mut self, blocked: bool);
    /// Asks for, or renounces, an exit when the window opens. Idempotent.
    fn set_window(&mut self, window: Window, open: bool);
    /// Asks for [`crate::Exit::InterruptWindow`] as soon as CR8 falls below `class` (1 to 15); 0 renounces it.
    /// Idempotent; an open interrupt window goes before it.
    fn set_tpr_threshold(&mut self, class: u8);

    /// The guest's time-stamp counter, now.
    fn tsc(&self) -> u64;
    /// Host TSC minus guest TSC: add it to a guest TSC to get the host's.
    fn tsc_offset(&self) -> u64;
    /// Sets the guest's time-stamp counter (WRMSR to IA32_TIME_STAMP_COUNTER).
    fn set_tsc(&mut self, value: u64);
    /// Invalidates the translations of one page, or of all.
    fn flush_tlb(&mut self, page: Option<Gva>);
    /// Invalidates everything that was translated by the nested page tables.
    fn flush_nested(&mut self);
}

/// The mode a virtual CPU executes in, as far as it matters for decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Real-address mode.
    Real,
    /// Virtual-8086 mode.
    Virtual8086,
    /// Protected mode with 16-bit code.
    Protected16,
    /// Protected mode with 32-bit code.
    Protected32,
    /// 16-bit code in long mode.
    Compatibility16,
    /// 32-bit code in long mode.
    Compatibility32,
    /// 64-bit mode.
    Long,
}

impl Mode {
    /// The current mode of a virtual CPU.
    pub fn of(vcpu: &(impl Vcpu + ?Sized)) -> Mode {
        use x86defs::segment::Attributes;
        if !vcpu.cr0().contains(Cr0::PE) {
            return Mode::Real;
        }
        if vcpu.rflags().contains(Rflags::VM) {
            return Mode::Virtual8086;
        }
        let cs = vcpu.segment(SegmentName::Cs).attributes;
        let big = cs.contains(Attributes::DEFAULT_BIG);
        match (vcpu.efer().contains(Efer::LMA), cs.contains(Attributes::LONG), big) {
            (true, true, _) => Mode::Long,
            (true, false, true) => Mode::Compatibility32,
            (true, false, false) => Mode::Compatibility16,
            (false, _, true) => Mode::Protected32,
            (false, _, false) => Mode::Protected16,
        }
    }

    /// Width of code in bits: 16, 32 or 64.
    pub fn bitness(self) -> u32 {
        match self {
            Mode::Real | Mode::Virtual8086 | Mode::Protected16 | Mode::Compatibility16 => 16,
            Mode::Protected32 | Mode::Compatibility32 => 32,
            Mode::Long => 64,
        }
    }
}

//! A VM exit, decoded: the vendor's numbers are gone, and only what the raw exit gives is in it.

use bitflags::bitflags;
use x86defs::addr::Gpa;
use x86defs::gpr::Gpr;

bitflags! {
    /// What an access that the nested page tables refused was doing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u8 {
        /// It wrote.
        const WRITE = 1 << 0;
        /// It fetched an instruction.
        const FETCH = 1 << 1;
        /// It was the walk of the guest's own page tables, not the access itself.
        const PAGE_WALK = 1 << 2;
        /// It was the load of PAE paging's four pointers by a move to a control register.
        const PDPTES = 1 << 3;
    }

    /// The form of an I/O instruction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IoForm: u8 {
        /// IN or INS; otherwise OUT or OUTS.
        const IN = 1 << 0;
        /// INS or OUTS.
        const STRING = 1 << 1;
        /// With a REP prefix.
        const REP = 1 << 2;
    }
}

/// An I/O instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Port number.
    pub port: u16,
    /// Bytes per access: 1, 2 or 4.
    pub width: u8,
    /// Its form.
    pub form: IoForm,
}

/// What asks for a task switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSwitchSource {
    /// CALL.
    Call,
    /// IRET with EFLAGS.NT.
    Iret,
    /// JMP.
    Jmp,
    /// A task gate in the IDT.
    Gate,
}

/// A task switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSwitch {
    /// Selector of the new task's TSS.
    pub selector: u16,
    /// What asks for it.
    pub source: TaskSwitchSource,
    /// Bytes of the instruction that asks for it; 0 if none does.
    pub instruction_len: u8,
}

/// Why the guest stopped. `Copy` and at most 16 bytes, so that it travels in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// CPUID.
    Cpuid,
    /// HLT.
    Hlt,
    /// VMCALL or VMMCALL.
    Hypercall,
    /// RDMSR.
    Rdmsr,
    /// WRMSR.
    Wrmsr,
    /// IN, OUT, INS or OUTS.
    Io(Io),
    /// The nested page tables map nothing there, or forbid this access.
    NestedFault(Gpa, Access),
    /// A maskable interrupt for the host is pending.
    ExternalInterrupt,
    /// A non-maskable interrupt arrived for the host.
    HostNmi,
    /// A window that was asked for is open.
    InterruptWindow,
    /// See [`Exit::InterruptWindow`].
    NmiWindow,
    /// MOV to a control register (0, 3, 4 or 8).
    WriteCr(u8, Gpr),
    /// MOV from a control register.
    ReadCr(u8, Gpr),
    /// CLTS.
    Clts,
    /// LMSW with this operand.
    Lmsw(u16),
    /// MOV to or from a debug register: number, general register, true for a write.
    MovDr(u8, Gpr, bool),
    /// XSETBV.
    Xsetbv,
    /// INVD or WBINVD: completed without effect on a coherent host.
    CacheFlush,
    /// An exception that is intercepted, with its error code; it has not been delivered.
    Exception(u8, u32),
    /// A triple fault.
    TripleFault,
    /// A task switch that the CPU leaves to us. An event whose gate leads to it is the pending one.
    TaskSwitch(TaskSwitch),
    /// An instruction that this machine does not offer: #UD.
    Undefined,
    /// RDPMC: no counters are offered.
    Rdpmc,
    /// The CPU refused to enter the guest; the backend has said why.
    EntryFailed,
    /// The slice of the preemption timer is over.
    Slice,
    /// PAUSE in a loop.
    Pause,
    /// INIT signal for the host.
    Init,
    /// A reason that no code handles; the number is the vendor's.
    Unknown(u32),
}

const _: () = assert!(size_of::<Exit>() <= 16);

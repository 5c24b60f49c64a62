//! Exit reasons (SDM 3, 25.9.1 and appendix C).

#![allow(missing_docs, reason = "reasons carry the names that the manual defines")]

use core::fmt;

/// The exit-reason field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExitReason(pub u32);

/// An entry that failed while it loaded the guest's state: bit 31 of the exit reason is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFailure {
    InvalidGuestState,
    MsrLoading,
    MachineCheck,
}

macro_rules! reasons {
    ($($name:ident = $number:literal),+ $(,)?) => {
        impl ExitReason {
            $(pub const $name: ExitReason = ExitReason($number);)+

            /// The name of the basic reason.
            pub fn name(self) -> &'static str {
                match self.basic() {
                    $($number => stringify!($name),)+
                    _ => "unnamed exit reason",
                }
            }
        }
    };
}

reasons! {
    EXCEPTION_OR_NMI = 0,
    EXTERNAL_INTERRUPT = 1,
    TRIPLE_FAULT = 2,
    INIT_SIGNAL = 3,
    START_UP_IPI = 4,
    IO_SMI = 5,
    OTHER_SMI = 6,
    INTERRUPT_WINDOW = 7,
    NMI_WINDOW = 8,
    TASK_SWITCH = 9,
    CPUID = 10,
    GETSEC = 11,
    HLT = 12,
    INVD = 13,
    INVLPG = 14,
    RDPMC = 15,
    RDTSC = 16,
    RSM = 17,
    VMCALL = 18,
    VMCLEAR = 19,
    VMLAUNCH = 20,
    VMPTRLD = 21,
    VMPTRST = 22,
    VMREAD = 23,
    VMRESUME = 24,
    VMWRITE = 25,
    VMXOFF = 26,
    VMXON = 27,
    CR_ACCESS = 28,
    MOV_DR = 29,
    IO_INSTRUCTION = 30,
    RDMSR = 31,
    WRMSR = 32,
    INVALID_GUEST_STATE = 33,
    MSR_LOADING = 34,
    MWAIT = 36,
    MONITOR_TRAP_FLAG = 37,
    MONITOR = 39,
    PAUSE = 40,
    MACHINE_CHECK_DURING_ENTRY = 41,
    TPR_BELOW_THRESHOLD = 43,
    APIC_ACCESS = 44,
    VIRTUALIZED_EOI = 45,
    GDTR_OR_IDTR_ACCESS = 46,
    LDTR_OR_TR_ACCESS = 47,
    EPT_VIOLATION = 48,
    EPT_MISCONFIGURATION = 49,
    INVEPT = 50,
    RDTSCP = 51,
    PREEMPTION_TIMER = 52,
    INVVPID = 53,
    WBINVD = 54,
    XSETBV = 55,
    APIC_WRITE = 56,
    RDRAND = 57,
    INVPCID = 58,
    VMFUNC = 59,
    ENCLS = 60,
    RDSEED = 61,
    PAGE_MODIFICATION_LOG_FULL = 62,
    XSAVES = 63,
    XRSTORS = 64,
    PCONFIG = 65,
    SPP_EVENT = 66,
    UMWAIT = 67,
    TPAUSE = 68,
    LOADIWKEY = 69,
    ENCLV = 70,
}

impl ExitReason {
    /// The basic reason: the low half.
    pub const fn basic(self) -> u16 {
        self.0 as u16
    }

    /// How the entry failed, if this exit is a failed entry.
    pub const fn entry_failure(self) -> Option<EntryFailure> {
        if self.0 >> 31 == 0 {
            return None;
        }
        Some(match ExitReason(self.basic() as u32) {
            ExitReason::MSR_LOADING => EntryFailure::MsrLoading,
            ExitReason::MACHINE_CHECK_DURING_ENTRY => EntryFailure::MachineCheck,
            _ => EntryFailure::InvalidGuestState,
        })
    }
}

impl fmt::Debug for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#x})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn failed_entries_are_told_from_exits() {
        assert_eq!(ExitReason::CPUID.entry_failure(), None);
        assert_eq!(ExitReason(0x8000_0021).entry_failure(), Some(EntryFailure::InvalidGuestState));
        assert_eq!(ExitReason(0x8000_0022).entry_failure(), Some(EntryFailure::MsrLoading));
        assert_eq!(ExitReason(0x8000_0029).entry_failure(), Some(EntryFailure::MachineCheck));
    }

    #[test]
    fn names() {
        assert_eq!(ExitReason(0x8000_0021).name(), "INVALID_GUEST_STATE");
        assert_eq!(format!("{:?}", ExitReason(35)), "unnamed exit reason(0x23)");
    }
}

//! MSRs that a guest accesses without an exit; backends build their bitmaps from this list.

use x86defs::msr;

/// A register that is passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Its number.
    pub number: u32,
    /// RDMSR does not exit.
    pub read: bool,
    /// WRMSR does not exit; the CPU itself checks the value.
    pub write: bool,
}

const fn both(number: u32) -> Direct {
    Direct { number, read: true, write: true }
}

/// Those that a thread or system-call switch touches, which are resident with their virtual CPU, and the TSC,
/// whose offset the CPU applies.
const DIRECT: &[Direct] = &[
    Direct { number: msr::IA32_TIME_STAMP_COUNTER, read: true, write: false },
    both(msr::IA32_SYSENTER_CS),
    both(msr::IA32_SYSENTER_ESP),
    both(msr::IA32_SYSENTER_EIP),
    both(msr::STAR),
    both(msr::LSTAR),
    both(msr::CSTAR),
    both(msr::FMASK),
    both(msr::FS_BASE),
    both(msr::GS_BASE),
    both(msr::KERNEL_GS_BASE),
    both(msr::TSC_AUX),
];

/// The registers that are passed through, in order of number.
pub fn direct() -> &'static [Direct] {
    DIRECT
}

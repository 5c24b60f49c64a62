//! What the capability MSRs hold (SDM 3, appendix A); their numbers are in [`crate::msr`].

#![allow(missing_docs, reason = "bits carry the names that the manual defines")]

use bitflags::bitflags;

bitflags! {
    /// IA32_VMX_EPT_VPID_CAP (SDM 3, A.10).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EptVpid: u64 {
        const EXECUTE_ONLY = 1 << 0;
        const FOUR_LEVELS = 1 << 6;
        const TABLES_WRITE_BACK = 1 << 14;
        const PAGE_2M = 1 << 16;
        const PAGE_1G = 1 << 17;
        const INVEPT = 1 << 20;
        const ACCESSED_DIRTY = 1 << 21;
        const INVEPT_SINGLE_CONTEXT = 1 << 25;
        const INVEPT_ALL_CONTEXTS = 1 << 26;
        const INVVPID = 1 << 32;
        const INVVPID_INDIVIDUAL_ADDRESS = 1 << 40;
        const INVVPID_SINGLE_CONTEXT = 1 << 41;
        const INVVPID_ALL_CONTEXTS = 1 << 42;
        const INVVPID_RETAINING_GLOBALS = 1 << 43;
        const _ = !0;
    }
}

/// IA32_VMX_BASIC (SDM 3, A.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic(pub u64);

impl Basic {
    /// What the first four bytes of a VMXON region or VMCS must hold.
    pub const fn revision(self) -> u32 {
        self.0 as u32 & 0x7fff_ffff
    }
    /// Whether the IA32_VMX_TRUE_* MSRs exist.
    pub const fn has_true_controls(self) -> bool {
        self.0 >> 55 & 1 != 0
    }
}

/// IA32_VMX_MISC (SDM 3, A.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misc(pub u64);

impl Misc {
    /// The preemption timer counts down by one whenever this bit of the TSC changes.
    pub const fn preemption_timer_shift(self) -> u32 {
        self.0 as u32 & 0x1f
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_of_a_usual_cpu() {
        let basic = Basic(0x00da_0400_0000_0004);
        assert_eq!(basic.revision(), 4);
        assert!(basic.has_true_controls());
        assert!(!Basic(0x005a_0400_0000_0004).has_true_controls());
        // Bit 31 is no part of the revision.
        assert_eq!(Basic(0x8000_0011).revision(), 0x11);
    }

    #[test]
    fn timer_shift_is_five_bits() {
        assert_eq!(Misc(0x7004_c1e7).preemption_timer_shift(), 7);
    }

    #[test]
    fn unknown_capability_bits_survive() {
        assert_eq!(EptVpid::from_bits_truncate(0xf01_0633_4141).bits(), 0xf01_0633_4141);
    }
}

//! The controls, and how a wanted set meets what the CPU allows (SDM 3, 25.6 to 25.8, A.2 to A.5).

#![allow(missing_docs, reason = "bits carry the names that the manual defines")]

use bitflags::{Flags, bitflags};
use core::fmt;

bitflags! {
    /// Pin-based VM-execution controls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PinControls: u32 {
        const EXTERNAL_INTERRUPT_EXITING = 1 << 0;
        const NMI_EXITING = 1 << 3;
        const VIRTUAL_NMIS = 1 << 5;
        const ACTIVATE_PREEMPTION_TIMER = 1 << 6;
        const PROCESS_POSTED_INTERRUPTS = 1 << 7;
        const _ = !0;
    }

    /// Primary processor-based VM-execution controls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PrimaryControls: u32 {
        const INTERRUPT_WINDOW_EXITING = 1 << 2;
        const USE_TSC_OFFSETTING = 1 << 3;
        const HLT_EXITING = 1 << 7;
        const INVLPG_EXITING = 1 << 9;
        const MWAIT_EXITING = 1 << 10;
        const RDPMC_EXITING = 1 << 11;
        const RDTSC_EXITING = 1 << 12;
        const CR3_LOAD_EXITING = 1 << 15;
        const CR3_STORE_EXITING = 1 << 16;
        const ACTIVATE_TERTIARY_CONTROLS = 1 << 17;
        const CR8_LOAD_EXITING = 1 << 19;
        const CR8_STORE_EXITING = 1 << 20;
        const USE_TPR_SHADOW = 1 << 21;
        const NMI_WINDOW_EXITING = 1 << 22;
        const MOV_DR_EXITING = 1 << 23;
        const UNCONDITIONAL_IO_EXITING = 1 << 24;
        const USE_IO_BITMAPS = 1 << 25;
        const MONITOR_TRAP_FLAG = 1 << 27;
        const USE_MSR_BITMAPS = 1 << 28;
        const MONITOR_EXITING = 1 << 29;
        const PAUSE_EXITING = 1 << 30;
        const ACTIVATE_SECONDARY_CONTROLS = 1 << 31;
        const _ = !0;
    }

    /// Secondary processor-based VM-execution controls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SecondaryControls: u32 {
        const VIRTUALIZE_APIC_ACCESSES = 1 << 0;
        const ENABLE_EPT = 1 << 1;
        const DESCRIPTOR_TABLE_EXITING = 1 << 2;
        const ENABLE_RDTSCP = 1 << 3;
        const VIRTUALIZE_X2APIC_MODE = 1 << 4;
        const ENABLE_VPID = 1 << 5;
        const WBINVD_EXITING = 1 << 6;
        const UNRESTRICTED_GUEST = 1 << 7;
        const APIC_REGISTER_VIRTUALIZATION = 1 << 8;
        const VIRTUAL_INTERRUPT_DELIVERY = 1 << 9;
        const PAUSE_LOOP_EXITING = 1 << 10;
        const RDRAND_EXITING = 1 << 11;
        const ENABLE_INVPCID = 1 << 12;
        const ENABLE_VM_FUNCTIONS = 1 << 13;
        const VMCS_SHADOWING = 1 << 14;
        const ENABLE_ENCLS_EXITING = 1 << 15;
        const RDSEED_EXITING = 1 << 16;
        const ENABLE_PML = 1 << 17;
        const EPT_VIOLATION_VE = 1 << 18;
        const CONCEAL_VMX_FROM_PT = 1 << 19;
        const ENABLE_XSAVES = 1 << 20;
        const MODE_BASED_EXECUTE_CONTROL = 1 << 22;
        const SUB_PAGE_WRITE_PERMISSIONS = 1 << 23;
        const INTEL_PT_USES_GUEST_PHYSICAL = 1 << 24;
        const USE_TSC_SCALING = 1 << 25;
        const ENABLE_USER_WAIT_AND_PAUSE = 1 << 26;
        const ENABLE_PCONFIG = 1 << 27;
        const ENABLE_ENCLV_EXITING = 1 << 28;
        const _ = !0;
    }

    /// Primary VM-exit controls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExitControls: u32 {
        const SAVE_DEBUG_CONTROLS = 1 << 2;
        const HOST_ADDRESS_SPACE_SIZE = 1 << 9;
        const LOAD_IA32_PERF_GLOBAL_CTRL = 1 << 12;
        const ACKNOWLEDGE_INTERRUPT_ON_EXIT = 1 << 15;
        const SAVE_IA32_PAT = 1 << 18;
        const LOAD_IA32_PAT = 1 << 19;
        const SAVE_IA32_EFER = 1 << 20;
        const LOAD_IA32_EFER = 1 << 21;
        const SAVE_PREEMPTION_TIMER = 1 << 22;
        const _ = !0;
    }

    /// VM-entry controls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EntryControls: u32 {
        const LOAD_DEBUG_CONTROLS = 1 << 2;
        const IA32E_MODE_GUEST = 1 << 9;
        const ENTRY_TO_SMM = 1 << 10;
        const DEACTIVATE_DUAL_MONITOR = 1 << 11;
        const LOAD_IA32_PERF_GLOBAL_CTRL = 1 << 13;
        const LOAD_IA32_PAT = 1 << 14;
        const LOAD_IA32_EFER = 1 << 15;
        const _ = !0;
    }
}

/// What a set of controls should be, whatever the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<C> {
    /// Without these there is no virtual machine.
    pub required: C,
    /// These are used where the CPU has them.
    pub desired: C,
}

/// Required controls that the CPU does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingControls<C>(pub C);

impl<C: Flags<Bits = u32> + Copy> fmt::Display for MissingControls<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this CPU's VMX lacks")?;
        for (position, (name, _)) in self.0.iter_names().enumerate() {
            write!(f, "{} {name}", if position == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl<C: Flags<Bits = u32> + Copy + fmt::Debug> core::error::Error for MissingControls<C> {}

/// Combines wanted controls with a capability MSR, whose low half holds the controls that must be 1 and whose
/// high half those that may be 1 (SDM 3, A.2 to A.5).
pub fn adjust<C: Flags<Bits = u32> + Copy>(
    wanted: Wanted<C>,
    capability: u64,
) -> Result<C, MissingControls<C>> {
    let must_be_one = capability as u32;
    let may_be_one = (capability >> 32) as u32;
    match wanted.required.bits() & !may_be_one {
        0 => {
            let wanted = wanted.required.bits() | wanted.desired.bits();
            Ok(C::from_bits_retain(wanted & may_be_one | must_be_one))
        }
        missing => Err(MissingControls(C::from_bits_retain(missing))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const WANTED: Wanted<SecondaryControls> = Wanted {
        required: SecondaryControls::ENABLE_EPT.union(SecondaryControls::UNRESTRICTED_GUEST),
        desired: SecondaryControls::ENABLE_VPID.union(SecondaryControls::ENABLE_RDTSCP),
    };

    fn allowing(may: SecondaryControls, must: SecondaryControls) -> u64 {
        u64::from(may.bits()) << 32 | u64::from(must.bits())
    }

    #[test]
    fn everything_wanted_is_there() {
        let capability = allowing(SecondaryControls::all(), SecondaryControls::empty());
        assert_eq!(adjust(WANTED, capability), Ok(WANTED.required | WANTED.desired));
    }

    #[test]
    fn desired_but_absent_is_left_out() {
        let capability =
            allowing(WANTED.required | SecondaryControls::ENABLE_RDTSCP, SecondaryControls::empty());
        assert_eq!(adjust(WANTED, capability), Ok(WANTED.required | SecondaryControls::ENABLE_RDTSCP));
    }

    #[test]
    fn forced_controls_are_set_though_unwanted() {
        let forced = SecondaryControls::WBINVD_EXITING;
        let capability = allowing(SecondaryControls::all(), forced);
        assert_eq!(adjust(WANTED, capability), Ok(WANTED.required | WANTED.desired | forced));
    }

    #[test]
    fn required_but_absent_is_named() {
        let capability = allowing(SecondaryControls::ENABLE_VPID, SecondaryControls::empty());
        let missing = adjust(WANTED, capability).unwrap_err();
        assert_eq!(missing.to_string(), "this CPU's VMX lacks ENABLE_EPT, UNRESTRICTED_GUEST");
    }

    /// Adjusting what was adjusted changes nothing, so a second pass cannot bring back a dropped option.
    #[test]
    fn adjusting_twice_changes_nothing() {
        let capability =
            allowing(WANTED.required | SecondaryControls::WBINVD_EXITING, SecondaryControls::WBINVD_EXITING);
        let once = adjust(WANTED, capability).unwrap();
        let again = Wanted { required: once, desired: SecondaryControls::empty() };
        assert_eq!(adjust(again, capability), Ok(once));
    }
}

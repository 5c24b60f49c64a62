//! What this CPU's VMX can do, and the controls that follow: computed once, constant afterwards but for those
//! that [`super::vcpu`] names.

use crate::cpu;
use crate::hw::Missing;
use bitflags::Flags;
use core::fmt;
use spin::Once;
use x86defs::msr;
use x86defs::vmx::{
    Basic, EntryControls, EptVpid, ExitControls, Limits, Misc, MissingControls, PinControls, PrimaryControls,
    SecondaryControls, Wanted, adjust,
};

const PIN: Wanted<PinControls> = Wanted {
    required: PinControls::EXTERNAL_INTERRUPT_EXITING
        .union(PinControls::NMI_EXITING)
        .union(PinControls::VIRTUAL_NMIS),
    desired: PinControls::ACTIVATE_PREEMPTION_TIMER,
};

/// No port is passed through, hence no I/O bitmaps. CR3, INVLPG, RDTSC, PAUSE and MOV DR do not exit.
const PRIMARY: Wanted<PrimaryControls> = Wanted {
    required: PrimaryControls::USE_TSC_OFFSETTING
        .union(PrimaryControls::HLT_EXITING)
        .union(PrimaryControls::MWAIT_EXITING)
        .union(PrimaryControls::RDPMC_EXITING)
        .union(PrimaryControls::USE_TPR_SHADOW)
        .union(PrimaryControls::UNCONDITIONAL_IO_EXITING)
        .union(PrimaryControls::USE_MSR_BITMAPS)
        .union(PrimaryControls::MONITOR_EXITING)
        .union(PrimaryControls::ACTIVATE_SECONDARY_CONTROLS),
    desired: PrimaryControls::empty(),
};

const SECONDARY: Wanted<SecondaryControls> = Wanted {
    required: SecondaryControls::ENABLE_EPT.union(SecondaryControls::UNRESTRICTED_GUEST),
    desired: SecondaryControls::ENABLE_VPID
        .union(SecondaryControls::ENABLE_RDTSCP)
        .union(SecondaryControls::WBINVD_EXITING)
        .union(SecondaryControls::ENABLE_INVPCID)
        .union(SecondaryControls::ENABLE_ENCLS_EXITING)
        .union(SecondaryControls::ENABLE_XSAVES),
};

/// EFER is switched from the start, since a guest begins with another one than the host's.
const EXIT: Wanted<ExitControls> = Wanted {
    required: ExitControls::HOST_ADDRESS_SPACE_SIZE
        .union(ExitControls::SAVE_DEBUG_CONTROLS)
        .union(ExitControls::LOAD_IA32_EFER),
    desired: ExitControls::SAVE_PREEMPTION_TIMER,
};

const ENTRY: Wanted<EntryControls> = Wanted {
    required: EntryControls::LOAD_DEBUG_CONTROLS.union(EntryControls::LOAD_IA32_EFER),
    desired: EntryControls::empty(),
};

const EPT: EptVpid = EptVpid::FOUR_LEVELS
    .union(EptVpid::TABLES_WRITE_BACK)
    .union(EptVpid::INVEPT)
    .union(EptVpid::INVEPT_SINGLE_CONTEXT);

const VPID: EptVpid = EptVpid::INVVPID.union(EptVpid::INVVPID_SINGLE_CONTEXT);

static CAPABILITIES: Once<Capabilities> = Once::new();

/// What VMX can do here, and the controls that a guest starts with.
#[derive(Debug)]
pub(super) struct Capabilities {
    pub(super) basic: Basic,
    pub(super) misc: Misc,
    pub(super) ept_vpid: EptVpid,
    pub(super) limits: Limits,
    pub(super) pin: PinControls,
    pub(super) primary: PrimaryControls,
    pub(super) secondary: SecondaryControls,
    pub(super) exit: ExitControls,
    pub(super) entry: EntryControls,
}

impl Capabilities {
    /// Those of this CPU, which has VMX, or what is missing.
    pub(super) fn read() -> Result<Capabilities, Missing> {
        let basic = Basic(read_msr(msr::IA32_VMX_BASIC));
        let pick = |plain, exact| read_msr(if basic.has_true_controls() { exact } else { plain });
        let pin = pick(msr::IA32_VMX_PINBASED_CTLS, msr::IA32_VMX_TRUE_PINBASED_CTLS);
        let primary = pick(msr::IA32_VMX_PROCBASED_CTLS, msr::IA32_VMX_TRUE_PROCBASED_CTLS);
        let exit = pick(msr::IA32_VMX_EXIT_CTLS, msr::IA32_VMX_TRUE_EXIT_CTLS);
        let entry = pick(msr::IA32_VMX_ENTRY_CTLS, msr::IA32_VMX_TRUE_ENTRY_CTLS);
        let primary = adjust(PRIMARY, primary).map_err(missing)?;
        // The next two MSRs exist where the controls that they describe do.
        let mut secondary = adjust(SECONDARY, read_msr(msr::IA32_VMX_PROCBASED_CTLS2)).map_err(missing)?;
        let ept_vpid = EptVpid::from_bits_retain(read_msr(msr::IA32_VMX_EPT_VPID_CAP));
        if let Some((name, _)) = (EPT - ept_vpid).iter_names().next() {
            return Err(Missing {
                what: name,
                advice: "extended page tables need it (IA32_VMX_EPT_VPID_CAP)",
            });
        }
        // Without INVVPID nothing could be flushed; without VPID every entry flushes.
        secondary.set(
            SecondaryControls::ENABLE_VPID,
            secondary.contains(SecondaryControls::ENABLE_VPID) && ept_vpid.contains(VPID),
        );
        let limits = Limits {
            cr0_fixed: (read_msr(msr::IA32_VMX_CR0_FIXED0), read_msr(msr::IA32_VMX_CR0_FIXED1)),
            cr4_fixed: (read_msr(msr::IA32_VMX_CR4_FIXED0), read_msr(msr::IA32_VMX_CR4_FIXED1)),
            physical_bits: cpu::physical_bits().into(),
        };
        Ok(Capabilities {
            basic,
            misc: Misc(read_msr(msr::IA32_VMX_MISC)),
            ept_vpid,
            limits,
            pin: adjust(PIN, pin).map_err(missing)?,
            primary,
            secondary,
            exit: adjust(EXIT, exit).map_err(missing)?,
            entry: adjust(ENTRY, entry).map_err(missing)?,
        })
    }

    /// Remembers those of this CPU.
    pub(super) fn establish() -> Result<&'static Capabilities, Missing> {
        CAPABILITIES.try_call_once(Capabilities::read)
    }

    /// Those that [`Capabilities::establish`] has remembered.
    pub(super) fn get() -> &'static Capabilities {
        CAPABILITIES.get().expect("Backend::enable comes first")
    }
}

/// An MSR that this CPU says it has; 0, which allows nothing, if it has not.
fn read_msr(number: u32) -> u64 {
    cpu::rdmsr_safe(number).unwrap_or(0)
}

/// The first control that is missing, in words.
fn missing<C: Flags<Bits = u32> + Copy>(MissingControls(controls): MissingControls<C>) -> Missing {
    let name = controls.iter_names().next().map_or("a VMX control", |(name, _)| name);
    match name {
        "ACTIVATE_SECONDARY_CONTROLS" | "ENABLE_EPT" => Missing {
            what: "this CPU has VMX but no extended page tables (EPT)",
            advice: "use a CPU of the Westmere generation (2010) or later",
        },
        "UNRESTRICTED_GUEST" => Missing {
            what: "this CPU has VMX and EPT but no \"unrestricted guest\"",
            advice: "use a CPU of the Westmere generation (2010) or later",
        },
        name => Missing {
            what: name,
            advice: "this VMX control is needed, and neither the CPU nor a hypervisor below offers it",
        },
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "controls in force:")?;
        let names = self.pin.iter_names().map(|(name, _)| name);
        let names = names.chain(self.primary.iter_names().map(|(name, _)| name));
        let names = names.chain(self.secondary.iter_names().map(|(name, _)| name));
        for name in names.chain(self.ept_vpid.iter_names().map(|(name, _)| name)) {
            write!(f, " {name}")?;
        }
        Ok(())
    }
}

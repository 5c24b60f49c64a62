//! Virtual-machine extensions: capability MSRs, controls, exit reasons and what comes with them (SDM 3, 24 to
//! 31 and appendices A to D).

mod capability;
mod controls;
mod event_info;
mod guest_checks;
mod qualification;
mod reason;

pub use capability::{Basic, EptVpid, Misc};
pub use controls::{
    EntryControls, ExitControls, MissingControls, PinControls, PrimaryControls, SecondaryControls, Wanted,
    adjust,
};
pub use event_info::{ActivityState, EventInfo, InstructionError, Interruptibility, PendingDebug};
pub use guest_checks::{Limits, Violation, check_guest_state};
pub use qualification::{
    CrAccess, DebugException, EptViolation, InvalidSource, IoAccess, MovDr, TaskSwitch, TaskSwitchCause,
};
pub use reason::{EntryFailure, ExitReason};

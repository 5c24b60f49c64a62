//! The NMI button of a virtual machine's console, as a guest sees it.

use super::script::{Script, powers_off};
use crate::machine::Running;
use anyhow::Result;
use std::time::Duration;

/// Ctrl-^ n.
const BUTTON: &str = "\x1en";

/// The guest and its steps.
pub const SCRIPT: Script = Script {
    name: "nmi-button",
    cmdline: "nmi-button",
    tests: &["port-70-masks-it", "an-nmi-comes", "the-guest-goes-on"],
    steps: &[is_masked, comes, powers_off],
};

fn is_masked(running: &mut Running, within: Duration) -> Result<()> {
    running.expect("press with NMIs masked", within)?;
    running.send(BUTTON)?;
    running.expect("masked: channel check, 0 NMIs", within)?;
    running.expect("unmasked: 1 NMIs", within).map(drop)
}

fn comes(running: &mut Running, within: Duration) -> Result<()> {
    running.expect("press: status 0", within)?;
    running.send(BUTTON)?;
    running.expect("end: status 64, 2 NMIs", within).map(drop)
}

//! What the hypervisor costs a booting Linux, in instructions: on `qemu-svm` with instruction counting, where one
//! tick of the time-stamp counter is one instruction and a run repeats exactly.

use crate::guest::Guest;
use crate::image::Image;
use crate::initramfs;
use crate::machine::{self, Boot, Payload};
use crate::setup::Distribution;
use crate::testing::linux::Session;
use anyhow::{Context, Result};
use std::fmt;

/// The machine that counts.
pub const MACHINE: &str = "qemu-svm";
/// Most that the guest's time-stamp counter at init may be of the bare machine's.
pub const TSC_LIMIT: f64 = 1.03;
/// Most of the boot's instructions that may be executed in the hypervisor.
pub const SHARE_LIMIT: f64 = 0.02;
/// Setting of a virtual machine that makes the hypervisor report its share.
const PROFILE: &str = "profile = true\n";
/// Makes init power off as soon as it has said its line.
const UNTIL_INIT: &str = " -- poweroff";
/// Begins that report, which goes on with two numbers: `A of B total`.
const REPORT: &str = "profile: hypervisor TSC ";

/// The figures of two boots.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Time-stamp counter when init starts, on the bare machine.
    pub bare: u64,
    /// The same in a guest.
    pub hosted: u64,
    /// Instructions executed in the hypervisor, of all instructions while the virtual machine lived.
    pub in_hypervisor: (u64, u64),
}

impl Cost {
    /// Boots the same kernel with the same command line bare and hosted.
    pub fn measure(image: &Image) -> Result<Self> {
        let mut guest = Guest { settings: PROFILE, ..Guest::debian(Distribution::Cloud)? };
        guest.cmdline += UNTIL_INIT;
        let bare = boot(guest.bare(), &guest, false).context("on the bare machine")?;
        let hosted = boot(guest.hosted(image), &guest, true).context("under the hypervisor")?;
        let report =
            hosted.lines().find_map(|line| line.split_once(REPORT)).context("no profile at the end")?.1;
        let mut numbers = report.split(' ').filter_map(|word| word.parse().ok());
        let in_hypervisor = numbers.next().zip(numbers.next()).with_context(|| format!("'{report}'"))?;
        Ok(Self { bare: tsc_at_init(&bare)?, hosted: tsc_at_init(&hosted)?, in_hypervisor })
    }

    /// The guest's counter in terms of the bare machine's.
    pub fn ratio(&self) -> f64 {
        self.hosted as f64 / self.bare as f64
    }

    /// The hypervisor's part of the instructions.
    pub fn share(&self) -> f64 {
        self.in_hypervisor.0 as f64 / self.in_hypervisor.1 as f64
    }

    /// Whether both limits hold.
    pub fn is_within_limits(&self) -> bool {
        self.ratio() <= TSC_LIMIT && self.share() <= SHARE_LIMIT
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "TSC at init, bare machine   {:>15}", self.bare)?;
        writeln!(out, "TSC at init, guest          {:>15}", self.hosted)?;
        writeln!(out, "ratio                       {:>15.4}  (at most {TSC_LIMIT})", self.ratio())?;
        writeln!(out, "instructions in hypervisor  {:>15}", self.in_hypervisor.0)?;
        writeln!(out, "of all instructions         {:>15}", self.in_hypervisor.1)?;
        let (share, limit) = (self.share() * 100.0, SHARE_LIMIT * 100.0);
        write!(out, "share                       {share:>13.2} %  (at most {limit} %)")
    }
}

/// Boots to init, which powers off at once: waiting for somebody to type would count as part of the boot. Gives the
/// console's transcript.
fn boot(payload: Payload, guest: &Guest, hosted: bool) -> Result<String> {
    let machine = machine::by_name(MACHINE)?;
    let boot = Boot { payload, memory: guest.machine_memory(), counting: true };
    let mut session = Session::start(&*machine, &boot)?;
    session.reach_init()?;
    session.ends_powered_off(hosted)?;
    Ok(session.transcript())
}

/// What init says of the counter.
fn tsc_at_init(transcript: &str) -> Result<u64> {
    let line =
        transcript.lines().find_map(|line| line.split_once(initramfs::MARKER)).context("init was silent")?.1;
    let digits = line.split(' ').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).with_context(|| format!("init's counter is '{digits}'"))
}

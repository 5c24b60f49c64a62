//! A plan: what to copy into a virtual machine's memory, and the state in which its first CPU begins.

use crate::acpi;
use crate::entry::EntryState;
use crate::kernel_format::{KernelFormat, UnknownFormat, detect};
use crate::linux::{self, LinuxError};
use crate::memory_map::MemoryMap;
use crate::reset_vector::reset_vector;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use x86defs::addr::Gpa;

/// Where bytes of a guest come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This part of the kernel's file.
    Kernel(Range<usize>),
    /// The whole initial RAM disk.
    Initrd,
    /// These bytes.
    Bytes(Vec<u8>),
}

/// One copy into guest memory, ROM included. Memory that no copy names is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// First address.
    pub to: Gpa,
    /// What.
    pub source: Source,
}

/// Everything that has to be done before a virtual machine runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPlan {
    /// Copies in any order: they do not overlap.
    pub copies: Vec<Copy>,
    /// The first CPU's state.
    pub entry: EntryState,
}

/// What a guest is made of. The kernel's and the RAM disk's bytes are host memory.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Its memory.
    pub map: &'a MemoryMap,
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// The kernel's file.
    pub kernel: &'a [u8],
    /// Length of the initial RAM disk.
    pub initrd_len: Option<u64>,
    /// The kernel's command line.
    pub cmdline: &'a str,
}

/// Why a guest cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The kernel is of no known format.
    Format(UnknownFormat),
    /// The kernel is a Linux kernel that cannot be started so.
    Linux(LinuxError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Linux(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PlanError {}

/// Lays a guest out: its kernel by the boot protocol that it speaks, and what the ROM holds.
pub fn start_plan(guest: &Guest<'_>) -> Result<StartPlan, PlanError> {
    let mut plan = match detect(guest.kernel).map_err(PlanError::Format)? {
        KernelFormat::LinuxBzImage => linux::plan(guest).map_err(PlanError::Linux)?,
    };
    plan.copies.extend(acpi::tables(guest.cpus));
    plan.copies.push(reset_vector());
    Ok(plan)
}

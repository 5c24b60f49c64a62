//! A plan: what to copy into a virtual machine's memory, and the state in which its first CPU begins.

use crate::acpi;
use crate::bios_data::bios_data;
use crate::entry::EntryState;
use crate::kernel_format::{KernelFormat, UnknownFormat, detect};
use crate::linux::{self, LinuxError};
use crate::memory_map::MemoryMap;
use crate::multiboot1::{self, Multiboot1Error};
use crate::multiboot2::{self, Multiboot2Error};
use crate::pvh::{self, PvhError};
use crate::reset_vector::reset_vector;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use x86defs::addr::Gpa;
use zerocopy::{Immutable, IntoBytes};

/// Where bytes of a guest come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This part of the kernel's file.
    Kernel(Range<usize>),
    /// The whole initial RAM disk.
    Initrd,
    /// The whole module with this number in [`Guest::modules`].
    Module(usize),
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
    /// Copies, to be made in this order. Only the first, of the BIOS data area, may lie under others.
    pub copies: Vec<Copy>,
    /// The first CPU's state.
    pub entry: EntryState,
}

/// A file that a guest finds in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestModule<'a> {
    /// Its length.
    pub len: u64,
    /// Its command line, which begins with its name.
    pub cmdline: &'a str,
}

/// What a guest is made of. The bytes of all files are host memory.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Its memory.
    pub map: &'a MemoryMap,
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// The kernel's file.
    pub kernel: &'a [u8],
    /// The initial RAM disk: for Linux's own protocol what it calls so, else the first module.
    pub initrd: Option<GuestModule<'a>>,
    /// Its modules. Linux's own protocol knows none.
    pub modules: &'a [GuestModule<'a>],
    /// The kernel's command line.
    pub cmdline: &'a str,
}

/// What we call ourselves where a boot protocol has a boot loader's name.
pub const BOOT_LOADER_NAME: &str = "Gossamer";

/// Why a guest cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The kernel is of no known format.
    Format(UnknownFormat),
    /// The kernel is a Linux kernel that cannot be started so.
    Linux(LinuxError),
    /// The kernel is a multiboot 1 kernel that cannot be started so.
    Multiboot1(Multiboot1Error),
    /// The kernel is a multiboot 2 kernel that cannot be started so.
    Multiboot2(Multiboot2Error),
    /// The kernel is a PVH kernel that cannot be started so.
    Pvh(PvhError),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Linux(error) => error.fmt(f),
            Self::Multiboot1(error) => error.fmt(f),
            Self::Multiboot2(error) => error.fmt(f),
            Self::Pvh(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PlanError {}

/// Lays a guest out: its kernel by the boot protocol that it speaks, and what the ROM holds.
// Inlined into its one caller it would lose this crate's optimisation for size.
#[inline(never)]
pub fn start_plan(guest: &Guest<'_>) -> Result<StartPlan, PlanError> {
    let mut plan = match detect(guest.kernel).map_err(PlanError::Format)? {
        KernelFormat::LinuxBzImage => linux::plan(guest).map_err(PlanError::Linux)?,
        KernelFormat::Multiboot2 => multiboot2::plan(guest).map_err(PlanError::Multiboot2)?,
        KernelFormat::Multiboot1 => multiboot1::plan(guest).map_err(PlanError::Multiboot1)?,
        KernelFormat::Pvh => pvh::plan(guest).map_err(PlanError::Pvh)?,
    };
    // Before a kernel that is linked over it.
    plan.copies.insert(0, bios_data());
    plan.copies.extend(acpi::tables(guest.cpus));
    plan.copies.push(reset_vector());
    Ok(plan)
}

/// Several structures as bytes, one after the other.
pub(crate) fn table<T: IntoBytes + Immutable>(entries: impl IntoIterator<Item = T>) -> Vec<u8> {
    entries.into_iter().flat_map(|entry| Vec::from(entry.as_bytes())).collect()
}

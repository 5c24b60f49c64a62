//! What a boot loader handed over, in one form for both multiboot versions.

use abi::boot::{MAX_MODULES, MAX_RANGES, MemoryKind, MemoryRange, PhysRange};
use arrayvec::ArrayVec;

use crate::error::LoaderError;

/// A module where the boot loader put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundModule<'m> {
    /// Its bytes.
    pub data: PhysRange,
    /// Its command line.
    pub cmdline: &'m str,
}

/// Everything that a boot loader handed over. Nothing in it is trusted to be sorted or free of overlaps.
#[derive(Debug, Default)]
pub struct Found<'m> {
    /// The boot loader's name.
    pub loader_name: &'m str,
    /// The command line of the hypervisor.
    pub cmdline: &'m str,
    /// The firmware's memory map.
    pub memory: ArrayVec<MemoryRange, MAX_RANGES>,
    /// The modules, in order.
    pub modules: ArrayVec<FoundModule<'m>, MAX_MODULES>,
    /// The ACPI root pointer structure, if the boot loader passed a copy.
    pub rsdp: Option<&'m [u8]>,
}

impl<'m> Found<'m> {
    /// Notes a range of the firmware's memory map; `kind` is the number of the ACPI address-range type, which
    /// both multiboot versions use.
    pub(crate) fn add_memory(&mut self, range: PhysRange, kind: u32) -> Result<(), LoaderError> {
        let kind = match kind {
            k if k == MemoryKind::Usable as u32 => MemoryKind::Usable,
            k if k == MemoryKind::AcpiReclaimable as u32 => MemoryKind::AcpiReclaimable,
            k if k == MemoryKind::AcpiNvs as u32 => MemoryKind::AcpiNvs,
            k if k == MemoryKind::Bad as u32 => MemoryKind::Bad,
            _ => MemoryKind::Reserved,
        };
        self.memory.try_push(MemoryRange { range, kind, reserved: 0 }).map_err(|_| LoaderError::TooManyRanges)
    }

    /// Notes a module of bytes `start..end`.
    pub(crate) fn add_module(&mut self, start: u32, end: u32, cmdline: &'m str) -> Result<(), LoaderError> {
        let len = end.checked_sub(start).ok_or(LoaderError::BadModule { start, end })?;
        let data = PhysRange { start: start.into(), len: len.into() };
        self.modules.try_push(FoundModule { data, cmdline }).map_err(|_| LoaderError::TooManyModules)
    }
}

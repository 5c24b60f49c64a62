//! Where kernel, initrd and the structures of the boot protocol go. The structures lie at fixed places in
//! conventional memory, below everything that a kernel or an initrd may take.

use super::boot_params::BootParams;
use super::error::LinuxError;
use super::header::Header;
use super::page_tables;
use crate::memory_map::{EBDA, MemoryMap};
use x86defs::addr::{Gpa, PAGE_SIZE};

/// Global descriptor table.
pub(super) const GDT: Gpa = Gpa(0x1000);
/// The stack grows down from here; the kernel soon uses its own.
pub(super) const STACK_TOP: Gpa = Gpa(0x7000);
/// The zero page.
pub(super) const BOOT_PARAMS: Gpa = STACK_TOP;
/// Page tables.
pub(super) const PAGE_TABLES: Gpa = BOOT_PARAMS.offset(size_of::<BootParams>() as u64);
/// The command line.
pub(super) const CMDLINE: Gpa = Gpa(0x2_0000);
/// Room for the command line with its terminator.
const CMDLINE_ROOM: u32 = 0x1_0000;

const _: () =
    assert!(PAGE_TABLES.0 + page_tables::SIZE <= CMDLINE.0 && PAGE_TABLES.0.is_multiple_of(PAGE_SIZE));
const _: () = assert!(CMDLINE.0 + CMDLINE_ROOM as u64 <= EBDA.0);

/// A placed RAM disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) at: Gpa,
    pub(super) len: u64,
}

/// Where the large parts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) kernel: Gpa,
    pub(super) initrd: Option<Placed>,
}

impl Layout {
    /// Places everything, or says what does not fit.
    pub(super) fn new(
        header: &Header<'_>,
        map: &MemoryMap,
        initrd_len: Option<u64>,
        cmdline_len: usize,
    ) -> Result<Self, LinuxError> {
        let limit = header.cmdline_size().min(CMDLINE_ROOM - 1) as usize;
        if cmdline_len > limit {
            return Err(LinuxError::CmdlineTooLong { len: cmdline_len, limit });
        }
        let kernel = header.load_address()?;
        let end = kernel.saturating_add(header.init_size());
        if end > map.low_end().0 {
            return Err(LinuxError::KernelDoesNotFit { start: kernel, end, ram_end: map.low_end() });
        }
        let initrd =
            initrd_len.filter(|len| *len > 0).map(|len| place_initrd(header, map, end, len)).transpose()?;
        Ok(Self { kernel: Gpa(kernel), initrd })
    }
}

/// As high as permitted, so that the kernel keeps room to grow into.
fn place_initrd(
    header: &Header<'_>,
    map: &MemoryMap,
    kernel_end: u64,
    len: u64,
) -> Result<Placed, LinuxError> {
    let floor = kernel_end.next_multiple_of(PAGE_SIZE);
    let ceiling = Gpa(header.initrd_end()).min(map.low_end()).page();
    let room = ceiling.0.saturating_sub(floor);
    if len > room {
        return Err(LinuxError::InitrdDoesNotFit { len, room });
    }
    Ok(Placed { at: Gpa(ceiling.0 - len).page(), len })
}

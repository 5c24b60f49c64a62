//! Kernels that are no ELF files, or say where they go beside it: the address fields of a multiboot header
//! (Multiboot 0.6.96, 3.1.3; Multiboot 2, 3.1.5), which loads one piece of the file to one place.

use super::{Image, ImageError, Segment};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The fields, in the order of both headers. All are physical addresses.
#[allow(missing_docs, reason = "fields carry the names that the specification defines")]
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
pub struct AddressFields {
    pub header_addr: U32,
    pub load_addr: U32,
    pub load_end_addr: U32,
    pub bss_end_addr: U32,
}

/// `load_addr` in a multiboot 2 header: the file is loaded from its first byte on.
pub const WHOLE_FILE: u32 = u32::MAX;

impl AddressFields {
    /// What the fields say to load from a file of `len` bytes whose header lies at this offset.
    pub fn image(&self, len: usize, header: usize, entry: u32) -> Result<Image, ImageError> {
        let header_addr = u64::from(self.header_addr.get());
        let file_start = match self.load_addr.get() {
            WHOLE_FILE => 0,
            load => offset_of(load, header_addr, header)?,
        };
        let start = (header_addr + file_start as u64).checked_sub(header as u64).ok_or(
            ImageError::AddressFields {
                what: "header_addr leaves no room below",
                value: self.header_addr.get(),
            },
        )?;
        let file_end = match self.load_end_addr.get() {
            0 => len,
            end => self.file_end(end, start, file_start, len)?,
        };
        let loaded = (file_end - file_start) as u64;
        let memory = match self.bss_end_addr.get() {
            0 => loaded,
            end => u64::from(end).checked_sub(start).filter(|memory| *memory >= loaded).ok_or(
                ImageError::AddressFields { what: "bss_end_addr is below the end of the data", value: end },
            )?,
        };
        let segment = Segment { start, memory, file: file_start..file_end, linear: start };
        if memory == 0 {
            return Err(ImageError::NoSegment);
        }
        Image { segments: alloc::vec![segment], entry: entry.into() }.with_entry_inside()
    }

    /// Where loading ends in the file.
    fn file_end(&self, end: u32, start: u64, file_start: usize, len: usize) -> Result<usize, ImageError> {
        let loaded = u64::from(end)
            .checked_sub(start)
            .ok_or(ImageError::AddressFields { what: "load_end_addr is below load_addr", value: end })?;
        let need = file_start as u64 + loaded;
        if need > len as u64 {
            return Err(ImageError::Truncated { need, have: len as u64 });
        }
        Ok(need as usize)
    }
}

/// Where loading begins in the file: as far before the header as `load` is before the header in memory.
fn offset_of(load: u32, header_addr: u64, header: usize) -> Result<usize, ImageError> {
    let bad = |what| ImageError::AddressFields { what, value: load };
    let before = header_addr.checked_sub(load.into()).ok_or(bad("load_addr is above header_addr"))?;
    header.checked_sub(before as usize).ok_or(bad("load_addr is before the beginning of the file"))
}

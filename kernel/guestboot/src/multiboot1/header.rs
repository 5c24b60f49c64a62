//! The header in a kernel's file (Multiboot 0.6.96, 3.1).

use super::Multiboot1Error;
use crate::image::address_fields::AddressFields;
use crate::image::elf::Elf;
use crate::image::{Image, ImageError};
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

/// `magic`.
const MAGIC: u32 = 0x1bad_b002;
/// The header lies within so many bytes from the beginning of the file.
const SEARCHED: usize = 8192;
/// On a border of so many bytes.
const ALIGNMENT: usize = 4;
/// Offset of the address fields; `entry_addr` follows them.
const ADDRESS_FIELDS: usize = 12;
/// `flags` that a boot loader has to know. We know page-aligned modules (bit 0), memory information (bit 1) and
/// the wish for a video mode (bit 2), which is a recommendation only.
const REQUIRED: u32 = 0xffff;
const KNOWN: u32 = 0b111;
/// `flags`: the address fields are valid.
const HAS_ADDRESSES: u32 = 1 << 16;

/// A valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    offset: usize,
    flags: u32,
}

impl Header {
    /// The first header in a file whose checksum is right.
    pub(crate) fn find(file: &[u8]) -> Option<Self> {
        let searched = &file[..file.len().min(SEARCHED)];
        (0..searched.len()).step_by(ALIGNMENT).find_map(|offset| {
            let ([magic, flags, checksum], _) = <[U32; 3]>::read_from_prefix(&searched[offset..]).ok()?;
            let sum = magic.get().wrapping_add(flags.get()).wrapping_add(checksum.get());
            (magic == MAGIC && sum == 0).then_some(Self { offset, flags: flags.get() })
        })
    }

    /// The kernel that the header describes.
    pub(crate) fn image(&self, file: &[u8]) -> Result<Image, Multiboot1Error> {
        let unknown = self.flags & REQUIRED & !KNOWN;
        if unknown != 0 {
            return Err(Multiboot1Error::Flags { unknown });
        }
        let image = if self.flags & HAS_ADDRESSES == 0 {
            Elf::parse(file).and_then(|elf| elf.image(None))
        } else {
            self.by_address_fields(file)
        };
        image.map_err(Multiboot1Error::Image)
    }

    fn by_address_fields(&self, file: &[u8]) -> Result<Image, ImageError> {
        let need = self.offset + ADDRESS_FIELDS + size_of::<(AddressFields, U32)>();
        let truncated = ImageError::Truncated { need: need as u64, have: file.len() as u64 };
        let (fields, rest) =
            AddressFields::read_from_prefix(&file[self.offset + ADDRESS_FIELDS..]).map_err(|_| truncated)?;
        let (entry, _) = U32::read_from_prefix(rest).map_err(|_| truncated)?;
        fields.image(file.len(), self.offset, entry.get())
    }
}

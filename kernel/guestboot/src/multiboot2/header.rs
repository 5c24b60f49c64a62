//! The header in a kernel's file (Multiboot 2, 3.1).

use super::Multiboot2Error;
use super::tag;
use crate::image::address_fields::AddressFields;
use crate::image::elf::Elf;
use crate::image::{Image, ImageError};
use core::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// `magic`.
const MAGIC: u32 = 0xe852_50d6;
/// `architecture`: 32-bit protected mode of i386.
const I386: u32 = 0;
/// The header lies within so many bytes from the beginning of the file.
const SEARCHED: usize = 32768;
/// Header and tags lie on borders of so many bytes.
const ALIGNMENT: usize = 8;
/// Magic, architecture, length and checksum; the tags follow.
const FIXED: usize = 16;
/// `flags` of a tag: a boot loader need not know it.
const OPTIONAL: u16 = 1 << 0;

/// `type` of a header tag.
mod kind {
    pub(super) const END: u16 = 0;
    pub(super) const INFORMATION_REQUEST: u16 = 1;
    pub(super) const ADDRESS: u16 = 2;
    pub(super) const ENTRY_ADDRESS: u16 = 3;
    pub(super) const CONSOLE_FLAGS: u16 = 4;
    pub(super) const MODULE_ALIGNMENT: u16 = 6;
    pub(super) const EFI_BOOT_SERVICES: u16 = 7;
    pub(super) const EFI_I386_ENTRY: u16 = 8;
    pub(super) const EFI_AMD64_ENTRY: u16 = 9;
    pub(super) const RELOCATABLE: u16 = 10;
}

/// What every tag begins with.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
struct TagHeader {
    kind: U16,
    flags: U16,
    size: U32,
}

/// Where a kernel can be: the content of its relocatable tag (3.1.14).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, KnownLayout, Unaligned)]
pub(crate) struct Relocatable {
    min_addr: U32,
    max_addr: U32,
    align: U32,
    preference: U32,
}

/// `preference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preference {
    /// None: where it is linked, if that is possible.
    Link,
    /// The lowest possible address.
    Lowest,
    /// The highest possible address.
    Highest,
}

impl Relocatable {
    /// All memory that the kernel may take.
    pub(crate) fn window(&self) -> Range<u64> {
        self.min_addr.get().into()..u64::from(self.max_addr.get()) + 1
    }

    /// Its first address is a multiple of this power of two.
    pub(crate) fn align(&self) -> u64 {
        self.align.get().max(1).into()
    }

    /// Where in the window.
    pub(crate) fn preference(&self) -> Preference {
        match self.preference.get() {
            1 => Preference::Lowest,
            2 => Preference::Highest,
            _ => Preference::Link,
        }
    }
}

/// A valid header: where it lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    offset: usize,
    architecture: u32,
    length: u32,
}

/// What a header's tags ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requests {
    addresses: Option<AddressFields>,
    entry: Option<u32>,
    pub(crate) relocatable: Option<Relocatable>,
}

impl Header {
    /// The first header in a file whose checksum is right.
    pub(crate) fn find(file: &[u8]) -> Option<Self> {
        let searched = &file[..file.len().min(SEARCHED)];
        (0..searched.len()).step_by(ALIGNMENT).find_map(|offset| {
            let (words, _) = <[U32; FIXED / 4]>::read_from_prefix(&searched[offset..]).ok()?;
            let [magic, architecture, length, _] = words.map(U32::get);
            let sum = words.iter().fold(0, |sum: u32, word| sum.wrapping_add(word.get()));
            (magic == MAGIC && sum == 0).then_some(Self { offset, architecture, length })
        })
    }

    /// What its tags ask for.
    pub(crate) fn requests(&self, file: &[u8]) -> Result<Requests, Multiboot2Error> {
        if self.architecture != I386 {
            return Err(Multiboot2Error::Architecture { architecture: self.architecture });
        }
        let need = self.offset as u64 + u64::from(self.length);
        let truncated = ImageError::Truncated { need, have: file.len() as u64 };
        let whole = file.get(self.offset..need as usize).ok_or(Multiboot2Error::Image(truncated))?;
        let mut rest = whole.get(FIXED..).unwrap_or(&[]);
        let mut requests = Requests::default();
        while let Ok((header, _)) = TagHeader::read_from_prefix(rest) {
            let kind = header.kind.get();
            if kind == kind::END {
                break;
            }
            let size = header.size.get() as usize;
            let body = rest.get(size_of::<TagHeader>()..size).ok_or(Multiboot2Error::Tag { kind })?;
            requests.add(kind, header.flags.get() & OPTIONAL != 0, body)?;
            rest = rest.get(size.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        }
        Ok(requests)
    }

    /// The kernel, at its linked address.
    pub(crate) fn image(&self, file: &[u8], requests: &Requests) -> Result<Image, Multiboot2Error> {
        let entry = requests.entry;
        let image = match (&requests.addresses, entry) {
            (Some(fields), Some(entry)) => fields.image(file.len(), self.offset, entry),
            (Some(_), None) => return Err(Multiboot2Error::NoEntry),
            (None, entry) => Elf::parse(file).and_then(|elf| elf.image(entry.map(u64::from))),
        };
        image.map_err(Multiboot2Error::Image)
    }
}

impl Requests {
    fn add(&mut self, kind: u16, optional: bool, body: &[u8]) -> Result<(), Multiboot2Error> {
        match kind {
            kind::ADDRESS => self.addresses = Some(read(kind, body)?),
            kind::ENTRY_ADDRESS => self.entry = Some(read::<U32>(kind, body)?.get()),
            kind::RELOCATABLE => {
                let tag: Relocatable = read(kind, body)?;
                if !tag.align().is_power_of_two() {
                    return Err(Multiboot2Error::Tag { kind });
                }
                self.relocatable = Some(tag);
            }
            kind::INFORMATION_REQUEST if !optional => check_information(kind, body)?,
            // There is a text console, modules are aligned in any case, and there is no EFI to enter by.
            kind::INFORMATION_REQUEST
            | kind::CONSOLE_FLAGS
            | kind::MODULE_ALIGNMENT
            | kind::EFI_BOOT_SERVICES
            | kind::EFI_I386_ENTRY
            | kind::EFI_AMD64_ENTRY => {}
            _ if optional => {}
            _ => return Err(Multiboot2Error::UnsupportedTag { kind }),
        }
        Ok(())
    }
}

/// All tags that the kernel cannot do without must be among ours.
fn check_information(kind: u16, body: &[u8]) -> Result<(), Multiboot2Error> {
    let (wanted, rest) = body.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Multiboot2Error::Tag { kind });
    }
    let mut wanted = wanted.iter().map(|bytes| u32::from_le_bytes(*bytes));
    match wanted.find(|kind| !tag::OFFERED.contains(kind)) {
        Some(kind) => Err(Multiboot2Error::Information { kind }),
        None => Ok(()),
    }
}

fn read<T: FromBytes>(kind: u16, body: &[u8]) -> Result<T, Multiboot2Error> {
    T::read_from_prefix(body).map(|(value, _)| value).map_err(|_| Multiboot2Error::Tag { kind })
}

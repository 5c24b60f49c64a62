//! What kind of kernel a file holds, told by its content.
//!
//! A file can speak several protocols. The first of [`KernelFormat`]'s order that it speaks is used: Linux's own
//! before any other, and then the one that tells a kernel most about its machine.

use crate::image::elf;
use crate::linux::header::has_magic;
use crate::{multiboot1, multiboot2, pvh};
use core::fmt;

/// A boot protocol that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFormat {
    /// Linux/x86 boot protocol.
    LinuxBzImage,
    /// Multiboot 2.
    Multiboot2,
    /// Multiboot 0.6.96.
    Multiboot1,
    /// An ELF file with a PVH entry point.
    Pvh,
}

/// The file is no kernel that we can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    /// Length of the file.
    pub len: usize,
    /// Whether it is an ELF file at least.
    pub elf: bool,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { len, elf } = self;
        if *elf {
            return write!(
                f,
                "the kernel ({len} bytes) is an ELF file of no known boot protocol: \
                 expected a multiboot header near its beginning or a PVH note"
            );
        }
        write!(
            f,
            "the kernel ({len} bytes) is of no known format: \
             expected a Linux bzImage, a multiboot 1 or 2 kernel, or an ELF file with a PVH note"
        )
    }
}

impl core::error::Error for UnknownFormat {}

/// Looks for the marks of every known format.
pub fn detect(file: &[u8]) -> Result<KernelFormat, UnknownFormat> {
    if has_magic(file) {
        Ok(KernelFormat::LinuxBzImage)
    } else if multiboot2::header::Header::find(file).is_some() {
        Ok(KernelFormat::Multiboot2)
    } else if multiboot1::header::Header::find(file).is_some() {
        Ok(KernelFormat::Multiboot1)
    } else if pvh::has_note(file) {
        Ok(KernelFormat::Pvh)
    } else {
        Err(UnknownFormat { len: file.len(), elf: elf::has_magic(file) })
    }
}

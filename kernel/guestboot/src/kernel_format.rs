//! What kind of kernel a file holds, told by its content.

use crate::linux::header::has_magic;
use core::fmt;

/// A boot protocol that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFormat {
    /// Linux/x86 boot protocol.
    LinuxBzImage,
}

/// The file is no kernel that we can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat {
    /// Length of the file.
    pub len: usize,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel ({} bytes) is of no known format: expected a Linux bzImage", self.len)
    }
}

impl core::error::Error for UnknownFormat {}

/// Looks at the magic numbers of every known format.
pub fn detect(file: &[u8]) -> Result<KernelFormat, UnknownFormat> {
    if has_magic(file) { Ok(KernelFormat::LinuxBzImage) } else { Err(UnknownFormat { len: file.len() }) }
}

//! Why a Linux kernel cannot be started.

use crate::size::Size;
use core::fmt;
use x86defs::addr::Gpa;

/// Why a Linux kernel cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinuxError {
    /// The file is shorter than its own header says.
    Truncated {
        /// Bytes that the header asks for.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// The boot protocol is older than 2.02.
    TooOld {
        /// Its version, major number in the high byte.
        version: u16,
    },
    /// A zImage, which lies below 640 KiB.
    NotHigh,
    /// A field of the setup header makes no sense.
    BadField {
        /// Its name in the boot protocol.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The memory that the kernel needs until it manages memory itself is not there.
    KernelDoesNotFit {
        /// First address that it needs.
        start: u64,
        /// One past the last.
        end: u64,
        /// One past the last RAM below 4 GiB.
        ram_end: Gpa,
    },
    /// The initial RAM disk does not fit beside the kernel.
    InitrdDoesNotFit {
        /// Its length.
        len: u64,
        /// The longest that fits.
        room: u64,
    },
    /// The command line is longer than this kernel reads.
    CmdlineTooLong {
        /// Its length.
        len: usize,
        /// The longest that the kernel reads.
        limit: usize,
    },
}

impl fmt::Display for LinuxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { need, have } => {
                write!(
                    f,
                    "the Linux kernel is truncated: its header asks for {need} bytes, the file has {have}"
                )
            }
            Self::TooOld { version } => write!(
                f,
                "the Linux kernel speaks boot protocol {}.{:02}: expected 2.02 (Linux 2.4) or later",
                version >> 8,
                version & 0xff
            ),
            Self::NotHigh => {
                f.write_str("the Linux kernel is a zImage: expected a bzImage, which is loaded above 1 MiB")
            }
            Self::BadField { field, value } => {
                write!(f, "the Linux kernel's header is damaged: {field} is {value:#x}")
            }
            Self::KernelDoesNotFit { start, end, ram_end } => write!(
                f,
                "the Linux kernel does not fit: it needs memory from {start:#x} to {end:#x}, \
                 the virtual machine's ends at {ram_end}; give it more memory"
            ),
            Self::InitrdDoesNotFit { len, room } => write!(
                f,
                "the initrd does not fit: it has {}, beside the kernel there is room for {}; \
                 give the virtual machine more memory",
                Size(len),
                Size(room)
            ),
            Self::CmdlineTooLong { len, limit } => {
                write!(f, "the command line has {len} bytes: this Linux kernel reads at most {limit}")
            }
        }
    }
}

impl core::error::Error for LinuxError {}

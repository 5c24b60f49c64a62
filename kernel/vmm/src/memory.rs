//! Guest memory by guest physical address. There is never a slice into it: other virtual CPUs write it
//! while we look.

use core::fmt;
use x86defs::addr::Gpa;

/// Width of a single access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    Byte = 1,
    /// 16 bits.
    Word = 2,
    /// 32 bits.
    Dword = 4,
    /// 64 bits.
    Qword = 8,
}

impl Width {
    /// The width with this many bytes.
    pub const fn from_bytes(bytes: usize) -> Option<Width> {
        match bytes {
            1 => Some(Width::Byte),
            2 => Some(Width::Word),
            4 => Some(Width::Dword),
            8 => Some(Width::Qword),
            _ => None,
        }
    }
    /// Number of bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }
    /// Number of bits.
    pub const fn bits(self) -> u32 {
        8 * self as u32
    }
    /// All ones in this width.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self as u32)
    }
}

/// An access to guest physical addresses that are not RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRam(pub Gpa);

impl fmt::Display for NotRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guest physical address {} is not RAM", self.0)
    }
}

impl core::error::Error for NotRam {}

/// RAM and ROM of a virtual machine.
pub trait GuestMemory: Sync {
    /// Copies bytes out. Fails as a whole before copying if any byte is not RAM or ROM.
    fn read(&self, at: Gpa, into: &mut [u8]) -> Result<(), NotRam>;
    /// Copies bytes in; bytes for ROM are dropped. Fails as a whole before copying if any byte is neither.
    fn write(&self, at: Gpa, from: &[u8]) -> Result<(), NotRam>;
    /// One atomic load (acquire). `at` is naturally aligned, else [`NotRam`].
    fn load(&self, at: Gpa, width: Width) -> Result<u64, NotRam>;
    /// One atomic store (release). `at` is naturally aligned, else [`NotRam`].
    fn store(&self, at: Gpa, width: Width, value: u64) -> Result<(), NotRam>;
    /// One atomic compare-and-exchange (sequentially consistent): `Ok(Ok(old))` if it stored, `Ok(Err(seen))`
    /// if it did not. `at` is naturally aligned, else [`NotRam`].
    fn compare_exchange(
        &self,
        at: Gpa,
        width: Width,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, NotRam>;
}

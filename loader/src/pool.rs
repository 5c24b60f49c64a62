//! Memory of the loader's own for what must survive the boot loader's structures.

use abi::boot::PhysRange;

use crate::error::LoaderError;

/// Bytes for all command lines, the boot loader's name and the ACPI root pointer together.
pub const POOL_SIZE: usize = 16 * 1024;
/// Copies begin at multiples of this, enough for any field of the ACPI root pointer.
const ALIGN: usize = 16;

/// Copies of byte strings at fixed addresses. The loader runs identity-mapped, so the address of a byte is its
/// physical address.
#[repr(C, align(16))]
pub struct Pool {
    bytes: [u8; POOL_SIZE],
    used: usize,
}

impl Pool {
    /// An empty one.
    pub const fn new() -> Self {
        Self { bytes: [0; POOL_SIZE], used: 0 }
    }

    /// Copies `source` and says where it went. The pool must not move afterwards.
    pub fn keep(&mut self, source: &[u8]) -> Result<PhysRange, LoaderError> {
        let room = &mut self.bytes[self.used..];
        if source.len() > room.len() {
            return Err(LoaderError::TooMuchText { wanted: source.len() });
        }
        room[..source.len()].copy_from_slice(source);
        let kept = PhysRange { start: room.as_ptr() as u64, len: source.len() as u64 };
        self.used = (self.used + source.len()).next_multiple_of(ALIGN).min(POOL_SIZE);
        Ok(kept)
    }

    /// What was kept there.
    #[cfg(test)]
    pub(crate) fn kept(&self, range: PhysRange) -> Option<&[u8]> {
        let at = range.start.checked_sub(self.bytes.as_ptr() as u64)? as usize;
        self.bytes.get(at..at + range.len as usize)
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_do_not_touch_each_other() {
        let mut pool = Pool::new();
        let base = pool.bytes.as_ptr() as u64;
        assert_eq!(pool.keep(b"first").unwrap(), PhysRange { start: base, len: 5 });
        assert_eq!(pool.keep(b"second").unwrap(), PhysRange { start: base + 16, len: 6 });
        assert_eq!(&pool.bytes[..22], b"first\0\0\0\0\0\0\0\0\0\0\0second");
    }

    #[test]
    fn a_full_pool_refuses() {
        let mut pool = Pool::new();
        pool.keep(&[1; POOL_SIZE - 3]).unwrap();
        pool.keep(&[]).unwrap();
        assert!(matches!(pool.keep(&[2]), Err(LoaderError::TooMuchText { wanted: 1 })));
    }
}

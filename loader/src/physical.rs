//! Physical memory as the boot loader left it.

use abi::boot::PhysRange;

/// Longest string that is read from physical memory, in bytes.
pub const MAX_STRING: u64 = 16 * 1024;

/// Read access to physical memory.
pub trait PhysicalMemory {
    /// The bytes of a range, or nothing if any of them cannot be read.
    fn bytes(&self, range: PhysRange) -> Option<&[u8]>;

    /// The bytes from `start` up to a zero byte, or nothing if none follows within [`MAX_STRING`] bytes.
    fn zero_terminated(&self, start: u64) -> Option<&[u8]> {
        for len in 0..MAX_STRING {
            let byte = self.bytes(PhysRange { start: start.checked_add(len)?, len: 1 })?;
            if byte == [0] {
                return self.bytes(PhysRange { start, len });
            }
        }
        None
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::*;
    use std::vec::Vec;

    /// Memory that exists from `base` on.
    pub(crate) struct Fake {
        pub(crate) base: u64,
        pub(crate) content: Vec<u8>,
    }

    impl Fake {
        pub(crate) fn new(base: u64, len: usize) -> Self {
            Self { base, content: std::vec![0; len] }
        }

        pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
            let at = (at - self.base) as usize;
            self.content[at..at + bytes.len()].copy_from_slice(bytes);
        }

        pub(crate) fn put_words(&mut self, at: u64, words: &[u32]) {
            for (i, word) in words.iter().enumerate() {
                self.put(at + 4 * i as u64, &word.to_le_bytes());
            }
        }
    }

    impl PhysicalMemory for Fake {
        fn bytes(&self, range: PhysRange) -> Option<&[u8]> {
            let start = usize::try_from(range.start.checked_sub(self.base)?).ok()?;
            self.content.get(start..start.checked_add(usize::try_from(range.len).ok()?)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;

    #[test]
    fn a_string_ends_at_its_zero_byte() {
        let mut memory = Fake::new(0x1000, 16);
        memory.put(0x1003, b"abc");
        assert_eq!(memory.zero_terminated(0x1003), Some(&b"abc"[..]));
        assert_eq!(memory.zero_terminated(0x1006), Some(&b""[..]));
    }

    #[test]
    fn a_string_without_end_is_refused() {
        let memory = Fake { base: 0, content: std::vec![b'x'; MAX_STRING as usize + 1] };
        assert_eq!(memory.zero_terminated(0), None);
        assert_eq!(memory.zero_terminated(MAX_STRING - 1), None, "runs off the end of memory");
        assert_eq!(memory.zero_terminated(u64::MAX), None);
    }
}

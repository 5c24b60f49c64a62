//! A FIFO of sixteen bytes, as a 16550A and a keyboard have it.

/// How many bytes it holds.
pub(crate) const FIFO_SIZE: usize = 16;

/// Up to sixteen bytes in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fifo {
    bytes: [u8; FIFO_SIZE],
    first: usize,
    len: usize,
}

impl Fifo {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a byte; one too many is dropped.
    pub(crate) fn push(&mut self, byte: u8) {
        if self.len < FIFO_SIZE {
            self.bytes[(self.first + self.len) % FIFO_SIZE] = byte;
            self.len += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        let byte = self.bytes[self.first];
        self.first = (self.first + 1) % FIFO_SIZE;
        self.len -= 1;
        Some(byte)
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}

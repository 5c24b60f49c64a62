//! Helpers for tests: deterministic chance, and a guest without manners.

use crate::effects::{Device, Nanos};

/// Marsaglia's xorshift64.
pub(crate) struct XorShift(u64);

impl XorShift {
    pub(crate) fn new(seed: u64) -> XorShift {
        XorShift(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// One of the widths of an access.
    pub(crate) fn width(&mut self) -> u8 {
        1 << self.below(3)
    }
}

/// Reads and writes anything anywhere at any time, mostly near the registers, and calls `check` in between.
pub(crate) fn hammer<D: Device>(
    device: &mut D,
    ports: u16,
    mut check: impl FnMut(&mut D, &mut XorShift, Nanos),
) {
    let mut random = XorShift::new(42);
    let mut now = 0u64;
    for _ in 0..200_000 {
        now = match random.below(1000) {
            0 => random.next(),
            1 => u64::MAX,
            2..100 => now.saturating_add(random.below(2_000_000_000)),
            _ => now.saturating_add(random.below(10_000)),
        };
        let time = Nanos(now);
        let offset = match random.below(50) {
            0 => random.next() as u16,
            _ => random.below(u64::from(ports) + 1) as u16,
        };
        match random.below(5) {
            0 | 1 => drop(device.read(offset, random.width(), time)),
            2 | 3 => drop(device.write(offset, random.width(), random.next() as u32, time)),
            _ => drop(device.tick(time)),
        }
        check(device, &mut random, time);
    }
}

/// Beyond the registers there is nothing: all ones, no effect.
pub(crate) fn assert_nothing_beyond<D: Device>(device: &mut D, ports: u16) {
    for offset in [ports, ports + 1, 0x8000, u16::MAX] {
        for width in [1, 2, 4] {
            let (value, effects) = device.read(offset, width, Nanos(0));
            assert_eq!((value, effects), (u32::MAX, crate::effects::Effects::NONE), "offset {offset:#x}");
            let effects = device.write(offset, width, u32::MAX, Nanos(0));
            assert_eq!(effects, crate::effects::Effects::NONE, "offset {offset:#x}");
        }
    }
}

//! The paravirtual clock that Linux knows from KVM (Linux, Documentation/virt/kvm/x86/msr.rst): the guest names
//! two places in its memory by MSR, and we write there how TSC ticks become time.

use crate::memory::{GuestMemory, NotRam, Width};
use core::sync::atomic::{Ordering, fence};
use x86defs::addr::Gpa;
use x86defs::msr::SystemTime;

/// Offsets in the structure for one virtual CPU, of 32 bytes.
mod time_info {
    pub(super) const BYTES: usize = 32;
    pub(super) const TSC_TIMESTAMP: usize = 8;
    pub(super) const SYSTEM_TIME: usize = 16;
    pub(super) const TSC_TO_SYSTEM_MUL: usize = 24;
    pub(super) const TSC_SHIFT: usize = 28;
    pub(super) const FLAGS: usize = 29;
    /// Flag: all virtual CPUs see one monotonic clock.
    pub(super) const TSC_STABLE: u8 = 1 << 0;
}

/// Offsets in the structure with the wall-clock time at which system time was zero, of 12 bytes.
mod wall_clock {
    pub(super) const BYTES: usize = 12;
    pub(super) const SECONDS: usize = 4;
    pub(super) const NANOSECONDS: usize = 8;
}

/// Both structures start with a version, which is odd while they change.
const VERSION_BYTES: usize = 4;
const NANOS_PER_MILLI: u128 = 1_000_000;

/// A point of time, since 1970 in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnixTime {
    /// Seconds.
    pub seconds: u32,
    /// And nanoseconds.
    pub nanoseconds: u32,
}

/// Nanoseconds are `(ticks * 2^shift) * multiplier / 2^32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale {
    multiplier: u32,
    shift: i8,
}

impl Scale {
    /// The smallest shift, hence the largest multiplier that fits 32 bits and the smallest error.
    fn new(tsc_khz: u64) -> Self {
        const SHIFTS: core::ops::RangeInclusive<i8> = -31..=31;
        let khz = u128::from(tsc_khz.max(1));
        let multiplier = |shift: i8| {
            let scaled = NANOS_PER_MILLI << (32 - i32::from(shift));
            u32::try_from((scaled + khz / 2) / khz).ok()
        };
        let mut fitting = SHIFTS.filter_map(|shift| Some(Scale { multiplier: multiplier(shift)?, shift }));
        fitting.next().unwrap_or(Scale { multiplier: u32::MAX, shift: 31 })
    }
}

/// The clock of one virtual CPU. System time counts from the start of the virtual machine.
#[derive(Clone, Debug)]
pub struct KvmClock {
    scale: Scale,
    /// The guest's TSC at system time zero.
    origin: u64,
    start: UnixTime,
    wall_clock: u64,
    system_time: u64,
    version: u32,
}

impl KvmClock {
    /// The clock of a virtual machine whose TSC read zero at `start`.
    pub fn new(tsc_khz: u64, start: UnixTime) -> Self {
        let scale = Scale::new(tsc_khz);
        Self { scale, origin: 0, start, wall_clock: 0, system_time: 0, version: 0 }
    }

    /// Reads KVM_WALL_CLOCK_NEW.
    pub fn wall_clock(&self) -> u64 {
        self.wall_clock
    }

    /// Reads KVM_SYSTEM_TIME_NEW.
    pub fn system_time(&self) -> u64 {
        self.system_time
    }

    /// Writes KVM_WALL_CLOCK_NEW: the time of day at the start goes to this address.
    pub fn set_wall_clock(&mut self, value: u64, memory: &dyn GuestMemory) -> Result<(), NotRam> {
        let mut bytes = [0; wall_clock::BYTES];
        put(&mut bytes, wall_clock::SECONDS, &self.start.seconds.to_le_bytes());
        put(&mut bytes, wall_clock::NANOSECONDS, &self.start.nanoseconds.to_le_bytes());
        self.publish(Gpa(value), &bytes, memory)?;
        self.wall_clock = value;
        Ok(())
    }

    /// Writes KVM_SYSTEM_TIME_NEW: what this CPU's TSC means goes to this address, from now on if bit 0 is set.
    pub fn set_system_time(&mut self, value: u64, memory: &dyn GuestMemory) -> Result<(), NotRam> {
        if value & SystemTime::ENABLE.bits() != 0 {
            self.publish_time_info(value, memory)?;
        }
        self.system_time = value;
        Ok(())
    }

    /// The guest has set its TSC forward by `delta` (modulo 2^64); time goes on. Memory that is no longer
    /// there ends the service.
    pub fn tsc_moved(&mut self, delta: u64, memory: &dyn GuestMemory) {
        self.origin = self.origin.wrapping_add(delta);
        let enabled = self.system_time & SystemTime::ENABLE.bits() != 0;
        if enabled && self.publish_time_info(self.system_time, memory).is_err() {
            self.system_time &= !SystemTime::ENABLE.bits();
        }
    }

    fn publish_time_info(&mut self, msr: u64, memory: &dyn GuestMemory) -> Result<(), NotRam> {
        let mut bytes = [0; time_info::BYTES];
        put(&mut bytes, time_info::TSC_TIMESTAMP, &self.origin.to_le_bytes());
        put(&mut bytes, time_info::SYSTEM_TIME, &0u64.to_le_bytes());
        put(&mut bytes, time_info::TSC_TO_SYSTEM_MUL, &self.scale.multiplier.to_le_bytes());
        put(&mut bytes, time_info::TSC_SHIFT, &self.scale.shift.to_le_bytes());
        put(&mut bytes, time_info::FLAGS, &[time_info::TSC_STABLE]);
        self.publish(Gpa(msr & !SystemTime::ENABLE.bits()), &bytes, memory)
    }

    /// Writes a structure under its version. The first write checks the address.
    fn publish(&mut self, at: Gpa, bytes: &[u8], memory: &dyn GuestMemory) -> Result<(), NotRam> {
        let mut probe = [0; time_info::BYTES];
        memory.read(at, &mut probe[..bytes.len()])?;
        memory.store(at, Width::Dword, self.version.wrapping_add(1).into())?;
        fence(Ordering::Release);
        memory.write(at.offset(VERSION_BYTES as u64), &bytes[VERSION_BYTES..])?;
        self.version = self.version.wrapping_add(2);
        memory.store(at, Width::Dword, self.version.into())
    }
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::VecMemory;

    /// The time that a guest computes from a structure.
    fn guest_time(bytes: &[u8; 32], tsc: u64) -> u64 {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let delta = tsc.wrapping_sub(long(8));
        let shift = bytes[28] as i8;
        let shifted = if shift < 0 { delta >> -shift } else { delta << shift };
        long(16) + ((u128::from(shifted) * u128::from(word(24))) >> 32) as u64
    }

    #[test]
    fn nanoseconds_are_right_to_a_millionth_at_any_frequency() {
        for khz in
            [1, 999, 100_000, 999_999, 1_000_000, 1_000_001, 2_000_000, 2_899_998, 5_800_000, 40_000_000]
        {
            let scale = Scale::new(khz);
            assert!(scale.multiplier >= 1 << 31, "{khz} kHz: full precision");
            let ticks = khz * 1000 * 3600;
            let shifted = match scale.shift {
                s @ ..0 => ticks >> -s,
                s => ticks << s,
            };
            let nanos = (u128::from(shifted) * u128::from(scale.multiplier)) >> 32;
            let hour = 3_600_000_000_000u128;
            assert!(nanos.abs_diff(hour) * 1_000_000 < hour, "{khz} kHz: {nanos} ns an hour");
        }
    }

    fn structure(memory: &VecMemory, at: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        memory.read(Gpa(at), &mut bytes).expect("RAM");
        bytes
    }

    #[test]
    fn a_guest_reads_the_time_since_the_start() {
        let memory = VecMemory::new(0x2000);
        let mut clock = KvmClock::new(3_000_000, UnixTime::default());
        clock.set_system_time(0x1000 | 1, &memory).expect("RAM");
        let bytes = structure(&memory, 0x1000);
        assert_eq!((bytes[0], bytes[29]), (2, 1), "version is even, TSC_STABLE is set");
        assert!(guest_time(&bytes, 3_000_000_000).abs_diff(1_000_000_000) < 10);
        assert_eq!(clock.system_time(), 0x1001);
    }

    #[test]
    fn time_goes_on_when_the_tsc_jumps() {
        let memory = VecMemory::new(0x2000);
        let mut clock = KvmClock::new(1_000_000, UnixTime::default());
        clock.set_system_time(1, &memory).expect("RAM");
        clock.tsc_moved(0u64.wrapping_sub(5_000), &memory);
        let bytes = structure(&memory, 0);
        assert_eq!((guest_time(&bytes, 1_000), bytes[0]), (6_000, 4));
    }

    #[test]
    fn wall_clock_tells_the_start() {
        let memory = VecMemory::new(0x1000);
        let start = UnixTime { seconds: 1_700_000_000, nanoseconds: 123_456_789 };
        let mut clock = KvmClock::new(1_000_000, start);
        clock.set_wall_clock(0x100, &memory).expect("RAM");
        let word = |at| memory.peek(at, Width::Dword);
        assert_eq!((word(0x100), word(0x104), word(0x108)), (2, 1_700_000_000, 123_456_789));
        assert_eq!(clock.wall_clock(), 0x100);
    }

    #[test]
    fn addresses_that_are_no_ram_or_not_aligned_are_refused_and_forgotten() {
        let memory = VecMemory::new(0x1000);
        let mut clock = KvmClock::new(1_000_000, UnixTime::default());
        for address in [0x1000, 0xff0, 0xffff_ffff_ffff_fff0, 0x102] {
            assert!(clock.set_system_time(address | 1, &memory).is_err(), "{address:#x}");
        }
        assert!(clock.set_wall_clock(0xffc, &memory).is_err());
        assert_eq!((clock.system_time(), clock.wall_clock()), (0, 0));
        assert_eq!(clock.set_system_time(0xffff_f000, &memory), Ok(()), "off: the address does not count");
        assert_eq!(memory.peek(0xff8, Width::Qword), 0);
    }
}

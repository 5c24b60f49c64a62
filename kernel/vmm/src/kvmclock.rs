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

//! MC146818A real-time clock with the PC's CMOS memory. Ports 0x70 (index) and 0x71 (data).
//!
//! The clock runs in UTC. Its day of the week follows from the date; a guest that sets another is ignored.
//! The time becomes the next second at once, at the end of a phase of 2,228 us in which the
//! update-in-progress bit is set.

mod alarm;
mod calendar;
mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use crate::clock::Frequency;
use crate::effects::{Deadline, Device, Effects, Nanos};
use calendar::{Calendar, SECONDS_PER_DAY, decode, decode_hour, encode, encode_hour};
use spec::{
    EQUIPMENT_FPU, INDEX_MASK, RegisterA, RegisterB, RegisterC, SIZE, UPDATE_IN_PROGRESS, VALID_RAM_AND_TIME,
    register,
};

/// Offset of the index port.
pub const INDEX: u16 = 0;
/// Offset of the data port.
pub const DATA: u16 = 1;
/// Number of ports.
pub const PORTS: u16 = 2;
/// Registers are bytes.
pub const MAX_WIDTH: u8 = 1;
/// The register that holds the century, for the FADT.
pub const CENTURY: u8 = register::CENTURY as u8;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The divider chain that the periodic interrupt taps.
const DIVIDER: Frequency = Frequency::from_hz(32_768);
/// The bit rises 244 us before an update cycle, which takes 1984 us.
const UPDATE_PHASE: u64 = (244 + 1984) * 1000;
/// "The first update cycle begins one-half second after the divider reset is removed."
const AFTER_DIVIDER_RESET: u64 = NANOS_PER_SECOND / 2;

/// How much memory firmware reports in CMOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySize {
    /// Bytes of RAM below 4 GiB.
    pub below_4g: u64,
    /// Bytes of RAM from 4 GiB on.
    pub above_4g: u64,
}

/// The time that a real clock shows, in seconds since 1970, from a function that reads its registers; `None`
/// if it never shows a steady time.
pub fn unix_time(mut read: impl FnMut(u8) -> u8) -> Option<u64> {
    const ATTEMPTS: usize = 1_000_000;
    const SHOWN: [usize; 7] = [
        register::SECONDS,
        register::MINUTES,
        register::HOURS,
        register::DAY,
        register::MONTH,
        register::YEAR,
        register::B,
    ];
    let mut snapshot = || {
        let updating = read(register::A as u8) & UPDATE_IN_PROGRESS != 0;
        (!updating).then(|| SHOWN.map(|index| read(index as u8)))
    };
    // Twice the same with no update between: no carry was under way.
    let steady = (0..ATTEMPTS).find_map(|_| snapshot().filter(|first| snapshot().as_ref() == Some(first)))?;
    let [second, minute, hour, day, month, year, mode] = steady;
    let mode = RegisterB::from_bits_retain(mode);
    let time = Calendar {
        year: 2000 + decode(year, mode),
        month: decode(month, mode),
        day: decode(day, mode),
        day_of_week: 0,
        hour: decode_hour(hour, mode),
        minute: decode(minute, mode),
        second: decode(second, mode),
    };
    Some(time.to_unix())
}

/// The clock and its memory.
#[derive(Clone, Debug)]
pub struct Rtc {
    index: u8,
    /// The top bit of the index port: it has nothing to do with the clock.
    nmi_masked: bool,
    /// All bytes that only store. Those of the time count while the clock is halted.
    cmos: [u8; SIZE],
    a: RegisterA,
    b: RegisterB,
    flags: RegisterC,
    /// Nanoseconds that the divider chain is ahead of the machine's time.
    phase: u64,
    /// Seconds since 1970 when the divider chain was at zero, modulo 2^64.
    base: u64,
    /// The divider chain when flags were last computed.
    checked: u64,
    /// Level of IRQ as last reported.
    irq: bool,
}

impl Rtc {
    /// A clock that shows `start`, in seconds since 1970 UTC, at time zero.
    pub fn new(start: u64, memory: MemorySize) -> Rtc {
        Rtc {
            index: 0,
            nmi_masked: false,
            cmos: firmware_bytes(memory),
            a: RegisterA::FIRMWARE,
            b: RegisterB::HOURS_24,
            flags: RegisterC::empty(),
            phase: 0,
            base: start,
            checked: 0,
            irq: false,
        }
    }

    /// Whether software holds NMIs of the board back, by the top bit of the index port.
    pub fn masks_nmi(&self) -> bool {
        self.nmi_masked
    }

    /// Nanoseconds of the divider chain.
    fn chain(&self, now: Nanos) -> u64 {
        now.0.saturating_add(self.phase)
    }

    /// The clock does not count; its bytes are memory.
    fn is_halted(&self) -> bool {
        self.b.contains(RegisterB::SET) || self.a.divider_in_reset()
    }

    fn unix_seconds(&self, now: Nanos) -> u64 {
        self.base.wrapping_add(self.chain(now) / NANOS_PER_SECOND)
    }

    fn read_register(&mut self, now: Nanos) -> (u8, Effects) {
        let index = usize::from(self.index);
        let value = match index {
            register::A => self.a.bits() | if self.is_updating(now) { UPDATE_IN_PROGRESS } else { 0 },
            register::B => self.b.bits(),
            register::C => return self.read_flags(now),
            register::D => VALID_RAM_AND_TIME,
            _ if !self.is_halted() && is_time(index) => self.time_byte(index, now),
            _ => self.cmos[index],
        };
        (value, Effects::NONE)
    }

    /// Reading register C clears all flags.
    fn read_flags(&mut self, now: Nanos) -> (u8, Effects) {
        self.advance(now);
        let mut flags = core::mem::replace(&mut self.flags, RegisterC::empty());
        flags.set(RegisterC::IRQF, self.is_requesting(flags));
        (flags.bits(), self.effects(now))
    }

    fn is_updating(&self, now: Nanos) -> bool {
        !self.is_halted() && self.chain(now) % NANOS_PER_SECOND >= NANOS_PER_SECOND - UPDATE_PHASE
    }

    fn write_register(&mut self, value: u8, now: Nanos) -> Effects {
        let index = usize::from(self.index);
        match index {
            register::A => return self.control(RegisterA::new(value), self.b, now),
            register::B => return self.control(self.a, RegisterB::from_bits_retain(value), now),
            register::C | register::D => return Effects::NONE,
            register::SECONDS_ALARM | register::MINUTES_ALARM | register::HOURS_ALARM => {
                self.advance(now);
                self.cmos[index] = value;
                return self.effects(now);
            }
            _ => {}
        }
        if !is_time(index) || self.is_halted() {
            self.cmos[index] = value;
            return Effects::NONE;
        }
        self.advance(now);
        self.store_time(now);
        self.cmos[index] = value;
        self.load_time(now);
        self.effects(now)
    }

    /// Changes registers A and B. The time becomes bytes where the clock halts, and a count where it starts.
    fn control(&mut self, a: RegisterA, mut b: RegisterB, now: Nanos) -> Effects {
        self.advance(now);
        let was_halted = self.is_halted();
        let restart = self.a.divider_in_reset() && !a.divider_in_reset();
        if b.contains(RegisterB::SET) && !self.b.contains(RegisterB::SET) {
            b.remove(RegisterB::UIE);
        }
        let halts = b.contains(RegisterB::SET) || a.divider_in_reset();
        if halts && !was_halted {
            self.store_time(now);
        }
        (self.a, self.b) = (a, b);
        if restart {
            let ahead = now.0 % NANOS_PER_SECOND;
            self.phase = (AFTER_DIVIDER_RESET + NANOS_PER_SECOND - ahead) % NANOS_PER_SECOND;
            self.checked = self.chain(now);
        }
        if was_halted && !halts {
            self.load_time(now);
        }
        self.effects(now)
    }

    /// A byte of the running time.
    fn time_byte(&self, index: usize, now: Nanos) -> u8 {
        let time = Calendar::from_unix(self.unix_seconds(now));
        let value = match index {
            register::SECONDS => time.second,
            register::MINUTES => time.minute,
            register::HOURS => return encode_hour(time.hour, self.b),
            register::DAY_OF_WEEK => time.day_of_week,
            register::DAY => time.day,
            register::MONTH => time.month,
            register::YEAR => time.year % 100,
            _ => time.year / 100 % 100,
        };
        encode(value, self.b)
    }

    fn store_time(&mut self, now: Nanos) {
        for index in TIME_BYTES {
            self.cmos[index] = self.time_byte(index, now);
        }
    }

    fn load_time(&mut self, now: Nanos) {
        let field = |index: usize| decode(self.cmos[index], self.b);
        let time = Calendar {
            year: field(register::CENTURY) * 100 + field(register::YEAR),
            month: field(register::MONTH),
            day: field(register::DAY),
            day_of_week: field(register::DAY_OF_WEEK),
            hour: decode_hour(self.cmos[register::HOURS], self.b),
            minute: field(register::MINUTES),
            second: field(register::SECONDS),
        };
        self.base = time.to_unix().wrapping_sub(self.chain(now) / NANOS_PER_SECOND);
        self.checked = self.chain(now);
    }

    /// Computes the flags that the time since the last call has set.
    fn advance(&mut self, now: Nanos) {
        let chain = self.chain(now);
        let from = self.checked;
        if chain <= from {
            return;
        }
        self.checked = chain;
        if let Some(shift) = self.periodic_shift()
            && DIVIDER.ticks(Nanos(chain)) >> shift != DIVIDER.ticks(Nanos(from)) >> shift
        {
            self.flags |= RegisterC::PF;
        }
        let (from, to) = (from / NANOS_PER_SECOND, chain / NANOS_PER_SECOND);
        if from == to || self.is_halted() {
            return;
        }
        self.flags |= RegisterC::UF;
        if self.seconds_to_alarm(from).is_some_and(|seconds| seconds <= to - from) {
            self.flags |= RegisterC::AF;
        }
    }

    fn periodic_shift(&self) -> Option<u32> {
        if self.a.divider_in_reset() { None } else { self.a.period_shift() }
    }

    /// Seconds from a second of the divider chain to the next alarm.
    fn seconds_to_alarm(&self, second: u64) -> Option<u64> {
        let bytes = [register::HOURS_ALARM, register::MINUTES_ALARM, register::SECONDS_ALARM]
            .map(|index| self.cmos[index]);
        alarm::seconds_to(bytes, self.b, self.base.wrapping_add(second) % SECONDS_PER_DAY)
    }

    /// Whether one of these flags is enabled as an interrupt.
    fn is_requesting(&self, flags: RegisterC) -> bool {
        let enables = self.b & (RegisterB::PIE | RegisterB::AIE | RegisterB::UIE);
        flags.bits() & enables.bits() != 0
    }

    /// Reports the level of IRQ and the next time that can change it.
    fn effects(&mut self, now: Nanos) -> Effects {
        let irq = self.is_requesting(self.flags);
        let changed = core::mem::replace(&mut self.irq, irq) != irq;
        // While IRQ is active no further flag matters before register C is read.
        let next = if irq { None } else { self.next_flag(now) };
        let deadline =
            next.map_or(Deadline::Never, |chain| Deadline::At(Nanos(chain.saturating_sub(self.phase))));
        Effects { line: changed.then_some(irq), deadline, ..Effects::NONE }
    }

    /// When, on the divider chain, the next enabled flag will be set.
    fn next_flag(&self, now: Nanos) -> Option<u64> {
        let chain = self.chain(now);
        let second = chain / NANOS_PER_SECOND;
        let at_second = |seconds: u64| second.saturating_add(seconds).saturating_mul(NANOS_PER_SECOND);
        let enabled = |bit| self.b.contains(bit);
        let periodic = self.periodic_shift().filter(|_| enabled(RegisterB::PIE)).map(|shift| {
            let period = (DIVIDER.ticks(Nanos(chain)) >> shift) + 1;
            DIVIDER.time_of(period << shift).0
        });
        let counts = !self.is_halted();
        let update = (counts && enabled(RegisterB::UIE)).then(|| at_second(1));
        let alarm = (counts && enabled(RegisterB::AIE)).then(|| self.seconds_to_alarm(second).map(at_second));
        [periodic, update, alarm.flatten()].into_iter().flatten().min()
    }
}

/// The bytes that are the time.
const TIME_BYTES: [usize; 8] = [
    register::SECONDS,
    register::MINUTES,
    register::HOURS,
    register::DAY_OF_WEEK,
    register::DAY,
    register::MONTH,
    register::YEAR,
    register::CENTURY,
];

fn is_time(index: usize) -> bool {
    TIME_BYTES.contains(&index)
}

/// CMOS as firmware would leave it.
fn firmware_bytes(memory: MemorySize) -> [u8; SIZE] {
    const KIB: u64 = 1 << 10;
    const BLOCK: u64 = 64 * KIB;
    const MIB: u64 = 1 << 20;
    let mut cmos = [0; SIZE];
    let mut put = |index: usize, bytes: usize, value: u64| {
        let value = value.min((1 << (8 * bytes)) - 1);
        cmos[index..index + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    };
    put(register::EQUIPMENT, 1, EQUIPMENT_FPU.into());
    put(register::BASE_MEMORY, 2, memory.below_4g.min(640 * KIB) / KIB);
    put(register::EXTENDED_MEMORY, 2, memory.below_4g.saturating_sub(MIB) / KIB);
    put(register::EXTENDED_MEMORY_FOUND, 2, memory.below_4g.saturating_sub(MIB) / KIB);
    put(register::MEMORY_ABOVE_16M, 2, memory.below_4g.saturating_sub(16 * MIB) / BLOCK);
    put(register::MEMORY_ABOVE_4G, 3, memory.above_4g / BLOCK);
    cmos
}

impl Device for Rtc {
    fn read(&mut self, offset: u16, _width: u8, now: Nanos) -> (u32, Effects) {
        // The index port is write-only.
        if offset != DATA {
            return (FLOATING, Effects::NONE);
        }
        let (value, effects) = self.read_register(now);
        (value.into(), effects)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, now: Nanos) -> Effects {
        match offset {
            INDEX => {
                self.index = value as u8 & INDEX_MASK;
                let masked = value as u8 & !INDEX_MASK != 0;
                let changed = core::mem::replace(&mut self.nmi_masked, masked) != masked;
                Effects { nmi: changed, ..Effects::NONE }
            }
            DATA => self.write_register(value as u8, now),
            _ => Effects::NONE,
        }
    }

    fn tick(&mut self, now: Nanos) -> Effects {
        self.advance(now);
        self.effects(now)
    }
}

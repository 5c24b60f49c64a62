use super::*;
use crate::testing::{assert_nothing_beyond, hammer};

const SECOND: u64 = NANOS_PER_SECOND;
/// 2026-12-31 23:59:58, a Thursday.
const START: u64 = 1_798_761_598;
const MEMORY: MemorySize = MemorySize { below_4g: 3 << 30, above_4g: 5 << 30 };

fn rtc() -> Rtc {
    Rtc::new(START, MEMORY)
}

fn read(rtc: &mut Rtc, index: usize, now: u64) -> u8 {
    rtc.write(INDEX, 1, index as u32 | 0x80, Nanos(now));
    rtc.read(DATA, 1, Nanos(now)).0 as u8
}

fn write(rtc: &mut Rtc, index: usize, value: u8, now: u64) -> Effects {
    rtc.write(INDEX, 1, index as u32, Nanos(now));
    rtc.write(DATA, 1, value.into(), Nanos(now))
}

fn time(rtc: &mut Rtc, now: u64) -> [u8; 7] {
    use register::*;
    [CENTURY, YEAR, MONTH, DAY, HOURS, MINUTES, SECONDS].map(|index| read(rtc, index, now))
}

#[test]
fn the_year_rolls_over() {
    let mut rtc = rtc();
    assert_eq!(time(&mut rtc, 0), [0x20, 0x26, 0x12, 0x31, 0x23, 0x59, 0x58]);
    assert_eq!(time(&mut rtc, 2 * SECOND - 1), [0x20, 0x26, 0x12, 0x31, 0x23, 0x59, 0x59]);
    assert_eq!(time(&mut rtc, 2 * SECOND), [0x20, 0x27, 0x01, 0x01, 0x00, 0x00, 0x00]);
    assert_eq!(read(&mut rtc, register::DAY_OF_WEEK, 2 * SECOND), 6);
}

#[test]
fn binary_and_twelve_hours() {
    let mut rtc = rtc();
    write(&mut rtc, register::B, RegisterB::BINARY.bits(), 0);
    assert_eq!(time(&mut rtc, 0), [20, 26, 12, 31, 0x80 | 11, 59, 58]);
    assert_eq!(read(&mut rtc, register::HOURS, 2 * SECOND), 12);
}

#[test]
fn update_in_progress_is_short_and_precedes_the_change() {
    let mut rtc = rtc();
    let uip = |rtc: &mut Rtc, now| read(rtc, register::A, now) & 0x80 != 0;
    assert!(!uip(&mut rtc, 0));
    assert!(!uip(&mut rtc, SECOND - 2_228_001));
    assert!(uip(&mut rtc, SECOND - 2_228_000));
    assert!(uip(&mut rtc, SECOND - 1));
    assert!(!uip(&mut rtc, SECOND));
    write(&mut rtc, register::B, RegisterB::SET.bits(), SECOND);
    assert!(!uip(&mut rtc, 2 * SECOND - 1), "no updates while SET");
}

/// In the order in which Linux does it.
#[test]
fn the_clock_can_be_set() {
    let mut rtc = rtc();
    let at = 10 * SECOND + 700_000_000;
    write(&mut rtc, register::B, 0x82, at);
    write(&mut rtc, register::A, 0x70, at);
    let bytes = [0x20, 0x24, 0x02, 0x28, 0x23, 0x59, 0x59];
    use register::*;
    for (index, byte) in [CENTURY, YEAR, MONTH, DAY, HOURS, MINUTES, SECONDS].into_iter().zip(bytes) {
        write(&mut rtc, index, byte, at);
    }
    assert_eq!(time(&mut rtc, at + 5 * SECOND), bytes, "halted");
    write(&mut rtc, register::B, 0x02, at);
    write(&mut rtc, register::A, 0x26, at);
    assert_eq!(time(&mut rtc, at + SECOND / 2 - 1), bytes);
    assert_eq!(time(&mut rtc, at + SECOND / 2), [0x20, 0x24, 0x02, 0x29, 0x00, 0x00, 0x00]);
}

#[test]
fn set_halts_the_clock_where_it_is() {
    let mut rtc = rtc();
    write(&mut rtc, register::B, 0x12, 0);
    write(&mut rtc, register::B, 0x92, SECOND);
    assert_eq!(read(&mut rtc, register::B, SECOND), 0x82, "SET clears UIE");
    assert_eq!(time(&mut rtc, 9 * SECOND), [0x20, 0x26, 0x12, 0x31, 0x23, 0x59, 0x59]);
    write(&mut rtc, register::B, 0x02, 9 * SECOND);
    assert_eq!(time(&mut rtc, 10 * SECOND), [0x20, 0x27, 0x01, 0x01, 0x00, 0x00, 0x00]);
}

#[test]
fn a_single_byte_can_be_set_while_running() {
    let mut rtc = rtc();
    write(&mut rtc, register::MINUTES, 0x30, SECOND / 4);
    assert_eq!(time(&mut rtc, 2 * SECOND), [0x20, 0x26, 0x12, 0x31, 0x23, 0x31, 0x00]);
}

#[test]
fn update_ended_interrupt() {
    let mut rtc = rtc();
    assert_eq!(rtc.tick(Nanos(0)).deadline, Deadline::Never, "nothing enabled, no host timer");
    let effects = write(&mut rtc, register::B, 0x12, 100);
    assert_eq!(effects.deadline, Deadline::At(Nanos(SECOND)));
    let effects = rtc.tick(Nanos(SECOND));
    assert_eq!((effects.line, effects.deadline), (Some(true), Deadline::Never));
    rtc.write(INDEX, 1, register::C as u32, Nanos(SECOND));
    let (value, effects) = rtc.read(DATA, 1, Nanos(SECOND + 5));
    assert_eq!(value & 0x90, 0x90);
    assert_eq!((effects.line, effects.deadline), (Some(false), Deadline::At(Nanos(2 * SECOND))));
    assert_eq!(read(&mut rtc, register::C, SECOND + 6) & 0x90, 0);
}

#[test]
fn alarm_interrupt() {
    let mut rtc = rtc();
    write(&mut rtc, register::HOURS_ALARM, 0x00, 0);
    write(&mut rtc, register::MINUTES_ALARM, 0xff, 0);
    write(&mut rtc, register::SECONDS_ALARM, 0x05, 0);
    let effects = write(&mut rtc, register::B, 0x22, 0);
    assert_eq!(effects.deadline, Deadline::At(Nanos(7 * SECOND)));
    assert_eq!(rtc.tick(Nanos(7 * SECOND - 1)).line, None);
    assert_eq!(rtc.tick(Nanos(7 * SECOND)).line, Some(true));
    assert_eq!(read(&mut rtc, register::C, 7 * SECOND) & 0xa0, 0xa0);
}

#[test]
fn periodic_interrupt_at_its_rate() {
    let mut rtc = rtc();
    let mut next = write(&mut rtc, register::B, 0x42, 0).deadline;
    rtc.write(INDEX, 1, register::C as u32, Nanos(0));
    let mut count = 0;
    while let Deadline::At(now) = next
        && now <= Nanos(SECOND + 10)
    {
        assert_eq!(rtc.tick(now).line, Some(true));
        let (flags, effects) = rtc.read(DATA, 1, now);
        assert_eq!(flags & 0xc0, 0xc0);
        next = effects.deadline;
        count += 1;
    }
    assert_eq!(count, 1024);
}

#[test]
fn flags_are_set_without_their_interrupts() {
    let mut rtc = rtc();
    assert_eq!(read(&mut rtc, register::C, SECOND + 1), 0x50);
    assert_eq!(read(&mut rtc, register::C, SECOND + 2), 0);
}

#[test]
fn firmware_tells_the_memory() {
    let mut rtc = rtc();
    let mut word = |index| u16::from_le_bytes([read(&mut rtc, index, 0), read(&mut rtc, index + 1, 0)]);
    assert_eq!(word(0x15), 640);
    assert_eq!((word(0x17), word(0x30)), (0xffff, 0xffff));
    assert_eq!(word(0x34), (((3 << 30) - (16 << 20)) >> 16) as u16);
    assert_eq!((word(0x5b), word(0x5d) & 0xff), ((5u64 << 30 >> 16) as u16, 1));
    assert_eq!(read(&mut rtc, register::D, 0), 0x80);
    write(&mut rtc, 0x60, 0x5a, 0);
    assert_eq!(read(&mut rtc, 0x60, 0), 0x5a);
}

#[test]
fn survives_anything() {
    let mut rtc = rtc();
    assert_nothing_beyond(&mut rtc, PORTS);
    hammer(&mut rtc, PORTS, |rtc, _, now| {
        let effects = rtc.tick(now);
        assert!(!rtc.irq || effects.deadline == Deadline::Never);
        if let Deadline::At(time) = effects.deadline {
            assert!(time > now || now.0 > u64::MAX / 2, "{time:?} is not after {now:?}");
        }
    });
}

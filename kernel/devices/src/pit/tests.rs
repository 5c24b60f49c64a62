use super::*;
use crate::testing::{assert_nothing_beyond, hammer};

/// The time of a tick, safely inside of it.
fn at(tick: u64) -> Nanos {
    Nanos(CLOCK.time_of(tick).0 + 100)
}

fn control(pit: &mut Pit, word: u32, now: Nanos) -> Effects {
    pit.write(CONTROL, 1, word, now)
}

fn load(pit: &mut Pit, counter: u16, count: u16, now: Nanos) -> Effects {
    let [low, high] = count.to_le_bytes();
    pit.write(counter, 1, low.into(), now);
    pit.write(counter, 1, high.into(), now)
}

fn read_count(pit: &mut Pit, counter: u16, now: Nanos) -> u16 {
    let low = pit.read(counter, 1, now).0 as u8;
    let high = pit.read(counter, 1, now).0 as u8;
    u16::from_le_bytes([low, high])
}

fn status(pit: &mut Pit, counter: u16, now: Nanos) -> u32 {
    control(pit, 0xe0 | 2 << counter, now);
    pit.read(counter, 1, now).0
}

fn deadline_tick(effects: Effects) -> u64 {
    let Deadline::At(time) = effects.deadline else { panic!("no deadline: {effects:?}") };
    CLOCK.ticks(time)
}

#[test]
fn runs_at_reset() {
    let mut pit = Pit::new();
    let first = pit.tick(Nanos(0));
    assert_eq!((first.line, deadline_tick(first)), (None, 65_536));
    let effects = pit.tick(at(65_536));
    assert_eq!((effects.line, deadline_tick(effects)), (Some(true), 2 * 65_536));
}

#[test]
fn rate_generator_counts_down() {
    let mut pit = Pit::new();
    control(&mut pit, 0x34, at(1000));
    let effects = load(&mut pit, 0, 1193, at(1000));
    assert_eq!(deadline_tick(effects), 1001 + 1193, "loaded one clock after the write");
    assert_eq!(read_count(&mut pit, 0, at(1001)), 1193);
    assert_eq!(read_count(&mut pit, 0, at(1101)), 1093);
    assert_eq!(status(&mut pit, 0, at(1001 + 1192)) & 0x80, 0, "OUT is low in the last clock");
    assert_eq!(read_count(&mut pit, 0, at(1001 + 1192)), 1);
    assert_eq!(status(&mut pit, 0, at(1001 + 1193)) & 0x80, 0x80);
    assert_eq!(read_count(&mut pit, 0, at(1001 + 1193)), 1193);
}

#[test]
fn missed_periods_are_one_edge() {
    let mut pit = Pit::new();
    control(&mut pit, 0x34, at(0));
    load(&mut pit, 0, 1000, at(0));
    let effects = pit.tick(at(5500));
    assert_eq!((effects.line, deadline_tick(effects)), (Some(true), 6001));
    assert_eq!(pit.tick(at(5600)).line, None);
    assert_eq!(pit.tick(at(6001)).line, Some(true));
}

#[test]
fn a_new_count_waits_for_the_end_of_the_period() {
    let mut pit = Pit::new();
    control(&mut pit, 0x34, at(0));
    load(&mut pit, 0, 1000, at(0));
    assert_eq!(deadline_tick(load(&mut pit, 0, 500, at(300))), 1001);
    assert_eq!(status(&mut pit, 0, at(300)) & 0x40, 0x40, "null count");
    assert_eq!(deadline_tick(pit.tick(at(1001))), 1501);
    assert_eq!(status(&mut pit, 0, at(1001)) & 0x40, 0);
}

#[test]
fn square_wave_counts_by_two() {
    let mut pit = Pit::new();
    control(&mut pit, 0x36, at(0));
    load(&mut pit, 0, 7, at(0));
    let levels: [bool; 8] = core::array::from_fn(|tick| status(&mut pit, 0, at(1 + tick as u64)) & 0x80 != 0);
    assert_eq!(levels, [true, true, true, true, false, false, false, true]);
    control(&mut pit, 0x36, at(10));
    load(&mut pit, 0, 1000, at(10));
    assert_eq!(read_count(&mut pit, 0, at(11 + 100)), 800);
    assert_eq!(read_count(&mut pit, 0, at(11 + 600)), 800);
}

#[test]
fn terminal_count_interrupts_once() {
    let mut pit = Pit::new();
    assert_eq!(control(&mut pit, 0x30, at(0)).line, Some(false));
    assert_eq!(deadline_tick(load(&mut pit, 0, 100, at(0))), 101);
    let effects = pit.tick(at(101));
    assert_eq!((effects.line, effects.deadline), (Some(true), Deadline::Never));
    assert_eq!(pit.tick(at(70_000)), Effects { deadline: Deadline::Never, ..Effects::NONE });
    assert_eq!(read_count(&mut pit, 0, at(102)), 0xffff, "it counts on");
}

#[test]
fn software_strobe_is_linux_one_shot() {
    let mut pit = Pit::new();
    control(&mut pit, 0x38, at(0));
    for start in [0, 5000] {
        let effects = load(&mut pit, 0, 1000, at(start));
        assert_eq!((effects.line, deadline_tick(effects)), (None, start + 1002));
        let effects = pit.tick(at(start + 1002));
        assert_eq!((effects.line, effects.deadline), (Some(true), Deadline::Never));
    }
}

#[test]
fn fast_periods_do_not_drown_the_host() {
    let mut pit = Pit::new();
    control(&mut pit, 0x34, Nanos(1000));
    let Deadline::At(time) = load(&mut pit, 0, 2, Nanos(1000)).deadline else { panic!() };
    assert!(time.0 >= SHORTEST_PERIOD.0);
}

/// Linux's calibration: counter 2 in mode 0 gated by port B, bit 5 says when it is over.
#[test]
fn port_b_gates_counter_2() {
    let mut pit = Pit::new();
    control(&mut pit, 0xb0, at(0));
    load(&mut pit, 2, 0x2e9c, at(0));
    assert_eq!(pit.read(PORT_B, 1, at(60_000)).0 & 0x23, 0, "the gate is closed");
    pit.write(PORT_B, 1, 0x01, at(60_000));
    assert_eq!(pit.read(PORT_B, 1, at(60_000 + 0x2e9b)).0 & 0x23, 0x01);
    assert_eq!(pit.read(PORT_B, 1, at(60_000 + 0x2e9c)).0 & 0x23, 0x21);
    assert_ne!(pit.read(PORT_B, 1, Nanos(0)).0 & 0x10, pit.read(PORT_B, 1, Nanos(1 << 14)).0 & 0x10);
}

#[test]
fn a_closed_gate_stops_the_count() {
    let mut pit = Pit::new();
    pit.write(PORT_B, 1, 0x01, at(0));
    control(&mut pit, 0xb0, at(0));
    load(&mut pit, 2, 1000, at(0));
    pit.write(PORT_B, 1, 0x00, at(301));
    assert_eq!(read_count(&mut pit, 2, at(900)), 700);
    pit.write(PORT_B, 1, 0x01, at(2000));
    assert_eq!(read_count(&mut pit, 2, at(2100)), 600);
    assert_eq!(pit.read(PORT_B, 1, at(2699)).0 & 0x20, 0);
    assert_eq!(pit.read(PORT_B, 1, at(2700)).0 & 0x20, 0x20);
}

#[test]
fn a_trigger_starts_the_one_shot() {
    let mut pit = Pit::new();
    control(&mut pit, 0xb2, at(0));
    load(&mut pit, 2, 50, at(0));
    assert_eq!(pit.read(PORT_B, 1, at(100)).0 & 0x20, 0x20, "high until triggered");
    pit.write(PORT_B, 1, 0x01, at(100));
    assert_eq!(pit.read(PORT_B, 1, at(101)).0 & 0x20, 0);
    assert_eq!(pit.read(PORT_B, 1, at(151)).0 & 0x20, 0x20);
    pit.write(PORT_B, 1, 0x00, at(200));
    pit.write(PORT_B, 1, 0x01, at(201));
    assert_eq!(pit.read(PORT_B, 1, at(202)).0 & 0x20, 0, "triggered again");
}

#[test]
fn latched_counts_wait_until_read() {
    let mut pit = Pit::new();
    control(&mut pit, 0x34, at(0));
    load(&mut pit, 0, 1000, at(0));
    control(&mut pit, 0x00, at(101));
    control(&mut pit, 0x00, at(201));
    assert_eq!(read_count(&mut pit, 0, at(301)), 900);
    assert_eq!(read_count(&mut pit, 0, at(301)), 700);
    control(&mut pit, 0xc2, at(401));
    assert_eq!(pit.read(0, 1, at(501)).0, 0x80 | 0x34, "read-back: the status comes first");
    assert_eq!(read_count(&mut pit, 0, at(501)), 600);
}

#[test]
fn bcd_and_single_bytes() {
    let mut pit = Pit::new();
    control(&mut pit, 0x35, at(0));
    load(&mut pit, 0, 0x1000, at(0));
    assert_eq!(read_count(&mut pit, 0, at(2)), 0x0999);
    control(&mut pit, 0x14, at(10));
    pit.write(0, 1, 200, at(10));
    assert_eq!(pit.read(0, 1, at(12)).0, 199);
    control(&mut pit, 0x24, at(20));
    pit.write(0, 1, 2, at(20));
    assert_eq!(pit.read(0, 1, at(22)).0, 1, "0x1ff");
}

#[test]
fn survives_anything() {
    let mut pit = Pit::new();
    assert_nothing_beyond(&mut pit, PORTS);
    hammer(&mut pit, PORTS, |pit, _, now| {
        if let Deadline::At(time) = pit.tick(now).deadline {
            assert!(time > now || now.0 > u64::MAX / 2, "{time:?} is not after {now:?}");
        }
    });
}

#[test]
fn a_channel_check_stays_until_it_is_switched_off() {
    let mut pit = Pit::new();
    assert!(!pit.requests_nmi());
    assert!(pit.channel_check().nmi && pit.requests_nmi());
    assert_eq!(pit.read(PORT_B, 1, Nanos(0)).0 & 0xc0, 0x40);
    assert!(!pit.write(PORT_B, 1, 0x03, Nanos(0)).nmi, "a write does not touch the status");
    assert!(pit.requests_nmi());
    assert!(pit.write(PORT_B, 1, 0x08, Nanos(0)).nmi && !pit.requests_nmi());
    assert!(!pit.channel_check().nmi && !pit.requests_nmi(), "switched off");
    pit.write(PORT_B, 1, 0x00, Nanos(0));
    assert_eq!(pit.read(PORT_B, 1, Nanos(0)).0 & 0xcf, 0);
}

use super::spec::{GenConf, INT_ROUTE_CAP, TimConf};
use super::*;
use crate::testing::XorShift;

const CONF_0: u16 = TIMERS_FIRST + TIM_CONF;
const COMP_0: u16 = TIMERS_FIRST + TIM_COMP;
const CONF_1: u16 = CONF_0 + TIMER_STRIDE;
const COMP_1: u16 = COMP_0 + TIMER_STRIDE;
const PIN_20: u64 = 20 << 9;
const ENABLE: u64 = GenConf::ENABLE_CNF.bits();
const EDGE: u64 = TimConf::INT_ENB_CNF.bits();
const LEVEL: u64 = EDGE | TimConf::INT_TYPE_CNF.bits();
const PERIODIC: u64 = TimConf::TYPE_CNF.bits() | TimConf::VAL_SET_CNF.bits();

/// The time after so many ticks.
fn at(ticks: u64) -> Nanos {
    Nanos(10 * ticks)
}

/// A machine's timers after these writes at time zero, all 64 bits wide.
fn with(writes: &[(u16, u64)]) -> Hpet {
    let mut hpet = Hpet::new();
    for &(offset, value) in writes {
        hpet.write(offset, 8, value, at(0));
    }
    hpet
}

fn get(hpet: &mut Hpet, offset: u16, ticks: u64) -> u64 {
    hpet.read(offset, at(ticks)).0
}

fn deadline(hpet: &mut Hpet, ticks: u64) -> Deadline {
    hpet.tick(at(ticks)).deadline
}

/// A deadline within a few nanoseconds of this tick, and not before it.
fn is_at(deadline: Deadline, ticks: u64) -> bool {
    matches!(deadline, Deadline::At(time) if (at(ticks)..at(ticks + 1)).contains(&time))
}

#[test]
fn capabilities_say_what_there_is() {
    let mut hpet = Hpet::new();
    let capabilities = get(&mut hpet, GCAP_ID, 0);
    assert_eq!(capabilities >> 32, 10_000_000, "femtoseconds");
    assert_eq!(
        capabilities as u32, 0x8086_a201,
        "Intel, legacy replacement, 64 bits, three timers, revision 1"
    );
    assert_eq!(get(&mut hpet, GCAP_ID + 4, 0), 10_000_000, "its upper half alone");
    assert_eq!(get(&mut hpet, CONF_0, 0), 0x00f0_0000_0000_0030);
    assert_eq!(get(&mut hpet, COMP_0, 0), u64::MAX);
    assert_eq!(
        (get(&mut hpet, TIMERS_FIRST + 3 * TIMER_STRIDE, 0), get(&mut hpet, 0x8, 0)),
        (0, 0),
        "nothing"
    );
}

#[test]
fn the_counter_runs_when_enabled_and_is_written_when_not() {
    let mut hpet = with(&[(MAIN_CNT, 0xffff_fff0)]);
    assert_eq!(get(&mut hpet, MAIN_CNT, 500), 0xffff_fff0);
    hpet.write(GEN_CONF, 4, ENABLE, at(1000));
    assert_eq!(get(&mut hpet, MAIN_CNT, 1020), 0x1_0000_0004);
    assert_eq!(get(&mut hpet, MAIN_CNT + 4, 1020), 1);
    hpet.write(MAIN_CNT, 8, 0, at(1020));
    assert_eq!(get(&mut hpet, MAIN_CNT, 1021), 0x1_0000_0005, "not while it runs");
    hpet.write(GEN_CONF, 4, 0, at(1022));
    assert_eq!(get(&mut hpet, MAIN_CNT, 9999), 0x1_0000_0006);
    hpet.write(MAIN_CNT + 4, 4, 7, at(9999));
    assert_eq!(get(&mut hpet, MAIN_CNT, 9999), 0x7_0000_0006, "half of it");
    hpet.write(MAIN_CNT, 2, 0, at(9999));
    hpet.write(MAIN_CNT + 2, 4, 0, at(9999));
    assert_eq!(get(&mut hpet, MAIN_CNT, 9999), 0x7_0000_0006, "narrow and crooked writes are none");
}

#[test]
fn a_one_shot_gives_one_edge() {
    let mut hpet = with(&[(CONF_0, EDGE | PIN_20), (COMP_0, 1000), (GEN_CONF, ENABLE)]);
    assert!(is_at(deadline(&mut hpet, 10), 1000));
    assert_eq!(hpet.tick(at(999)).pins.edges, 0);
    let effects = hpet.tick(at(1001));
    assert_eq!((effects.pins.edges, effects.pins.changed, effects.isa.edges), (1 << 20, 0, 0));
    assert_eq!(get(&mut hpet, GINTR_STA, 1002), 0);
    assert_eq!((hpet.tick(at(5000)).pins.edges, get(&mut hpet, COMP_0, 5000)), (0, 1000));
}

#[test]
fn a_match_that_a_read_finds_is_reported_there() {
    let mut hpet = with(&[(CONF_0, EDGE | PIN_20), (COMP_0, 1000), (GEN_CONF, ENABLE)]);
    let (counter, effects) = hpet.read(MAIN_CNT, at(999));
    assert_eq!((counter, effects), (999, Effects::default()), "no new deadline");
    assert_eq!(hpet.read(MAIN_CNT, at(1000)).1.pins.edges, 1 << 20);
}

#[test]
fn a_periodic_timer_goes_on_by_its_period() {
    let mut hpet =
        with(&[(CONF_0, EDGE | PERIODIC | PIN_20), (COMP_0, 10_000), (COMP_0, 100_000), (GEN_CONF, ENABLE)]);
    assert_eq!(get(&mut hpet, CONF_0, 0) & TimConf::VAL_SET_CNF.bits(), 0, "holds for one write");
    assert!(is_at(deadline(&mut hpet, 0), 10_000));
    assert_eq!(hpet.tick(at(10_000)).pins.edges, 1 << 20);
    assert_eq!(get(&mut hpet, COMP_0, 10_000), 110_000);
    assert!(is_at(deadline(&mut hpet, 10_500), 110_000));
    assert_eq!(hpet.tick(at(350_000)).pins.edges, 1 << 20, "three matches, one edge");
    assert!(is_at(deadline(&mut hpet, 350_000), 410_000));
}

#[test]
fn a_megahertz_of_interrupts_does_not_drown_the_host() {
    let mut hpet = with(&[(CONF_0, EDGE | PERIODIC | PIN_20), (COMP_0, 1), (GEN_CONF, ENABLE)]);
    assert!(is_at(deadline(&mut hpet, 100), 100 + SHORTEST_PERIOD));
}

#[test]
fn a_level_stays_until_its_status_is_cleared() {
    let mut hpet = with(&[(CONF_1, LEVEL | 23 << 9), (COMP_1, 1000), (GEN_CONF, ENABLE)]);
    let effects = hpet.tick(at(1000));
    assert_eq!((effects.pins.changed, effects.pins.levels, effects.pins.edges), (1 << 23, 1 << 23, 0));
    assert_eq!(effects.deadline, Deadline::Never, "nothing can change before it is cleared");
    assert_eq!(get(&mut hpet, GINTR_STA, 1001), 2);
    assert_eq!(hpet.write(GINTR_STA, 4, 1, at(1002)).pins.changed, 0, "another timer's");
    let effects = hpet.write(GINTR_STA, 4, 2, at(1003));
    assert_eq!((effects.pins.changed, effects.pins.levels), (1 << 23, 0));
    assert_eq!(get(&mut hpet, GINTR_STA, 1004), 0);
}

#[test]
fn a_disabled_timer_shows_its_status_without_a_line() {
    let mut hpet = with(&[(CONF_1, (LEVEL & !EDGE) | PIN_20), (COMP_1, 1000), (GEN_CONF, ENABLE)]);
    assert_eq!(deadline(&mut hpet, 0), Deadline::Never);
    assert_eq!((hpet.tick(at(1000)).pins.changed, get(&mut hpet, GINTR_STA, 1000)), (0, 2));
    assert_eq!(hpet.write(CONF_1, 8, LEVEL | PIN_20, at(1001)).pins.levels, 1 << 20);
    assert_eq!(hpet.write(CONF_1, 8, EDGE | PIN_20, at(1002)).pins.changed, 1 << 20, "edge triggered now");
}

#[test]
fn thirty_two_bits_wrap() {
    let mode = TimConf::MODE_32_CNF.bits();
    let mut hpet = with(&[
        (MAIN_CNT, 0x1_ffff_ff00),
        (CONF_0, EDGE | PIN_20 | mode),
        (COMP_0, 0x7_0000_0100),
        (GEN_CONF, ENABLE),
    ]);
    assert_eq!(get(&mut hpet, COMP_0, 0), 0x100);
    assert!(is_at(deadline(&mut hpet, 0), 0x200));
    assert_eq!(hpet.tick(at(0x200)).pins.edges, 1 << 20);
    assert!(is_at(deadline(&mut hpet, 0x200), 0x1_0000_0200), "again after a whole turn");
}

#[test]
fn both_halves_of_a_period_need_val_set() {
    let mut hpet = with(&[(CONF_0, PERIODIC)]);
    hpet.write(COMP_0, 4, 5, at(0));
    hpet.write(COMP_0 + 4, 4, 1, at(0));
    assert_eq!(get(&mut hpet, COMP_0, 0), 0xffff_ffff_0000_0005, "the upper half set the period alone");
    hpet.write(CONF_0, 4, PERIODIC, at(0));
    hpet.write(COMP_0 + 4, 4, 1, at(0));
    assert_eq!(get(&mut hpet, COMP_0, 0), 0x1_0000_0005);
}

#[test]
fn routes_are_those_of_the_capability() {
    let mut hpet = Hpet::new();
    let route = |hpet: &mut Hpet| get(hpet, CONF_0, 0) >> 9 & 0x1f;
    for pin in 0..32u64 {
        let before = route(&mut hpet);
        hpet.write(CONF_0, 8, pin << 9, at(0));
        let offered = INT_ROUTE_CAP >> pin & 1 != 0;
        assert_eq!(route(&mut hpet), if offered { pin } else { before }, "pin {pin}");
    }
}

#[test]
fn legacy_replacement_leads_two_timers_to_isa_lines() {
    let both = ENABLE | GenConf::LEG_RT_CNF.bits();
    let mut hpet = with(&[(CONF_0, EDGE | PIN_20), (COMP_0, 1000), (CONF_1, LEVEL), (COMP_1, 2000)]);
    assert_eq!(hpet.write(GEN_CONF, 4, both, at(0)).legacy, Some(true));
    let effects = hpet.tick(at(2000));
    assert_eq!((effects.isa.edges, effects.isa.levels, effects.pins), (1, 1 << 8, Lines::default()));
    let effects = hpet.write(GEN_CONF, 4, ENABLE, at(2001));
    assert_eq!((effects.legacy, effects.isa.changed, effects.isa.levels), (Some(false), 1 << 8, 0));
    assert_eq!(hpet.write(GEN_CONF, 4, ENABLE, at(2002)).legacy, None);
}

#[test]
fn survives_anything() {
    let mut hpet = Hpet::new();
    let mut random = XorShift::new(7);
    let mut now = 0u64;
    for _ in 0..200_000 {
        now = match random.below(1000) {
            0 => random.next(),
            1 => u64::MAX,
            _ => now.saturating_add(random.next() >> 24 >> random.below(40)),
        };
        let offset = if random.below(4) == 0 { random.next() as u16 } else { random.below(0x180) as u16 };
        let before = hpet.seen;
        let effects = match random.below(4) {
            0 => hpet.read(offset, Nanos(now)).1,
            1 => hpet.tick(Nanos(now)),
            _ => {
                let width = 1 << random.below(4);
                let value = random.next() >> random.below(64);
                hpet.write(offset & !3, width, value, Nanos(now))
            }
        };
        assert_eq!((effects.pins.edges | effects.pins.levels) & !INT_ROUTE_CAP, 0);
        assert_eq!((effects.isa.edges | effects.isa.levels) & !0x101, 0);
        assert!(hpet.seen >= before, "time does not go back");
        if let Deadline::At(time) = effects.deadline {
            assert!(time == Nanos(u64::MAX) || CLOCK.ticks(time) > before, "a deadline in the past");
        }
    }
}

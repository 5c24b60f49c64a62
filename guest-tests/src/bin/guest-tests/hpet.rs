//! High precision event timers.

use runtime::hw::hpet::{self, GCAP_ID, GEN_CONF, GINTR_STA, MAIN_CNT, comparator, config, high, low};
use runtime::hw::ioapic::{self, PIT_PIN, redirection};
use runtime::hw::lapic;
use runtime::interrupt;
use runtime::time;
use runtime::{expect, expect_eq, guest_test, platform_wrong, skip};

const VECTOR: u8 = 0x51;

fn needs_hpet() {
    if hpet::period().is_none() {
        skip!("no HPET at {:#x}", hpet::BASE);
    }
}

/// An I/O APIC pin that the timer can be routed to.
fn pin(timer: u32) -> u8 {
    (config(timer).read() >> hpet::INT_ROUTE_CAP_SHIFT).trailing_zeros() as u8
}

guest_test!(capabilities);
fn capabilities() {
    needs_hpet();
    let id = GCAP_ID.read();
    expect!(id & 0xff != 0, "revision in {id:#x}");
    expect!((id >> 8 & 0x1f) >= 2, "three timers in {id:#x}");
    expect!(id & 1 << 15 != 0, "legacy replacement in {id:#x}");
    expect_eq!(u64::from(high(GCAP_ID).read()), id >> 32, "upper half by 32 bits");
    expect_eq!(u64::from(low(GCAP_ID).read()), id & 0xffff_ffff, "lower half by 32 bits");
    let timer = config(0).read();
    expect!(timer & hpet::PER_INT_CAP != 0, "timer 0 can be periodic, in {timer:#x}");
    expect!(timer >> hpet::INT_ROUTE_CAP_SHIFT != 0, "timer 0 can be routed, in {timer:#x}");
}

guest_test!(counter_stands_until_enabled);
fn counter_stands_until_enabled() {
    needs_hpet();
    MAIN_CNT.write(0x1_2345_6789);
    time::spin_us(100);
    expect_eq!(MAIN_CNT.read(), 0x1_2345_6789, "halted counter");
    expect_eq!(high(MAIN_CNT).read(), 1, "its upper half");
    GEN_CONF.write(hpet::ENABLE_CNF);
    time::spin_us(100);
    let first = MAIN_CNT.read();
    expect!(first > 0x1_2345_6789, "running counter {first:#x}");
    GEN_CONF.write(0);
    let halted = MAIN_CNT.read();
    time::spin_us(100);
    expect_eq!(MAIN_CNT.read(), halted, "counter halted again");
}

guest_test!(counter_has_its_rate);
fn counter_has_its_rate() {
    needs_hpet();
    GEN_CONF.write(hpet::ENABLE_CNF);
    let measure = || {
        let before = MAIN_CNT.read();
        time::spin_us(5_000);
        MAIN_CNT.read() - before
    };
    // What an emulator or another process takes away makes a span longer, never shorter.
    let shortest = (0..5).map(|_| measure()).min().unwrap_or(0);
    let percent = shortest * 100 / hpet::ticks(5_000);
    expect!((80..300).contains(&percent), "{shortest} ticks in 5 ms: {percent} % of its rate");
}

guest_test!(comparator_and_route_read_back);
fn comparator_and_route_read_back() {
    needs_hpet();
    comparator(1).write(0x1122_3344_5566_7788);
    expect_eq!(comparator(1).read(), 0x1122_3344_5566_7788, "comparator");
    low(comparator(1)).write(0x99aa_bbcc);
    expect_eq!(comparator(1).read(), 0x1122_3344_99aa_bbcc, "after a write of its lower half");
    let route = u64::from(pin(1)) << hpet::INT_ROUTE_SHIFT;
    config(1).write(route);
    expect_eq!(config(1).read() & 0x1f << hpet::INT_ROUTE_SHIFT, route, "route");
}

guest_test!(one_shot_interrupts_once);
fn one_shot_interrupts_once() {
    needs_hpet();
    one_shot(PIT_PIN, hpet::LEG_RT_CNF);
}

guest_test!(one_shot_through_a_pin_of_its_own);
fn one_shot_through_a_pin_of_its_own() {
    platform_wrong!(Bochs, "an edge does not arrive through a pin above 15");
    needs_hpet();
    if pin(0) == PIT_PIN {
        skip!("the only pin is the 8254's");
    }
    one_shot(pin(0), 0);
}

/// Timer 0 gives one interrupt, through this pin.
fn one_shot(pin: u8, legacy: u64) {
    interrupt::handle(VECTOR, lapic::acknowledge);
    GEN_CONF.write(legacy);
    ioapic::route(pin, VECTOR.into(), lapic::id());
    // QEMU's I/O APIC remembers an edge that the 8254 gave while the pin was masked.
    interrupt::enable();
    time::spin_us(100);
    interrupt::disable();
    let before = interrupt::count(VECTOR);
    config(0).write(hpet::INT_ENB_CNF | u64::from(pin) << hpet::INT_ROUTE_SHIFT);
    comparator(0).write(hpet::ticks(2_000));
    GEN_CONF.write(hpet::ENABLE_CNF | legacy);
    interrupt::enable();
    let taken = time::wait_us(100_000, || interrupt::count(VECTOR) > before);
    let counter = MAIN_CNT.read();
    time::spin_us(5_000);
    interrupt::disable();
    expect!(taken, "no interrupt, counter {counter:#x}");
    expect!(counter >= hpet::ticks(2_000), "interrupt early, at {counter:#x}");
    expect_eq!(interrupt::count(VECTOR) - before, 1, "interrupts");
}

guest_test!(periodic_timer_replaces_the_8254);
fn periodic_timer_replaces_the_8254() {
    needs_hpet();
    let period = hpet::ticks(1_000);
    interrupt::handle(VECTOR, lapic::acknowledge);
    ioapic::route(PIT_PIN, VECTOR.into(), lapic::id());
    config(0).write(hpet::INT_ENB_CNF | hpet::TYPE_PERIODIC | hpet::VAL_SET_CNF);
    comparator(0).write(period);
    comparator(0).write(period);
    GEN_CONF.write(hpet::ENABLE_CNF | hpet::LEG_RT_CNF);
    interrupt::enable();
    let taken = time::wait_us(100_000, || interrupt::count(VECTOR) >= 4);
    let (comparator, counter) = (comparator(0).read(), MAIN_CNT.read());
    interrupt::disable();
    expect!(taken, "{} interrupts in 100 ms at 1 kHz", interrupt::count(VECTOR));
    expect!(comparator >= 4 * period, "comparator {comparator:#x} with the counter at {counter:#x}");
    expect_eq!(comparator % period, 0, "comparator's distance from a multiple of the period");
}

guest_test!(level_holds_until_its_status_is_cleared);
fn level_holds_until_its_status_is_cleared() {
    needs_hpet();
    let pin = pin(2);
    interrupt::handle(VECTOR, lapic::acknowledge);
    ioapic::route(pin, redirection::LEVEL | redirection::MASKED | u32::from(VECTOR), lapic::id());
    config(2).write(hpet::INT_ENB_CNF | hpet::INT_TYPE_LEVEL | u64::from(pin) << hpet::INT_ROUTE_SHIFT);
    comparator(2).write(hpet::ticks(100));
    GEN_CONF.write(hpet::ENABLE_CNF);
    let matched = time::wait_us(100_000, || GINTR_STA.read() & 1 << 2 != 0);
    expect!(matched, "status {:#x}", GINTR_STA.read());
    // The line waits at the masked pin, and goes with the status bit.
    GINTR_STA.write(1 << 2);
    expect_eq!(GINTR_STA.read(), 0, "status after writing its bit");
    ioapic::route(pin, redirection::LEVEL | u32::from(VECTOR), lapic::id());
    interrupt::enable();
    time::spin_us(200);
    interrupt::disable();
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts of a line that fell");
}

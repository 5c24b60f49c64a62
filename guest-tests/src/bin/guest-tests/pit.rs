//! The 8254 timer.

use super::tsc::PmTimer;
use runtime::hw::pit::{self, Mode, status};
use runtime::hw::port::inb;
use runtime::time;
use runtime::{expect, expect_eq, guest_test, platform_wrong, skip};

guest_test!(count_goes_down);
fn count_goes_down() {
    pit::program(0, Mode::RateGenerator, 0xffff);
    time::spin_us(50);
    let first = pit::count(0);
    time::spin_us(200);
    let second = pit::count(0);
    // 200 us are 239 counts; a hypervisor's exits take their time.
    let counted = first.wrapping_sub(second);
    expect!((200..20_000).contains(&counted), "from {first} to {second} in 200 us");
}

guest_test!(square_wave_counts_by_two);
fn square_wave_counts_by_two() {
    pit::program(0, Mode::SquareWave, 0);
    time::spin_us(20);
    let first = pit::count(0);
    expect_eq!(first & 1, 0, "low bit of a count in mode 3");
    time::spin_us(1_000);
    let counted = first.wrapping_sub(pit::count(0));
    expect!((2_000..40_000).contains(&counted), "{counted} counts in 1 ms");
}

guest_test!(latch_holds_the_count);
fn latch_holds_the_count() {
    pit::program(0, Mode::RateGenerator, 0xffff);
    pit::latch(0, true, false);
    time::spin_us(500);
    let latched = pit::read_latched(0);
    let now = pit::count(0);
    expect!(latched > now && latched - now >= 500, "latched {latched}, {now} half a millisecond later");
}

guest_test!(read_back_status);
fn read_back_status() {
    for mode in [Mode::TerminalCount, Mode::RateGenerator, Mode::SquareWave, Mode::SoftwareStrobe] {
        pit::program(0, mode, 0x1000);
        pit::latch(0, false, true);
        let byte = pit::read_status(0);
        expect_eq!(byte & status::CONTROL, pit::control_bits(mode), "status in {mode:?}");
    }
    // Status first, then the count.
    pit::program(0, Mode::RateGenerator, 0x1000);
    time::spin_us(10);
    pit::latch(0, true, true);
    let byte = pit::read_status(0);
    let count = pit::read_latched(0);
    expect_eq!(byte & status::CONTROL, pit::control_bits(Mode::RateGenerator), "status");
    expect!((1..=0x1000).contains(&count), "count {count:#x}");
}

guest_test!(terminal_count_raises_output);
fn terminal_count_raises_output() {
    pit::program(0, Mode::TerminalCount, 20_000);
    pit::latch(0, false, true);
    expect_eq!(pit::read_status(0) & status::OUTPUT, 0, "output before terminal count");
    let raised = time::wait_us(200_000, || {
        pit::latch(0, false, true);
        pit::read_status(0) & status::OUTPUT != 0
    });
    expect!(raised, "output still low, count {}", pit::count(0));
}

guest_test!(port_61_shows_channel_2);
fn port_61_shows_channel_2() {
    pit::set_gate_2(true);
    pit::program(2, Mode::SquareWave, 2_000);
    // Both levels within one period of 1.7 ms.
    expect!(time::wait_us(20_000, pit::output_2), "port 0x61 is {:#x}: never high", inb(pit::PORT_B));
    expect!(time::wait_us(20_000, || !pit::output_2()), "port 0x61 is {:#x}: never low", inb(pit::PORT_B));
    pit::set_gate_2(false);
}

guest_test!(gate_stops_channel_2);
fn gate_stops_channel_2() {
    platform_wrong!(QemuTcg, "the gate does not stop mode 0");
    pit::set_gate_2(true);
    pit::program(2, Mode::TerminalCount, 0xffff);
    time::spin_us(20);
    pit::set_gate_2(false);
    let first = pit::count(2);
    time::spin_us(200);
    expect_eq!(pit::count(2), first, "count with the gate closed");
}

/// How often to measure: what an emulator or another process takes away makes a span longer, never shorter.
const TRIES: usize = 5;

guest_test!(rate_agrees_with_pm_timer);
fn rate_agrees_with_pm_timer() {
    let Some(pm) = PmTimer::find() else { skip!("no ACPI PM timer") };
    let measure = |_| {
        let start = pm.read();
        let ticks = pit::time_with_channel_2(3_000);
        expect!(ticks.is_some(), "channel 2 does not reach its terminal count");
        pm.microseconds(start, pm.read())
    };
    let us = (0..TRIES).map(measure).min().unwrap_or(0);
    expect!((2_950..3_600).contains(&us), "3 ms by the PIT are {us} us by the PM timer");
}

guest_test!(rate_agrees_with_tsc);
fn rate_agrees_with_tsc() {
    let ticks = (0..TRIES).filter_map(|_| pit::time_with_channel_2(3_000)).min().unwrap_or(0);
    let per_mille = ticks * 1000 / time::us(3_000);
    expect!((900..1200).contains(&per_mille), "3 ms took {ticks} ticks, calibrated {}", time::us(3_000));
}

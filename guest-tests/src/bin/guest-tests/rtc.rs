//! The real-time clock.

use runtime::hw::rtc::{self, read, write};
use runtime::time;
use runtime::{expect, expect_eq, guest_test};

/// A register as a number, whatever the data mode.
fn number(register: u8) -> u8 {
    let value = read(register);
    if read(rtc::REGISTER_B) & rtc::B_BINARY != 0 { value } else { (value >> 4) * 10 + (value & 15) }
}

/// Waits for the end of an update.
fn settled() {
    let quiet = time::wait_us(20_000, || read(rtc::REGISTER_A) & rtc::UIP == 0);
    expect!(quiet, "register A is {:#x}: an update takes 2 ms", read(rtc::REGISTER_A));
}

guest_test!(reads_a_sane_date);
fn reads_a_sane_date() {
    settled();
    for (register, range) in [
        (rtc::SECONDS, 0..=59),
        (rtc::MINUTES, 0..=59),
        (rtc::DAY, 1..=31),
        (rtc::MONTH, 1..=12),
        (rtc::YEAR, 0..=99),
    ] {
        let value = number(register);
        expect!(range.contains(&value), "register {register} reads {value}");
    }
    let b = read(rtc::REGISTER_B);
    let pm = 0x80;
    let hours = if b & rtc::B_24_HOURS != 0 { number(rtc::HOURS) } else { number(rtc::HOURS) & !pm };
    expect!(hours <= 24, "hours {hours}, register B {b:#x}");
}

guest_test!(battery_is_good);
fn battery_is_good() {
    expect_eq!(read(rtc::REGISTER_D), rtc::VALID, "register D");
}

guest_test!(cmos_memory_keeps);
fn cmos_memory_keeps() {
    /// A byte that no firmware of ours minds.
    const SPARE: u8 = 0x7e;
    let before = read(SPARE);
    for value in [0x00, 0xff, 0x5a] {
        write(SPARE, value);
        expect_eq!(read(SPARE), value, "CMOS byte");
    }
    write(SPARE, before);
}

guest_test!(periodic_flag);
fn periodic_flag() {
    let before = read(rtc::REGISTER_B);
    write(rtc::REGISTER_B, before | rtc::B_PERIODIC);
    let _ = read(rtc::REGISTER_C);
    let mut c = 0;
    let set = time::wait_us(50_000, || {
        c = read(rtc::REGISTER_C);
        c != 0
    });
    write(rtc::REGISTER_B, before);
    expect!(set, "register A {:#x}: no flag in 50 ms", read(rtc::REGISTER_A));
    expect_eq!(c & (rtc::C_REQUEST | rtc::C_PERIODIC), rtc::C_REQUEST | rtc::C_PERIODIC, "register C");
    // Reading it has cleared it.
    let _ = read(rtc::REGISTER_C);
    expect_eq!(read(rtc::REGISTER_C), 0, "register C after reading it");
}

//! The I/O APIC.

use runtime::hw::ioapic::{self, PIT_PIN, low, redirection};
use runtime::hw::pit::{self, Mode};
use runtime::hw::{lapic, pic};
use runtime::interrupt;
use runtime::time;
use runtime::{expect, expect_eq, guest_test};

const VECTOR: u8 = 0x51;
/// Counts of the PIT that make about a millisecond.
const MILLISECOND: u16 = (pit::FREQUENCY / 1000) as u16;

guest_test!(identification);
fn identification() {
    let version = ioapic::read(ioapic::IOAPICVER);
    expect!((0x11..=0x20).contains(&(version & 0xff)), "version register {version:#x}");
    expect_eq!(ioapic::pins(), 24, "pins");
    expect_eq!(ioapic::read(ioapic::IOAPICID) & 0xf0ff_ffff, 0, "reserved bits of the ID register");
}

guest_test!(redirection_entries_read_back);
fn redirection_entries_read_back() {
    for pin in [0, 5, 23] {
        ioapic::route(pin, redirection::MASKED | redirection::LEVEL | redirection::ACTIVE_LOW | 0x77, 3);
        let value = ioapic::read(low(pin));
        expect_eq!(
            value & !redirection::REMOTE_IRR,
            redirection::MASKED | redirection::LEVEL | redirection::ACTIVE_LOW | 0x77,
            "entry {pin}"
        );
        expect_eq!(ioapic::read(low(pin) + 1), 0x0300_0000, "high half of entry {pin}");
        ioapic::write(low(pin), redirection::MASKED);
    }
}

guest_test!(pit_through_pin_2);
fn pit_through_pin_2() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    ioapic::route(PIT_PIN, VECTOR.into(), lapic::id());
    pit::program(0, Mode::RateGenerator, MILLISECOND);
    interrupt::enable();
    let taken = time::wait_us(50_000, || interrupt::count(VECTOR) >= 3);
    interrupt::disable();
    expect!(taken, "{} interrupts in 50 ms at 1 kHz", interrupt::count(VECTOR));
    expect_eq!(pic::isr(), 0, "the PIC has no part in it: its in-service register");
}

guest_test!(masked_pin_stays_silent);
fn masked_pin_stays_silent() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    ioapic::route(PIT_PIN, redirection::MASKED | u32::from(VECTOR), lapic::id());
    pit::program(0, Mode::RateGenerator, MILLISECOND);
    interrupt::enable();
    time::spin_us(3_000);
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts of a masked pin");
    ioapic::route(PIT_PIN, VECTOR.into(), lapic::id());
    let taken = time::wait_us(50_000, || interrupt::count(VECTOR) >= 1);
    interrupt::disable();
    expect!(taken, "no interrupt after unmasking");
}

guest_test!(logical_destination);
fn logical_destination() {
    use x86defs::apic::{DFR_FLAT, reg};
    const LOGICAL: u32 = 1 << 11;
    interrupt::handle(VECTOR, lapic::acknowledge);
    lapic::write(reg::DFR, DFR_FLAT);
    lapic::write(reg::LDR, 0x0400_0000);
    ioapic::route(PIT_PIN, LOGICAL | u32::from(VECTOR), 0x04);
    pit::program(0, Mode::RateGenerator, MILLISECOND);
    interrupt::enable();
    let taken = time::wait_us(50_000, || interrupt::count(VECTOR) >= 1);
    interrupt::disable();
    expect!(taken, "no interrupt by logical destination");
}

guest_test!(unmasked_pin_of_idle_line);
fn unmasked_pin_of_idle_line() {
    for pin in [3, 5, 9, 10] {
        ioapic::route(pin, u32::from(VECTOR + pin), lapic::id());
    }
    interrupt::enable();
    time::spin_us(200);
    interrupt::disable();
    for pin in [3, 5, 9, 10] {
        expect_eq!(interrupt::count(VECTOR + pin), 0, "interrupts of idle pin {pin}");
    }
}

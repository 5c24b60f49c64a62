use super::*;
use crate::testing::XorShift;

const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;
const REMOTE_IRR: u32 = 1 << 14;

fn select(ioapic: &mut IoApic, register: u8) {
    ioapic.write(IOREGSEL, 4, register.into());
}

fn read(ioapic: &mut IoApic, register: u8) -> u32 {
    select(ioapic, register);
    ioapic.read(IOWIN)
}

fn write(ioapic: &mut IoApic, register: u8, value: u32) -> Messages {
    select(ioapic, register);
    ioapic.write(IOWIN, 4, value)
}

fn entry(pin: u8) -> u8 {
    IOREDTBL + 2 * pin
}

#[test]
fn identifies_itself() {
    let mut ioapic = IoApic::new(2);
    assert_eq!(read(&mut ioapic, IOAPICVER), 0x0017_0020);
    assert_eq!(read(&mut ioapic, IOAPICID), 0x0200_0000);
    write(&mut ioapic, IOAPICID, 0xf500_0000);
    assert_eq!((read(&mut ioapic, IOAPICID), read(&mut ioapic, IOAPICARB)), (0x0500_0000, 0x0500_0000));
    assert_eq!(read(&mut ioapic, entry(23)), MASKED);
    assert_eq!(read(&mut ioapic, entry(24)), u32::MAX);
}

#[test]
fn an_edge_is_delivered_once() {
    let mut ioapic = IoApic::new(0);
    write(&mut ioapic, entry(2) + 1, 0x0300_0000);
    write(&mut ioapic, entry(2), 0x0931);
    let message = Message {
        destination: 3,
        logical: true,
        mode: DeliveryMode::LowestPriority,
        vector: 0x31,
        level: false,
    };
    assert_eq!(ioapic.set_pin(2, true).as_slice(), [message]);
    assert!(ioapic.set_pin(2, true).is_empty());
    assert_eq!(ioapic.pulse(2).as_slice(), [message]);
    assert!(ioapic.eoi(0x31).is_empty());
}

#[test]
fn an_edge_on_a_masked_pin_is_lost() {
    let mut ioapic = IoApic::new(0);
    assert!(ioapic.set_pin(2, true).is_empty());
    assert!(write(&mut ioapic, entry(2), 0x31).is_empty());
    assert!(ioapic.set_pin(2, true).is_empty());
    assert_eq!(ioapic.pulse(2).len(), 1);
}

#[test]
fn a_level_comes_again_after_eoi() {
    let mut ioapic = IoApic::new(0);
    write(&mut ioapic, entry(9), LEVEL | 0x41);
    let first = ioapic.set_pin(9, true);
    assert!(first[0].level);
    assert_eq!(read(&mut ioapic, entry(9)), LEVEL | REMOTE_IRR | 0x41);
    ioapic.set_pin(9, false);
    assert!(ioapic.set_pin(9, true).is_empty(), "remote IRR holds it back");
    assert!(ioapic.eoi(0x42).is_empty(), "another vector");
    assert_eq!(ioapic.eoi(0x41), first);
    ioapic.set_pin(9, false);
    assert!(ioapic.eoi(0x41).is_empty());
    assert_eq!(read(&mut ioapic, entry(9)), LEVEL | 0x41);
}

#[test]
fn a_level_waits_behind_the_mask() {
    let mut ioapic = IoApic::new(0);
    write(&mut ioapic, entry(9), MASKED | LEVEL | 0x41);
    assert!(ioapic.set_pin(9, true).is_empty());
    assert_eq!(write(&mut ioapic, entry(9), LEVEL | 0x41).len(), 1);
    assert!(write(&mut ioapic, entry(9), MASKED | LEVEL | 0x41).is_empty());
    assert!(write(&mut ioapic, entry(9), LEVEL | 0x41).is_empty(), "remote IRR survives the mask");
}

#[test]
fn a_stuck_remote_irr_can_be_cleared() {
    let mut ioapic = IoApic::new(0);
    write(&mut ioapic, entry(9), LEVEL | 0x41);
    ioapic.set_pin(9, true);
    ioapic.set_pin(9, false);
    ioapic.write(EOIR, 4, 0x41);
    assert_eq!(read(&mut ioapic, entry(9)), LEVEL | 0x41, "by the EOI register");
    ioapic.set_pin(9, true);
    write(&mut ioapic, entry(9), MASKED | 0x41);
    assert_eq!(read(&mut ioapic, entry(9)), MASKED | 0x41, "by edge mode");
}

#[test]
fn external_interrupts_are_edges_and_reserved_modes_are_silent() {
    let mut ioapic = IoApic::new(0);
    write(&mut ioapic, entry(0), LEVEL | 0x700);
    let messages = ioapic.set_pin(0, true);
    assert_eq!((messages[0].mode, messages[0].level), (DeliveryMode::ExtInt, false));
    write(&mut ioapic, entry(1), 0x331);
    assert!(ioapic.set_pin(1, true).is_empty());
}

#[test]
fn only_whole_registers_are_written() {
    let mut ioapic = IoApic::new(0);
    ioapic.write(IOREGSEL + 1, 4, 1);
    assert_eq!(ioapic.read(IOREGSEL), 0);
    for width in [1, 2, 4] {
        let index = 0x10 + 2 * u32::from(width);
        ioapic.write(IOREGSEL, width, 0xff00 | index);
        assert_eq!(ioapic.read(IOREGSEL), index, "IOREGSEL is one byte in {width}");
        ioapic.write(IOWIN, 4, 0x1_0042);
        ioapic.write(IOWIN, width.min(2), 0x1_0099);
        assert_eq!(ioapic.read(IOWIN), 0x1_0042);
    }
    select(&mut ioapic, IOAPICVER);
    assert_eq!(ioapic.read(IOWIN + 2) as u8, 0x17);
    assert_eq!(ioapic.read(0x20), u32::MAX);
}

#[test]
fn survives_anything() {
    let mut ioapic = IoApic::new(0);
    let mut random = XorShift::new(7);
    for _ in 0..200_000 {
        let (offset, width, value) = (random.next() as u16 & 0x5f, random.width(), random.next() as u32);
        match random.below(6) {
            0 => drop(ioapic.read(random.next() as u16)),
            1 => drop(ioapic.write(offset, width, value)),
            2 => drop(write(&mut ioapic, random.next() as u8 & 0x3f, value)),
            3 => drop(ioapic.eoi(random.next() as u8)),
            _ => drop(ioapic.set_pin(random.below(30) as u8, value & 1 != 0)),
        }
        for pin in 0..PINS {
            let entry = ioapic.entries[pin];
            assert!(!entry.remote_irr() || entry.is_level());
            let waits = entry.is_level() && !entry.is_masked() && ioapic.pins & (1 << pin) != 0;
            assert!(!waits || entry.remote_irr(), "pin {pin} is forgotten");
        }
    }
}

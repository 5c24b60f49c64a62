use super::*;
use crate::testing::{assert_nothing_beyond, hammer};

const NOW: Nanos = Nanos(0);
const EOI: u32 = 0x20;

fn write(pic: &mut Pic, offset: u16, values: &[u32]) {
    for &value in values {
        pic.write(offset, 1, value, NOW);
    }
}

fn read(pic: &mut Pic, offset: u16) -> u32 {
    pic.read(offset, 1, NOW).0
}

fn in_service(pic: &mut Pic, chip: u16) -> u32 {
    write(pic, chip, &[0x0b]);
    read(pic, chip)
}

/// As a PC's firmware leaves it, with vectors as Linux wants them and everything unmasked.
fn initialized(icw4: u32) -> Pic {
    let mut pic = Pic::new();
    write(&mut pic, MASTER, &[0x11]);
    write(&mut pic, MASTER_DATA, &[0x30, 0x04, icw4, 0x00]);
    write(&mut pic, SLAVE, &[0x11]);
    write(&mut pic, SLAVE_DATA, &[0x38, 0x02, icw4, 0x00]);
    pic
}

/// Linux's probe, before it initializes anything.
#[test]
fn firmware_has_initialized_it() {
    let mut pic = Pic::new();
    assert_eq!(pic.set_line(1, true), Effects::NONE, "masked");
    write(&mut pic, SLAVE_DATA, &[0xff]);
    write(&mut pic, MASTER_DATA, &[0xfb]);
    assert_eq!(read(&mut pic, MASTER_DATA), 0xfb);
    assert_eq!(pic.write(MASTER_DATA, 1, 0xf9, NOW).line, Some(true));
    assert_eq!(pic.acknowledge(), 0x09);
}

#[test]
fn silent_while_being_initialized() {
    let mut pic = initialized(1);
    write(&mut pic, MASTER, &[0x11]);
    assert_eq!(pic.set_line(1, true), Effects::NONE);
    write(&mut pic, MASTER_DATA, &[0x30, 0x04]);
    assert_eq!(pic.write(MASTER_DATA, 1, 0x01, NOW).line, Some(true));
}

#[test]
fn higher_priority_interrupts_lower() {
    let mut pic = initialized(1);
    assert_eq!(pic.set_line(4, true).line, Some(true));
    assert_eq!(pic.acknowledge(), 0x34);
    assert!(!pic.intr());
    pic.set_line(6, true);
    assert!(!pic.intr(), "6 has to wait for 4");
    pic.set_line(1, true);
    assert_eq!(pic.acknowledge(), 0x31);
    assert_eq!(in_service(&mut pic, MASTER), 0x12);
    assert_eq!(pic.write(MASTER, 1, EOI, NOW), Effects::NONE);
    assert_eq!(in_service(&mut pic, MASTER), 0x10, "the non-specific EOI ends the highest");
    assert_eq!(pic.write(MASTER, 1, EOI, NOW).line, Some(true));
    assert_eq!(pic.acknowledge(), 0x36);
}

#[test]
fn slave_interrupts_come_through_the_master() {
    let mut pic = initialized(1);
    assert_eq!(pic.set_line(12, true).line, Some(true));
    assert_eq!(pic.acknowledge(), 0x3c);
    assert_eq!((in_service(&mut pic, MASTER), in_service(&mut pic, SLAVE)), (0x04, 0x10));
    pic.set_line(8, true);
    assert!(!pic.intr(), "fully nested: the master's level 2 is in service");
    write(&mut pic, SLAVE, &[EOI]);
    write(&mut pic, MASTER, &[EOI]);
    assert_eq!(pic.acknowledge(), 0x38);
}

#[test]
fn special_fully_nested_mode_lets_the_slave_nest() {
    let mut pic = initialized(0x11);
    pic.set_line(12, true);
    pic.acknowledge();
    pic.set_line(13, true);
    assert!(!pic.intr());
    pic.set_line(8, true);
    assert_eq!(pic.acknowledge(), 0x38);
}

#[test]
fn an_edge_counts_once_and_a_level_again() {
    let mut pic = initialized(3);
    pic.set_line(5, true);
    assert_eq!(pic.acknowledge(), 0x35);
    assert!(!pic.intr(), "edge");
    assert_eq!(pic.set_line(5, true), Effects::NONE);
    assert_eq!(pic.write(ELCR, 1, 0xff, NOW).line, Some(true), "still high, now a level");
    assert_eq!(pic.acknowledge(), 0x35);
    assert!(pic.intr());
    assert_eq!(pic.set_line(5, false).line, Some(false));
    assert_eq!(read(&mut pic, ELCR), 0xf8);
    write(&mut pic, ELCR_SLAVE, &[0xff]);
    assert_eq!(read(&mut pic, ELCR_SLAVE), 0xde);
}

#[test]
fn pulses_are_edges() {
    let mut pic = initialized(3);
    for _ in 0..3 {
        assert_eq!(pic.pulse(0).line, Some(true));
        assert_eq!(pic.acknowledge(), 0x30);
    }
    pic.pulse(0);
    assert_eq!(pic.pulse(0), Effects::NONE, "INTR was high and is");
}

#[test]
fn a_withdrawn_request_is_spurious() {
    let mut pic = initialized(1);
    pic.set_line(3, true);
    assert_eq!(pic.set_line(3, false).line, Some(false));
    assert_eq!(pic.acknowledge(), 0x37);
    assert_eq!(in_service(&mut pic, MASTER), 0);
}

#[test]
fn masks_hold_requests_back() {
    let mut pic = initialized(1);
    write(&mut pic, MASTER_DATA, &[0xff]);
    assert_eq!(read(&mut pic, MASTER_DATA), 0xff);
    pic.set_line(4, true);
    assert!(!pic.intr());
    write(&mut pic, MASTER, &[0x0a]);
    assert_eq!(read(&mut pic, MASTER), 0x10, "IRR shows it");
    assert_eq!(pic.write(MASTER_DATA, 1, 0xef, NOW).line, Some(true));
}

#[test]
fn special_mask_mode_opens_lower_levels() {
    let mut pic = initialized(1);
    pic.set_line(1, true);
    pic.acknowledge();
    pic.set_line(6, true);
    write(&mut pic, MASTER_DATA, &[0x02]);
    assert!(!pic.intr());
    assert_eq!(pic.write(MASTER, 1, 0x68, NOW).line, Some(true));
    assert_eq!(pic.acknowledge(), 0x36);
    write(&mut pic, MASTER, &[EOI, EOI]);
    assert_eq!(in_service(&mut pic, MASTER), 0x02, "a masked level needs a specific EOI");
    write(&mut pic, MASTER, &[0x61]);
    assert_eq!(in_service(&mut pic, MASTER), 0);
}

#[test]
fn rotation_makes_the_served_level_the_lowest() {
    let mut pic = initialized(1);
    pic.set_line(4, true);
    pic.acknowledge();
    write(&mut pic, MASTER, &[0xa0]);
    pic.set_line(3, true);
    pic.pulse(4);
    pic.set_line(5, true);
    assert_eq!(pic.acknowledge(), 0x35, "5 is the highest now");
    write(&mut pic, MASTER, &[EOI, 0xc2]);
    assert_eq!(pic.acknowledge(), 0x33, "set priority: 3 is the highest");
}

#[test]
fn poll_acknowledges() {
    let mut pic = initialized(1);
    pic.set_line(6, true);
    write(&mut pic, MASTER, &[0x0c]);
    let (value, effects) = pic.read(MASTER, 1, NOW);
    assert_eq!((value, effects.line), (0x86, Some(false)));
    assert_eq!(in_service(&mut pic, MASTER), 0x40);
}

/// Linux's timer check: the 8259A in automatic-EOI mode, an ExtINT acknowledge per timer edge.
#[test]
fn automatic_eoi_leaves_nothing_in_service() {
    let mut pic = initialized(3);
    write(&mut pic, MASTER_DATA, &[0xfe]);
    for _ in 0..10 {
        pic.pulse(0);
        assert_eq!(pic.acknowledge(), 0x30);
        assert_eq!(in_service(&mut pic, MASTER), 0);
    }
}

#[test]
fn icw1_forgets_edges_and_masks() {
    let mut pic = initialized(1);
    pic.set_line(4, true);
    write(&mut pic, MASTER, &[0x11]);
    write(&mut pic, MASTER_DATA, &[0x20, 0x04, 0x01]);
    assert!(!pic.intr(), "a new edge is needed");
    assert_eq!(pic.pulse(4).line, Some(true));
    assert_eq!(pic.acknowledge(), 0x24);
}

#[test]
fn survives_anything() {
    let mut pic = Pic::new();
    assert_nothing_beyond(&mut pic, PORTS);
    hammer(&mut pic, PORTS, |pic, random, _| {
        let before = pic.intr();
        let effects = pic.set_line(random.below(20) as u8, random.below(2) == 0);
        assert_eq!(effects.line, (before != pic.intr()).then_some(pic.intr()));
        if random.below(4) == 0 {
            let spurious = !pic.intr();
            let vector = pic.acknowledge();
            assert!(!spurious || vector & 7 == 7);
        }
    });
}

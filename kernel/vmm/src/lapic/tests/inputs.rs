//! LINT0 and LINT1.

use super::*;

#[test]
fn after_firmware_the_8259_and_nmi_come_through() {
    let mailbox = Mailbox::new();
    let mut lapic = after_reset().after_firmware();
    assert_eq!((lapic.get(reg::LVT_LINT0), lapic.get(reg::LVT_LINT1)), (0x700, 0x400));
    assert!(mailbox.set_line(Line::Lint0, true));
    lapic.drain(&mailbox);
    assert!(lapic.ext_int_pending());
    lapic.set(reg::LVT_LINT0, 0x1_0700);
    assert!(!lapic.ext_int_pending(), "masked");
    lapic.set(reg::LVT_LINT0, 0x700);
    assert!(lapic.ext_int_pending());
    assert!(mailbox.set_line(Line::Lint0, false));
    assert!(!mailbox.set_line(Line::Lint1, true));
    lapic.drain(&mailbox);
    assert!(!lapic.ext_int_pending());
    assert!(lapic.take_nmi() && !lapic.take_nmi(), "one NMI for one edge");
}

#[test]
fn without_an_apic_the_inputs_are_the_cpus_pins() {
    let mailbox = Mailbox::new();
    let mut lapic = after_reset();
    assert!(mailbox.set_line(Line::Lint0, true));
    lapic.drain(&mailbox);
    assert!(!lapic.ext_int_pending(), "masked after reset");
    lapic.set_base(BASE).expect("disabled");
    assert!(lapic.ext_int_pending());
    assert!(mailbox.set_line(Line::Lint1, true));
    lapic.drain(&mailbox);
    assert!(lapic.nmi_pending());
}

#[test]
fn lint0_in_fixed_mode_follows_its_trigger() {
    let mailbox = Mailbox::new();
    let mut lapic = xapic();
    lapic.set(reg::LVT_LINT0, 0x33);
    assert!(mailbox.set_line(Line::Lint0, true));
    lapic.drain(&mailbox);
    assert_eq!(lapic.take(), Some(0x33));
    assert_eq!(lapic.set(reg::EOI, 0), LapicEffect::Nothing);
    assert_eq!(lapic.next_interrupt(), None, "edge: once");
    lapic.set(reg::LVT_LINT0, 0x8033);
    assert_eq!((lapic.take(), lapic.get(reg::LVT_LINT0)), (Some(0x33), 0xc033));
    lapic.set(reg::EOI, 0);
    assert_eq!(lapic.take(), Some(0x33), "level: again while high");
    assert!(mailbox.set_line(Line::Lint0, false));
    lapic.drain(&mailbox);
    lapic.set(reg::EOI, 0);
    assert_eq!((lapic.next_interrupt(), lapic.get(reg::LVT_LINT0)), (None, 0x8033));
}

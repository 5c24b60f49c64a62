use super::*;
use crate::testing::{assert_nothing_beyond, hammer};

const NOW: Nanos = Nanos(0);
/// The timer's highest bit changes after 2^31 ticks, ten minutes.
const HALF_PERIOD: Nanos = CLOCK.time_of(1 << 31);

fn read(pm: &mut AcpiPm, offset: u16, now: Nanos) -> u32 {
    pm.read(offset, 4, now).0
}

#[test]
fn the_timer_runs_at_its_frequency() {
    let mut pm = AcpiPm::new();
    assert_eq!(read(&mut pm, TIMER_BLOCK, Nanos(0)), 0);
    assert_eq!(read(&mut pm, TIMER_BLOCK, Nanos(1_000_000_000)), 3_579_545);
    assert_eq!(read(&mut pm, TIMER_BLOCK, CLOCK.time_of((1 << 32) + 5)), 5);
    assert_eq!(read(&mut pm, TIMER_BLOCK + 1, Nanos(1_000_000_000)) as u16, (3_579_545 >> 8) as u16);
}

#[test]
fn the_machine_is_in_acpi_mode() {
    let mut pm = AcpiPm::new();
    pm.write(CONTROL_BLOCK, 2, 0, NOW);
    assert_eq!(read(&mut pm, CONTROL_BLOCK, NOW) & 1, 1);
}

#[test]
fn s5_switches_off() {
    let mut pm = AcpiPm::new();
    assert_eq!(pm.write(CONTROL_BLOCK, 2, 7 << 10, NOW).power, None, "only chosen");
    assert_eq!(pm.write(CONTROL_BLOCK, 2, 1 << 13 | 1 << 10, NOW).power, None, "no S1");
    assert_eq!(pm.write(CONTROL_BLOCK, 2, 1 << 13, NOW).power, Some(PowerEvent::PowerOff("ACPI S5")));
    assert_eq!(read(&mut pm, CONTROL_BLOCK, NOW) & 1 << 13, 0);
    assert_eq!(
        AcpiPm::new().write(CONTROL_BLOCK + 1, 1, 0x20, NOW).power,
        Some(PowerEvent::PowerOff("ACPI S5")),
        "as a byte"
    );
}

#[test]
fn the_power_button_raises_the_sci_until_its_status_is_cleared() {
    let mut pm = AcpiPm::new();
    assert_eq!(pm.press_power_button(NOW).line, None);
    assert_eq!(pm.write(EVENT_BLOCK + 2, 2, 1 << 8, NOW).line, Some(true));
    assert_eq!(read(&mut pm, EVENT_BLOCK, NOW), 0x0100_0100);
    assert_eq!(pm.write(EVENT_BLOCK, 2, 0x0001, NOW).line, None, "another bit");
    assert_eq!(pm.write(EVENT_BLOCK, 2, 0x0100, NOW).line, Some(false));
    assert_eq!(read(&mut pm, EVENT_BLOCK, NOW), 0x0100_0000, "the enable bit stays");
    pm.write(EVENT_BLOCK + 2, 1, 0x01, NOW);
    assert_eq!(read(&mut pm, EVENT_BLOCK, NOW), 0x0101_0000, "one byte of it");
    pm.write(EVENT_BLOCK + 2, 2, 0, NOW);
    assert_eq!(pm.press_power_button(NOW).line, None, "disabled");
}

#[test]
fn the_timer_event_needs_its_enable_for_a_deadline() {
    let mut pm = AcpiPm::new();
    assert_eq!(pm.tick(NOW).deadline, Deadline::Never);
    assert_eq!(pm.write(EVENT_BLOCK + 2, 2, 1, NOW).deadline, Deadline::At(HALF_PERIOD));
    let effects = pm.tick(HALF_PERIOD);
    assert_eq!((effects.line, effects.deadline), (Some(true), Deadline::Never));
    let effects = pm.write(EVENT_BLOCK, 2, 1, HALF_PERIOD);
    assert_eq!((effects.line, effects.deadline), (Some(false), Deadline::At(CLOCK.time_of(1 << 32))));
}

#[test]
fn survives_anything() {
    let mut pm = AcpiPm::new();
    assert_nothing_beyond(&mut pm, PORTS);
    hammer(&mut pm, PORTS, |pm, _, now| {
        let effects = pm.tick(now);
        assert_eq!(pm.sci, pm.status.bits() & pm.enable.bits() != 0);
        if let Deadline::At(time) = effects.deadline {
            assert!(time > now || now.0 > u64::MAX / 2);
        }
    });
}

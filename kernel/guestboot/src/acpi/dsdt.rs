//! The Differentiated System Description Table (ACPI 6.5, 5.2.11.1): which devices there are and what they
//! occupy. In ASL:
//!
//! ```text
//! Name (_S5, Package () { SLP_TYPa, SLP_TYPb, 0, 0 })
//! Scope (_SB) {
//!     Device (PCI0) { _HID PNP0A03, _UID, _CRS, _PRT }
//!     Device (HPET) { _HID PNP0103, _CRS }
//!     Device (TIMR) { _HID PNP0100, _CRS }    // likewise RTC0, KBD0, AUX0, COM1
//! }
//! ```

use super::{encode, table};
use crate::memory_map::{LOW_RAM_LIMIT, ROM, VGA};
use crate::platform::{
    COM1, COM1_IRQ, HPET_BASE, HPET_SIZE, I8042_AUXILIARY_IRQ, I8042_COMMAND, I8042_DATA, I8042_IRQ,
    IOAPIC_BASE, PCI_CONFIG, PIT, PIT_IRQ, PortRange, RTC, RTC_IRQ, S5_SLP_TYP,
};
use acpi_tables::aml::{
    AddressSpace, AddressSpaceCacheable, Device, EISAName, IO, Memory32Fixed, Name, Package,
    ResourceTemplate, Scope,
};
use acpi_tables::{Aml, AmlSink};
use alloc::vec;
use alloc::vec::Vec;
use x86defs::addr::Gpa;

/// Integers are 64 bits wide from revision 2 on.
const REVISION: u8 = 2;
/// Buses behind the host bridge.
const LAST_BUS: u16 = 255;

/// IRQ descriptor without flags: edge-triggered, active high, exclusive (ACPI 6.5, 6.4.2.1).
struct IrqNoFlags(u8);

impl Aml for IrqNoFlags {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        const TAG: u8 = 0x22;
        sink.byte(TAG);
        sink.word(1 << self.0);
    }
}

/// The table.
pub(super) fn dsdt() -> Vec<u8> {
    let devices = [
        host_bridge(),
        event_timers(),
        legacy_device("TIMR", "PNP0100", &[PIT], PIT_IRQ),
        legacy_device("RTC0", "PNP0B00", &[RTC], RTC_IRQ),
        legacy_device("KBD0", "PNP0303", &[I8042_DATA, I8042_COMMAND], I8042_IRQ),
        // Linux warns of firmware that names a keyboard without the mouse port. Nothing is plugged in there.
        legacy_device("AUX0", "PNP0F13", &[], I8042_AUXILIARY_IRQ),
        legacy_device("COM1", "PNP0501", &[COM1], COM1_IRQ),
    ];
    let mut body = soft_off();
    body.extend(Scope::raw("_SB_".into(), devices.concat()));
    table(*b"DSDT", REVISION, &body)
}

/// `_S5`: what to write to the PM1 control register to power off.
fn soft_off() -> Vec<u8> {
    let package = Package::new(vec![&S5_SLP_TYP, &S5_SLP_TYP, &0u8, &0u8]);
    encode(&Name::new("_S5_".into(), &package))
}

/// The host bridge and the windows that it decodes: all ports but its own, the VGA window, and what lies
/// between the end of low RAM and the I/O APIC.
fn host_bridge() -> Vec<u8> {
    let memory = |from: Gpa, to: Gpa, cacheable| {
        AddressSpace::new_memory(cacheable, true, from.0 as u32, (to.0 - 1) as u32, None)
    };
    let config = io(PCI_CONFIG);
    let buses = AddressSpace::new_bus_number(0, LAST_BUS);
    let low_ports = AddressSpace::new_io(0, PCI_CONFIG.first - 1, None);
    let high_ports = AddressSpace::new_io(PCI_CONFIG.last() + 1, u16::MAX, None);
    let vga = memory(VGA, ROM, AddressSpaceCacheable::Cacheable);
    let window = memory(LOW_RAM_LIMIT, IOAPIC_BASE, AddressSpaceCacheable::NotCacheable);
    let resources = ResourceTemplate::new(vec![&buses, &config, &low_ports, &high_ports, &vga, &window]);
    encode(&Device::new(
        "PCI0".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0A03")),
            &Name::new("_UID".into(), &0u8),
            &Name::new("_CRS".into(), &resources),
            &Name::new("_PRT".into(), &Package::new(vec![])),
        ],
    ))
}

/// High precision event timers.
fn event_timers() -> Vec<u8> {
    let registers = Memory32Fixed::new(true, HPET_BASE.0 as u32, HPET_SIZE);
    encode(&Device::new(
        "HPET".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0103")),
            &Name::new("_CRS".into(), &ResourceTemplate::new(vec![&registers])),
        ],
    ))
}

/// A device of the PC/AT.
fn legacy_device(name: &str, hid: &str, ports: &[PortRange], irq: u8) -> Vec<u8> {
    let ports: Vec<IO> = ports.iter().copied().map(io).collect();
    let irq = IrqNoFlags(irq);
    let mut resources: Vec<&dyn Aml> = ports.iter().map(|io| io as &dyn Aml).collect();
    resources.push(&irq);
    encode(&Device::new(
        name.into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new(hid)),
            &Name::new("_CRS".into(), &ResourceTemplate::new(resources)),
        ],
    ))
}

/// Ports at a fixed place.
fn io(ports: PortRange) -> IO {
    const BYTE_ALIGNED: u8 = 1;
    IO::new(ports.first, ports.first, BYTE_ALIGNED, ports.count as u8)
}

//! The top level of the file: what concerns the host.

use super::error::{Position, Problem};
use super::table::{Entry, Table, port};
use super::vm::{self, Names};
use super::{Config, Console, OnExit, VmConfig};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use toml::de::DeValue;

pub(super) const KEYS: &[&str] = &["console", "on_exit", "vm"];
const CONSOLE: &str = r#""com1" to "com4", an I/O port, "vga", "pci-serial", "none", or a list of them"#;
const ONE_CONSOLE: &str = r#""com1" to "com4", an I/O port, "vga" or "pci-serial""#;
const ON_EXIT: &str = r#""poweroff", "halt" or "reboot""#;
const VMS: &str = "at least one [[vm]]";

/// A 16550 has eight registers, and port 0 belongs to the DMA controller.
const SERIAL_PORTS: RangeInclusive<u64> = 1..=0xfff8;

impl Console {
    /// The first serial port of a PC.
    pub const COM1: Self = Self::Serial { port: 0x3f8 };
    /// The second.
    pub const COM2: Self = Self::Serial { port: 0x2f8 };
    /// The third.
    pub const COM3: Self = Self::Serial { port: 0x3e8 };
    /// The fourth.
    pub const COM4: Self = Self::Serial { port: 0x2e8 };

    fn from_value(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(text) => match text.as_ref() {
                "com1" => Some(Self::COM1),
                "com2" => Some(Self::COM2),
                "com3" => Some(Self::COM3),
                "com4" => Some(Self::COM4),
                "vga" => Some(Self::Vga),
                "pci-serial" => Some(Self::PciSerial),
                _ => Self::at_port(port(value)?),
            },
            value => Self::at_port(port(value)?),
        }
    }

    fn at_port(port: u64) -> Option<Self> {
        SERIAL_PORTS.contains(&port).then_some(Self::Serial { port: port as u16 })
    }
}

/// Reads the whole file.
pub(super) fn config(root: &mut Table<'_>) -> Config {
    let default = Config::default();
    let on_exit = [("poweroff", OnExit::Poweroff), ("halt", OnExit::Halt), ("reboot", OnExit::Reboot)];
    let config = Config {
        consoles: root.optional("console", default.consoles.clone(), consoles).unwrap_or(default.consoles),
        on_exit: root
            .optional("on_exit", default.on_exit, |entry| entry.word(&on_exit, ON_EXIT))
            .unwrap_or_default(),
        vms: root.required("vm", VMS, vms).unwrap_or_default(),
    };
    root.finish(KEYS);
    config
}

fn consoles(entry: &Entry<'_, '_>) -> Option<Vec<Console>> {
    if entry.value.as_str() == Some("none") {
        return Some(Vec::new());
    }
    let Some(elements) = entry.value.as_array() else {
        return match Console::from_value(entry.value) {
            Some(console) => Some(vec![console]),
            None => entry.unexpected(CONSOLE),
        };
    };
    if elements.is_empty() {
        return entry.unexpected(CONSOLE);
    }
    let mut seen: Vec<(Console, Position)> = Vec::new();
    for element in elements {
        let found = entry.excerpt(element.span());
        let Some(console) = Console::from_value(element.get_ref()) else {
            return entry.error_at(element.span(), Problem::Unexpected { expected: ONE_CONSOLE, found });
        };
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == console) {
            return entry.error_at(element.span(), Problem::Duplicate { value: found, first: *first });
        }
        seen.push((console, entry.position(element.span())));
    }
    Some(seen.into_iter().map(|(console, _)| console).collect())
}

fn vms(entry: &Entry<'_, '_>) -> Option<Vec<VmConfig>> {
    let Some(elements) = entry.value.as_array().filter(|elements| !elements.is_empty()) else {
        return entry.unexpected(VMS);
    };
    let mut names = Names::default();
    let vms = elements.iter().enumerate().filter_map(|(n, element)| {
        let DeValue::Table(fields) = element.get_ref() else {
            let found = entry.excerpt(element.span());
            return entry.error_at(element.span(), Problem::Unexpected { expected: VMS, found });
        };
        vm::vm(&mut entry.table_in(fields, element.span(), vm::label(fields, n + 1)), &mut names)
    });
    Some(vms.collect())
}

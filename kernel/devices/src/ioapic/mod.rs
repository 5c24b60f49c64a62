//! I/O APIC with 24 pins, version 0x20: the version has an EOI register, with which a guest clears a stuck
//! remote IRR in one write where version 0x11 needs a detour through edge mode.
//!
//! A pin's level is the request that its device makes: active or not. The polarity bit is stored and has no
//! effect, since the virtual board wires every source as the guest has programmed its pin.
//!
//! Edges on a masked pin are lost ("ignored, i.e. not delivered or held pending", 82093AA, 3.2.4); a level on a
//! masked pin is delivered when the mask goes and the level is still there.

mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use arrayvec::ArrayVec;
use spec::{
    EOIR, Entry, ID_MASK, ID_SHIFT, IOAPICARB, IOAPICID, IOAPICVER, IOREDTBL, IOREGSEL, IOWIN,
    MAX_REDIRECTION_ENTRY_SHIFT, VERSION,
};
use x86defs::apic::DeliveryMode;

/// Number of interrupt inputs.
pub const PINS: usize = 24;
/// Registers are 32 bits wide; narrower accesses read the bytes they name, and write
/// nothing but the one byte of IOREGSEL.
pub const MAX_WIDTH: u8 = 4;

/// An interrupt message to local APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Destination field.
    pub destination: u8,
    /// The destination is logical.
    pub logical: bool,
    /// How the destination takes it.
    pub mode: DeliveryMode,
    /// The vector.
    pub vector: u8,
    /// Level triggered: its EOI comes back to [`IoApic::eoi`].
    pub level: bool,
}

/// At most one message for each pin.
pub type Messages = ArrayVec<Message, PINS>;

/// An I/O APIC.
#[derive(Clone, Debug)]
pub struct IoApic {
    select: u8,
    id: u8,
    entries: [Entry; PINS],
    /// Pins with an active request.
    pins: u32,
}

impl IoApic {
    /// After reset: all pins masked.
    pub fn new(id: u8) -> IoApic {
        IoApic { select: 0, id: id & ID_MASK as u8, entries: [Entry::RESET; PINS], pins: 0 }
    }

    /// Reads the register at `offset` of the window, shifted down to the byte that the offset names.
    pub fn read(&self, offset: u16) -> u32 {
        let value = match offset & !3 {
            IOREGSEL => u32::from(self.select),
            IOWIN => self.read_selected(),
            _ => return FLOATING,
        };
        value >> (8 * (offset & 3))
    }

    /// Writes a register. IOREGSEL has one byte, which any width reaches; of the others only the whole register is
    /// written.
    pub fn write(&mut self, offset: u16, width: u8, value: u32) -> Messages {
        match (offset, width) {
            (IOREGSEL, _) => self.select = value as u8,
            (IOWIN, MAX_WIDTH) => return self.write_selected(value),
            (EOIR, MAX_WIDTH) => return self.eoi(value as u8),
            _ => {}
        }
        Messages::new()
    }

    /// Drives a pin. Pins that do not exist are ignored.
    pub fn set_pin(&mut self, pin: u8, level: bool) -> Messages {
        let pin = usize::from(pin);
        if pin >= PINS {
            return Messages::new();
        }
        let bit = 1 << pin;
        let rises = level && self.pins & bit == 0;
        self.pins = if level { self.pins | bit } else { self.pins & !bit };
        if rises { self.deliver(pin).into_iter().collect() } else { Messages::new() }
    }

    /// A low and a high on a pin: one edge, whatever its level was. The pin stays high.
    pub fn pulse(&mut self, pin: u8) -> Messages {
        self.set_pin(pin, false);
        self.set_pin(pin, true)
    }

    /// A local APIC has ended a level-triggered interrupt. A request that is still there is delivered again.
    pub fn eoi(&mut self, vector: u8) -> Messages {
        let mut messages = Messages::new();
        for pin in 0..PINS {
            let entry = &mut self.entries[pin];
            if entry.remote_irr() && entry.vector() == vector {
                entry.set_remote_irr(false);
                messages.extend(self.deliver_level(pin));
            }
        }
        messages
    }

    /// The message of a pin whose request has just become active or visible.
    fn deliver(&mut self, pin: usize) -> Option<Message> {
        let entry = &mut self.entries[pin];
        if entry.is_masked() || entry.remote_irr() {
            return None;
        }
        let level = entry.is_level();
        let message = Message {
            destination: entry.destination(),
            logical: entry.is_logical(),
            mode: entry.delivery_mode()?,
            vector: entry.vector(),
            level,
        };
        entry.set_remote_irr(level);
        Some(message)
    }

    /// The message of a pin whose level may be waiting.
    fn deliver_level(&mut self, pin: usize) -> Option<Message> {
        let waits = self.pins & (1 << pin) != 0 && self.entries[pin].is_level();
        if waits { self.deliver(pin) } else { None }
    }

    fn read_selected(&self) -> u32 {
        match self.select {
            // The arbitration ID follows the ID and never rotates: there is no APIC bus.
            IOAPICID | IOAPICARB => u32::from(self.id) << ID_SHIFT,
            IOAPICVER => VERSION | (PINS as u32 - 1) << MAX_REDIRECTION_ENTRY_SHIFT,
            select => match self.selected_entry(select) {
                Some((pin, high)) => self.entries[pin].half(high),
                None => FLOATING,
            },
        }
    }

    fn write_selected(&mut self, value: u32) -> Messages {
        if self.select == IOAPICID {
            self.id = (value >> ID_SHIFT & ID_MASK) as u8;
        }
        let Some((pin, high)) = self.selected_entry(self.select) else { return Messages::new() };
        self.entries[pin].set_half(high, value);
        self.deliver_level(pin).into_iter().collect()
    }

    /// The entry and the half that a register number means.
    fn selected_entry(&self, select: u8) -> Option<(usize, bool)> {
        let index = usize::from(select.checked_sub(IOREDTBL)?);
        (index < 2 * PINS).then_some((index / 2, index % 2 == 1))
    }
}

//! Interrupt wires: ISA lines to the 8259 pair and the I/O APIC, from there to local APICs' mailboxes.

use super::{Board, HPET, PortDevice, VcpuPort};
use crate::hazard;
use crate::lapic::{Ipi, Lapic, LapicEffect, Line, Target};
use core::sync::atomic::Ordering;
use devices::hpet;
use devices::ioapic::Messages;
use guestboot::platform;
use x86defs::apic::DeliveryMode;

impl Board {
    /// Drives what a device's output is wired to.
    pub(super) fn set_output(&self, device: PortDevice, level: bool) {
        if device == PortDevice::Rtc {
            self.rtc_line.store(level, Ordering::Relaxed);
        }
        match device.irq() {
            Some(_) if device.is_replaceable() && self.legacy_replaced.load(Ordering::Relaxed) => {}
            // The timer reports rising edges only: its line falls unseen in between.
            Some(irq) if device == PortDevice::Pit && level => self.pulse_isa_line(irq),
            Some(irq) => self.set_isa_line(irq, level),
            None => self.set_intr(level),
        }
    }

    /// Carries out what the HPET has caused.
    pub(super) fn apply_hpet(&self, effects: &hpet::Effects) {
        if effects.legacy == Some(true) {
            // Whatever the other two were driving, they do so no more.
            self.legacy_replaced.store(true, Ordering::Relaxed);
            self.set_isa_line(platform::PIT_IRQ, false);
            self.set_isa_line(platform::RTC_IRQ, false);
        }
        for irq in lines(effects.isa.edges) {
            self.pulse_isa_line(irq);
        }
        for irq in lines(effects.isa.changed) {
            self.set_isa_line(irq, effects.isa.levels >> irq & 1 != 0);
        }
        for pin in lines(effects.pins.edges) {
            let messages = self.ioapic.lock().pulse(pin);
            self.send(&messages);
        }
        for pin in lines(effects.pins.changed) {
            let messages = self.ioapic.lock().set_pin(pin, effects.pins.levels >> pin & 1 != 0);
            self.send(&messages);
        }
        if effects.legacy == Some(false) {
            self.legacy_replaced.store(false, Ordering::Relaxed);
            self.set_isa_line(platform::RTC_IRQ, self.rtc_line.load(Ordering::Relaxed));
        }
        self.set_deadline(HPET, effects.deadline);
    }

    /// Sets the level of an ISA interrupt line, which is wired to both controllers.
    pub(super) fn set_isa_line(&self, irq: u8, level: bool) {
        let effects = self.pic.lock().set_line(irq, level);
        self.apply(PortDevice::Pic, effects);
        let pin = if irq == platform::PIT_IRQ { platform::PIT_GSI as u8 } else { irq };
        let messages = self.ioapic.lock().set_pin(pin, level);
        self.send(&messages);
    }

    /// A falling and a rising edge of an ISA interrupt line.
    pub(super) fn pulse_isa_line(&self, irq: u8) {
        self.set_isa_line(irq, false);
        self.set_isa_line(irq, true);
    }

    /// Sets the level of the 8259's INTR output, wired to LINT0 of the bootstrap CPU.
    pub(super) fn set_intr(&self, level: bool) {
        let cpu = self.bootstrap();
        if cpu.mailbox.set_line(Line::Lint0, level) {
            cpu.alert(hazard::EVENT);
        }
    }

    /// Drives the board's NMI, wired to LINT1 of the bootstrap CPU: what port B asks for, unless port 0x70 holds it
    /// back.
    #[cold]
    pub(super) fn update_nmi(&self) {
        let requested = self.pit.lock().requests_nmi();
        let masked = self.rtc.lock().masks_nmi();
        let cpu = self.bootstrap();
        if cpu.mailbox.set_line(Line::Lint1, requested && !masked) {
            cpu.alert(hazard::EVENT);
        }
    }

    /// The CPU acknowledges the 8259's interrupt: the vector it gives.
    pub fn acknowledge_pic(&self) -> u8 {
        let (vector, intr) = {
            let mut pic = self.pic.lock();
            (pic.acknowledge(), pic.intr())
        };
        self.set_intr(intr);
        vector
    }

    /// Carries out what a write to the local APIC of the CPU behind `port` has caused.
    #[inline(always)]
    pub fn apply_lapic(&self, lapic: &Lapic, port: &VcpuPort, effect: LapicEffect) {
        match effect {
            LapicEffect::Nothing => {}
            LapicEffect::Ipi(ipi) => self.deliver(ipi, false, Some(lapic.id())),
            LapicEffect::Eoi(vector) => self.end_of_interrupt(vector),
            LapicEffect::Deadline => port.alert(hazard::TIMER),
            LapicEffect::Address => port.mailbox.publish(lapic.address()),
        }
        if lapic.has_request() || lapic.ext_int_pending() {
            port.alert(hazard::EVENT);
        }
    }

    /// Delivers what the I/O APIC has sent.
    pub(super) fn send(&self, messages: &Messages) {
        for m in messages {
            let target = Target::from_bus(m.destination, m.logical);
            self.deliver(Ipi { target, mode: m.mode, vector: m.vector }, m.level, None);
        }
    }

    /// A local APIC tells that a level-triggered interrupt is over.
    pub fn end_of_interrupt(&self, vector: u8) {
        let messages = self.ioapic.lock().eoi(vector);
        self.send(&messages);
    }

    /// Delivers an interrupt to the CPUs that it is for. `sender` is the APIC id of the CPU that sent it.
    pub fn deliver(&self, ipi: Ipi, level: bool, sender: Option<u32>) {
        let matching = self.vcpus.iter().filter(|cpu| cpu.mailbox.address().matches(ipi.target, sender));
        // Of those that match, any may count as the one with the lowest priority.
        let most = if ipi.mode == DeliveryMode::LowestPriority { 1 } else { usize::MAX };
        for cpu in matching.take(most) {
            let first = match ipi.mode {
                DeliveryMode::Fixed | DeliveryMode::LowestPriority => cpu.mailbox.post(ipi.vector, level),
                DeliveryMode::Nmi => cpu.mailbox.post_nmi(),
                DeliveryMode::Init => cpu.mailbox.post_init(),
                DeliveryMode::Startup => cpu.mailbox.post_startup(ipi.vector),
                // Through the I/O APIC the 8259 reaches the bootstrap CPU only, by its own wire.
                DeliveryMode::ExtInt => cpu.mailbox.set_line(Line::Lint0, true),
                DeliveryMode::Smi | DeliveryMode::Reserved => false,
            };
            if first {
                cpu.alert(hazard::EVENT);
            }
        }
    }
}

/// The numbers of the bits that are set.
fn lines(bits: u32) -> impl Iterator<Item = u8> {
    (0..32).filter(move |n| bits >> n & 1 != 0)
}

//! What is delivered, in which order, and when the virtual CPU waits or stops.

use super::*;
use crate::fake::{FakeVcpu, Machine, TSC_KHZ};
use crate::memory::Width;
use guestboot::platform;
use std::vec::Vec;
use x86defs::addr::Gpa;
use x86defs::apic::{Lvt, reg};
use x86defs::event::Exception;

/// Vector of the 8259's first input once it is initialized.
const PIC_VECTORS: u8 = 0x30;
const PIC_VECTOR: u8 = PIC_VECTORS + platform::COM1_IRQ;
/// A vector of the local APIC, of priority class 5.
const APIC_VECTOR: u8 = 0x51;
const APIC_CLASS: u8 = APIC_VECTOR >> 4;

const PIC_COMMAND: u16 = 0x20;
const PIC_DATA: u16 = 0x21;
const UART_IER: u16 = platform::COM1.first + 1;
const UART_MCR: u16 = platform::COM1.first + 4;

impl Machine {
    fn halted(vcpu: FakeVcpu) -> Self {
        let mut machine = Machine::new(vcpu);
        machine.state.halted = true;
        machine
    }

    fn write_port(&self, port: u16, value: u32) {
        self.state.vm.board.output(port, 1, value, Nanos(0));
    }

    /// The 8259 asks for an interrupt: the serial port's transmitter is empty.
    fn raise_at_the_pic(&self) {
        for (port, value) in
            [(PIC_COMMAND, 0x11), (PIC_DATA, PIC_VECTORS.into()), (PIC_DATA, 4), (PIC_DATA, 1)]
        {
            self.write_port(port, value);
        }
        self.write_port(PIC_DATA, !(1 << platform::COM1_IRQ) & 0xff);
        self.write_port(UART_MCR, 1 << 3);
        self.write_port(UART_IER, 1 << 1);
    }

    fn raise_at_the_lapic(&self) {
        assert!(self.state.port.mailbox.post(APIC_VECTOR, false), "the mailbox was empty");
    }

    fn raise_nmi(&self) {
        assert!(self.state.port.mailbox.post_nmi(), "the mailbox was empty");
    }

    /// Takes the slow path and what it delivers.
    fn delivered(&mut self) -> Option<Event> {
        assert_eq!(self.prepare(), Next::Enter);
        self.vcpu.pending.take()
    }
}

fn interruptible() -> FakeVcpu {
    let mut vcpu = FakeVcpu::protected32();
    vcpu.rflags |= Rflags::IF;
    vcpu
}

#[test]
fn nothing_to_deliver_leaves_the_guest_alone() {
    let mut machine = Machine::new(interruptible());
    let before = machine.vcpu.clone();
    assert_eq!(machine.prepare(), Next::Enter);
    assert_eq!(machine.vcpu, before);
    assert_eq!(machine.state.counters.injected, 0);
}

#[test]
fn nmis_come_first_then_the_8259_then_the_local_apic() {
    let mut machine = Machine::new(interruptible());
    machine.raise_at_the_lapic();
    machine.raise_at_the_pic();
    // The mailbox already has mail, so nobody has to be told.
    assert!(!machine.state.port.mailbox.post_nmi());
    let events: Vec<Event> = (0..3).filter_map(|_| machine.delivered()).collect();
    assert_eq!(events, [Event::NMI, Event::interrupt(PIC_VECTOR), Event::interrupt(APIC_VECTOR)]);
    assert!(!machine.vcpu.interrupt_window && !machine.vcpu.nmi_window, "nothing is left");
    assert_eq!((machine.delivered(), machine.state.counters.injected), (None, 3));
}

#[test]
fn what_waits_behind_another_event_opens_the_window() {
    let mut machine = Machine::new(interruptible());
    machine.raise_at_the_lapic();
    machine.raise_at_the_pic();
    assert_eq!(machine.delivered(), Some(Event::interrupt(PIC_VECTOR)));
    assert!(machine.vcpu.interrupt_window, "the local APIC's still waits");
}

#[test]
fn with_interrupts_off_the_window_opens() {
    for raise in [Machine::raise_at_the_lapic, Machine::raise_at_the_pic] {
        let mut machine = Machine::new(FakeVcpu::protected32());
        raise(&machine);
        assert_eq!(machine.delivered(), None);
        assert!(machine.vcpu.interrupt_window);
        machine.vcpu.rflags |= Rflags::IF;
        assert!(machine.delivered().is_some());
        assert!(!machine.vcpu.interrupt_window);
    }
}

#[test]
fn an_nmi_waits_for_the_end_of_the_one_before() {
    let mut machine = Machine::new(interruptible());
    machine.vcpu.nmi_blocked = true;
    machine.raise_nmi();
    assert_eq!(machine.delivered(), None);
    assert!(machine.vcpu.nmi_window);
    machine.vcpu.nmi_blocked = false;
    assert_eq!(machine.delivered(), Some(Event::NMI));
    assert!(!machine.vcpu.nmi_window);
}

#[test]
fn an_event_that_waits_already_goes_first() {
    let mut machine = Machine::new(interruptible());
    let event = Event::exception(Exception::Debug);
    machine.vcpu.inject(event);
    machine.raise_at_the_lapic();
    assert_eq!(machine.delivered(), Some(event));
    assert!(machine.vcpu.interrupt_window);
    assert_eq!(machine.delivered(), Some(Event::interrupt(APIC_VECTOR)));
}

const HLT: u8 = 0xf4;
const NOP: u8 = 0x90;

/// The instruction after STI is about to execute, and an interrupt waits.
fn after_sti(vcpu: FakeVcpu, instruction: u8) -> Machine {
    let machine = Machine::new(FakeVcpu { shadow: true, rip: 0x1000, ..vcpu });
    machine.state.vm.memory().store(Gpa(0x1000), Width::Byte, instruction.into()).expect("RAM");
    machine.raise_at_the_lapic();
    machine
}

#[test]
fn hlt_after_sti_ends_at_once() {
    let mut machine = after_sti(interruptible(), HLT);
    assert_eq!(machine.delivered(), Some(Event::interrupt(APIC_VECTOR)));
    assert_eq!((machine.vcpu.rip, machine.vcpu.shadow), (0x1001, false));
}

#[test]
fn any_other_instruction_after_sti_executes_first() {
    let in_ring_3 = FakeVcpu { cpl: 3, ..interruptible() };
    for (vcpu, instruction) in [(interruptible(), NOP), (in_ring_3, HLT), (FakeVcpu::protected32(), HLT)] {
        let mut machine = after_sti(vcpu, instruction);
        assert_eq!(machine.delivered(), None);
        assert_eq!((machine.vcpu.rip, machine.vcpu.shadow), (0x1000, true));
        assert!(machine.vcpu.interrupt_window);
    }
}

#[test]
fn hlt_after_sti_halts_where_nothing_waits() {
    let mut machine = after_sti(interruptible(), HLT);
    machine.vcpu.cr8 = APIC_CLASS;
    assert_eq!(machine.delivered(), None);
    assert_eq!(machine.vcpu.rip, 0x1000);
}

#[test]
fn what_the_task_priority_masks_waits_for_the_threshold() {
    let mut machine = Machine::new(interruptible());
    machine.vcpu.cr8 = APIC_CLASS + 2;
    machine.raise_at_the_lapic();
    assert_eq!(machine.delivered(), None);
    assert_eq!((machine.vcpu.tpr_threshold, machine.vcpu.interrupt_window), (APIC_CLASS, false));
    machine.vcpu.cr8 = APIC_CLASS - 1;
    assert_eq!(machine.delivered(), Some(Event::interrupt(APIC_VECTOR)));
    assert_eq!(machine.vcpu.tpr_threshold, 0);
}

#[test]
fn an_interrupt_window_goes_before_the_threshold() {
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.vcpu.cr8 = APIC_CLASS;
    machine.raise_at_the_lapic();
    machine.raise_at_the_pic();
    assert_eq!(machine.delivered(), None);
    assert_eq!((machine.vcpu.tpr_threshold, machine.vcpu.interrupt_window), (0, true));
}

#[test]
fn a_halted_guest_waits_until_something_is_delivered() {
    let mut machine = Machine::halted(interruptible());
    assert_eq!(machine.prepare(), Next::Wait);
    assert!(machine.state.halted);
    machine.raise_at_the_lapic();
    assert_eq!(machine.delivered(), Some(Event::interrupt(APIC_VECTOR)));
    assert!(!machine.state.halted);
}

#[test]
fn a_guest_that_halts_with_interrupts_off_stops() {
    let mut machine = Machine::halted(FakeVcpu::protected32());
    machine.raise_at_the_lapic();
    assert_eq!((machine.prepare(), machine.state.stop), (Next::Stop, Some(StopReason::Halted)));
    let mut machine = Machine::halted(FakeVcpu::protected32());
    machine.raise_nmi();
    assert_eq!(machine.delivered(), Some(Event::NMI), "an NMI wakes it");
}

#[test]
fn power_events_become_reasons_to_stop() {
    let off = 1 << 5 | u32::from(platform::S5_SLP_TYP) << 2;
    for (port, value, reason) in [
        (platform::PM1A_CNT.first + 1, off, StopReason::PowerOff("ACPI S5")),
        (platform::RESET.first, platform::RESET_VALUE.into(), StopReason::Reset("port 0xCF9")),
        (0x92, 1, StopReason::Reset("port 0x92")),
    ] {
        let mut machine = Machine::new(interruptible());
        machine.write_port(port, value);
        assert!(machine.state.hazard());
        assert_eq!((machine.prepare(), machine.state.stop), (Next::Stop, Some(reason)));
    }
}

#[test]
fn a_guest_stops_for_its_first_reason() {
    let mut machine = Machine::new(interruptible());
    machine.state.stop(StopReason::TripleFault);
    machine.write_port(platform::RESET.first, platform::RESET_VALUE.into());
    assert_eq!((machine.prepare(), machine.state.stop), (Next::Stop, Some(StopReason::TripleFault)));
}

#[test]
fn a_stop_without_a_reason_is_none() {
    let mut machine = Machine::new(interruptible());
    machine.state.port.alert(hazard::STOP);
    machine.raise_at_the_lapic();
    assert_eq!(machine.delivered(), Some(Event::interrupt(APIC_VECTOR)));
}

#[test]
fn init_for_the_bootstrap_cpu_is_a_reset() {
    let mut machine = Machine::new(interruptible());
    assert!(machine.state.port.mailbox.post_init());
    assert_eq!((machine.prepare(), machine.state.stop), (Next::Stop, Some(StopReason::Reset("INIT"))));
}

/// Arms the local APIC's timer for this guest TSC.
fn arm(machine: &mut Machine, deadline: u64) {
    let tsc_deadline_mode = Lvt::from_bits_retain(2 << 17 | u32::from(APIC_VECTOR));
    machine.state.lapic.write(reg::LVT_TIMER, Width::Dword, tsc_deadline_mode.bits(), 0);
    machine.state.lapic.set_tsc_deadline(deadline);
}

/// Starts counter 0 of the timer as rate generator with its longest period.
fn start_the_board_timer(machine: &Machine) {
    for (offset, value) in [(3, 0x34), (0, 0), (0, 0)] {
        machine.write_port(platform::PIT.first + offset, value);
    }
}

#[test]
fn the_next_deadline_is_the_earlier_of_board_and_local_apic() {
    const OFFSET: u64 = 1_000_000;
    let mut machine = Machine::new(FakeVcpu { tsc_offset: OFFSET, ..interruptible() });
    let mode_0_without_a_count = 0x30;
    machine.write_port(platform::PIT.last(), mode_0_without_a_count);
    assert_eq!(next_deadline(&machine.vcpu, &machine.state), NEVER);
    start_the_board_timer(&machine);
    let board = next_deadline(&machine.vcpu, &machine.state);
    // 65536 periods of 1.193182 MHz.
    let ticks = TSC_KHZ * 54_925_401 / 1_000_000;
    assert!(board.abs_diff(ticks) < TSC_KHZ, "{board} instead of about {ticks}");
    for (host_tsc, earlier) in [(board - 1, board - 1), (board, board), (board + 1, board)] {
        arm(&mut machine, host_tsc - OFFSET);
        assert_eq!(next_deadline(&machine.vcpu, &machine.state), earlier);
    }
    arm(&mut machine, u64::MAX);
    assert_eq!(next_deadline(&machine.vcpu, &machine.state), board, "no overflow");
}

#[test]
fn timers_are_looked_at_when_told_or_halted() {
    let due = |halted, bits| {
        let mut machine = Machine::new(interruptible());
        arm(&mut machine, 900);
        machine.vcpu.host_tsc = 1000;
        machine.state.halted = halted;
        machine.state.port.hazard.raise(bits);
        machine.delivered()
    };
    assert_eq!(due(false, hazard::EVENT), None);
    assert_eq!(due(false, hazard::TIMER), Some(Event::interrupt(APIC_VECTOR)));
    assert_eq!(due(true, hazard::HALT), Some(Event::interrupt(APIC_VECTOR)));
}

#[test]
fn the_boards_timer_interrupts_when_it_is_due() {
    let mut machine = Machine::new(interruptible());
    machine.raise_at_the_pic();
    assert_eq!(machine.delivered(), Some(Event::interrupt(PIC_VECTOR)));
    start_the_board_timer(&machine);
    machine.write_port(PIC_DATA, !(1 << platform::PIT_IRQ) & 0xff);
    machine.vcpu.host_tsc = next_deadline(&machine.vcpu, &machine.state);
    machine.state.port.alert(hazard::TIMER);
    assert_eq!(machine.delivered(), Some(Event::interrupt(PIC_VECTORS + platform::PIT_IRQ)));
    let next = next_deadline(&machine.vcpu, &machine.state);
    assert!(next > machine.vcpu.host_tsc && next != NEVER, "it is periodic");
}

#[test]
fn a_time_limit_is_a_deadline_and_ends_the_virtual_machine() {
    let expires = 5 * TSC_KHZ;
    for halted in [false, true] {
        let mut machine = Machine::new(FakeVcpu::real());
        machine.state.expires = expires;
        machine.state.halted = halted;
        machine.vcpu.rflags.set(Rflags::IF, true);
        // The guest's own clock has no say in it.
        machine.vcpu.set_tsc(1 << 60);
        machine.vcpu.host_tsc = expires - 1;
        assert!(next_deadline(&machine.vcpu, &machine.state) <= expires);
        machine.state.port.alert(hazard::TIMER);
        assert_ne!(machine.prepare(), Next::Stop, "halted: {halted}");
        machine.vcpu.host_tsc = expires;
        machine.state.port.alert(hazard::TIMER);
        assert_eq!(machine.prepare(), Next::Stop, "halted: {halted}");
        assert_eq!(machine.state.stop, Some(StopReason::TimeLimit));
    }
}

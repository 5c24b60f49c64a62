//! Lines to both interrupt controllers, and their messages to CPUs.

use super::*;
use crate::emulate::Bus;
use crate::lapic::{Ipi, Lapic, LapicEffect, Signals, Target, TimerClock};
use crate::memory::Width;
use x86defs::apic::{DeliveryMode, reg};

const VECTOR: u8 = 0x61;
const IER: u16 = platform::COM1.first + 1;
const MCR: u16 = platform::COM1.first + 4;
/// Interrupts of the receiver, let through to the line.
const RECEIVER: [(u16, u8); 2] = [(MCR, 1 << 3), (IER, 1)];
/// Interrupts of the transmitter, which is empty.
const TRANSMITTER: [(u16, u8); 2] = [(MCR, 1 << 3), (IER, 2)];

/// Bits of an I/O APIC entry's low half.
const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;
const REDIRECTION: u32 = 0x10;

impl Bench {
    /// Programs a redirection entry, with a physical destination.
    fn route(&self, pin: u32, low: u32, destination: u8) {
        for (register, value) in
            [(REDIRECTION + 2 * pin + 1, u32::from(destination) << 24), (REDIRECTION + 2 * pin, low)]
        {
            let messages = {
                let mut ioapic = self.board.ioapic.lock();
                ioapic.write(0, 4, register);
                ioapic.write(0x10, 4, value)
            };
            self.board.send(&messages);
        }
    }

    /// What waits for each CPU, as a fresh local APIC sees it.
    fn received(&self) -> Vec<Received> {
        let take = |(id, cpu): (u32, &Arc<VcpuPort>)| {
            let mut lapic = lapic(id);
            let signals = lapic.drain(&cpu.mailbox);
            let nmi = lapic.take_nmi();
            Received { vector: lapic.next_interrupt(), nmi, ext_int: lapic.ext_int_pending(), signals }
        };
        (0..).zip(&self.cpus).map(take).collect()
    }
}

fn lapic(id: u32) -> Lapic {
    Lapic::new(id, id == 0, 40, TimerClock::for_tsc(1_000_000)).after_firmware()
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Received {
    vector: Option<u8>,
    nmi: bool,
    ext_int: bool,
    signals: Signals,
}

impl Received {
    fn nothing() -> Self {
        Self::default()
    }
    fn vector(vector: u8) -> Self {
        Self { vector: Some(vector), ..Self::default() }
    }
}

#[test]
fn a_line_raises_the_8259_which_has_its_wire_to_the_first_cpu() {
    let bench = Bench::new(2);
    bench.program(&TRANSMITTER);
    assert_eq!(bench.received(), [Received::nothing(), Received::nothing()], "all is masked");
    bench.program(&[(0x21, !(1 << platform::COM1_IRQ))]);
    assert_eq!(bench.cpus[0].hazard.take(), hazard::EVENT);
    assert!(!bench.cpus[1].hazard.any());
    let mut lapic = lapic(0);
    lapic.drain(&bench.cpus[0].mailbox);
    assert!(lapic.ext_int_pending());
    let firmware_vectors = 8;
    assert_eq!(bench.board.acknowledge_pic(), firmware_vectors + platform::COM1_IRQ);
    lapic.drain(&bench.cpus[0].mailbox);
    assert!(!lapic.ext_int_pending(), "the wire is low again");
}

#[test]
fn lines_of_the_second_8259_come_through_the_first() {
    let bench = Bench::new(1);
    let alarm_every_second = [(0x70, 0x0b), (0x71, 1 << 4 | 1 << 1)];
    bench.program(&alarm_every_second);
    bench.program(&[(0x21, !(1 << 2)), (0xa1, !(1 << (platform::RTC_IRQ - 8)))]);
    bench.board.run_due(Nanos(bench.board.next_deadline()));
    bench.board.run_due(Nanos(2_000_000_000));
    assert!(bench.received()[0].ext_int);
    let firmware_vectors_of_the_second = 0x70;
    assert_eq!(bench.board.acknowledge_pic(), firmware_vectors_of_the_second);
}

#[test]
fn a_line_reaches_the_io_apics_pin_of_its_number() {
    let bench = Bench::new(2);
    bench.route(platform::COM1_IRQ.into(), VECTOR.into(), 1);
    bench.program(&TRANSMITTER);
    assert_eq!(bench.cpus[1].hazard.take(), hazard::EVENT);
    assert_eq!(bench.received(), [Received::nothing(), Received::vector(VECTOR)]);
}

#[test]
fn the_timer_is_at_pin_2_and_each_tick_is_an_edge() {
    let bench = Bench::new(1);
    let rate_generator = [(0x43, 0x34), (0x40, 0), (0x40, 0x10)];
    bench.program(&rate_generator);
    let pin_0_is_not_the_timers = 0x50;
    bench.route(u32::from(platform::PIT_IRQ), pin_0_is_not_the_timers, 0);
    bench.route(platform::PIT_GSI, VECTOR.into(), 0);
    for tick in 0..3 {
        bench.board.run_due(Nanos(bench.board.next_deadline()));
        assert_eq!(bench.received(), [Received::vector(VECTOR)], "tick {tick}");
    }
}

#[test]
fn a_deadline_tells_the_first_cpu() {
    let bench = Bench::new(1);
    bench.program(&[(0x43, 0x34), (0x40, 0), (0x40, 0x10)]);
    assert_eq!(bench.cpus[0].hazard.take(), hazard::TIMER);
    let at = bench.board.next_deadline();
    bench.board.run_due(Nanos(at - 1));
    assert_eq!(bench.board.next_deadline(), at, "not before its time");
    bench.board.run_due(Nanos(at));
    assert!(bench.board.next_deadline() > at);
}

#[test]
fn a_level_that_stays_is_delivered_again_after_its_eoi() {
    let bench = Bench::new(1);
    bench.route(platform::COM1_IRQ.into(), LEVEL | u32::from(VECTOR), 0);
    bench.program(&RECEIVER);
    assert!(bench.board.type_to_serial(b'a', Nanos(0)));
    assert_eq!(bench.received(), [Received::vector(VECTOR)]);
    bench.board.end_of_interrupt(VECTOR + 1);
    assert_eq!(bench.received(), [Received::nothing()], "another vector's EOI");
    bench.board.end_of_interrupt(VECTOR);
    assert_eq!(bench.received(), [Received::vector(VECTOR)]);
    assert_eq!(bench.input(platform::COM1.first, 1), u32::from(b'a'));
    bench.board.end_of_interrupt(VECTOR);
    assert_eq!(bench.received(), [Received::nothing()], "the line has fallen");
}

#[test]
fn an_eoi_at_the_local_apic_reaches_the_io_apic() {
    let bench = Bench::new(1);
    bench.route(platform::COM1_IRQ.into(), LEVEL | u32::from(VECTOR), 0);
    bench.program(&RECEIVER);
    bench.board.type_to_serial(b'a', Nanos(0));
    let mut lapic = lapic(0);
    lapic.drain(&bench.cpus[0].mailbox);
    lapic.acknowledge(VECTOR);
    let effect = lapic.write(reg::EOI, Width::Dword, 0, 0);
    assert_eq!(effect, LapicEffect::Eoi(VECTOR));
    bench.board.apply_lapic(&lapic, &bench.cpus[0], effect);
    assert_eq!(bench.received(), [Received::vector(VECTOR)]);
}

#[test]
fn a_masked_level_is_delivered_when_the_mask_goes() {
    let bench = Bench::new(1);
    let entry = LEVEL | u32::from(VECTOR);
    bench.route(platform::COM1_IRQ.into(), MASKED | entry, 0);
    bench.program(&TRANSMITTER);
    assert_eq!(bench.received(), [Received::nothing()]);
    bench.route(platform::COM1_IRQ.into(), entry, 0);
    assert_eq!(bench.received(), [Received::vector(VECTOR)]);
}

#[test]
fn each_delivery_mode_arrives_as_what_it_is() {
    let signals = |init, startup| Received { signals: Signals { init, startup }, ..Received::default() };
    for (mode, expected) in [
        (DeliveryMode::Fixed, Received::vector(VECTOR)),
        (DeliveryMode::LowestPriority, Received::vector(VECTOR)),
        (DeliveryMode::Nmi, Received { nmi: true, ..Received::default() }),
        (DeliveryMode::Init, signals(true, None)),
        (DeliveryMode::Startup, signals(false, Some(VECTOR))),
        (DeliveryMode::ExtInt, Received { ext_int: true, ..Received::default() }),
        (DeliveryMode::Smi, Received::nothing()),
        (DeliveryMode::Reserved, Received::nothing()),
    ] {
        let bench = Bench::new(3);
        bench.board.deliver(Ipi { target: Target::Physical(1), mode, vector: VECTOR }, false, Some(0));
        let told = if expected == Received::nothing() { 0 } else { hazard::EVENT };
        assert_eq!(bench.cpus[1].hazard.take(), told, "{mode:?}");
        assert_eq!(bench.received(), [Received::nothing(), expected, Received::nothing()], "{mode:?}");
    }
}

#[test]
fn targets_name_one_some_or_all() {
    let reached = |target, mode| {
        let bench = Bench::new(3);
        bench.board.deliver(Ipi { target, mode, vector: VECTOR }, false, Some(1));
        let ids = (0..).zip(bench.received()).filter(|(_, r)| r.vector.is_some()).map(|(id, _)| id);
        ids.collect::<Vec<u32>>()
    };
    assert_eq!(reached(Target::All, DeliveryMode::Fixed), [0, 1, 2]);
    assert_eq!(reached(Target::AllButSelf, DeliveryMode::Fixed), [0, 2]);
    assert_eq!(reached(Target::Physical(2), DeliveryMode::Fixed), [2]);
    assert_eq!(reached(Target::Physical(9), DeliveryMode::Fixed), []);
    assert_eq!(reached(Target::Logical(0b110), DeliveryMode::Fixed), [1, 2]);
    assert_eq!(reached(Target::Logical(0b110), DeliveryMode::LowestPriority).len(), 1, "one of them");
}

#[test]
fn the_second_of_two_interrupts_tells_nobody_again() {
    let bench = Bench::new(1);
    let ipi = |vector| Ipi { target: Target::All, mode: DeliveryMode::Fixed, vector };
    bench.board.deliver(ipi(VECTOR), false, None);
    assert_eq!(bench.cpus[0].hazard.take(), hazard::EVENT);
    bench.board.deliver(ipi(VECTOR + 1), false, None);
    assert!(!bench.cpus[0].hazard.any(), "it has not looked yet");
    assert_eq!(bench.received(), [Received::vector(VECTOR + 1)]);
}

#[test]
fn a_write_to_icr_in_memory_sends_an_ipi() {
    let bench = Bench::new(2);
    let mut lapic = lapic(0);
    let page = platform::LAPIC_BASE;
    let mut bus =
        MemoryBus { board: &bench.board, lapic: &mut lapic, tsc: 0, now: Nanos(0), port: &bench.cpus[0] };
    bus.write(page.offset(reg::ICR_HIGH.into()), Width::Dword, 1 << 24);
    bus.write(page.offset(reg::ICR_LOW.into()), Width::Dword, VECTOR.into());
    assert_eq!(bench.received(), [Received::nothing(), Received::vector(VECTOR)]);
    assert!(!bench.cpus[0].hazard.any());
}

#[test]
fn a_new_address_of_a_local_apic_is_published() {
    let bench = Bench::new(1);
    let mut lapic = lapic(0);
    let effect = lapic.write(reg::LDR, Width::Dword, 0x40 << 24, 0);
    bench.board.apply_lapic(&lapic, &bench.cpus[0], effect);
    assert_eq!(bench.cpus[0].mailbox.address().logical, 0x40);
}

#[test]
fn the_nmi_button_follows_ports_61_and_70() {
    let bench = Bench::new(1);
    let mut lapic = Lapic::new(0, true, 40, TimerClock::for_tsc(1_000_000)).after_firmware();
    let mut nmi = |bench: &Bench| {
        lapic.drain(&bench.cpus[0].mailbox);
        lapic.take_nmi()
    };
    bench.board.press_nmi_button();
    assert_eq!(bench.cpus[0].hazard.take() & hazard::EVENT, hazard::EVENT);
    assert!(nmi(&bench) && !nmi(&bench), "one NMI");
    bench.board.press_nmi_button();
    assert!(!nmi(&bench), "the line is high still");
    bench.program(&[(0x61, 0x08), (0x61, 0x00), (0x70, 0x80)]);
    bench.board.press_nmi_button();
    assert!(!nmi(&bench), "held back by port 0x70");
    assert_eq!(bench.input(0x61, 1) & 0x40, 0x40, "but seen");
    bench.program(&[(0x70, 0x00)]);
    assert!(nmi(&bench), "let through");
}

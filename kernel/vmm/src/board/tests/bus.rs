//! The memory bus: the local APIC's page, the I/O APIC's, the event timers, and nobody.

use super::*;
use crate::emulate::Bus;
use crate::lapic::{Lapic, TimerClock};
use crate::memory::Width;
use x86defs::addr::{Gpa, PAGE_SIZE};
use x86defs::apic::{ApicBase, reg};

const IOAPIC: Gpa = platform::IOAPIC_BASE;
const IOWIN: Gpa = IOAPIC.offset(0x10);

fn with_bus(lapic: &mut Lapic, action: impl FnOnce(&mut MemoryBus<'_>)) {
    let bench = Bench::new(1);
    action(&mut bus_at(&bench, lapic, 0));
}

fn bus_at<'a>(bench: &'a Bench, lapic: &'a mut Lapic, nanos: u64) -> MemoryBus<'a> {
    MemoryBus { board: &bench.board, lapic, tsc: 0, now: Nanos(nanos), port: &bench.cpus[0] }
}

fn lapic() -> Lapic {
    Lapic::new(0, true, 40, TimerClock::for_tsc(1_000_000)).after_firmware()
}

#[test]
fn the_io_apic_has_an_index_and_a_window() {
    with_bus(&mut lapic(), |bus| {
        let redirection_entry_high = 0x11;
        bus.write(IOAPIC, Width::Dword, redirection_entry_high);
        bus.write(IOWIN, Width::Dword, 0x5a00_0000);
        assert_eq!(bus.read(IOWIN, Width::Dword), 0x5a00_0000);
        assert_eq!(bus.read(IOWIN.offset(3), Width::Byte), 0x5a);
        let version = 1;
        bus.write(IOAPIC, Width::Byte, version);
        assert_eq!(bus.read(IOWIN, Width::Dword), 23 << 16 | 0x20, "24 pins");
        assert_eq!(bus.read(IOWIN, Width::Byte), 0x20, "no more than its width");
    });
}

#[test]
fn the_local_apic_answers_where_its_base_says() {
    let mut lapic = lapic();
    let moved = Gpa(0xfed0_0000);
    let base = moved.0 | (ApicBase::BSP | ApicBase::EN).bits();
    lapic.set_base(base).expect("a legal base");
    with_bus(&mut lapic, |bus| {
        let tpr = u64::from(reg::TPR);
        bus.write(moved.offset(tpr), Width::Dword, 0x70);
        assert_eq!(bus.read(moved.offset(tpr), Width::Dword), 0x70);
        assert_eq!(bus.read(platform::LAPIC_BASE.offset(tpr), Width::Dword), 0xffff_ffff);
    });
    assert_eq!(lapic.cr8(), 7);
}

#[test]
fn nobody_answers_with_ones_in_the_accesss_width() {
    with_bus(&mut lapic(), |bus| {
        for at in [Gpa(0xd000_0000), IOAPIC.offset(PAGE_SIZE), Gpa(IOAPIC.0 - 8)] {
            for width in [Width::Byte, Width::Word, Width::Dword, Width::Qword] {
                bus.write(at, width, 0);
                assert_eq!(bus.read(at, width), width.mask(), "{at} {width:?}");
            }
        }
    });
}

#[test]
fn an_access_of_eight_bytes_is_two_of_four() {
    with_bus(&mut lapic(), |bus| {
        bus.write(IOAPIC, Width::Qword, 0xffff_ffff_0000_0001);
        assert_eq!(bus.read(IOWIN, Width::Qword), 0xffff_ffff_0017_0020, "nothing is behind the window");
    });
}

const HPET: Gpa = platform::HPET_BASE;
const HPET_CONFIG: Gpa = HPET.offset(0x10);
const HPET_COUNTER: Gpa = HPET.offset(0xf0);
const HPET_TIMER_0: Gpa = HPET.offset(0x100);
const HPET_COMPARATOR_0: Gpa = HPET.offset(0x108);

#[test]
fn event_timers_take_whole_quadwords() {
    let (bench, mut lapic) = (Bench::new(1), lapic());
    let mut bus = bus_at(&bench, &mut lapic, 0);
    bus.write(HPET_COUNTER, Width::Qword, 0x1_2345_6789);
    assert_eq!(bus.read(HPET_COUNTER, Width::Qword), 0x1_2345_6789);
    assert_eq!(bus.read(HPET_COUNTER.offset(4), Width::Dword), 1);
    assert_eq!(bus.read(HPET, Width::Word), 0xa201, "no more than its width");
    bus.write(HPET_CONFIG, Width::Dword, 1);
    assert_eq!(bus_at(&bench, &mut lapic, 30).read(HPET_COUNTER, Width::Qword), 0x1_2345_678c);
    let end = HPET.offset(platform::HPET_SIZE.into());
    assert_eq!(bus_at(&bench, &mut lapic, 0).read(end, Width::Dword), 0xffff_ffff);
}

/// The I/O APIC delivers this pin, edge triggered, as this vector to CPU 0.
fn route(bus: &mut MemoryBus<'_>, pin: u64, vector: u64) {
    for (register, value) in [(0x11 + 2 * pin, 0), (0x10 + 2 * pin, vector)] {
        bus.write(IOAPIC, Width::Dword, register);
        bus.write(IOWIN, Width::Dword, value);
    }
}

#[test]
fn an_event_timer_interrupts_by_its_pin_at_its_deadline() {
    let (bench, mut lapic) = (Bench::new(1), lapic());
    let mut bus = bus_at(&bench, &mut lapic, 0);
    route(&mut bus, 21, 0x41);
    bus.write(HPET_TIMER_0, Width::Dword, 21 << 9 | 1 << 2);
    bus.write(HPET_COMPARATOR_0, Width::Qword, 100);
    bus.write(HPET_CONFIG, Width::Dword, 1);
    assert_eq!(bench.cpus[0].hazard.take() & hazard::TIMER, hazard::TIMER);
    let deadline = bench.board.next_deadline();
    assert!((1000..1010).contains(&deadline), "{deadline}");
    bench.board.run_due(Nanos(deadline));
    lapic.drain(&bench.cpus[0].mailbox);
    assert_eq!(lapic.next_interrupt(), Some(0x41));
}

#[test]
fn legacy_replacement_takes_the_lines_of_timer_and_clock() {
    const CLOCK_VECTOR: u64 = 0x48;
    let (bench, mut lapic) = (Bench::new(1), lapic());
    let mut bus = bus_at(&bench, &mut lapic, 0);
    route(&mut bus, platform::PIT_GSI.into(), 0x42);
    route(&mut bus, platform::RTC_IRQ.into(), CLOCK_VECTOR);
    bus.write(HPET_CONFIG, Width::Dword, 1 << 1);
    // The 8254 runs from the start; the clock interrupts each second.
    bench.program(&[(0x70, 0x0b), (0x71, 1 << 1 | 1 << 4)]);
    bench.board.run_due(Nanos(2_000_000_000));
    lapic.drain(&bench.cpus[0].mailbox);
    assert_eq!(lapic.next_interrupt(), None, "both are cut off");
    bus_at(&bench, &mut lapic, 2_000_000_000).write(HPET_CONFIG, Width::Dword, 0);
    lapic.drain(&bench.cpus[0].mailbox);
    assert_eq!(lapic.next_interrupt(), Some(CLOCK_VECTOR as u8), "the clock's line was high");
}

#[test]
fn legacy_replacement_drives_isa_line_0() {
    let (bench, mut lapic) = (Bench::new(1), lapic());
    let mut bus = bus_at(&bench, &mut lapic, 0);
    route(&mut bus, platform::PIT_GSI.into(), 0x42);
    bus.write(HPET_TIMER_0, Width::Dword, 1 << 2);
    bus.write(HPET_COMPARATOR_0, Width::Qword, 100);
    bus.write(HPET_CONFIG, Width::Dword, 1 << 1 | 1);
    bench.board.run_due(Nanos(2_000));
    lapic.drain(&bench.cpus[0].mailbox);
    assert_eq!(lapic.next_interrupt(), Some(0x42));
}

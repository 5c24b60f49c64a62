//! The memory bus: the local APIC's page, the I/O APIC's, and nobody.

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
    action(&mut MemoryBus { board: &bench.board, lapic, tsc: 0, port: &bench.cpus[0] });
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

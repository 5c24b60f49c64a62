//! The 8259A pair.

use runtime::hw::pit::{self, Mode};
use runtime::hw::port::{inb, outb};
use runtime::hw::rtc;
use runtime::hw::{lapic, pic};
use runtime::interrupt;
use runtime::time;
use runtime::{expect, expect_eq, guest_test, platform_wrong};

/// Counts of the PIT that make about a millisecond.
const MILLISECOND: u16 = (pit::FREQUENCY / 1000) as u16;

/// Lets one interrupt of the PIT become pending in the PIC, which is masked meanwhile. The CPU has interrupts
/// enabled, since Bochs lets no host timer into a guest that has them disabled.
fn make_irq_0_pending() {
    pic::set_mask(0xffff);
    pit::program(0, Mode::TerminalCount, MILLISECOND);
    interrupt::enable();
    let pending = time::wait_us(20_000, || pic::irr() & 1 != 0);
    interrupt::disable();
    expect!(pending, "IRR is {:#x} after the PIT's terminal count", pic::irr());
}

guest_test!(mask_reads_back);
fn mask_reads_back() {
    for mask in [0xffff, 0xa55a, 0x0fb0] {
        pic::set_mask(mask);
        expect_eq!(pic::mask(), mask, "mask");
    }
}

guest_test!(pit_interrupt);
fn pit_interrupt() {
    lapic::virtual_wire();
    make_irq_0_pending();
    interrupt::enable();
    expect_eq!(interrupt::count(pic::vector(pit::IRQ)), 0, "interrupts of a masked line");
    pic::unmask_only(pit::IRQ);
    let taken = time::wait_us(20_000, || interrupt::count(pic::vector(pit::IRQ)) == 1);
    interrupt::disable();
    expect!(taken, "no interrupt, IRR {:#x}", pic::irr());
    expect_eq!(pic::isr(), 1, "in-service register before EOI");
    pic::eoi();
    expect_eq!(pic::isr(), 0, "in-service register after EOI");
}

guest_test!(in_service_blocks_lower);
fn in_service_blocks_lower() {
    lapic::virtual_wire();
    make_irq_0_pending();
    pic::unmask_only(pit::IRQ);
    interrupt::enable();
    expect!(time::wait_us(20_000, || pic::isr() == 1), "ISR {:#x}", pic::isr());
    // A second edge while the first is in service stays in the request register.
    pit::program(0, Mode::TerminalCount, MILLISECOND);
    expect!(time::wait_us(20_000, || pic::irr() & 1 != 0), "IRR {:#x}", pic::irr());
    expect_eq!(interrupt::count(pic::vector(0)), 1, "interrupts before EOI");
    pic::eoi();
    let taken = time::wait_us(20_000, || interrupt::count(pic::vector(0)) == 2);
    interrupt::disable();
    expect!(taken, "{} interrupts after EOI", interrupt::count(pic::vector(0)));
}

guest_test!(slave_interrupt);
fn slave_interrupt() {
    lapic::virtual_wire();
    let vector = pic::vector(rtc::IRQ);
    let before = rtc::read(rtc::REGISTER_B);
    rtc::write(rtc::REGISTER_B, before | rtc::B_PERIODIC);
    let _ = rtc::read(rtc::REGISTER_C);
    pic::unmask_only(rtc::IRQ);
    interrupt::enable();
    let taken = time::wait_us(50_000, || interrupt::count(vector) == 1);
    interrupt::disable();
    rtc::write(rtc::REGISTER_B, before);
    expect!(taken, "no interrupt of the RTC, IRR {:#x}", pic::irr());
    expect_eq!(pic::isr(), 0x0104, "in-service registers: slave line 0 and the cascade");
    outb(pic::SLAVE, pic::OCW2_EOI);
    outb(pic::MASTER, pic::OCW2_EOI);
    expect_eq!(pic::isr(), 0, "in-service registers after both EOIs");
}

guest_test!(specific_eoi);
fn specific_eoi() {
    lapic::virtual_wire();
    make_irq_0_pending();
    pic::unmask_only(pit::IRQ);
    interrupt::enable();
    expect!(time::wait_us(20_000, || pic::isr() == 1), "ISR {:#x}", pic::isr());
    interrupt::disable();
    outb(pic::MASTER, pic::OCW2_SPECIFIC_EOI | 3);
    expect_eq!(pic::isr(), 1, "ISR after an EOI for line 3");
    outb(pic::MASTER, pic::OCW2_SPECIFIC_EOI);
    expect_eq!(pic::isr(), 0, "ISR after an EOI for line 0");
}

guest_test!(poll_mode);
fn poll_mode() {
    /// OCW3 with the poll bit.
    const POLL: u8 = 1 << 3 | 1 << 2;
    platform_wrong!(Bochs, "the poll byte lacks its interrupt bit");
    make_irq_0_pending();
    // LINT0 is masked, so that nobody else acknowledges.
    pic::unmask_only(pit::IRQ);
    outb(pic::MASTER, POLL);
    expect_eq!(inb(pic::MASTER) & 0x87, 0x80, "poll byte with line 0 pending");
    expect_eq!(pic::isr(), 1, "ISR after the poll");
    pic::eoi();
}

guest_test!(edge_level_registers);
fn edge_level_registers() {
    /// Lines 0, 1, 2 and 8, 13 are edge triggered for ever (82371AB, 4.2.5).
    const LEVELS: [u8; 2] = [0xf8, 0xde];
    for (port, levels) in (pic::ELCR..).zip(LEVELS) {
        let before = inb(port);
        let kept = [0x20, 0, u8::MAX].map(|value| {
            outb(port, value);
            inb(port)
        });
        outb(port, before);
        expect_eq!(kept, [0x20 & levels, 0, levels], "port {port:#x} after 0x20, 0, 0xff");
    }
}

guest_test!(initialisation_drops_edges);
fn initialisation_drops_edges() {
    lapic::virtual_wire();
    make_irq_0_pending();
    // The line goes low with the PIT's mode, and ICW1 forgets the edge (8259A data sheet, "Initialization").
    pic::unmask_only(pit::IRQ);
    pit::set_mode(0, Mode::TerminalCount);
    pic::init();
    expect_eq!(pic::irr() & 1, 0, "IRR bit of line 0");
    expect_eq!(pic::mask(), 0xffff, "mask");
    pic::unmask_only(pit::IRQ);
    interrupt::enable();
    interrupt::disable();
    expect_eq!(interrupt::count(pic::vector(pit::IRQ)), 0, "interrupts");
    // An interrupt that went away in the middle of its acknowledgement may take line 7's vector; it is not in
    // service then.
    expect_eq!(pic::isr(), 0, "in-service registers");
}

//! The 16550 UART, in loopback so that reports are not disturbed.

use runtime::hw::uart::{COM1, COM1_IRQ, Fcr, Ier, Lcr, Lsr, Mcr, Msr, iir};
use runtime::hw::{lapic, pic};
use runtime::interrupt;
use runtime::serial;
use runtime::time;
use runtime::{expect, expect_eq, guest_test, platform_wrong};

/// Capacity of a FIFO.
const FIFO: u8 = 16;

/// Loopback, FIFOs empty and enabled, interrupts routed but not enabled.
fn loopback() {
    serial::drain();
    COM1.set_ier(0);
    COM1.set_mcr(Mcr::LOOP | Mcr::OUT2);
    COM1.set_fcr(Fcr::ENABLE | Fcr::CLEAR_RX | Fcr::CLEAR_TX | Fcr::TRIGGER_8);
    while COM1.lsr().contains(Lsr::DR) {
        let _ = COM1.rbr();
    }
    let _ = COM1.msr();
}

fn wait_for_data() {
    expect!(time::wait_us(20_000, || COM1.lsr().contains(Lsr::DR)), "{:?}: nothing received", COM1.lsr());
}

fn send(byte: u8) {
    expect!(time::wait_us(20_000, || COM1.lsr().contains(Lsr::THRE)), "{:?}: transmitter busy", COM1.lsr());
    COM1.set_thr(byte);
}

guest_test!(scratch);
fn scratch() {
    for value in [0x00, 0xff, 0x5a] {
        COM1.set_scr(value);
        expect_eq!(COM1.scr(), value, "scratch register");
    }
}

guest_test!(divisor_latch);
fn divisor_latch() {
    serial::drain();
    let before = COM1.divisor();
    COM1.set_divisor(0x1234);
    let value = COM1.divisor();
    COM1.set_divisor(before);
    expect_eq!(value, 0x1234, "divisor");
    expect_eq!(COM1.divisor(), before, "divisor");
}

guest_test!(line_control_reads_back);
fn line_control_reads_back() {
    serial::drain();
    for value in [0x03, 0x1b, 0x02] {
        COM1.set_lcr(Lcr::from_bits_retain(value));
        expect_eq!(COM1.lcr(), value, "LCR");
    }
}

guest_test!(interrupt_enable_has_four_bits);
fn interrupt_enable_has_four_bits() {
    serial::drain();
    loopback();
    COM1.set_ier(0xff);
    let value = COM1.ier();
    COM1.set_ier(0);
    expect_eq!(value, 0x0f, "IER after writing 0xff");
}

guest_test!(idle_line_status);
fn idle_line_status() {
    loopback();
    let lsr = COM1.lsr();
    expect_eq!(lsr, Lsr::THRE | Lsr::TEMT, "LSR");
    expect_eq!(COM1.iir() & iir::FIFOS_ENABLED, iir::FIFOS_ENABLED, "FIFO bits of IIR");
    expect_eq!(COM1.iir() & iir::CAUSE, iir::NONE, "cause in IIR");
}

guest_test!(loopback_returns_bytes);
fn loopback_returns_bytes() {
    loopback();
    for byte in [0x00, 0x55, 0xff] {
        send(byte);
        wait_for_data();
        expect_eq!(COM1.rbr(), byte, "received byte");
    }
    expect!(!COM1.lsr().contains(Lsr::DR), "{:?} after reading all", COM1.lsr());
}

guest_test!(fifo_keeps_order);
fn fifo_keeps_order() {
    loopback();
    for byte in 1..=FIFO {
        send(byte);
    }
    expect!(time::wait_us(50_000, || COM1.lsr().contains(Lsr::TEMT)), "{:?}: not all sent", COM1.lsr());
    for byte in 1..=FIFO {
        wait_for_data();
        expect_eq!(COM1.rbr(), byte, "received byte");
    }
    expect!(!COM1.lsr().intersects(Lsr::DR | Lsr::OE), "{:?}", COM1.lsr());
}

guest_test!(clearing_the_fifo);
fn clearing_the_fifo() {
    platform_wrong!(Bochs, "LSR.DR stays when the receiver FIFO is cleared");
    loopback();
    send(1);
    wait_for_data();
    COM1.set_fcr(Fcr::ENABLE | Fcr::CLEAR_RX);
    expect!(!COM1.lsr().contains(Lsr::DR), "{:?}", COM1.lsr());
}

guest_test!(modem_status_in_loopback);
fn modem_status_in_loopback() {
    loopback();
    for (outputs, inputs) in [
        (Mcr::RTS, Msr::CTS),
        (Mcr::DTR, Msr::DSR),
        (Mcr::OUT1, Msr::RI),
        (Mcr::OUT2, Msr::DCD),
        (Mcr::RTS | Mcr::OUT2, Msr::CTS | Msr::DCD),
    ] {
        COM1.set_mcr(Mcr::LOOP | outputs);
        let levels = COM1.msr() & (Msr::CTS | Msr::DSR | Msr::RI | Msr::DCD);
        expect_eq!(levels, inputs, "modem inputs with {outputs:?}");
    }
}

/// Routes COM1's line to a vector that counts, and returns it.
fn route_interrupt() -> u8 {
    lapic::virtual_wire();
    let vector = pic::vector(COM1_IRQ);
    interrupt::handle(vector, pic::acknowledge);
    pic::unmask_only(COM1_IRQ);
    vector
}

guest_test!(transmitter_interrupt);
fn transmitter_interrupt() {
    loopback();
    let vector = route_interrupt();
    interrupt::enable();
    // An empty holding register interrupts as soon as it may.
    COM1.set_ier(Ier::ETBEI.bits());
    expect!(time::wait_us(20_000, || interrupt::count(vector) == 1), "no interrupt, IIR {:#x}", COM1.iir());
    interrupt::disable();
    expect_eq!(COM1.iir() & iir::CAUSE, iir::THRE, "cause");
    // Reading IIR has cleared it.
    expect_eq!(COM1.iir() & iir::CAUSE, iir::NONE, "cause after reading IIR");
}

guest_test!(receiver_interrupt);
fn receiver_interrupt() {
    loopback();
    // One byte is enough.
    COM1.set_fcr(Fcr::ENABLE);
    let vector = route_interrupt();
    COM1.set_ier(Ier::ERBFI.bits());
    interrupt::enable();
    expect_eq!(interrupt::count(vector), 0, "interrupts before a byte came");
    send(0x42);
    expect!(time::wait_us(20_000, || interrupt::count(vector) == 1), "no interrupt, IIR {:#x}", COM1.iir());
    interrupt::disable();
    expect_eq!(COM1.iir() & iir::CAUSE, iir::RDA, "cause");
    expect_eq!(COM1.rbr(), 0x42, "received byte");
    expect_eq!(COM1.iir() & iir::CAUSE, iir::NONE, "cause after reading the byte");
}

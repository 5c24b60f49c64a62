//! A guest that waits for the NMI button, a channel check, twice: first with NMIs masked by port 0x70.

use runtime::hw::port::{inb, outb};
use runtime::hw::{lapic, rtc};
use runtime::{interrupt, machine, power, println, time};
use x86defs::apic::{DeliveryMode, reg};

/// Its vector.
const NMI: u8 = 2;
/// Port B: the status of the channel check, and the bit that clears it and switches it off (82371AB, 4.2.3).
const PORT_B: u16 = 0x61;
const CHANNEL_CHECK: u8 = 1 << 6;
const CHANNEL_CHECK_OFF: u8 = 1 << 3;
/// In the index of the clock.
const NMI_MASK: u8 = 1 << 7;
/// Longest wait for somebody to press it.
const PATIENCE_US: u64 = 20_000_000;

pub(crate) fn run() -> ! {
    machine::restore();
    interrupt::handle(NMI, |_| {});
    // Nothing is unmasked, but Bochs's SVM lets no interrupt of the host through while the guest has them off.
    interrupt::enable();
    lapic::write(reg::LVT_LINT1, DeliveryMode::Nmi.bits());
    clear();
    outb(rtc::INDEX, NMI_MASK | rtc::REGISTER_D);
    println!("press with NMIs masked");
    wait(|| inb(PORT_B) & CHANNEL_CHECK != 0);
    println!("masked: channel check, {} NMIs", interrupt::count(NMI));
    outb(rtc::INDEX, rtc::REGISTER_D);
    wait(|| interrupt::count(NMI) != 0);
    println!("unmasked: {} NMIs", interrupt::count(NMI));
    clear();
    println!("press: status {}", inb(PORT_B) & CHANNEL_CHECK);
    wait(|| interrupt::count(NMI) != 1);
    println!("end: status {}, {} NMIs", inb(PORT_B) & CHANNEL_CHECK, interrupt::count(NMI));
    power::off()
}

fn clear() {
    outb(PORT_B, CHANNEL_CHECK_OFF);
    outb(PORT_B, 0);
}

fn wait(condition: impl FnMut() -> bool) {
    if !time::wait_us(PATIENCE_US, condition) {
        println!("nothing came");
        power::off()
    }
}

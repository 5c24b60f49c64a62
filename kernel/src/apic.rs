//! The host's interrupt controllers: the local APIC with its timer, and the I/O APIC pin of the console.
#![allow(unsafe_code, reason = "device registers and MSRs")]

use crate::cpu;
use crate::mem::paging::map_registers;
use crate::mem::stack::this_cpu;
use crate::trap::{CONSOLE_VECTOR, SPURIOUS_VECTOR, TIMER_VECTOR};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use vmm::firmware::Firmware;
use x86_64::instructions::port::Port;
use x86defs::addr::{Hpa, Hva};
use x86defs::apic::{ApicBase, reg, x2apic_msr};
use x86defs::msr::{IA32_APIC_BASE, IA32_TSC_DEADLINE};

/// LVT timer mode TSC-deadline, in bits 18:17 (SDM 3, 11.5.1).
const TSC_DEADLINE_MODE: u32 = 2 << 17;
/// An LVT entry's or redirection entry's mask bit.
const MASKED: u32 = 1 << 16;
/// Divide configuration: by 1 (SDM 3, figure 11-10).
const DIVIDE_BY_1: u32 = 0b1011;
/// SVR: the local APIC is enabled by software.
const SOFTWARE_ENABLE: u32 = 1 << 8;

/// Registers in xAPIC mode; 0: x2APIC mode.
static REGISTERS: AtomicU64 = AtomicU64::new(0);
static HAS_TSC_DEADLINE: AtomicBool = AtomicBool::new(false);
/// Timer ticks per TSC tick, as a 32.32 fixed-point number; used without TSC-deadline mode.
static TIMER_PER_TSC: AtomicU64 = AtomicU64::new(0);

fn read(register: u16) -> u32 {
    match REGISTERS.load(Ordering::Relaxed) {
        // SAFETY: in x2APIC mode these MSRs exist.
        0 => unsafe { cpu::rdmsr(x2apic_msr(register)) as u32 },
        // SAFETY: `init` mapped the register page.
        base => unsafe { ((base + u64::from(register)) as *const u32).read_volatile() },
    }
}

fn write(register: u16, value: u32) {
    match REGISTERS.load(Ordering::Relaxed) {
        // SAFETY: in x2APIC mode these MSRs exist and take these values.
        0 => unsafe { cpu::wrmsr(x2apic_msr(register), value.into()) },
        // SAFETY: `init` mapped the register page.
        base => unsafe { ((base + u64::from(register)) as *mut u32).write_volatile(value) },
    }
}

/// Takes the local APIC over, in whatever mode firmware left it.
pub fn init() {
    // SAFETY: every CPU in long mode has a local APIC, and thus this MSR.
    let base = unsafe { cpu::rdmsr(IA32_APIC_BASE) };
    if !ApicBase::from_bits_retain(base).contains(ApicBase::EXTD) {
        // SAFETY: only the enable bit may change.
        unsafe { cpu::wrmsr(IA32_APIC_BASE, base | ApicBase::EN.bits()) };
        let Hva(registers) = map_registers(Hpa(base & !0xfff), 0x1000);
        REGISTERS.store(registers, Ordering::Relaxed);
    }
    mask_legacy_pic();
    write(reg::SVR, SOFTWARE_ENABLE | u32::from(SPURIOUS_VECTOR));
    write(reg::TPR, 0);
    write(reg::LVT_LINT0, MASKED);
    write(reg::LVT_TIMER, MASKED);
    write(reg::DIVIDE, DIVIDE_BY_1);
    HAS_TSC_DEADLINE.store(cpu::cpuid(1, 0).ecx & 1 << 24 != 0, Ordering::Relaxed);
}

/// Starts the timer counting down from its highest value, masked, to be measured.
pub fn start_measuring() {
    write(reg::INITIAL_COUNT, u32::MAX);
}

/// Timer ticks since [`start_measuring`].
pub fn measured() -> u32 {
    u32::MAX - read(reg::CURRENT_COUNT)
}

/// Makes the timer usable: `timer_ticks` of it passed in `tsc_ticks`.
pub fn init_timer(timer_ticks: u32, tsc_ticks: u64) {
    TIMER_PER_TSC.store((u64::from(timer_ticks) << 32) / tsc_ticks.max(1), Ordering::Relaxed);
    let mode = if HAS_TSC_DEADLINE.load(Ordering::Relaxed) { TSC_DEADLINE_MODE } else { 0 };
    write(reg::INITIAL_COUNT, 0);
    write(reg::LVT_TIMER, mode | u32::from(TIMER_VECTOR));
    // The mode is in force before the first deadline (SDM 3, 11.5.4.1).
    core::sync::atomic::fence(Ordering::SeqCst);
}

/// Interrupts this CPU when the TSC reaches `deadline`; `u64::MAX` disarms. Writes nothing that is so already.
pub fn arm(deadline: u64) {
    let armed = &this_cpu().armed;
    if armed.load(Ordering::Relaxed) == deadline {
        return;
    }
    armed.store(deadline, Ordering::Relaxed);
    if HAS_TSC_DEADLINE.load(Ordering::Relaxed) {
        let value = if deadline == u64::MAX { 0 } else { deadline };
        // SAFETY: CPUID shows the MSR; a value in the past fires at once.
        return unsafe { cpu::wrmsr(IA32_TSC_DEADLINE, value) };
    }
    let count = if deadline == u64::MAX {
        0
    } else {
        let tsc = deadline.saturating_sub(cpu::rdtsc());
        let ticks = (u128::from(tsc) * u128::from(TIMER_PER_TSC.load(Ordering::Relaxed))) >> 32;
        // Too early is harmless: whoever wakes finds nothing due and arms again.
        ticks.clamp(1, u32::MAX.into()) as u32
    };
    write(reg::INITIAL_COUNT, count);
}

/// Ends the interrupt in service.
pub fn end_of_interrupt() {
    write(reg::EOI, 0);
}

/// Masks both 8259s: firmware may have left them on.
fn mask_legacy_pic() {
    for port in [0x21, 0xa1] {
        // SAFETY: OCW1 of an 8259A; nobody uses it.
        unsafe { Port::<u8>::new(port).write(0xff) };
    }
}

/// Routes the console's interrupt to this CPU. `false`: no I/O APIC is known, so the console must be polled.
pub fn route_console(firmware: &Firmware, irq: u8) -> bool {
    const LOW_POLARITY: u32 = 1 << 13;
    const LEVEL: u32 = 1 << 15;
    let found = firmware.overrides.iter().find(|o| o.irq == irq);
    let gsi = found.map_or(irq.into(), |o| o.gsi);
    let Some(chip) = firmware.io_apics.iter().filter(|a| a.gsi_base <= gsi).max_by_key(|a| a.gsi_base) else {
        return false;
    };
    let flags = found.map_or(0, |o| o.flags);
    let polarity = if flags & 0b11 == 0b11 { LOW_POLARITY } else { 0 };
    let trigger = if flags & 0b1100 == 0b1100 { LEVEL } else { 0 };
    let Hva(registers) = map_registers(chip.address, 0x20);
    let pin = gsi - chip.gsi_base;
    let id = if REGISTERS.load(Ordering::Relaxed) == 0 { read(reg::ID) } else { read(reg::ID) >> 24 };
    // IOREDTBL entries of 64 bits begin at index 0x10 (82093AA, 3.2.4); the destination is in the highest byte.
    for (index, value) in
        [(0x11 + 2 * pin, id << 24), (0x10 + 2 * pin, u32::from(CONSOLE_VECTOR) | polarity | trigger)]
    {
        // SAFETY: IOREGSEL and IOWIN of an I/O APIC, just mapped.
        unsafe {
            (registers as *mut u32).write_volatile(index);
            ((registers + 0x10) as *mut u32).write_volatile(value);
        }
    }
    true
}

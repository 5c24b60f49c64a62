//! The local APIC.

use runtime::cpu::{self, cpuid, rdmsr, rdtsc, wrmsr};
use runtime::harness::expect_ok;
use runtime::hw::lapic::{self, DIVIDE_BY_1, DIVIDE_BY_16, has_vector, read, write};
use runtime::interrupt;
use runtime::time;
use runtime::{expect, expect_eq, guest_mode_wrong, guest_test, platform_wrong, skip};
use x86defs::apic::{DFR_FLAT, Esr, Lvt, Svr, reg};
use x86defs::cpuid::{Leaf1Ecx, leaf};
use x86defs::msr;

/// Vectors for tests, two of one priority class and one of the next.
const VECTOR: u8 = 0x51;
const SAME_CLASS: u8 = 0x5e;
const HIGHER: u8 = 0x61;

/// Waits a moment with interrupts enabled.
fn let_interrupts_in() {
    interrupt::enable();
    interrupt::disable();
}

guest_test!(registers);
fn registers() {
    let version = read(reg::VERSION);
    expect!((0x10..0x20).contains(&(version & 0xff)), "version register {version:#x}");
    expect!((3..=6).contains(&(version >> 16 & 0xff)), "version register {version:#x}");
    for (register, value) in [
        (reg::TPR, 0x40),
        (reg::LDR, 0x0200_0000),
        (reg::DFR, DFR_FLAT),
        (reg::LVT_ERROR, Lvt::MASKED.bits() | 0x77),
        (reg::LVT_TIMER, Lvt::MASKED.bits() | lapic::PERIODIC | 0x78),
        (reg::DIVIDE, DIVIDE_BY_16),
        (reg::ICR_HIGH, 0x0100_0000),
    ] {
        write(register, value);
        expect_eq!(read(register), value, "register {register:#x}");
    }
}

guest_test!(task_and_processor_priority);
fn task_and_processor_priority() {
    for priority in [0x00, 0x25, 0xf0] {
        write(reg::TPR, priority);
        expect_eq!(read(reg::PPR), priority, "PPR with nothing in service");
    }
}

guest_test!(self_ipi_is_delivered);
fn self_ipi_is_delivered() {
    lapic::self_ipi(VECTOR);
    expect!(has_vector(reg::IRR, VECTOR), "IRR word {:#x}", read(lapic::word_of(reg::IRR, VECTOR)));
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts with IF=0");
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts");
    // The handler did not acknowledge.
    expect!(has_vector(reg::ISR, VECTOR), "ISR word {:#x}", read(lapic::word_of(reg::ISR, VECTOR)));
    expect!(!has_vector(reg::IRR, VECTOR), "IRR word {:#x}", read(lapic::word_of(reg::IRR, VECTOR)));
    expect_eq!(read(reg::PPR) >> 4, u32::from(VECTOR >> 4), "class of PPR");
    write(reg::EOI, 0);
    expect!(!has_vector(reg::ISR, VECTOR), "ISR word {:#x}", read(lapic::word_of(reg::ISR, VECTOR)));
    expect_eq!(read(reg::PPR), 0, "PPR after EOI");
}

guest_test!(service_blocks_the_same_class);
fn service_blocks_the_same_class() {
    for vector in [VECTOR, SAME_CLASS] {
        lapic::self_ipi(vector);
        let_interrupts_in();
    }
    expect_eq!(
        [interrupt::count(VECTOR), interrupt::count(SAME_CLASS)],
        [1, 0],
        "first, second of its class"
    );
    lapic::self_ipi(HIGHER);
    let_interrupts_in();
    expect_eq!(interrupt::count(HIGHER), 1, "higher class");
    write(reg::EOI, 0);
    expect!(has_vector(reg::ISR, VECTOR) && !has_vector(reg::ISR, HIGHER), "EOI ends the highest first");
    write(reg::EOI, 0);
    let_interrupts_in();
    expect_eq!(interrupt::count(SAME_CLASS), 1, "second of its class after EOI");
}

guest_test!(highest_vector_first);
fn highest_vector_first() {
    use core::sync::atomic::{AtomicU64, Ordering};
    static ORDER: AtomicU64 = AtomicU64::new(0);
    fn note(frame: &mut interrupt::Frame) {
        ORDER.store(ORDER.load(Ordering::Relaxed) << 8 | frame.vector, Ordering::Relaxed);
        write(reg::EOI, 0);
    }
    ORDER.store(0, Ordering::Relaxed);
    let vectors = [0x40, 0xa0, 0x71];
    for vector in vectors {
        interrupt::handle(vector, note);
        lapic::self_ipi(vector);
    }
    let_interrupts_in();
    expect_eq!(ORDER.load(Ordering::Relaxed), 0xa0_71_40, "order of vectors");
}

guest_test!(priority_holds_interrupts_back);
fn priority_holds_interrupts_back() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    write(reg::TPR, u32::from(VECTOR & 0xf0));
    lapic::self_ipi(VECTOR);
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts at the same task priority");
    write(reg::TPR, u32::from(VECTOR & 0xf0) - 1);
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts below");
}

guest_test!(cr8_holds_interrupts_back);
fn cr8_holds_interrupts_back() {
    guest_mode_wrong!(QemuTcg, "MOV to CR8 with a virtual interrupt pending may end the emulator");
    interrupt::handle(VECTOR, lapic::acknowledge);
    expect_ok("MOV to CR8", cpu::set_cr8(u64::from(VECTOR >> 4)));
    lapic::self_ipi(VECTOR);
    interrupt::enable();
    expect_eq!(interrupt::count(VECTOR), 0, "interrupts at the same CR8");
    // With interrupts enabled all the time: lowering the priority lets it in.
    expect_ok("MOV to CR8", cpu::set_cr8(0));
    let taken = time::wait_us(1000, || interrupt::count(VECTOR) == 1);
    interrupt::disable();
    expect!(taken, "no interrupt after CR8 = 0");
}

guest_test!(edge_interrupts_have_no_tmr_bit);
fn edge_interrupts_have_no_tmr_bit() {
    lapic::self_ipi(VECTOR);
    let_interrupts_in();
    expect!(!has_vector(reg::TMR, VECTOR), "TMR word {:#x}", read(lapic::word_of(reg::TMR, VECTOR)));
}

guest_test!(software_disable_masks_lvt);
fn software_disable_masks_lvt() {
    platform_wrong!(QemuTcg, "disabling by SVR masks nothing");
    write(reg::LVT_TIMER, u32::from(VECTOR));
    write(reg::SVR, u32::from(lapic::SPURIOUS_VECTOR));
    expect!(read(reg::LVT_TIMER) & Lvt::MASKED.bits() != 0, "timer LVT {:#x}", read(reg::LVT_TIMER));
    write(reg::LVT_TIMER, u32::from(VECTOR));
    expect!(
        read(reg::LVT_TIMER) & Lvt::MASKED.bits() != 0,
        "timer LVT {:#x} while disabled",
        read(reg::LVT_TIMER)
    );
    write(reg::SVR, Svr::ENABLE.bits() | u32::from(lapic::SPURIOUS_VECTOR));
    write(reg::LVT_TIMER, u32::from(VECTOR));
    expect!(
        read(reg::LVT_TIMER) & Lvt::MASKED.bits() == 0,
        "timer LVT {:#x} when enabled",
        read(reg::LVT_TIMER)
    );
}

guest_test!(error_status);
fn error_status() {
    platform_wrong!(QemuTcg, "illegal vectors are not noticed");
    write(reg::ESR, 0);
    write(reg::ESR, 0);
    expect_eq!(read(reg::ESR), 0, "ESR at the start");
    lapic::self_ipi(5);
    // A write makes what has been collected readable (SDM 3, 11.5.3).
    write(reg::ESR, 0);
    let esr = Esr::from_bits_retain(read(reg::ESR));
    // One CPU being both ends, either may notice.
    let noticed = Esr::SEND_ILLEGAL_VECTOR | Esr::RECEIVE_ILLEGAL_VECTOR;
    expect!(esr.intersects(noticed), "{esr:?} after sending vector 5");
    write(reg::ESR, 0);
    expect_eq!(read(reg::ESR), 0, "ESR after a second write");
}

guest_test!(timer_one_shot);
fn timer_one_shot() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    write(reg::DIVIDE, DIVIDE_BY_1);
    write(reg::LVT_TIMER, u32::from(VECTOR));
    write(reg::INITIAL_COUNT, 20_000);
    expect_eq!(read(reg::INITIAL_COUNT), 20_000, "initial count");
    let first = read(reg::CURRENT_COUNT);
    expect!(first <= 20_000, "current count {first}");
    interrupt::enable();
    let taken = time::wait_us(100_000, || interrupt::count(VECTOR) == 1);
    expect!(taken, "no interrupt, current count {}", read(reg::CURRENT_COUNT));
    expect_eq!(read(reg::CURRENT_COUNT), 0, "current count afterwards");
    time::spin_us(2_000);
    interrupt::disable();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts of a one-shot");
}

guest_test!(timer_periodic);
fn timer_periodic() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    write(reg::DIVIDE, DIVIDE_BY_16);
    write(reg::LVT_TIMER, u32::from(VECTOR) | lapic::PERIODIC);
    write(reg::INITIAL_COUNT, 10_000);
    interrupt::enable();
    let taken = time::wait_us(500_000, || interrupt::count(VECTOR) >= 3);
    interrupt::disable();
    expect!(taken, "{} interrupts", interrupt::count(VECTOR));
    let count = read(reg::CURRENT_COUNT);
    expect!(count <= 10_000, "current count {count}");
    write(reg::INITIAL_COUNT, 0);
    expect_eq!(read(reg::CURRENT_COUNT), 0, "current count of a stopped timer");
}

guest_test!(timer_counts_down);
fn timer_counts_down() {
    write(reg::DIVIDE, DIVIDE_BY_1);
    write(reg::LVT_TIMER, Lvt::MASKED.bits() | u32::from(VECTOR));
    write(reg::INITIAL_COUNT, u32::MAX);
    let mut last = read(reg::CURRENT_COUNT);
    for _ in 0..20 {
        time::spin_us(10);
        let now = read(reg::CURRENT_COUNT);
        expect!(now < last, "current count went from {last} to {now} in 10 us");
        last = now;
    }
}

guest_test!(timer_rate_follows_divider);
fn timer_rate_follows_divider() {
    let rate = |divide| {
        write(reg::DIVIDE, divide);
        write(reg::LVT_TIMER, Lvt::MASKED.bits() | u32::from(VECTOR));
        write(reg::INITIAL_COUNT, u32::MAX);
        time::spin_us(2_000);
        u64::from(u32::MAX - read(reg::CURRENT_COUNT))
    };
    // What an emulator or another process takes away makes a span longer, never shorter.
    let best = |divide| (0..5).map(|_| rate(divide)).min().unwrap_or(0);
    let (by_1, by_16) = (best(DIVIDE_BY_1), best(DIVIDE_BY_16));
    let ratio = by_1 * 10 / by_16.max(1);
    expect!((130..190).contains(&ratio), "{by_1} counts undivided, {by_16} divided by 16");
}

fn needs_tsc_deadline() {
    if !Leaf1Ecx::from_bits_retain(cpuid(leaf::FEATURES, 0).ecx).contains(Leaf1Ecx::TSC_DEADLINE) {
        skip!("no TSC-deadline mode");
    }
}

guest_test!(timer_tsc_deadline);
fn timer_tsc_deadline() {
    needs_tsc_deadline();
    interrupt::handle(VECTOR, lapic::acknowledge);
    write(reg::LVT_TIMER, u32::from(VECTOR) | lapic::TSC_DEADLINE);
    let deadline = rdtsc() + time::us(20_000);
    expect_ok("WRMSR", wrmsr(msr::IA32_TSC_DEADLINE, deadline));
    expect_eq!(rdmsr(msr::IA32_TSC_DEADLINE).ok(), Some(deadline), "IA32_TSC_DEADLINE while armed");
    interrupt::enable();
    let taken = time::wait_us(100_000, || interrupt::count(VECTOR) == 1);
    let now = rdtsc();
    interrupt::disable();
    expect!(taken, "no interrupt, {} ticks after the deadline", now.wrapping_sub(deadline));
    expect!(now >= deadline, "interrupt {} ticks early", deadline - now);
}

guest_test!(timer_tsc_deadline_reads_zero_afterwards);
fn timer_tsc_deadline_reads_zero_afterwards() {
    needs_tsc_deadline();
    platform_wrong!(Bochs, "IA32_TSC_DEADLINE keeps its value");
    interrupt::handle(VECTOR, lapic::acknowledge);
    write(reg::LVT_TIMER, u32::from(VECTOR) | lapic::TSC_DEADLINE);
    expect_ok("WRMSR", wrmsr(msr::IA32_TSC_DEADLINE, rdtsc() + time::us(100)));
    interrupt::enable();
    let taken = time::wait_us(100_000, || interrupt::count(VECTOR) == 1);
    interrupt::disable();
    expect!(taken, "no interrupt");
    expect_eq!(rdmsr(msr::IA32_TSC_DEADLINE).ok(), Some(0), "IA32_TSC_DEADLINE");
}

guest_test!(timer_tsc_deadline_in_the_past);
fn timer_tsc_deadline_in_the_past() {
    needs_tsc_deadline();
    interrupt::handle(VECTOR, lapic::acknowledge);
    // In another mode the MSR reads zero and ignores writes (SDM 3, 11.5.4.1).
    expect_ok("WRMSR", wrmsr(msr::IA32_TSC_DEADLINE, 1));
    expect_eq!(rdmsr(msr::IA32_TSC_DEADLINE).ok(), Some(0), "IA32_TSC_DEADLINE in one-shot mode");
    write(reg::LVT_TIMER, u32::from(VECTOR) | lapic::TSC_DEADLINE);
    expect_ok("WRMSR", wrmsr(msr::IA32_TSC_DEADLINE, 1));
    interrupt::enable();
    let taken = time::wait_us(10_000, || interrupt::count(VECTOR) == 1);
    interrupt::disable();
    expect!(taken, "no interrupt for a deadline that has passed");
}

guest_test!(self_nmi);
fn self_nmi() {
    interrupt::handle(2, |_| {});
    lapic::self_nmi();
    // NMIs do not care for IF.
    let taken = time::wait_us(10_000, || interrupt::count(2) == 1);
    expect!(taken, "no NMI");
}

guest_test!(nmi_is_blocked_until_iret);
fn nmi_is_blocked_until_iret() {
    use core::sync::atomic::{AtomicU64, Ordering};
    static INSIDE: AtomicU64 = AtomicU64::new(0);
    interrupt::handle(2, |_| {
        if interrupt::count(2) == 1 {
            lapic::self_nmi();
            time::spin_us(100);
            INSIDE.store(interrupt::count(2), Ordering::Relaxed);
        }
    });
    lapic::self_nmi();
    let taken = time::wait_us(10_000, || interrupt::count(2) == 2);
    expect_eq!(INSIDE.load(Ordering::Relaxed), 1, "NMIs at the end of the first handler");
    expect!(taken, "{} NMIs after IRET", interrupt::count(2));
}

guest_test!(ipi_by_destination);
fn ipi_by_destination() {
    interrupt::handle(VECTOR, lapic::acknowledge);
    write(reg::ICR_HIGH, u32::from(lapic::id()) << 24);
    write(reg::ICR_LOW, 1 << 14 | u32::from(VECTOR));
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 1, "interrupts by physical destination");
    write(reg::DFR, DFR_FLAT);
    write(reg::LDR, 0x0100_0000);
    write(reg::ICR_HIGH, 0x0300_0000);
    write(reg::ICR_LOW, 1 << 14 | 1 << 11 | u32::from(VECTOR));
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 2, "interrupts by logical destination");
    write(reg::ICR_HIGH, 0x0200_0000);
    write(reg::ICR_LOW, 1 << 14 | 1 << 11 | u32::from(VECTOR));
    let_interrupts_in();
    expect_eq!(interrupt::count(VECTOR), 2, "interrupts for somebody else");
}

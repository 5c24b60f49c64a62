//! The host's clock: the TSC, measured against the power-management timer or the 8254. CPUID leaves 15h and
//! 16h are not trusted: some machines report numbers there that are not so.
#![allow(unsafe_code, reason = "timer ports")]

use crate::{apic, cpu};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use vmm::firmware::Firmware;
use x86_64::instructions::port::Port;

/// Ticks of the power-management timer per second (ACPI 6.5, 4.8.3.3).
const PM_TIMER_HZ: u64 = 3_579_545;
/// Ticks of the 8254 per second.
const PIT_HZ: u64 = 1_193_182;
/// How long to measure.
const MEASURE_MS: u64 = 50;

static TSC_KHZ: AtomicU64 = AtomicU64::new(0);

/// The TSC's frequency in kHz.
pub fn tsc_khz() -> u64 {
    TSC_KHZ.load(Ordering::Relaxed)
}

/// The TSC when this much time has passed.
pub fn tsc_after(time: Duration) -> u64 {
    let ticks = time.as_millis() * u128::from(tsc_khz());
    cpu::rdtsc().saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX))
}

/// Measures the TSC and the local APIC's timer, and sets the latter up.
pub fn calibrate(firmware: &Firmware) -> &'static str {
    let pm_timer = (firmware.pm_timer != 0).then(|| measure_by_pm_timer(firmware.pm_timer)).flatten();
    let (source, m) = match pm_timer {
        Some(m) => ("ACPI PM timer", m),
        None => ("8254", measure_by_pit()),
    };
    TSC_KHZ.store(m.tsc * m.reference_hz / m.reference / 1000, Ordering::Relaxed);
    apic::init_timer(m.timer, m.tsc);
    source
}

/// Seconds since 1970, UTC, as the machine's clock shows; 0 if it shows nothing steady.
pub fn wall_clock() -> u64 {
    let (mut index, mut data) = (Port::<u8>::new(0x70), Port::<u8>::new(0x71));
    // SAFETY: the MC146818's index and data ports; reading the time registers has no effect.
    devices::rtc::unix_time(|register| unsafe {
        index.write(register);
        data.read()
    })
    .unwrap_or(0)
}

/// Ticks of each clock over the same time.
struct Measurement {
    reference: u64,
    reference_hz: u64,
    tsc: u64,
    timer: u32,
}

/// `None` if the timer does not move.
fn measure_by_pm_timer(port: u16) -> Option<Measurement> {
    const MASK: u32 = 0xff_ffff; // the upper byte is optional
    let mut port = Port::<u32>::new(port);
    // SAFETY: reading the PM timer has no effect.
    let mut read = || unsafe { port.read() } & MASK;
    let begin = read();
    // Begin on an edge, so that half a tick is not lost.
    let start = (0..1_000_000).find_map(|_| Some(read()).filter(|now| *now != begin))?;
    apic::start_measuring();
    let tsc = cpu::rdtsc();
    let mut passed;
    loop {
        passed = u64::from(read().wrapping_sub(start) & MASK);
        if passed >= PM_TIMER_HZ * MEASURE_MS / 1000 {
            break;
        }
        core::hint::spin_loop();
    }
    Some(Measurement {
        reference: passed,
        reference_hz: PM_TIMER_HZ,
        tsc: cpu::rdtsc() - tsc,
        timer: apic::measured(),
    })
}

/// Counts channel 2 of the 8254 down once (mode 0) with its gate open and the speaker off.
fn measure_by_pit() -> Measurement {
    const GATE: u8 = 1;
    const SPEAKER: u8 = 2;
    const OUTPUT: u8 = 1 << 5;
    const CHANNEL_2_MODE_0: u8 = 0b1011_0000;
    let count = PIT_HZ * MEASURE_MS / 1000;
    let (mut control, mut command, mut channel2) =
        (Port::<u8>::new(0x61), Port::<u8>::new(0x43), Port::<u8>::new(0x42));
    // SAFETY: the 8254's channel 2 and its gate; nobody uses them.
    unsafe {
        let old = control.read() & !(SPEAKER | GATE);
        control.write(old | GATE);
        command.write(CHANNEL_2_MODE_0);
        channel2.write(count as u8);
        channel2.write((count >> 8) as u8);
        apic::start_measuring();
        let tsc = cpu::rdtsc();
        while control.read() & OUTPUT == 0 {
            core::hint::spin_loop();
        }
        Measurement {
            reference: count,
            reference_hz: PIT_HZ,
            tsc: cpu::rdtsc() - tsc,
            timer: apic::measured(),
        }
    }
}

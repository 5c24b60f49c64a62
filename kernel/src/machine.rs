//! The machine as a whole: what its firmware says, switching it off, resetting it.
#![allow(unsafe_code, reason = "reads firmware tables, writes power ports")]

use crate::mem::{self, paging};
use crate::{cpu, println};
use abi::boot::BootInfo;
use spin::Once;
use vmm::firmware::{self, Firmware, ReadPhysical};
use x86_64::instructions::port::Port;
use x86defs::addr::Hpa;

static FIRMWARE: Once<Firmware> = Once::new();

struct Physical;

impl ReadPhysical for Physical {
    fn read(&self, at: Hpa, into: &mut [u8]) -> bool {
        const LIMIT: u64 = 1 << 46;
        if at.0 == 0 || at.0.saturating_add(into.len() as u64) > LIMIT {
            return false;
        }
        paging::map_firmware(at, into.len() as u64);
        // SAFETY: mapped just now, or as part of memory; firmware tables are not written any more.
        unsafe { into.copy_from_slice(core::slice::from_raw_parts(mem::direct(at).as_ptr(), into.len())) };
        true
    }
}

/// Reads the firmware's tables.
pub fn init(boot: &BootInfo) -> &'static Firmware {
    FIRMWARE.call_once(|| match boot.rsdp.start {
        0 => Firmware::default(),
        at => firmware::read(&Physical, Hpa(at)),
    })
}

/// What [`init`] has read.
pub fn firmware() -> &'static Firmware {
    FIRMWARE.get().expect("machine::init comes first")
}

/// Switches the machine off: by ACPI S5, else it stays halted.
pub fn power_off() -> ! {
    println!("powering off");
    if let Some(off) = FIRMWARE.get().and_then(|f| f.soft_off) {
        for (port, value) in off.ports.into_iter().zip(off.values).filter(|(port, _)| *port != 0) {
            // SAFETY: PM1x_CNT with SLP_EN: the machine goes off and nothing else matters.
            unsafe { Port::<u16>::new(port).write(value) };
        }
        settle();
    }
    println!("this machine cannot be switched off by software; halted");
    cpu::halt()
}

/// Resets the machine: by the ACPI reset register, port 0xCF9, the keyboard controller, in that order.
pub fn reset() -> ! {
    println!("resetting");
    const RESET_CONTROL: u16 = 0xcf9;
    const HARD_RESET: u8 = 0x06;
    const KEYBOARD_CONTROLLER: u16 = 0x64;
    const PULSE_RESET: u8 = 0xfe;
    let acpi = FIRMWARE.get().and_then(|f| f.reset);
    for (port, value) in
        acpi.into_iter().chain([(RESET_CONTROL, HARD_RESET), (KEYBOARD_CONTROLLER, PULSE_RESET)])
    {
        // SAFETY: the machine resets and nothing else matters.
        unsafe { Port::<u8>::new(port).write(value) };
        settle();
    }
    println!("this machine cannot be reset by software; halted");
    cpu::halt()
}

/// Gives the machine time to do what a power port asks of it, which need not happen at once.
fn settle() {
    const TURNS: u32 = 10_000_000;
    for _ in 0..TURNS {
        core::hint::spin_loop();
    }
}

//! The guest's board: its devices, each behind a lock of its own, and the wires between them.
//!
//! A device returns effects; they are applied after its lock is dropped, so that no lock is ever taken inside
//! another. The local APIC is not here: it belongs to the CPU that runs its virtual CPU.

mod interrupts;
mod memory_bus;
mod ports;
#[cfg(test)]
mod tests;

pub use memory_bus::MemoryBus;
use ports::OptionalPorts;
pub use ports::Ports;

use crate::hazard::{self, Hazard};
use crate::lapic::Mailbox;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use devices::acpi_pm::{self, AcpiPm};
use devices::effects::{Deadline, Device, Effects, Nanos, PowerEvent};
use devices::emulator::{DebugConsole, DebugExit, Shutdown};
use devices::fw_cfg::FwCfg;
use devices::hpet::{self, Hpet};
use devices::i8042::I8042;
use devices::ioapic::IoApic;
use devices::pci::PciHost;
use devices::pic::Pic;
use devices::pit::Pit;
use devices::reset::{Port92, ResetControl};
use devices::rtc::{self, MemorySize, Rtc};
use devices::uart::Uart;
use devices::vga::{Vga, View};
use guestboot::config::Compat;
use guestboot::platform;
use spin::Mutex;

// What the ACPI tables announce is what the devices answer to.
const _: () = assert!(platform::S5_SLP_TYP == acpi_pm::S5_SLP_TYP);
const _: () = assert!(platform::RTC_CENTURY == rtc::CENTURY);

const _: () = assert!(platform::HPET_ID == hpet::CAPABILITIES as u32);
const _: () = assert!(platform::HPET_MIN_TICK as u64 == hpet::SHORTEST_PERIOD);
const _: () = assert!(platform::HPET_SIZE == hpet::SIZE as u32);

/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// Where the output of a guest's serial port and debug console goes.
pub trait ConsoleSink: Send + Sync {
    /// One byte from the guest.
    fn put(&self, byte: u8);
    /// A line of text, which begins on a fresh one.
    fn line(&self, text: &str);
}

/// What others may touch of a virtual CPU.
#[derive(Debug, Default)]
pub struct VcpuPort {
    /// Interrupts for its local APIC.
    pub mailbox: Mailbox,
    /// Keeps it from going straight back into the guest.
    pub hazard: Hazard,
}

impl VcpuPort {
    /// Raises hazard bits. With further CPUs this is also where a kick by IPI belongs.
    pub fn alert(&self, bits: u32) {
        self.hazard.raise(bits);
    }
}

/// A device on the port bus.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortDevice {
    Pic,
    Pit,
    I8042,
    Rtc,
    Uart,
    Pci,
    ResetControl,
    Port92,
    AcpiPm,
    DebugConsole,
    DebugExit,
    Shutdown,
    FwCfg,
    Vga,
}

/// Devices that ask for deadlines: every one on the port bus may.
const PORT_DEVICES: [PortDevice; 14] = [
    PortDevice::Pic,
    PortDevice::Pit,
    PortDevice::I8042,
    PortDevice::Rtc,
    PortDevice::Uart,
    PortDevice::Pci,
    PortDevice::ResetControl,
    PortDevice::Port92,
    PortDevice::AcpiPm,
    PortDevice::DebugConsole,
    PortDevice::DebugExit,
    PortDevice::Shutdown,
    PortDevice::FwCfg,
    PortDevice::Vga,
];

/// Place of the HPET among the deadlines.
const HPET: usize = PORT_DEVICES.len();

impl PortDevice {
    /// The HPET's legacy replacement takes its line away.
    fn is_replaceable(self) -> bool {
        matches!(self, PortDevice::Pit | PortDevice::Rtc)
    }

    /// The ISA interrupt line that its output is wired to.
    fn irq(self) -> Option<u8> {
        match self {
            PortDevice::Pit => Some(platform::PIT_IRQ),
            PortDevice::I8042 => Some(platform::I8042_IRQ),
            PortDevice::Rtc => Some(platform::RTC_IRQ),
            PortDevice::Uart => Some(platform::COM1_IRQ),
            PortDevice::AcpiPm => Some(platform::SCI_IRQ),
            _ => None,
        }
    }
}

/// What a board is built from.
pub struct BoardSetup {
    /// Seconds since 1970 that the clock shows when the virtual machine starts.
    pub start_time: u64,
    /// Memory as CMOS reports it.
    pub memory: MemorySize,
    /// Where serial output goes.
    pub console: Box<dyn ConsoleSink>,
    /// First port of the debug exit, if there is one.
    pub debug_exit: Option<u16>,
    /// Whose ports there are beside a PC's.
    pub compat: Compat,
    /// The firmware configuration device, which is there with compatibility only.
    pub fw_cfg: FwCfg,
    /// The virtual CPUs; the first is the bootstrap CPU.
    pub vcpus: Vec<Arc<VcpuPort>>,
}

/// A board.
pub struct Board {
    pic: Mutex<Pic>,
    pit: Mutex<Pit>,
    i8042: Mutex<I8042>,
    rtc: Mutex<Rtc>,
    uart: Mutex<Uart>,
    pci: Mutex<PciHost>,
    reset_control: Mutex<ResetControl>,
    port_92: Mutex<Port92>,
    acpi_pm: Mutex<AcpiPm>,
    debug_console: Mutex<DebugConsole>,
    debug_exit: Mutex<DebugExit>,
    shutdown: Mutex<Shutdown>,
    fw_cfg: Mutex<FwCfg>,
    optional: OptionalPorts,
    vga: Mutex<Vga>,
    ioapic: Mutex<IoApic>,
    hpet: Mutex<Hpet>,
    /// The HPET has the lines of the 8254 and the clock.
    legacy_replaced: AtomicBool,
    /// Level of the clock's line, whoever has it.
    rtc_line: AtomicBool,
    /// When each port device wants to be called, in nanoseconds, and last the HPET.
    deadlines: [AtomicU64; PORT_DEVICES.len() + 1],
    console: Box<dyn ConsoleSink>,
    power: Mutex<Option<PowerEvent>>,
    vcpus: Vec<Arc<VcpuPort>>,
}

impl Board {
    /// A board as a PC's firmware leaves it.
    pub fn new(setup: BoardSetup) -> Self {
        let board = Self {
            pic: Mutex::new(Pic::new()),
            pit: Mutex::new(Pit::new()),
            i8042: Mutex::new(I8042::new()),
            rtc: Mutex::new(Rtc::new(setup.start_time, setup.memory)),
            uart: Mutex::new(Uart::new()),
            pci: Mutex::new(PciHost::new()),
            reset_control: Mutex::new(ResetControl::new()),
            port_92: Mutex::new(Port92::new()),
            acpi_pm: Mutex::new(AcpiPm::new()),
            debug_console: Mutex::default(),
            debug_exit: Mutex::default(),
            shutdown: Mutex::default(),
            fw_cfg: Mutex::new(setup.fw_cfg),
            optional: OptionalPorts { debug_exit: setup.debug_exit, compat: setup.compat },
            vga: Mutex::new(Vga::new()),
            ioapic: Mutex::new(IoApic::new(platform::IOAPIC_ID)),
            hpet: Mutex::default(),
            legacy_replaced: AtomicBool::new(false),
            rtc_line: AtomicBool::new(false),
            deadlines: [const { AtomicU64::new(NEVER) }; PORT_DEVICES.len() + 1],
            console: setup.console,
            power: Mutex::new(None),
            vcpus: setup.vcpus,
        };
        // A timer that runs from reset asks for its first deadline here.
        for device in PORT_DEVICES {
            let effects = board.device(device, |d| d.tick(Nanos(0)));
            board.apply(device, effects);
        }
        board
    }

    /// Runs `f` on a device, under its lock.
    fn device<R>(&self, device: PortDevice, f: impl FnOnce(&mut dyn Device) -> R) -> R {
        match device {
            PortDevice::Pic => f(&mut *self.pic.lock()),
            PortDevice::Pit => f(&mut *self.pit.lock()),
            PortDevice::I8042 => f(&mut *self.i8042.lock()),
            PortDevice::Rtc => f(&mut *self.rtc.lock()),
            PortDevice::Uart => f(&mut *self.uart.lock()),
            PortDevice::Pci => f(&mut *self.pci.lock()),
            PortDevice::ResetControl => f(&mut *self.reset_control.lock()),
            PortDevice::Port92 => f(&mut *self.port_92.lock()),
            PortDevice::AcpiPm => f(&mut *self.acpi_pm.lock()),
            PortDevice::DebugConsole => f(&mut *self.debug_console.lock()),
            PortDevice::DebugExit => f(&mut *self.debug_exit.lock()),
            PortDevice::Shutdown => f(&mut *self.shutdown.lock()),
            PortDevice::FwCfg => f(&mut *self.fw_cfg.lock()),
            PortDevice::Vga => f(&mut *self.vga.lock()),
        }
    }

    /// Carries out what a device has caused.
    fn apply(&self, device: PortDevice, effects: Effects) {
        if let Some(level) = effects.line {
            self.set_output(device, level);
        }
        self.set_deadline(device as usize, effects.deadline);
        if effects.nmi {
            self.update_nmi();
        }
        if let Some(byte) = effects.byte {
            self.console.put(byte);
        }
        if let Some(power) = effects.power {
            *self.power.lock() = Some(power);
            self.bootstrap().alert(hazard::STOP);
        }
    }

    fn set_deadline(&self, index: usize, deadline: Deadline) {
        match deadline {
            Deadline::Keep => {}
            Deadline::Never => self.deadlines[index].store(NEVER, Ordering::Relaxed),
            Deadline::At(Nanos(at)) => {
                self.deadlines[index].store(at, Ordering::Relaxed);
                self.bootstrap().alert(hazard::TIMER);
            }
        }
    }

    /// Asks for [`Board::screen_due`] at this time, unless it comes sooner anyway.
    pub fn look_at_screen(&self, at: Nanos) {
        if self.deadlines[PortDevice::Vga as usize].load(Ordering::Relaxed) > at.0 {
            self.set_deadline(PortDevice::Vga as usize, Deadline::At(at));
        }
    }

    /// Whether it is time to look at the text page; to be asked before [`Board::run_due`] forgets it.
    pub fn screen_due(&self, now: Nanos) -> bool {
        self.deadlines[PortDevice::Vga as usize].load(Ordering::Relaxed) <= now.0
    }

    /// What is shown of the text page; `None` in a graphics mode.
    pub fn view(&self) -> Option<View> {
        self.vga.lock().view()
    }

    /// Prints a line of text on the console.
    pub fn print_line(&self, text: &str) {
        self.console.line(text);
    }

    /// The CPU that runs the board's deadlines and takes the 8259's interrupts.
    fn bootstrap(&self) -> &VcpuPort {
        &self.vcpus[0]
    }

    /// The earliest time at which a device wants to be called, in nanoseconds; [`NEVER`].
    pub fn next_deadline(&self) -> u64 {
        self.deadlines.iter().map(|d| d.load(Ordering::Relaxed)).min().unwrap_or(NEVER)
    }

    /// Calls the devices whose time has come.
    pub fn run_due(&self, now: Nanos) {
        for device in PORT_DEVICES {
            let deadline = &self.deadlines[device as usize];
            if deadline.load(Ordering::Relaxed) <= now.0 {
                deadline.store(NEVER, Ordering::Relaxed);
                let effects = self.device(device, |d| d.tick(now));
                self.apply(device, effects);
            }
        }
        if self.deadlines[HPET].load(Ordering::Relaxed) <= now.0 {
            let effects = self.hpet.lock().tick(now);
            self.apply_hpet(&effects);
        }
    }

    /// Whether the guest wants an interrupt for what is typed to its serial port.
    pub fn serial_wants_input(&self) -> bool {
        self.uart.lock().wants_input()
    }

    /// Offers a typed byte to the keyboard; `false` if it has no room now.
    pub fn type_to_keyboard(&self, byte: u8, now: Nanos) -> bool {
        let effects = {
            let mut i8042 = self.i8042.lock();
            if !i8042.can_type() {
                return false;
            }
            i8042.type_byte(byte, now)
        };
        self.apply(PortDevice::I8042, effects);
        true
    }

    /// Offers a typed byte to the serial port; `false` if it has no room now.
    pub fn type_to_serial(&self, byte: u8, now: Nanos) -> bool {
        let effects = {
            let mut uart = self.uart.lock();
            if !uart.can_receive() {
                return false;
            }
            uart.receive(byte, now)
        };
        self.apply(PortDevice::Uart, effects);
        true
    }

    /// The NMI button: a channel check, which guests find in port 0x61.
    pub fn press_nmi_button(&self) {
        let effects = self.pit.lock().channel_check();
        self.apply(PortDevice::Pit, effects);
    }

    /// The end that a device has asked for.
    pub fn take_power_event(&self) -> Option<PowerEvent> {
        self.power.lock().take()
    }
}

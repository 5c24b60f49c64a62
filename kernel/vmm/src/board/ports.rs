//! The port bus: which device answers, and accesses split into what it takes.

use super::{Board, PortDevice};
use devices::effects::Nanos;
use devices::{acpi_pm, emulator, fw_cfg, i8042, pci, pic, pit, reset, rtc, uart, vga};
use guestboot::config::Compat;
use guestboot::platform::{self, PortRange};

/// A register of a device.
pub(super) struct Register {
    device: PortDevice,
    offset: u16,
    max_width: u8,
}

impl Register {
    const fn new(device: PortDevice, offset: u16, max_width: u8) -> Option<Self> {
        Some(Self { device, offset, max_width })
    }
}

const PIT_LAST: u16 = platform::PIT.last();
const RTC_FIRST: u16 = platform::RTC.first;
const RTC_LAST: u16 = platform::RTC.last();
const COM1_LAST: u16 = platform::COM1.last();
const PCI_LAST: u16 = platform::PCI_CONFIG.last();
const PM_TMR_LAST: u16 = platform::PM_TMR.last();
const VGA_FIRST: u16 = platform::VGA.first;
const VGA_LAST: u16 = platform::VGA.last();

/// Who answers at a port. `width` matters at one place: a byte at 0xCF9 is the reset control register, in the
/// middle of the PCI address register, which only takes 32 bits.
#[inline]
pub(super) fn decode(port: u16, width: u8) -> Option<Register> {
    use PortDevice as D;
    match port {
        0x20..=0x21 => Register::new(D::Pic, pic::MASTER + (port - 0x20), pic::MAX_WIDTH),
        0xa0..=0xa1 => Register::new(D::Pic, pic::SLAVE + (port - 0xa0), pic::MAX_WIDTH),
        0x4d0..=0x4d1 => Register::new(D::Pic, pic::ELCR + (port - 0x4d0), pic::MAX_WIDTH),
        0x40..=PIT_LAST => Register::new(D::Pit, pit::COUNTERS + (port - 0x40), pit::MAX_WIDTH),
        0x61 => Register::new(D::Pit, pit::PORT_B, pit::MAX_WIDTH),
        0x60 => Register::new(D::I8042, i8042::DATA, i8042::MAX_WIDTH),
        0x64 => Register::new(D::I8042, i8042::COMMAND, i8042::MAX_WIDTH),
        RTC_FIRST..=RTC_LAST => Register::new(D::Rtc, rtc::INDEX + (port - RTC_FIRST), rtc::MAX_WIDTH),
        0x92 => Register::new(D::Port92, 0, reset::MAX_WIDTH),
        0x3f8..=COM1_LAST => Register::new(D::Uart, port - platform::COM1.first, uart::MAX_WIDTH),
        VGA_FIRST..=VGA_LAST => Register::new(D::Vga, port - VGA_FIRST, vga::MAX_WIDTH),
        0xcf9 if width == 1 => Register::new(D::ResetControl, 0, reset::MAX_WIDTH),
        0xcf8..=PCI_LAST => Register::new(D::Pci, port - platform::PCI_CONFIG.first, pci::MAX_WIDTH),
        0x600..=PM_TMR_LAST => Register::new(
            D::AcpiPm,
            acpi_pm::EVENT_BLOCK + (port - platform::PM1A_EVT.first),
            acpi_pm::MAX_WIDTH,
        ),
        0xe9 => Register::new(D::DebugConsole, 0, emulator::DEBUG_CONSOLE_WIDTH),
        _ => None,
    }
}

/// Ports that are there only if the configuration says so.
pub(super) struct OptionalPorts {
    /// First port of the debug exit.
    pub(super) debug_exit: Option<u16>,
    /// Whose ports there are beside a PC's.
    pub(super) compat: Compat,
}

impl OptionalPorts {
    #[cold]
    fn decode(&self, port: u16) -> Option<Register> {
        const PM1_FIRST: u16 = platform::EMULATOR_PM1_CNT.first;
        const PM1_LAST: u16 = platform::EMULATOR_PM1_CNT.last();
        use PortDevice as D;
        match port {
            0x510 if self.compat == Compat::Qemu => {
                Register::new(D::FwCfg, fw_cfg::SELECTOR, fw_cfg::SELECTOR_WIDTH)
            }
            0x511 if self.compat == Compat::Qemu => Register::new(D::FwCfg, fw_cfg::DATA, fw_cfg::DATA_WIDTH),
            0x8900 if self.compat == Compat::Qemu => {
                Register::new(D::Shutdown, emulator::BOCHS, emulator::BOCHS_WIDTH)
            }
            PM1_FIRST..=PM1_LAST if self.compat == Compat::Qemu => Register::new(
                D::Shutdown,
                emulator::PM1_CONTROL + (port - PM1_FIRST),
                emulator::PM1_CONTROL_WIDTH,
            ),
            _ => {
                let ports = PortRange::new(self.debug_exit?, platform::DEBUG_EXIT_PORTS);
                let register = Register::new(D::DebugExit, 0, emulator::DEBUG_EXIT_WIDTH);
                register.filter(|_| ports.contains(port))
            }
        }
    }
}

/// All ones in an access of this many bytes.
const fn ones(width: u8) -> u32 {
    u32::MAX >> (32 - 8 * width as u32)
}

impl Board {
    #[inline]
    fn decode(&self, port: u16, width: u8) -> Option<Register> {
        decode(port, width).or_else(|| self.optional.decode(port))
    }

    /// Reads a port. What nobody answers floats to ones.
    pub fn input(&self, port: u16, width: u8, now: Nanos) -> u32 {
        match self.decode(port, width) {
            Some(r) if width <= r.max_width => {
                let (value, effects) = self.device(r.device, |d| d.read(r.offset, width, now));
                self.apply(r.device, effects);
                // What a device leaves above the width of the access is not on the bus.
                value & ones(width)
            }
            Some(_) => self.input_by_bytes(port, width, now),
            None => ones(width),
        }
    }

    /// An access that is wider than its register reaches the following ones, too.
    fn input_by_bytes(&self, port: u16, width: u8, now: Nanos) -> u32 {
        (0..width).fold(0, |sum, i| sum | self.input(port.wrapping_add(i.into()), 1, now) << (8 * i))
    }

    /// Writes a port. What nobody answers is dropped.
    pub fn output(&self, port: u16, width: u8, value: u32, now: Nanos) {
        match self.decode(port, width) {
            Some(r) if width <= r.max_width => {
                let effects = self.device(r.device, |d| d.write(r.offset, width, value, now));
                self.apply(r.device, effects);
            }
            Some(_) => {
                for i in 0..width {
                    self.output(port.wrapping_add(i.into()), 1, value >> (8 * i) & 0xff, now);
                }
            }
            None => {}
        }
    }
}

/// The port bus for string I/O.
pub struct Ports<'a> {
    /// The board.
    pub board: &'a Board,
    /// The time of the access.
    pub now: Nanos,
}

impl crate::emulate::PortBus for Ports<'_> {
    fn input(&mut self, port: u16, width: u8) -> u32 {
        self.board.input(port, width, self.now)
    }
    fn output(&mut self, port: u16, width: u8, value: u32) {
        self.board.output(port, width, value, self.now);
    }
}

//! The guest PC's resource map: what the ACPI tables announce and the device models answer to. The first
//! sixteen interrupt lines and the ISA ports are those of the PC/AT.

use x86defs::addr::Gpa;

/// Consecutive I/O ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Number of ports.
    pub count: u16,
}

impl PortRange {
    /// `count` ports from `first` on.
    pub const fn new(first: u16, count: u16) -> Self {
        Self { first, count }
    }
    /// The last port.
    pub const fn last(self) -> u16 {
        self.first + (self.count - 1)
    }
    /// Whether `port` is one of them.
    pub const fn contains(self, port: u16) -> bool {
        port >= self.first && port - self.first < self.count
    }
    /// Whether both have a port in common.
    pub const fn overlaps(self, other: Self) -> bool {
        self.contains(other.first) || other.contains(self.first)
    }
}

/// Most virtual CPUs of one virtual machine that the tables have room for.
pub const MAX_CPUS: u32 = 1024;

/// Local APIC registers (SDM 3, 11.4.1).
pub const LAPIC_BASE: Gpa = Gpa(0xfee0_0000);
/// I/O APIC registers (82093AA data sheet, 3.0).
pub const IOAPIC_BASE: Gpa = Gpa(0xfec0_0000);
/// The I/O APIC's ID register as it reads after reset.
pub const IOAPIC_ID: u8 = 0;
/// High precision event timers (IA-PC HPET Specification 1.0a, 3.2.4).
pub const HPET_BASE: Gpa = Gpa(0xfed0_0000);
/// Bytes of their registers.
pub const HPET_SIZE: u32 = 0x400;
/// The low half of their capabilities register.
pub const HPET_ID: u32 = 0x8086_a201;
/// Their shortest period that loses no interrupts, in ticks.
pub const HPET_MIN_TICK: u16 = 5_000;
/// First global system interrupt of the I/O APIC.
pub const IOAPIC_GSI_BASE: u32 = 0;

/// The 8259 pair, and its edge/level control registers.
pub const PIC_MASTER: PortRange = PortRange::new(0x20, 2);
/// See [`PIC_MASTER`].
pub const PIC_SLAVE: PortRange = PortRange::new(0xa0, 2);
/// See [`PIC_MASTER`].
pub const ELCR: PortRange = PortRange::new(0x4d0, 2);
/// System control port B: timer 2, speaker and NMI status.
pub const PORT_B: PortRange = PortRange::new(0x61, 1);
/// System control port A: A20 and fast reset.
pub const PORT_92: PortRange = PortRange::new(0x92, 1);
/// The 8254 timer.
pub const PIT: PortRange = PortRange::new(0x40, 4);
/// The timer's line at the 8259.
pub const PIT_IRQ: u8 = 0;
/// The timer's input at the I/O APIC: pin 0 belongs to the 8259's ExtINT on PC/AT boards.
pub const PIT_GSI: u32 = 2;
/// Keyboard data port.
pub const I8042_DATA: PortRange = PortRange::new(0x60, 1);
/// Keyboard controller command and status port.
pub const I8042_COMMAND: PortRange = PortRange::new(0x64, 1);
/// The keyboard's line.
pub const I8042_IRQ: u8 = 1;
/// The line of the keyboard controller's auxiliary port.
pub const I8042_AUXILIARY_IRQ: u8 = 12;
/// Real-time clock and CMOS memory.
pub const RTC: PortRange = PortRange::new(0x70, 2);
/// The clock's line.
pub const RTC_IRQ: u8 = 8;
/// CMOS register that holds the century, as the FADT announces it.
pub const RTC_CENTURY: u8 = 0x32;
/// The first serial port.
pub const COM1: PortRange = PortRange::new(0x3f8, 8);
/// The first serial port's line.
pub const COM1_IRQ: u8 = 4;

/// VGA registers of a machine with a colour display.
pub const VGA: PortRange = PortRange::new(0x3c0, 0x1b);
/// Index and data of its CRT controller, which are among them.
pub const VGA_CRTC: PortRange = PortRange::new(0x3d4, 2);

/// PCI configuration mechanism 1 (PCI Local Bus 3.0, 3.2.2.3.2): address and data.
pub const PCI_CONFIG: PortRange = PortRange::new(0xcf8, 8);
/// Reset control register, a byte in the middle of [`PCI_CONFIG`].
pub const RESET: PortRange = PortRange::new(0xcf9, 1);
/// What a write to [`RESET`] must be to reset: hard reset (bit 1) and the reset itself (bit 2).
pub const RESET_VALUE: u8 = 1 << 2 | 1 << 1;

/// ACPI PM1a event block: status, then enable (ACPI 6.5, 4.8.3.1).
pub const PM1A_EVT: PortRange = PortRange::new(0x600, 4);
/// ACPI PM1a control block (ACPI 6.5, 4.8.3.2). SCI_EN reads as one: there is no legacy mode.
pub const PM1A_CNT: PortRange = PortRange::new(0x604, 2);
/// ACPI PM timer, 32 bits wide (ACPI 6.5, 4.8.3.3).
pub const PM_TMR: PortRange = PortRange::new(0x608, 4);
/// The debug console of Bochs and QEMU.
pub const DEBUG_CONSOLE: PortRange = PortRange::new(0xe9, 1);
/// Ports of QEMU's isa-debug-exit, wherever the configuration puts it.
pub const DEBUG_EXIT_PORTS: u16 = 4;
/// QEMU's firmware configuration device: selector and data; only if the configuration asks for compatibility.
pub const FW_CFG: PortRange = PortRange::new(0x510, 2);
/// Bochs's shutdown port; only if the configuration asks for compatibility.
pub const BOCHS_SHUTDOWN: PortRange = PortRange::new(0x8900, 1);
/// PM1 control where Bochs and old versions of QEMU have it; only if the configuration asks for compatibility.
pub const EMULATOR_PM1_CNT: PortRange = PortRange::new(0xb004, 2);

/// All ports that are always claimed, but [`RESET`], which lies in [`PCI_CONFIG`]. [`PM1A_EVT`] to [`PM_TMR`] are
/// one device.
pub const FIXED_PORTS: [PortRange; 14] = [
    PIC_MASTER,
    PIC_SLAVE,
    ELCR,
    PIT,
    PORT_B,
    I8042_DATA,
    I8042_COMMAND,
    RTC,
    PORT_92,
    COM1,
    PCI_CONFIG,
    PortRange::new(PM1A_EVT.first, PM_TMR.last() - PM1A_EVT.first + 1),
    DEBUG_CONSOLE,
    VGA,
];
/// Ports that are claimed only if the configuration asks for compatibility with QEMU.
pub const COMPAT_PORTS: [PortRange; 3] = [FW_CFG, BOCHS_SHUTDOWN, EMULATOR_PM1_CNT];

/// Whether no device of ours can be at any of these ports.
pub fn is_free(ports: PortRange) -> bool {
    FIXED_PORTS.iter().chain(&COMPAT_PORTS).all(|claimed| !claimed.overlaps(ports))
}

/// SLP_TYP that, written to [`PM1A_CNT`] together with SLP_EN, powers off.
pub const S5_SLP_TYP: u8 = 0;
/// The system control interrupt's line and global system interrupt: level, active high.
pub const SCI_IRQ: u8 = 9;

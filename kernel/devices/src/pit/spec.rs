//! Registers of the 8254 (Intel data sheet 231164) and of the PC's port B (82371AB, section 4.2.3).

use bitflags::bitflags;

/// Input clock of all counters: a third of the NTSC colour carrier's quadruple.
pub(super) const CLOCK_HZ: u64 = 1_193_182;

/// Fields of a control word.
pub(super) const SELECT_SHIFT: u32 = 6;
pub(super) const SELECT_READ_BACK: u8 = 3;
pub(super) const ACCESS_SHIFT: u32 = 4;
pub(super) const ACCESS_MASK: u8 = 3;
pub(super) const ACCESS_LATCH: u8 = 0;
pub(super) const MODE_SHIFT: u32 = 1;
pub(super) const MODE_MASK: u8 = 7;
pub(super) const BCD: u8 = 1 << 0;

bitflags! {
    /// A read-back command. Its first two bits are active low; the counters begin at bit 1.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ReadBack: u8 {
        const NOT_STATUS = 1 << 4;
        const NOT_COUNT = 1 << 5;
    }

    /// The two bits of a status byte that are not a copy of the control word.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Status: u8 {
        /// The last count written has not been loaded yet.
        const NULL_COUNT = 1 << 6;
        /// Level of OUT.
        const OUT = 1 << 7;
    }

    /// Port B, 0x61.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct PortB: u8 {
        /// GATE of counter 2.
        const TIMER_2_GATE = 1 << 0;
        /// Counter 2 drives the speaker.
        const SPEAKER = 1 << 1;
        /// Clears SERR# and keeps it clear. Nothing in this machine raises it.
        const PARITY_OFF = 1 << 2;
        /// Clears the channel check and keeps it clear.
        const CHANNEL_CHECK_OFF = 1 << 3;
        /// Toggles with each refresh cycle.
        const REFRESH = 1 << 4;
        /// OUT of counter 2.
        const TIMER_2_OUT = 1 << 5;
        /// Channel check (IOCHK#): asks for an NMI.
        const CHANNEL_CHECK = 1 << 6;
    }
}

impl PortB {
    /// What a write can change.
    pub(super) const WRITABLE: PortB =
        PortB::TIMER_2_GATE.union(PortB::SPEAKER).union(PortB::PARITY_OFF).union(PortB::CHANNEL_CHECK_OFF);
    /// The refresh bit toggles every 2^14 ns; real boards need about 15,085 ns.
    pub(super) const REFRESH_SHIFT: u32 = 14;
}

/// How the counter's 16 bits pass through an 8-bit port (RW1 and RW0 of the control word).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Access {
    Low = 1,
    High = 2,
    LowThenHigh = 3,
}

impl Access {
    pub(super) const fn new(bits: u8) -> Access {
        match bits & ACCESS_MASK {
            1 => Access::Low,
            2 => Access::High,
            _ => Access::LowThenHigh,
        }
    }
}

/// The operating modes by their names in the data sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    InterruptOnTerminalCount = 0,
    OneShot = 1,
    RateGenerator = 2,
    SquareWave = 3,
    SoftwareStrobe = 4,
    HardwareStrobe = 5,
}

impl Mode {
    /// Modes 6 and 7 are 2 and 3: their highest bit is "don't care".
    pub(super) const fn new(bits: u8) -> Mode {
        match bits & MODE_MASK {
            0 => Mode::InterruptOnTerminalCount,
            1 => Mode::OneShot,
            2 | 6 => Mode::RateGenerator,
            4 => Mode::SoftwareStrobe,
            5 => Mode::HardwareStrobe,
            _ => Mode::SquareWave,
        }
    }

    /// The counter starts again by itself.
    pub(super) const fn is_periodic(self) -> bool {
        matches!(self, Mode::RateGenerator | Mode::SquareWave)
    }

    /// A rising GATE starts the counter, a count alone does not.
    pub(super) const fn needs_trigger(self) -> bool {
        matches!(self, Mode::OneShot | Mode::HardwareStrobe)
    }
}

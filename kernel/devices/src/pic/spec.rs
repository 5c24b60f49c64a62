//! Registers of the 8259A (Intel data sheet 231468) and of the edge/level control registers (82371AB,
//! section 4.2.5).

use bitflags::bitflags;

bitflags! {
    /// Initialization command word 1, and what tells it from the operation command words.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Icw1: u8 {
        /// An ICW4 follows.
        const IC4 = 1 << 0;
        /// Single: no ICW3 follows.
        const SNGL = 1 << 1;
        /// All inputs are level triggered.
        const LTIM = 1 << 3;
        /// This is an ICW1.
        const ICW1 = 1 << 4;
    }

    /// Initialization command word 4.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Icw4: u8 {
        /// Automatic end of interrupt.
        const AEOI = 1 << 1;
        /// Special fully nested mode.
        const SFNM = 1 << 4;
    }

    /// Operation command word 2. The low three bits are an interrupt level.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Ocw2: u8 {
        /// End of interrupt.
        const EOI = 1 << 5;
        /// Specific: the level counts.
        const SL = 1 << 6;
        /// Rotate priorities.
        const R = 1 << 7;
    }

    /// Operation command word 3.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Ocw3: u8 {
        /// With RR: read ISR; otherwise IRR.
        const RIS = 1 << 0;
        /// The next reads of the command port give the register that RIS says.
        const RR = 1 << 1;
        /// Poll command.
        const P = 1 << 2;
        /// This is an OCW3.
        const OCW3 = 1 << 3;
        /// With ESMM: set special mask mode; otherwise reset it.
        const SMM = 1 << 5;
        /// SMM counts.
        const ESMM = 1 << 6;
    }
}

/// Interrupt level in OCW2 and in a poll word.
pub(super) const LEVEL: u8 = 0x07;
/// Part of the vector that ICW2 gives.
pub(super) const VECTOR_BASE: u8 = 0xf8;
/// A poll word with a request.
pub(super) const POLL_REQUEST: u8 = 1 << 7;
/// The level that an acknowledge without a request gives.
pub(super) const SPURIOUS: u8 = 7;
/// The master's input that the slave drives.
pub(super) const CASCADE: u8 = 2;
/// Inputs that the ELCR can make level triggered: not IRQ 0, 1, 2 and not 8, 13.
pub(super) const MASTER_ELCR: u8 = 0xf8;
pub(super) const SLAVE_ELCR: u8 = 0xde;
/// First vectors as the IBM PC/AT's firmware sets them.
pub(super) const FIRMWARE_MASTER_VECTORS: u8 = 0x08;
pub(super) const FIRMWARE_SLAVE_VECTORS: u8 = 0x70;

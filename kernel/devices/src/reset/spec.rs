//! Reset registers of the 82371AB (data sheet, sections 4.2.7 and 4.2.8).

use bitflags::bitflags;

bitflags! {
    /// Reset control register, 0xCF9.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Rc: u8 {
        /// A reset is hard; otherwise soft.
        const SYS_RST = 1 << 1;
        /// A change from 0 to 1 resets.
        const RST_CPU = 1 << 2;
        /// A hard reset also cycles the power.
        const FULL_RST = 1 << 3;
    }

    /// Port 0x92.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Port92Bits: u8 {
        /// A change from 0 to 1 resets.
        const FAST_INIT = 1 << 0;
        /// Address line 20 is open.
        const FAST_A20 = 1 << 1;
    }
}

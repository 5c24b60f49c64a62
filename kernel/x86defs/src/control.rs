//! Control registers, EFER and RFLAGS (SDM 3, 2.3, 2.5; APM 2, 3.1).

#![allow(missing_docs, reason = "bits carry the names that the manuals define")]

use bitflags::bitflags;

bitflags! {
    /// CR0.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Cr0: u64 {
        const PE = 1 << 0;
        const MP = 1 << 1;
        const EM = 1 << 2;
        const TS = 1 << 3;
        const ET = 1 << 4;
        const NE = 1 << 5;
        const WP = 1 << 16;
        const AM = 1 << 18;
        const NW = 1 << 29;
        const CD = 1 << 30;
        const PG = 1 << 31;
    }

    /// CR4.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Cr4: u64 {
        const VME = 1 << 0;
        const PVI = 1 << 1;
        const TSD = 1 << 2;
        const DE = 1 << 3;
        const PSE = 1 << 4;
        const PAE = 1 << 5;
        const MCE = 1 << 6;
        const PGE = 1 << 7;
        const PCE = 1 << 8;
        const OSFXSR = 1 << 9;
        const OSXMMEXCPT = 1 << 10;
        const UMIP = 1 << 11;
        const LA57 = 1 << 12;
        const VMXE = 1 << 13;
        const SMXE = 1 << 14;
        const FSGSBASE = 1 << 16;
        const PCIDE = 1 << 17;
        const OSXSAVE = 1 << 18;
        const SMEP = 1 << 20;
        const SMAP = 1 << 21;
        const PKE = 1 << 22;
        const CET = 1 << 23;
        const PKS = 1 << 24;
    }

    /// IA32_EFER.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Efer: u64 {
        const SCE = 1 << 0;
        const LME = 1 << 8;
        const LMA = 1 << 10;
        const NXE = 1 << 11;
        const SVME = 1 << 12;
        const LMSLE = 1 << 13;
        const FFXSR = 1 << 14;
        const TCE = 1 << 15;
    }

    /// RFLAGS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Rflags: u64 {
        const CF = 1 << 0;
        /// Bit 1 always reads as one.
        const ONE = 1 << 1;
        const PF = 1 << 2;
        const AF = 1 << 4;
        const ZF = 1 << 6;
        const SF = 1 << 7;
        const TF = 1 << 8;
        const IF = 1 << 9;
        const DF = 1 << 10;
        const OF = 1 << 11;
        const IOPL = 3 << 12;
        const NT = 1 << 14;
        const RF = 1 << 16;
        const VM = 1 << 17;
        const AC = 1 << 18;
        const VIF = 1 << 19;
        const VIP = 1 << 20;
        const ID = 1 << 21;
    }
}

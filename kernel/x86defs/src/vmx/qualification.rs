//! Exit qualifications (SDM 3, 28.2.1).

#![allow(missing_docs, reason = "bits carry the names that the manual defines")]

use crate::gpr::Gpr;
use bitflags::bitflags;
use core::fmt;

/// Access to a control register (SDM 3, table 28-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrAccess {
    /// MOV to this control register from this general register.
    MovTo(u8, Gpr),
    /// MOV from this control register to this general register.
    MovFrom(u8, Gpr),
    Clts,
    /// LMSW with this operand.
    Lmsw(u16),
}

/// The access to a control register that a qualification describes.
impl From<u64> for CrAccess {
    fn from(qualification: u64) -> CrAccess {
        let number = qualification as u8 & 15;
        let register = Gpr::from_number((qualification >> 8) as u8);
        match qualification >> 4 & 3 {
            0 => CrAccess::MovTo(number, register),
            1 => CrAccess::MovFrom(number, register),
            2 => CrAccess::Clts,
            _ => CrAccess::Lmsw((qualification >> 16) as u16),
        }
    }
}

/// MOV to or from a debug register (SDM 3, table 28-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovDr(pub u64);

impl MovDr {
    pub const fn number(self) -> u8 {
        self.0 as u8 & 7
    }
    pub const fn register(self) -> Gpr {
        Gpr::from_number((self.0 >> 8) as u8)
    }
    /// Whether the debug register is written.
    pub const fn is_write(self) -> bool {
        self.0 >> 4 & 1 == 0
    }
}

/// What asks for a task switch, by its number (SDM 3, table 28-2).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSwitchCause {
    Call = 0,
    Iret = 1,
    Jmp = 2,
    /// A task gate in the IDT.
    Gate = 3,
}

/// Task switch (SDM 3, table 28-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSwitch(pub u64);

impl TaskSwitch {
    /// Selector of the new task's TSS.
    pub const fn selector(self) -> u16 {
        self.0 as u16
    }
    pub const fn cause(self) -> TaskSwitchCause {
        match self.0 >> 30 & 3 {
            0 => TaskSwitchCause::Call,
            1 => TaskSwitchCause::Iret,
            2 => TaskSwitchCause::Jmp,
            _ => TaskSwitchCause::Gate,
        }
    }
}

/// An I/O instruction (SDM 3, table 28-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoAccess(pub u64);

impl IoAccess {
    /// Bytes per access.
    pub const fn width(self) -> u8 {
        (self.0 as u8 & 7) + 1
    }
    pub const fn is_in(self) -> bool {
        self.0 >> 3 & 1 != 0
    }
    pub const fn is_string(self) -> bool {
        self.0 >> 4 & 1 != 0
    }
    pub const fn is_rep(self) -> bool {
        self.0 >> 5 & 1 != 0
    }
    pub const fn port(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

bitflags! {
    /// EPT violation (SDM 3, table 28-7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EptViolation: u64 {
        const READ = 1 << 0;
        const WRITE = 1 << 1;
        const FETCH = 1 << 2;
        const LINEAR_ADDRESS_VALID = 1 << 7;
        /// With a valid linear address: the access was to the translation's result, not to a paging-structure
        /// entry on the way.
        const TRANSLATED = 1 << 8;
        /// The fault hit an IRET that had already ended blocking by NMI.
        const NMI_UNBLOCKING = 1 << 12;
        const _ = !0;
    }

    /// Debug exception (SDM 3, table 28-1); the bits are those of DR6.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DebugException: u64 {
        /// B0 to B3: conditions of the four breakpoints.
        const BREAKPOINTS = 0xf;
        /// A debug register was accessed with DR7.GD set.
        const BD = 1 << 13;
        /// Single step.
        const BS = 1 << 14;
        const _ = !0;
    }
}

impl EptViolation {
    /// Whether the access was the walk of the guest's own page tables.
    pub const fn is_page_walk(self) -> bool {
        self.contains(Self::LINEAR_ADDRESS_VALID) && !self.contains(Self::TRANSLATED)
    }
}

impl DebugException {
    /// DR6 after this exception. The four breakpoint conditions describe this one alone; BD and BS stay set until
    /// software clears them (SDM 3, 18.2.3).
    pub const fn update_dr6(self, dr6: u64) -> u64 {
        let conditions = Self::BREAKPOINTS.bits() | Self::BD.bits() | Self::BS.bits();
        (dr6 & !Self::BREAKPOINTS.bits()) | (self.bits() & conditions)
    }
}

/// Why an entry failed on the guest state, as far as the qualification tells (SDM 3, 27.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSource(pub u64);

impl fmt::Display for InvalidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            2 => "a PDPTE has reserved bits set",
            3 => "an NMI is injected while MOV SS blocks events",
            4 => "the VMCS link pointer is invalid",
            _ => "the CPU does not say which check",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_register_accesses() {
        assert_eq!(CrAccess::from(0x0000), CrAccess::MovTo(0, Gpr::Rax));
        assert_eq!(CrAccess::from(0x0f04), CrAccess::MovTo(4, Gpr::R15));
        assert_eq!(CrAccess::from(0x0318), CrAccess::MovFrom(8, Gpr::Rbx));
        assert_eq!(CrAccess::from(0x0020), CrAccess::Clts);
        assert_eq!(CrAccess::from(0x1234_0030), CrAccess::Lmsw(0x1234));
        // Bit 6 tells LMSW from memory; the operand is in the qualification all the same.
        assert_eq!(CrAccess::from(0x0009_0070), CrAccess::Lmsw(9));
    }

    #[test]
    fn debug_register_accesses() {
        let write = MovDr(0x0407);
        assert_eq!((write.number(), write.register(), write.is_write()), (7, Gpr::Rsp, true));
        let read = MovDr(0x0916);
        assert_eq!((read.number(), read.register(), read.is_write()), (6, Gpr::R9, false));
    }

    #[test]
    fn task_switches() {
        let gate = TaskSwitch(0xc000_0058);
        assert_eq!((gate.selector(), gate.cause()), (0x58, TaskSwitchCause::Gate));
        assert_eq!(TaskSwitch(0x8000_0060).cause(), TaskSwitchCause::Jmp);
    }

    #[test]
    fn io_instructions() {
        let out = IoAccess(0x03f8_0040);
        assert_eq!((out.port(), out.width(), out.is_in()), (0x3f8, 1, false));
        assert!(!out.is_string() && !out.is_rep());
        let rep_insd = IoAccess(0x01f0_003b);
        assert_eq!((rep_insd.port(), rep_insd.width(), rep_insd.is_in()), (0x1f0, 4, true));
        assert!(rep_insd.is_string() && rep_insd.is_rep());
    }

    #[test]
    fn page_walks_are_told_from_accesses() {
        assert!(EptViolation::from_bits_retain(0x081).is_page_walk());
        assert!(!EptViolation::from_bits_retain(0x181).is_page_walk());
        // Without a linear address (PDPTE loads, tracing) nothing is known.
        assert!(!EptViolation::from_bits_retain(0x001).is_page_walk());
    }

    #[test]
    fn dr6_keeps_what_is_sticky() {
        let after = DebugException::from_bits_retain(0x4001).update_dr6(0xffff_2ffe);
        assert_eq!(after, 0xffff_6ff1);
        // Bit 12 of the qualification has no place in DR6.
        assert_eq!(DebugException::from_bits_retain(0x1000).update_dr6(0xffff_0ff0), 0xffff_0ff0);
    }
}

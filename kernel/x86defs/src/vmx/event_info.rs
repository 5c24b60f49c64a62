//! Events on their way into and out of a guest, and what blocks them (SDM 3, 25.4.2, 25.8.3, 25.9.2, 25.9.3).

#![allow(missing_docs, reason = "bits carry the names that the manual defines")]

use crate::event::{Event, EventKind, Exception};
use bitflags::bitflags;

bitflags! {
    /// Guest interruptibility state (SDM 3, table 25-3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Interruptibility: u32 {
        const BLOCKING_BY_STI = 1 << 0;
        const BLOCKING_BY_MOV_SS = 1 << 1;
        const BLOCKING_BY_SMI = 1 << 2;
        const BLOCKING_BY_NMI = 1 << 3;
        /// What lasts for one instruction only.
        const ONE_INSTRUCTION = Self::BLOCKING_BY_STI.bits() | Self::BLOCKING_BY_MOV_SS.bits();
        const _ = !0;
    }

    /// Guest pending debug exceptions (SDM 3, table 25-4); the low bits are those of DR6.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PendingDebug: u64 {
        const ENABLED_BREAKPOINT = 1 << 12;
        /// Single step.
        const BS = 1 << 14;
        const RTM = 1 << 16;
        const _ = !0;
    }
}

/// Guest activity state (SDM 3, 25.4.2).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    Active = 0,
    Hlt = 1,
    Shutdown = 2,
    WaitForSipi = 3,
}

/// Interruption information: the common layout of the fields for VM entry, VM exit and IDT vectoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventInfo(pub u32);

impl EventInfo {
    const KIND_SHIFT: u32 = 8;
    const ERROR_CODE: u32 = 1 << 11;
    const NMI_UNBLOCKING: u32 = 1 << 12;
    const VALID: u32 = 1 << 31;

    /// The field's value that injects `event`.
    pub const fn of(event: &Event) -> EventInfo {
        let error_code = if event.error_code.is_some() { Self::ERROR_CODE } else { 0 };
        EventInfo(Self::VALID | error_code | (event.kind as u32) << Self::KIND_SHIFT | event.vector as u32)
    }

    /// Whether there is an event at all.
    pub const fn valid(self) -> bool {
        self.0 & Self::VALID != 0
    }
    /// IDT vector.
    pub const fn vector(self) -> u8 {
        self.0 as u8
    }
    /// Its kind; nothing for a number that the manual reserves.
    pub const fn kind(self) -> Option<EventKind> {
        Some(match self.0 >> Self::KIND_SHIFT & 7 {
            0 => EventKind::External,
            2 => EventKind::Nmi,
            3 => EventKind::Exception,
            4 => EventKind::SoftwareInterrupt,
            5 => EventKind::PrivilegedSoftwareException,
            6 => EventKind::SoftwareException,
            _ => return None,
        })
    }
    /// Whether the error-code field beside it is valid.
    pub const fn has_error_code(self) -> bool {
        self.0 & Self::ERROR_CODE != 0
    }
    /// VM exit only: the fault hit an IRET that had already ended blocking by NMI. Undefined for a double fault
    /// and where IDT-vectoring information is valid (SDM 3, 28.2.3).
    pub const fn nmi_unblocking(self) -> bool {
        self.0 & Self::NMI_UNBLOCKING != 0 && self.vector() != Exception::DoubleFault as u8
    }

    /// The event that was being delivered when the exit came; error code and instruction length are the fields
    /// that go with it.
    pub fn interrupted_event(self, error_code: u32, instruction_len: u32) -> Option<Event> {
        if !self.valid() {
            return None;
        }
        let kind = self.kind()?;
        let software = matches!(
            kind,
            EventKind::SoftwareInterrupt
                | EventKind::PrivilegedSoftwareException
                | EventKind::SoftwareException
        );
        Some(Event {
            vector: self.vector(),
            kind,
            error_code: self.has_error_code().then_some(error_code),
            instruction_len: if software { instruction_len as u8 } else { 0 },
        })
    }
}

/// The VM-instruction error number (SDM 3, 31.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionError(pub u32);

impl InstructionError {
    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self.0 {
            1 => "VMCALL executed in VMX root operation",
            2 => "VMCLEAR with an invalid physical address",
            3 => "VMCLEAR with the VMXON pointer",
            4 => "VMLAUNCH with a VMCS that is not clear",
            5 => "VMRESUME with a VMCS that is not launched",
            6 => "VMRESUME after VMXOFF",
            7 => "VM entry with invalid control fields",
            8 => "VM entry with invalid host-state fields",
            9 => "VMPTRLD with an invalid physical address",
            10 => "VMPTRLD with the VMXON pointer",
            11 => "VMPTRLD with an incorrect VMCS revision identifier",
            12 => "VMREAD or VMWRITE of a field that this CPU does not have",
            13 => "VMWRITE to a read-only field",
            15 => "VMXON executed in VMX root operation",
            16 => "VM entry with an invalid executive-VMCS pointer",
            17 => "VM entry with a non-launched executive VMCS",
            18 => "VM entry with an executive-VMCS pointer that is not the VMXON pointer",
            19 => "VMCALL with a VMCS that is not clear",
            20 => "VMCALL with invalid VM-exit control fields",
            22 => "VMCALL with an incorrect MSEG revision identifier",
            23 => "VMXOFF under dual-monitor treatment of SMIs and SMM",
            24 => "VMCALL with invalid SMM-monitor features",
            25 => "VM entry with invalid VM-execution control fields in the executive VMCS",
            26 => "VM entry with events blocked by MOV SS",
            28 => "invalid operand to INVEPT or INVVPID",
            _ => "a number that the manual does not name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injected_page_fault() {
        let info = EventInfo::of(&Event::fault(Exception::PageFault, 2));
        assert_eq!(info.0, 0x8000_0b0e);
        assert_eq!(info.interrupted_event(2, 5), Some(Event::fault(Exception::PageFault, 2)));
    }

    #[test]
    fn software_interrupt_keeps_its_length() {
        let event =
            Event { vector: 0x80, kind: EventKind::SoftwareInterrupt, error_code: None, instruction_len: 2 };
        let info = EventInfo::of(&event);
        assert_eq!(info.0, 0x8000_0480);
        assert_eq!(info.interrupted_event(0xdead, 2), Some(event));
    }

    #[test]
    fn external_interrupt_has_no_length() {
        assert_eq!(
            EventInfo::of(&Event::interrupt(0x31)).interrupted_event(0, 7),
            Some(Event::interrupt(0x31))
        );
    }

    #[test]
    fn nothing_interrupted_and_reserved_kind() {
        assert_eq!(EventInfo(0x0000_0b0e).interrupted_event(0, 0), None);
        assert_eq!(EventInfo(0x8000_0130).interrupted_event(0, 0), None);
    }

    #[test]
    fn nmi_unblocking_means_nothing_for_a_double_fault() {
        assert!(EventInfo(0x8000_1b0e).nmi_unblocking());
        assert!(!EventInfo(0x8000_1b08).nmi_unblocking());
        assert!(!EventInfo(0x8000_0b0e).nmi_unblocking());
    }
}

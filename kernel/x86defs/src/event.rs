//! Exceptions, interrupts and their vectors.

/// An exception vector (SDM 3, 6.3.1; APM 2, 8.2).
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exception {
    /// #DE
    DivideError = 0,
    /// #DB
    Debug = 1,
    /// NMI
    NonMaskable = 2,
    /// #BP
    Breakpoint = 3,
    /// #OF
    Overflow = 4,
    /// #BR
    BoundRange = 5,
    /// #UD
    InvalidOpcode = 6,
    /// #NM
    DeviceNotAvailable = 7,
    /// #DF
    DoubleFault = 8,
    /// #TS
    InvalidTss = 10,
    /// #NP
    SegmentNotPresent = 11,
    /// #SS
    StackFault = 12,
    /// #GP
    GeneralProtection = 13,
    /// #PF
    PageFault = 14,
    /// #MF
    X87 = 16,
    /// #AC
    AlignmentCheck = 17,
    /// #MC
    MachineCheck = 18,
    /// #XM
    Simd = 19,
    /// #VE
    Virtualization = 20,
    /// #CP
    ControlProtection = 21,
}

/// How an event reaches a guest; the values are those of the interruption-information fields of the VMCS
/// (SDM 3, 25.8.3) and of EVENTINJ in the VMCB (APM 2, 15.20), which agree on those below 5.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A maskable interrupt.
    External = 0,
    /// A non-maskable interrupt.
    Nmi = 2,
    /// An exception raised by the CPU.
    Exception = 3,
    /// INT n.
    SoftwareInterrupt = 4,
    /// INT1 (ICEBP); VMX only.
    PrivilegedSoftwareException = 5,
    /// INT3, INTO; VMX only (SVM delivers them as [`EventKind::Exception`]).
    SoftwareException = 6,
}

/// Something to deliver through the guest's IDT at the next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// IDT vector.
    pub vector: u8,
    /// How it is delivered.
    pub kind: EventKind,
    /// The error code, for the exceptions that push one.
    pub error_code: Option<u32>,
    /// Length in bytes of the instruction that caused a software event; 0 otherwise.
    pub instruction_len: u8,
}

impl Event {
    /// An exception without an error code.
    pub const fn exception(e: Exception) -> Self {
        Self { vector: e as u8, kind: EventKind::Exception, error_code: None, instruction_len: 0 }
    }
    /// An exception with an error code.
    pub const fn fault(e: Exception, error_code: u32) -> Self {
        Self { error_code: Some(error_code), ..Self::exception(e) }
    }
    /// #GP(0)
    pub const GP0: Event = Event::fault(Exception::GeneralProtection, 0);
    /// #UD
    pub const UD: Event = Event::exception(Exception::InvalidOpcode);
    /// A non-maskable interrupt.
    pub const NMI: Event = Event { vector: 2, kind: EventKind::Nmi, error_code: None, instruction_len: 0 };
    /// A maskable interrupt.
    pub const fn interrupt(vector: u8) -> Self {
        Self { vector, kind: EventKind::External, error_code: None, instruction_len: 0 }
    }
}

/// How an exception weighs when it comes up while another event is delivered (SDM 3, table 6-4).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Benign,
    Contributory,
    PageFault,
    DoubleFault,
}

impl Event {
    /// #DF
    pub const DF: Event = Event::fault(Exception::DoubleFault, 0);

    /// Whether exceptions with this vector push an error code outside real mode (SDM 3, table 6-1).
    pub const fn has_error_code(vector: u8) -> bool {
        matches!(vector, 8 | 10..=14 | 17 | 21)
    }

    fn weight(&self) -> Weight {
        // INT n and its kind are benign, whatever their vector.
        if self.kind != EventKind::Exception {
            return Weight::Benign;
        }
        match self.vector {
            0 | 10..=13 | 21 => Weight::Contributory,
            14 | 20 => Weight::PageFault,
            8 => Weight::DoubleFault,
            _ => Weight::Benign,
        }
    }

    /// What is delivered if `second` comes up while this event is delivered; nothing if the CPU shuts down (SDM 3,
    /// table 6-5).
    pub fn followed_by(&self, second: Event) -> Option<Event> {
        use Weight::{Contributory, DoubleFault, PageFault};
        match (self.weight(), second.weight()) {
            (DoubleFault, Contributory | PageFault) => None,
            (Contributory, Contributory) | (PageFault, Contributory | PageFault) => Some(Event::DF),
            _ => Some(second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_and_triple_faults_follow_the_table() {
        let benign = [Event::UD, Event::NMI, Event::interrupt(14), Event::exception(Exception::Debug)];
        let contributory = [Event::exception(Exception::DivideError), Event::GP0];
        let page_fault = Event::fault(Exception::PageFault, 2);
        for second in [Event::GP0, page_fault, Event::UD] {
            for first in benign {
                assert_eq!(first.followed_by(second), Some(second), "{second:?} after {first:?}");
            }
        }
        for first in contributory {
            assert_eq!(first.followed_by(Event::GP0), Some(Event::DF));
            assert_eq!(first.followed_by(page_fault), Some(page_fault));
            assert_eq!(first.followed_by(Event::UD), Some(Event::UD));
        }
        assert_eq!(page_fault.followed_by(page_fault), Some(Event::DF));
        assert_eq!(page_fault.followed_by(Event::GP0), Some(Event::DF));
        assert_eq!(Event::DF.followed_by(Event::GP0), None);
        assert_eq!(Event::DF.followed_by(page_fault), None);
        assert_eq!(Event::DF.followed_by(Event::UD), Some(Event::UD));
    }
}

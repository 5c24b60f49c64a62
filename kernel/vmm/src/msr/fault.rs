//! Why an access to an MSR is refused.

use core::fmt;

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultReason {
    /// There is no such MSR.
    Unknown,
    /// It cannot be written.
    ReadOnly,
    /// It cannot be read.
    WriteOnly,
    /// Reserved bits are set, or a field has a reserved value.
    ReservedBits,
    /// The address is not canonical.
    NonCanonical,
    /// The guest physical address in it is not RAM.
    NotRam,
    /// The register cannot go from its value to this one.
    Transition,
}

/// An access to an MSR that the CPU answers with #GP(0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsrFault {
    /// ECX.
    pub number: u32,
    /// The value for WRMSR; nothing for RDMSR.
    pub value: Option<u64>,
    /// What is wrong with it.
    pub reason: FaultReason,
}

impl MsrFault {
    /// A refused RDMSR.
    pub const fn read(number: u32, reason: FaultReason) -> Self {
        Self { number, value: None, reason }
    }
    /// A refused WRMSR.
    pub const fn write(number: u32, value: u64, reason: FaultReason) -> Self {
        Self { number, value: Some(value), reason }
    }
}

impl fmt::Display for MsrFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "WRMSR of {value:#x} to MSR {:#x}: ", self.number)?,
            None => write!(f, "RDMSR of MSR {:#x}: ", self.number)?,
        }
        f.write_str(match self.reason {
            FaultReason::Unknown => "there is no such MSR",
            FaultReason::ReadOnly => "it is read-only",
            FaultReason::WriteOnly => "it is write-only",
            FaultReason::ReservedBits => "reserved bits are set",
            FaultReason::NonCanonical => "the address is not canonical",
            FaultReason::NotRam => "the address in it is not RAM",
            FaultReason::Transition => "it cannot change to this value now",
        })
    }
}

impl core::error::Error for MsrFault {}

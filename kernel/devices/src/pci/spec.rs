//! PCI configuration mechanism #1 and the configuration header (PCI Local Bus Specification 3.0, sections 3.2.2.3.2
//! and 6.1).

/// Offset of the configuration address register.
pub(super) const CONFIG_ADDRESS: u16 = 0;
/// Offset of the configuration data window.
pub(super) const CONFIG_DATA: u16 = 4;

/// The configuration address register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfigAddress(u32);

impl ConfigAddress {
    const ENABLE: u32 = 1 << 31;
    const FUNCTION_SHIFT: u32 = 8;
    /// Bus, device and function.
    const FUNCTION_MASK: u32 = 0xffff;
    const REGISTER: u32 = 0xfc;
    const WRITABLE: u32 = Self::ENABLE | Self::FUNCTION_MASK << Self::FUNCTION_SHIFT | Self::REGISTER;

    pub(super) const fn new(value: u32) -> ConfigAddress {
        ConfigAddress(value & Self::WRITABLE)
    }

    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Bus, device and function, if accesses to the data window are configuration accesses.
    pub(super) const fn function(self) -> Option<u16> {
        if self.0 & Self::ENABLE == 0 {
            return None;
        }
        Some((self.0 >> Self::FUNCTION_SHIFT) as u16)
    }

    /// Offset of a dword of configuration space.
    pub(super) const fn register(self) -> u8 {
        (self.0 & Self::REGISTER) as u8
    }
}

/// Dwords of the configuration header.
pub(super) const ID: u8 = 0x00;
pub(super) const COMMAND_STATUS: u8 = 0x04;
pub(super) const CLASS_REVISION: u8 = 0x08;
pub(super) const SUBSYSTEM: u8 = 0x2c;

/// Command: the function answers memory accesses, and it is a bus master.
pub(super) const COMMAND_MEMORY_AND_MASTER: u32 = 1 << 1 | 1 << 2;
/// Class code of a host bridge, above the revision.
pub(super) const CLASS_HOST_BRIDGE: u32 = 0x06_0000 << 8;

//! The host bridge at 00:00.0.

use super::PciFunction;
use super::spec::{
    CLASS_HOST_BRIDGE, CLASS_REVISION, COMMAND_MEMORY_AND_MASTER, COMMAND_STATUS, ID, SUBSYSTEM,
};

/// The generic host bridge that virtual machines show (vendor Red Hat, device 8). Unlike a real chip set's it
/// makes no operating system look for that chip set's other parts or errata.
const VENDOR: u32 = 0x1b36;
const DEVICE: u32 = 0x0008;

/// A host bridge without any register that could be changed.
#[derive(Clone, Debug, Default)]
pub(super) struct HostBridge;

impl PciFunction for HostBridge {
    fn read(&mut self, register: u8) -> u32 {
        match register {
            ID | SUBSYSTEM => DEVICE << 16 | VENDOR,
            COMMAND_STATUS => COMMAND_MEMORY_AND_MASTER,
            CLASS_REVISION => CLASS_HOST_BRIDGE,
            // No base address, capability or interrupt.
            _ => 0,
        }
    }

    fn write(&mut self, _register: u8, _value: u32, _mask: u32) {}
}

//! PCI configuration mechanism #1 (ports 0xCF8-0xCFF) with a host bridge at 00:00.0 and nothing else.
//!
//! Bytes at 0xCF9 belong to the reset control register; see [`crate::reset`].

mod host_bridge;
mod spec;

use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos};
use host_bridge::HostBridge;
use spec::{CONFIG_ADDRESS, CONFIG_DATA, ConfigAddress};

/// Number of ports.
pub const PORTS: u16 = 8;
/// The address register is written in one piece.
pub const MAX_WIDTH: u8 = 4;

const HOST_BRIDGE: u16 = 0;

/// A function in configuration space.
pub trait PciFunction {
    /// Reads the dword at `register`, a multiple of 4.
    fn read(&mut self, register: u8) -> u32;
    /// Writes those bits of the dword at `register` that are set in `mask`.
    fn write(&mut self, register: u8, value: u32, mask: u32);
}

/// Configuration space behind its two registers.
#[derive(Clone, Debug)]
pub struct PciHost {
    address: ConfigAddress,
    host_bridge: HostBridge,
}

impl PciHost {
    /// After reset.
    pub fn new() -> PciHost {
        PciHost { address: ConfigAddress::new(0), host_bridge: HostBridge }
    }

    /// The function that the address register names.
    fn selected(&mut self) -> Option<&mut dyn PciFunction> {
        match self.address.function()? {
            HOST_BRIDGE => Some(&mut self.host_bridge),
            _ => None,
        }
    }
}

impl Default for PciHost {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for PciHost {
    fn read(&mut self, offset: u16, width: u8, _now: Nanos) -> (u32, Effects) {
        let register = self.address.register();
        let value = match (offset, width) {
            (CONFIG_ADDRESS, MAX_WIDTH) => self.address.bits(),
            (CONFIG_DATA..PORTS, _) => match self.selected() {
                Some(function) => function.read(register) >> (8 * (offset - CONFIG_DATA)),
                None => FLOATING,
            },
            // "Anything other than a full dword access to CONFIG_ADDRESS" is none of ours.
            _ => FLOATING,
        };
        (value, Effects::NONE)
    }

    fn write(&mut self, offset: u16, width: u8, value: u32, _now: Nanos) -> Effects {
        let register = self.address.register();
        match (offset, width) {
            (CONFIG_ADDRESS, MAX_WIDTH) => self.address = ConfigAddress::new(value),
            (CONFIG_DATA..PORTS, 1..=MAX_WIDTH) => {
                let shift = 8 * (offset - CONFIG_DATA);
                let mask = (u32::MAX >> (32 - 8 * u32::from(width))) << shift;
                if let Some(function) = self.selected() {
                    function.write(register, value << shift, mask);
                }
            }
            _ => {}
        }
        Effects::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_nothing_beyond, hammer};

    const NOW: Nanos = Nanos(0);

    fn config(pci: &mut PciHost, address: u32, offset: u16, width: u8) -> u32 {
        pci.write(CONFIG_ADDRESS, 4, address, NOW);
        pci.read(CONFIG_DATA + offset, width, NOW).0
    }

    #[test]
    fn the_host_bridge_and_nothing_else() {
        let mut pci = PciHost::new();
        assert_eq!(config(&mut pci, 0x8000_0000, 0, 4), 0x0008_1b36);
        assert_eq!(config(&mut pci, 0x8000_0000, 2, 2) as u16, 0x0008);
        assert_eq!(config(&mut pci, 0x8000_0008, 3, 1) as u8, 0x06);
        assert_eq!(config(&mut pci, 0x8000_000c, 2, 1) as u8, 0, "one function");
        for elsewhere in [0x8000_0100, 0x8000_0800, 0x8001_0000, 0x80ff_ff00] {
            assert_eq!(config(&mut pci, elsewhere, 0, 4), u32::MAX, "{elsewhere:#x}");
        }
        assert_eq!(config(&mut pci, 0x0000_0000, 0, 4), u32::MAX, "not enabled");
    }

    #[test]
    fn base_addresses_have_no_size() {
        let mut pci = PciHost::new();
        for register in (0x10..0x28).step_by(4) {
            pci.write(CONFIG_ADDRESS, 4, 0x8000_0000 | register, NOW);
            pci.write(CONFIG_DATA, 4, u32::MAX, NOW);
            assert_eq!(pci.read(CONFIG_DATA, 4, NOW).0, 0);
        }
    }

    #[test]
    fn the_address_register_takes_whole_dwords() {
        let mut pci = PciHost::new();
        pci.write(CONFIG_ADDRESS, 4, u32::MAX, NOW);
        assert_eq!(pci.read(CONFIG_ADDRESS, 4, NOW).0, 0x80ff_fffc);
        pci.write(CONFIG_ADDRESS, 2, 0, NOW);
        pci.write(CONFIG_ADDRESS + 3, 1, 0, NOW);
        assert_eq!(pci.read(CONFIG_ADDRESS, 4, NOW).0, 0x80ff_fffc);
        assert_eq!(pci.read(CONFIG_ADDRESS + 1, 1, NOW).0 as u8, 0xff);
    }

    #[test]
    fn survives_anything() {
        let mut pci = PciHost::new();
        assert_nothing_beyond(&mut pci, PORTS);
        hammer(&mut pci, PORTS, |pci, _, _| assert_eq!(config(pci, 0x8000_0000, 0, 4), 0x0008_1b36));
    }
}

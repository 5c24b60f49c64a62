//! What the firmware configuration device tells a guest.

use alloc::format;
use alloc::vec::Vec;
use devices::fw_cfg::{Facts, File, FwCfg};
use guestboot::config::VmConfig;
use guestboot::memory_map::MemoryMap;

/// The memory map as a file: ranges of address, length and kind, little-endian and without padding.
const E820: &str = "etc/e820";

/// Where files are that the user has given.
const USERS_FILES: &str = "opt";

/// The device of this virtual machine, whose modules hold this, in the order of the configuration.
pub fn device(
    config: &VmConfig,
    map: &MemoryMap,
    initrd: Option<&'static [u8]>,
    modules: &[&'static [u8]],
) -> FwCfg {
    let lines = config.modules.iter();
    let names: Vec<_> = lines.map(|line| format!("{USERS_FILES}/{}", line.module.name)).collect();
    let mut files = alloc::vec![File { name: E820, bytes: e820(map).into() }];
    files.extend(names.iter().zip(modules).map(|(name, &bytes)| File { name, bytes: bytes.into() }));
    FwCfg::new(Facts {
        // The configuration's limit is far below.
        cpus: config.cpus as u16,
        memory: config.memory,
        cmdline: &config.cmdline,
        initrd: initrd.unwrap_or_default().into(),
        files,
    })
}

fn e820(map: &MemoryMap) -> Vec<u8> {
    let mut bytes = Vec::new();
    for range in map.e820() {
        bytes.extend(range.gpa.0.to_le_bytes());
        bytes.extend(range.len.to_le_bytes());
        bytes.extend((range.kind as u32).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_map_is_a_list_of_packed_ranges() {
        let map = MemoryMap::new(64 << 20).expect("a good size");
        let bytes = e820(&map);
        assert_eq!(bytes.len(), 20 * map.e820().len());
        let (first, range) = (&bytes[..20], map.e820()[0]);
        assert_eq!(first[..8], range.gpa.0.to_le_bytes());
        assert_eq!(first[8..16], range.len.to_le_bytes());
        assert_eq!(first[16..], [1, 0, 0, 0], "usable");
    }
}

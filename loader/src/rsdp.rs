//! The ACPI root system description pointer (ACPI 6.5, 5.2.5).

use abi::boot::{MemoryKind, PhysRange};

use crate::memory_map::MemoryMap;
use crate::physical::PhysicalMemory;

const SIGNATURE: &[u8; 8] = b"RSD PTR ";
/// Length of the structure of ACPI 1.0, which the first checksum covers.
const LEN_V1: usize = 20;
/// Offset of the revision; the structure has a length and a second checksum from 2 on.
const REVISION: usize = 15;
/// Offset of the length, 32 bits.
const LENGTH: usize = 20;
/// A BIOS puts it at a multiple of this.
const BIOS_ALIGN: usize = 16;
/// UEFI promises no alignment; its allocations and the tables in them have at least this.
const UEFI_ALIGN: usize = 4;

/// The BIOS data area holds the segment of the extended BIOS data area here.
const EBDA_SEGMENT: PhysRange = PhysRange { start: 0x40e, len: 2 };
/// The structure lies in the first KiB of the extended BIOS data area...
const EBDA_SEARCHED: u64 = 1024;
/// ... or in the BIOS's read-only memory.
const BIOS_AREA: PhysRange = PhysRange { start: 0xe_0000, len: 0x2_0000 };
/// End of what a BIOS reaches in real mode.
const LOW_MEMORY: u64 = 0xa_0000;

/// The structure at the beginning of `bytes` with exactly its own length, if it is one with good checksums.
pub fn check(bytes: &[u8]) -> Option<&[u8]> {
    let v1 = bytes.get(..LEN_V1)?;
    if !v1.starts_with(SIGNATURE) || sum(v1) != 0 {
        return None;
    }
    if v1[REVISION] < 2 {
        return Some(v1);
    }
    let len = bytes.get(LENGTH..LENGTH + 4)?;
    let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
    bytes.get(..len).filter(|whole| len > LENGTH && sum(whole) == 0)
}

/// Searches where a BIOS puts it, then in the memory that the firmware set aside for ACPI tables: under UEFI with
/// multiboot 1 there is no other way to it.
pub fn search<'m>(memory: &'m impl PhysicalMemory, map: &MemoryMap) -> Option<&'m [u8]> {
    let bios_areas = ebda(memory).into_iter().chain([BIOS_AREA]);
    let acpi_areas = map
        .ranges()
        .iter()
        .filter(|r| matches!(r.kind, MemoryKind::AcpiReclaimable | MemoryKind::AcpiNvs))
        .map(|r| r.range);
    let bios = bios_areas.map(|area| (area, BIOS_ALIGN));
    let uefi = acpi_areas.map(|area| (area, UEFI_ALIGN));
    bios.chain(uefi).find_map(|(area, align)| search_area(memory, area, align))
}

fn ebda(memory: &impl PhysicalMemory) -> Option<PhysRange> {
    let segment: [u8; 2] = memory.bytes(EBDA_SEGMENT)?.try_into().ok()?;
    let start = u64::from(u16::from_le_bytes(segment)) << 4;
    (start != 0 && start < LOW_MEMORY).then_some(PhysRange { start, len: EBDA_SEARCHED })
}

fn search_area(memory: &impl PhysicalMemory, area: PhysRange, align: usize) -> Option<&[u8]> {
    let bytes = memory.bytes(area)?;
    (0..bytes.len()).step_by(align).find_map(|at| check(&bytes[at..]))
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, b| sum.wrapping_add(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical::fake::Fake;
    use abi::boot::MemoryRange;
    use std::vec::Vec;

    fn with_checksum(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
        bytes[at] = 0;
        bytes[at] = sum(&bytes).wrapping_neg();
        bytes
    }

    fn v1() -> Vec<u8> {
        with_checksum(b"RSD PTR \0OEMID \0\x34\x12\0\0".to_vec(), 8)
    }

    fn v2() -> Vec<u8> {
        let mut first = with_checksum(b"RSD PTR \0OEMID \x02\x34\x12\0\0".to_vec(), 8);
        first.extend(36u32.to_le_bytes());
        first.extend([0x55; 12]);
        first[33..].fill(0);
        with_checksum(first, 32)
    }

    #[test]
    fn takes_both_versions_with_their_length() {
        let mut longer = v1();
        longer.extend([0xaa; 40]);
        assert_eq!(check(&longer), Some(&v1()[..]));
        assert_eq!(check(&v2()), Some(&v2()[..]));
    }

    #[test]
    fn refuses_every_flipped_byte_and_every_truncation() {
        for good in [v1(), v2()] {
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x40;
                assert_eq!(check(&bad), None, "byte {at} of {}", good.len());
                assert_eq!(check(&good[..at]), None, "cut at {at} of {}", good.len());
            }
        }
    }

    #[test]
    fn searches_the_ebda_before_the_bios_area() {
        let no_map = MemoryMap::default();
        let mut memory = Fake::new(0, 0x10_0000);
        memory.put(0xf_5a40, &v1());
        assert_eq!(search(&memory, &no_map).map(<[u8]>::len), Some(LEN_V1));
        memory.put(0x40e, &0x9fc0u16.to_le_bytes());
        memory.put(0x9_fc00 + 1008 - 32, &v2());
        assert_eq!(search(&memory, &no_map).map(<[u8]>::len), Some(36));
    }

    #[test]
    fn a_bios_aligns_it() {
        let mut memory = Fake::new(0, 0x10_0000);
        memory.put(0xf_5a48, &v1());
        assert_eq!(search(&memory, &MemoryMap::default()), None);
    }

    #[test]
    fn uefi_keeps_it_in_acpi_memory() {
        let mut memory = Fake::new(0, 0x20_0000);
        memory.put(0x18_0014, &v2());
        let range = PhysRange { start: 0x18_0000, len: 0x1000 };
        let map_of = |kind| MemoryMap::new(&[MemoryRange { range, kind, reserved: 0 }]).unwrap();
        for kind in [MemoryKind::AcpiReclaimable, MemoryKind::AcpiNvs] {
            assert_eq!(search(&memory, &map_of(kind)), Some(&v2()[..]));
        }
        for kind in [MemoryKind::Usable, MemoryKind::Reserved] {
            assert_eq!(search(&memory, &map_of(kind)), None, "{kind:?}");
        }
    }
}

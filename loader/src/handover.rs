//! From what the boot loader handed over to what the kernel is given.

use abi::boot::{BootInfo, MemoryKind, Module, PhysRange};

use crate::error::{LoaderError, MIN_MEMORY};
use crate::found::Found;
use crate::memory_map::MemoryMap;
use crate::physical::PhysicalMemory;
use crate::pool::Pool;
use crate::rsdp;

/// End of the memory that the loader can reach.
pub const REACH: u64 = 1 << 32;

/// The memory map with the loader's own image and every module reserved, so that nothing which is still
/// needed can be allocated.
pub fn memory_map(found: &Found<'_>, own_image: PhysRange) -> Result<MemoryMap, LoaderError> {
    check_overlaps(found, own_image)?;
    let mut map = MemoryMap::new(&found.memory)?;
    map.reserve(own_image, MemoryKind::Image)?;
    for module in &found.modules {
        map.reserve(module.data, MemoryKind::Module)?;
    }
    let usable = map.usable_below(REACH);
    if usable < MIN_MEMORY {
        return Err(LoaderError::TooLittleMemory { usable });
    }
    Ok(map)
}

/// Refuses modules of which a part was overwritten, or that have overwritten us. Empty ones lie nowhere.
fn check_overlaps(found: &Found<'_>, own_image: PhysRange) -> Result<(), LoaderError> {
    let mut modules = found.modules.iter().map(|module| module.data).filter(|data| data.len != 0);
    while let Some(module) = modules.next() {
        let overlaps = |other: PhysRange| module.start < other.end() && other.start < module.end();
        if overlaps(own_image) {
            return Err(LoaderError::Overlap { module, with: "the hypervisor's image" });
        }
        if modules.clone().any(overlaps) {
            return Err(LoaderError::Overlap { module, with: "another module" });
        }
    }
    Ok(())
}

/// The boot information but for the kernel's place and the memory map, which allocations still change. Whatever
/// it points to, except the modules' bytes, is copied into `pool`: the boot loader's own structures are free
/// memory from here on.
pub fn boot_info(
    memory: &impl PhysicalMemory,
    found: &Found<'_>,
    map: &MemoryMap,
    pool: &mut Pool,
) -> Result<BootInfo, LoaderError> {
    let mut info = BootInfo::new();
    info.cmdline = pool.keep(found.cmdline.as_bytes())?;
    info.loader_name = pool.keep(found.loader_name.as_bytes())?;
    let root = found.rsdp.and_then(rsdp::check).or_else(|| rsdp::search(memory, map));
    if let Some(root) = root {
        info.rsdp = pool.keep(root)?;
    }
    for (slot, module) in info.modules.iter_mut().zip(&found.modules) {
        *slot = Module { data: module.data, cmdline: pool.keep(module.cmdline.as_bytes())? };
    }
    info.module_count = found.modules.len() as u32;
    Ok(info)
}

/// Writes the final memory map into the boot information.
pub fn set_memory(info: &mut BootInfo, map: &MemoryMap) {
    let ranges = map.ranges();
    info.memory[..ranges.len()].copy_from_slice(ranges);
    info.memory_count = ranges.len() as u32;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::FoundModule;
    use crate::physical::fake::Fake;
    use abi::boot::MemoryRange;
    use std::boxed::Box;

    const OWN_IMAGE: PhysRange = PhysRange { start: 0x20_0000, len: 0x2_8100 };
    const MODULE: PhysRange = PhysRange { start: 0x30_0000, len: 0x1234 };

    fn found(usable: u64) -> Found<'static> {
        let range = PhysRange { start: 0x10_0000, len: usable };
        let mut found = Found { loader_name: "GRUB", cmdline: "console=com2", ..Found::default() };
        found.memory.push(MemoryRange { range, kind: MemoryKind::Usable, reserved: 0 });
        found.modules.push(FoundModule { data: MODULE, cmdline: "vmlinuz quiet" });
        found.modules.push(FoundModule { data: PhysRange::default(), cmdline: "" });
        found
    }

    #[test]
    fn image_and_modules_are_never_allocated() {
        let mut map = memory_map(&found(64 << 20), OWN_IMAGE).unwrap();
        let window = PhysRange { start: 0, len: REACH };
        while let Ok(allocation) = map.allocate(0x1000, 1, window) {
            let page = allocation.range();
            for kept in [OWN_IMAGE, MODULE] {
                assert!(page.end() <= kept.start || page.start >= kept.end(), "{page:x?} in {kept:x?}");
            }
        }
        let kind_at = |address| {
            map.ranges().iter().find(|r| (r.range.start..r.range.end()).contains(&address)).map(|r| r.kind)
        };
        assert_eq!(kind_at(OWN_IMAGE.end() - 1), Some(MemoryKind::Image));
        assert_eq!(kind_at(MODULE.end() - 1), Some(MemoryKind::Module));
    }

    #[test]
    fn modules_that_overlap_are_refused() {
        let end = MODULE.end();
        for (start, len, with) in [
            (MODULE.start, MODULE.len, Some("another module")),
            (end - 1, 0x1000, Some("another module")),
            (MODULE.start - 0xfff, 0x1000, Some("another module")),
            (MODULE.start - 1, MODULE.len + 2, Some("another module")),
            (OWN_IMAGE.start - 1, 2, Some("the hypervisor's image")),
            (OWN_IMAGE.end() - 1, 1, Some("the hypervisor's image")),
            (OWN_IMAGE.start + 1, 1, Some("the hypervisor's image")),
            (end, 0x1000, None),
            (OWN_IMAGE.end(), 1, None),
            (MODULE.start + 1, 0, None),
            (OWN_IMAGE.start + 1, 0, None),
        ] {
            let mut found = found(64 << 20);
            let data = PhysRange { start, len };
            found.modules.push(FoundModule { data, cmdline: "second" });
            let overlap = match memory_map(&found, OWN_IMAGE) {
                Ok(_) => None,
                Err(LoaderError::Overlap { with, .. }) => Some(with),
                Err(other) => panic!("{data:x?}: {other}"),
            };
            assert_eq!(overlap, with, "{data:x?}");
        }
    }

    #[test]
    fn as_many_modules_as_there_is_room_for() {
        let mut found = found(64 << 20);
        let room = found.modules.remaining_capacity() as u32;
        for number in 0..room {
            let start = 0x40_0000 + number * 0x1000;
            found.add_module(start, start + 1 + number, "m").unwrap();
        }
        assert_eq!(found.add_module(0x80_0000, 0x80_1000, "too much"), Err(LoaderError::TooManyModules));
        memory_map(&found, OWN_IMAGE).unwrap();
    }

    #[test]
    fn modules_lie_between_their_ends() {
        let mut found = found(64 << 20);
        for (start, end, len) in [(0, 0, 0), (u32::MAX, u32::MAX, 0), (0, u32::MAX, u32::MAX), (7, 8, 1)] {
            found.add_module(start, end, "").unwrap();
            assert_eq!(found.modules.last().unwrap().data.len, len.into());
        }
        let (start, end) = (0x1000, 0xfff);
        assert_eq!(found.add_module(start, end, ""), Err(LoaderError::BadModule { start, end }));
    }

    #[test]
    fn too_little_memory_is_said() {
        let error = memory_map(&found(MIN_MEMORY), OWN_IMAGE).unwrap_err();
        assert!(matches!(error, LoaderError::TooLittleMemory { usable } if usable < MIN_MEMORY));
        let mut high = found(1 << 20);
        let range = PhysRange { start: REACH, len: 1 << 40 };
        high.memory.push(MemoryRange { range, kind: MemoryKind::Usable, reserved: 0 });
        assert!(memory_map(&high, OWN_IMAGE).is_err(), "memory out of reach does not count");
    }

    #[test]
    fn strings_and_root_pointer_are_copied() {
        let memory = Fake::new(0, 0x10_0000);
        let mut pool = Box::new(Pool::new());
        let mut root = *b"RSD PTR \0OEMID \0\x34\x12\0\0";
        root[8] = root.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)).wrapping_neg();
        let found = Found { rsdp: Some(&root), ..found(64 << 20) };
        let map = memory_map(&found, OWN_IMAGE).unwrap();
        let mut info = boot_info(&memory, &found, &map, &mut pool).unwrap();
        set_memory(&mut info, &map);

        assert_eq!(pool.kept(info.cmdline), Some(&b"console=com2"[..]));
        assert_eq!(pool.kept(info.loader_name), Some(&b"GRUB"[..]));
        assert_eq!(pool.kept(info.rsdp), Some(&root[..]));
        assert_eq!(info.modules().len(), 2);
        assert_eq!(info.modules()[0].data, MODULE);
        assert_eq!(pool.kept(info.modules()[0].cmdline), Some(&b"vmlinuz quiet"[..]));
        assert_eq!(info.memory(), map.ranges());
    }

    #[test]
    fn a_bad_root_pointer_is_not_passed_on() {
        let memory = Fake::new(0, 0x10_0000);
        let mut pool = Box::new(Pool::new());
        let found = Found { rsdp: Some(b"RSD PTR xOEMID x____"), ..found(64 << 20) };
        let map = memory_map(&found, OWN_IMAGE).unwrap();
        assert_eq!(boot_info(&memory, &found, &map, &mut pool).unwrap().rsdp, PhysRange::default());
    }
}

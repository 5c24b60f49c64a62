//! What the loader makes of what a boot loader handed over, whatever that is.

use crate::physical::Memory;
use abi::boot::{BootInfo, MemoryKind, PhysRange};
use loader::found::Found;
use loader::handover::{self, REACH};
use loader::memory_map::MemoryMap;
use loader::pool::Pool;
use x86defs::addr::PAGE_SIZE;

/// Where the loader lies.
const OWN_IMAGE: PhysRange = PhysRange { start: 0x20_0000, len: 0x2_8000 };

/// Everything that was found lies in `memory`; then the loader goes on with it as it does at boot.
pub fn go_on(found: &Found<'_>, memory: &Memory<'_>) {
    assert!(memory.holds(found.cmdline.as_bytes()) && memory.holds(found.loader_name.as_bytes()));
    assert!(found.modules.iter().all(|module| memory.holds(module.cmdline.as_bytes())));
    assert!(found.rsdp.is_none_or(|rsdp| memory.holds(rsdp)));
    let Ok(mut map) = handover::memory_map(found, OWN_IMAGE) else { return };
    in_order(&map);
    let mut pool = Box::new(Pool::new());
    let Ok(mut info) = handover::boot_info(memory, found, &map, &mut pool) else { return };
    allocate(found, &mut map);
    handover::set_memory(&mut info, &map);
    complete(found, &info);
}

/// Ranges ascend without overlap, and usable ones are whole pages.
fn in_order(map: &MemoryMap) {
    for pair in map.ranges().windows(2) {
        assert!(pair[0].range.end() <= pair[1].range.start, "{pair:x?}");
    }
    for usable in map.ranges().iter().filter(|range| range.kind == MemoryKind::Usable) {
        assert!(usable.range.start % PAGE_SIZE == 0 && usable.range.len % PAGE_SIZE == 0, "{usable:x?}");
    }
}

/// Nothing that is allocated is still needed.
fn allocate(found: &Found<'_>, map: &mut MemoryMap) {
    for (len, align) in [(PAGE_SIZE, 1), (1 << 20, 2 << 20), (64 << 10, PAGE_SIZE)] {
        let window = PhysRange { start: 1 << 20, len: REACH - (1 << 20) };
        let Ok(allocation) = map.allocate(len, align, window) else { continue };
        let range = allocation.range();
        assert!(range.len >= len && range.start % align == 0, "{range:x?}");
        assert!(window.start <= range.start && range.end() <= window.end(), "{range:x?}");
        for kept in found.modules.iter().map(|module| module.data).chain([OWN_IMAGE]) {
            let apart = kept.len == 0 || range.end() <= kept.start || kept.end() <= range.start;
            assert!(apart, "{range:x?} was allocated in {kept:x?}");
        }
        in_order(map);
    }
}

fn complete(found: &Found<'_>, info: &BootInfo) {
    assert_eq!(info.modules().len(), found.modules.len());
    for (module, found) in info.modules().iter().zip(&found.modules) {
        assert_eq!(module.data, found.data);
    }
    assert!(info.rsdp.len == 0 || info.rsdp.len >= 20);
}

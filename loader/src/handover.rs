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

/// The boot information but for the kernel's place and the memory map, which allocations still change. Whatever
/// it points to, except the modules' bytes, is copied into `pool`: the boot loader's own structures are free
/// memory from here on.
pub fn boot_info(
    memory: &impl PhysicalMemory,
    found: &Found<'_>,
    pool: &mut Pool,
) -> Result<BootInfo, LoaderError> {
    let mut info = BootInfo::new();
    info.cmdline = pool.keep(found.cmdline.as_bytes())?;
    info.loader_name = pool.keep(found.loader_name.as_bytes())?;
    let root = found.rsdp.and_then(rsdp::check).or_else(|| rsdp::search(memory));
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

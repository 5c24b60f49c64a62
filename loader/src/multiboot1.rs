//! Multiboot information, version 0.6.96, section 3.3.

use abi::boot::PhysRange;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::LoaderError;
use crate::found::Found;
use crate::physical::PhysicalMemory;

/// EAX at entry.
pub const MAGIC: u32 = 0x2bad_b002;

// Bits of `Information::flags`: which fields are valid.
const HAS_CMDLINE: u32 = 1 << 2;
const HAS_MODULES: u32 = 1 << 3;
const HAS_MEMORY_MAP: u32 = 1 << 6;
const HAS_LOADER_NAME: u32 = 1 << 9;

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
struct Information {
    flags: U32,
    mem_lower: U32,
    mem_upper: U32,
    boot_device: U32,
    cmdline: U32,
    mods_count: U32,
    mods_addr: U32,
    syms: [U32; 4],
    mmap_length: U32,
    mmap_addr: U32,
    drives_length: U32,
    drives_addr: U32,
    config_table: U32,
    boot_loader_name: U32,
}

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
struct ModuleEntry {
    mod_start: U32,
    mod_end: U32,
    string: U32,
    reserved: U32,
}

/// An entry of the memory map, which follows a 32-bit `size` that does not count itself.
#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
struct MapEntry {
    base_addr: U64,
    length: U64,
    kind: U32,
}

/// Reads the information at physical address `address`.
pub fn read(memory: &impl PhysicalMemory, address: u32) -> Result<Found<'_>, LoaderError> {
    let information: &Information = structure(memory, address.into(), "the multiboot information")?;
    let flags = information.flags.get();
    if flags & HAS_MEMORY_MAP == 0 {
        return Err(LoaderError::NoMemoryMap);
    }
    let mut found = Found::default();
    read_memory_map(memory, information, &mut found)?;
    if flags & HAS_CMDLINE != 0 {
        found.cmdline = string(memory, information.cmdline, "the command line")?;
    }
    if flags & HAS_LOADER_NAME != 0 {
        found.loader_name = string(memory, information.boot_loader_name, "the boot loader's name")?;
    }
    if flags & HAS_MODULES != 0 {
        read_modules(memory, information, &mut found)?;
    }
    Ok(found)
}

fn read_memory_map<'m>(
    memory: &'m impl PhysicalMemory,
    information: &Information,
    found: &mut Found<'m>,
) -> Result<(), LoaderError> {
    const WHAT: &str = "the memory map";
    let malformed = LoaderError::Malformed { what: WHAT };
    let address = u64::from(information.mmap_addr.get());
    let mut rest = memory
        .bytes(PhysRange { start: address, len: information.mmap_length.get().into() })
        .ok_or(LoaderError::Unreadable { what: WHAT, address })?;
    while !rest.is_empty() {
        let (size, after) = U32::read_from_prefix(rest).map_err(|_| malformed)?;
        let (body, next) = after.split_at_checked(size.get() as usize).ok_or(malformed)?;
        let (entry, _) = MapEntry::ref_from_prefix(body).map_err(|_| malformed)?;
        let range = PhysRange { start: entry.base_addr.get(), len: entry.length.get() };
        found.add_memory(range, entry.kind.get())?;
        rest = next;
    }
    Ok(())
}

fn read_modules<'m>(
    memory: &'m impl PhysicalMemory,
    information: &Information,
    found: &mut Found<'m>,
) -> Result<(), LoaderError> {
    for index in 0..information.mods_count.get() {
        let address =
            u64::from(information.mods_addr.get()) + u64::from(index) * size_of::<ModuleEntry>() as u64;
        let entry: &ModuleEntry = structure(memory, address, "the list of modules")?;
        // A loader may pass no string at all.
        let cmdline = match entry.string.get() {
            0 => "",
            _ => string(memory, entry.string, "a module's command line")?,
        };
        found.add_module(entry.mod_start.get(), entry.mod_end.get(), cmdline)?;
    }
    Ok(())
}

fn structure<'m, T: FromBytes + Immutable + KnownLayout + Unaligned>(
    memory: &'m impl PhysicalMemory,
    address: u64,
    what: &'static str,
) -> Result<&'m T, LoaderError> {
    memory
        .bytes(PhysRange { start: address, len: size_of::<T>() as u64 })
        .and_then(|bytes| T::ref_from_bytes(bytes).ok())
        .ok_or(LoaderError::Unreadable { what, address })
}

fn string<'m>(
    memory: &'m impl PhysicalMemory,
    address: U32,
    what: &'static str,
) -> Result<&'m str, LoaderError> {
    let address = u64::from(address.get());
    let bytes = memory.zero_terminated(address).ok_or(LoaderError::Endless { what, address })?;
    core::str::from_utf8(bytes).map_err(|_| LoaderError::NotUtf8 { what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical::fake::Fake;
    use abi::boot::{MAX_MODULES, MemoryKind};

    const BASE: u64 = 0x8000;
    const INFORMATION: u32 = 0x8000;
    const MODULES: u64 = 0x8100;
    const MAP: u64 = 0x8800;
    const STRINGS: u64 = 0x9000;

    /// Information with a command line, a name, two modules and a map of two entries of different size.
    fn sample() -> Fake {
        let mut memory = Fake::new(BASE, 0x2000);
        let flags = HAS_CMDLINE | HAS_MODULES | HAS_MEMORY_MAP | HAS_LOADER_NAME;
        let at = |a: u64| a as u32;
        memory.put_words(BASE, &[flags, 0, 0, 0, at(STRINGS), 2, at(MODULES), 0, 0, 0, 0, 48, at(MAP)]);
        memory.put_words(BASE + 64, &[at(STRINGS) + 0x20]);
        memory.put_words(MODULES, &[0x30_0000, 0x30_1234, at(STRINGS) + 0x40, 0]);
        memory.put_words(MODULES + 16, &[0x31_0000, 0x31_0000, 0, 0]);
        memory.put_words(MAP, &[20, 0x1000, 0, 0x9_f000, 0, 1]);
        memory.put_words(MAP + 24, &[20, 0, 1, 0, 2, 12]);
        memory.put(STRINGS, b"console=com1\0");
        memory.put(STRINGS + 0x20, b"qemu\0");
        memory.put(STRINGS + 0x40, b"vmlinuz quiet\0");
        memory
    }

    #[test]
    fn reads_everything() {
        let memory = sample();
        let found = read(&memory, INFORMATION).unwrap();
        assert_eq!((found.cmdline, found.loader_name), ("console=com1", "qemu"));
        assert_eq!(found.modules.len(), 2);
        assert_eq!(found.modules[0].data, PhysRange { start: 0x30_0000, len: 0x1234 });
        assert_eq!(found.modules[0].cmdline, "vmlinuz quiet");
        assert_eq!((found.modules[1].data.len, found.modules[1].cmdline), (0, ""));
        assert_eq!(found.memory[0].range, PhysRange { start: 0x1000, len: 0x9_f000 });
        assert_eq!(found.memory[0].kind, MemoryKind::Usable);
        assert_eq!(found.memory[1].range, PhysRange { start: 1 << 32, len: 2 << 32 });
        assert_eq!(found.memory[1].kind, MemoryKind::Reserved, "an unknown kind");
    }

    #[test]
    fn entries_may_be_longer_than_what_is_known() {
        let mut memory = sample();
        memory.put_words(BASE + 44, &[28]);
        memory.put_words(MAP, &[24]);
        assert_eq!(read(&memory, INFORMATION).unwrap().memory.len(), 1);
    }

    #[test]
    fn fields_without_their_flag_are_not_read() {
        let mut memory = sample();
        memory.put_words(BASE, &[HAS_MEMORY_MAP]);
        memory.put_words(BASE + 16, &[u32::MAX, u32::MAX, u32::MAX]);
        let found = read(&memory, INFORMATION).unwrap();
        assert_eq!((found.cmdline, found.loader_name, found.modules.len()), ("", "", 0));
        drop(found);
        memory.put_words(BASE, &[0]);
        assert_eq!(read(&memory, INFORMATION).unwrap_err(), LoaderError::NoMemoryMap);
    }

    #[test]
    fn broken_structures_are_named() {
        let broken = |at: u64, words: &[u32]| {
            let mut memory = sample();
            memory.put_words(at, words);
            read(&memory, INFORMATION).unwrap_err()
        };
        let malformed = LoaderError::Malformed { what: "the memory map" };
        assert_eq!(broken(MAP, &[19]), malformed);
        assert_eq!(broken(MAP, &[u32::MAX]), malformed);
        assert_eq!(broken(BASE + 44, &[50]), malformed);
        let far = |what| LoaderError::Unreadable { what, address: 0xffff_fff0 };
        assert_eq!(broken(BASE + 48, &[0xffff_fff0]), far("the memory map"));
        assert_eq!(broken(BASE + 24, &[0xffff_fff0]), far("the list of modules"));
        let endless = LoaderError::Endless { what: "the command line", address: 0xffff_fff0 };
        assert_eq!(broken(BASE + 16, &[0xffff_fff0]), endless);
        assert_eq!(broken(STRINGS, &[0xff]), LoaderError::NotUtf8 { what: "the command line" });
        assert_eq!(broken(BASE + 20, &[MAX_MODULES as u32 + 1]), LoaderError::TooManyModules);
        assert_eq!(broken(MODULES, &[0x2000, 0x1000]), LoaderError::BadModule { start: 0x2000, end: 0x1000 });
        assert_eq!(
            read(&sample(), 0x9ff0).unwrap_err(),
            LoaderError::Unreadable { what: "the multiboot information", address: 0x9ff0 }
        );
    }
}

//! Multiboot 2 information, version 2.0, section 3.6, through the crate `multiboot2`.

use abi::boot::PhysRange;
use multiboot2::{BootInformation, MemoryArea, StringError, TagType};

use crate::error::LoaderError;
use crate::found::Found;

/// EAX at entry.
pub const MAGIC: u32 = multiboot2::MAGIC;

/// Translates the information.
pub fn read<'m>(information: &'m BootInformation<'m>) -> Result<Found<'m>, LoaderError> {
    check_lengths(information)?;
    let mut found = Found::default();
    let map = information.memory_map_tag().ok_or(LoaderError::NoMemoryMap)?;
    if map.entry_size() as usize != size_of::<MemoryArea>() {
        return Err(LoaderError::Malformed { what: "the memory map" });
    }
    for area in map.memory_areas() {
        found.add_memory(PhysRange { start: area.start_address(), len: area.size() }, area.typ().val())?;
    }
    if let Some(tag) = information.command_line_tag() {
        found.cmdline = text(tag.cmdline(), "the command line")?;
    }
    if let Some(tag) = information.boot_loader_name_tag() {
        found.loader_name = text(tag.name(), "the boot loader's name")?;
    }
    for tag in information.module_tags() {
        let cmdline = text(tag.cmdline(), "a module's command line")?;
        found.add_module(tag.start_address(), tag.end_address(), cmdline)?;
    }
    found.rsdp = root_pointer(information, TagType::AcpiV2).or(root_pointer(information, TagType::AcpiV1));
    Ok(found)
}

/// Refuses tags that are too short for what they are. The crate takes them for what it was promised, and panics.
fn check_lengths(information: &BootInformation<'_>) -> Result<(), LoaderError> {
    /// Bytes between a tag's header and its entries or text.
    const FIXED: usize = 2 * size_of::<u32>();
    for tag in information.tags() {
        let rest = tag.payload().len().checked_sub(FIXED);
        let (good, what) = match TagType::from(tag.header().typ) {
            TagType::Mmap => {
                (rest.is_some_and(|len| len.is_multiple_of(size_of::<MemoryArea>())), "the memory map")
            }
            TagType::Module => (rest.is_some(), "a module"),
            _ => continue,
        };
        if !good {
            return Err(LoaderError::Malformed { what });
        }
    }
    Ok(())
}

fn root_pointer<'m>(information: &'m BootInformation<'m>, kind: TagType) -> Option<&'m [u8]> {
    information.tags().find(|tag| tag.header().typ == kind).map(|tag| tag.payload())
}

fn text<'m>(string: Result<&'m str, StringError>, what: &'static str) -> Result<&'m str, LoaderError> {
    string.map_err(|error| match error {
        StringError::MissingNul(_) => LoaderError::Malformed { what },
        StringError::Utf8(_) => LoaderError::NotUtf8 { what },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::boot::MemoryKind;
    use multiboot2::{
        BootLoaderNameTag, Builder, CommandLineTag, MemoryAreaType, MemoryMapTag, ModuleTag, RsdpV1Tag,
        RsdpV2Tag,
    };

    fn with_map() -> Builder {
        Builder::new().mmap(MemoryMapTag::new(&[
            MemoryArea::new(0, 0x9_fc00, MemoryAreaType::Available),
            MemoryArea::new(0xf_0000, 0x1_0000, MemoryAreaType::Custom(77)),
        ]))
    }

    #[allow(unsafe_code, reason = "the crate has no other constructor")]
    fn reading<R>(builder: Builder, check: impl FnOnce(Result<Found<'_>, LoaderError>) -> R) -> R {
        let bytes = builder.build();
        // SAFETY: The structure was built just now and outlives the information.
        let information = unsafe { BootInformation::load((&raw const *bytes).cast()) }.unwrap();
        check(read(&information))
    }

    /// Reads information with one tag of this kind, of which only `len` bytes follow the header.
    #[allow(unsafe_code, reason = "the crate has no other constructor")]
    fn reading_short(kind: u32, len: u32) -> LoaderError {
        #[repr(C, align(8))]
        struct Raw([u32; 20]);
        let mut raw = Raw([0; 20]);
        let tag_end = 2 + (2 + len as usize / 4).next_multiple_of(2);
        raw.0[0] = 4 * (tag_end as u32 + 2);
        raw.0[2] = kind;
        raw.0[3] = 8 + len;
        raw.0[tag_end + 1] = 8;
        // SAFETY: The structure is aligned, ends within the array, and outlives the information.
        let information = unsafe { BootInformation::load((&raw const raw).cast()) }.unwrap();
        read(&information).unwrap_err()
    }

    #[test]
    fn tags_that_are_too_short_are_named() {
        const MODULE: u32 = 3;
        const MEMORY_MAP: u32 = 6;
        for len in [0, 4, 12, 28, 36] {
            let error = reading_short(MEMORY_MAP, len);
            assert_eq!(error, LoaderError::Malformed { what: "the memory map" }, "{len} bytes");
        }
        assert_eq!(reading_short(MODULE, 4), LoaderError::Malformed { what: "a module" });
        assert_eq!(reading_short(MODULE, 8), LoaderError::NoMemoryMap);
    }

    #[test]
    fn reads_everything() {
        let builder = with_map()
            .cmdline(CommandLineTag::new("console=com1"))
            .bootloader(BootLoaderNameTag::new("GRUB 2.06"))
            .add_module(ModuleTag::new(0x30_0000, 0x30_1234, "vmlinuz quiet"))
            .add_module(ModuleTag::new(0x40_0000, 0x40_0001, "initrd"));
        reading(builder, |found| {
            let found = found.unwrap();
            assert_eq!((found.cmdline, found.loader_name), ("console=com1", "GRUB 2.06"));
            assert_eq!(found.memory[0].range, PhysRange { start: 0, len: 0x9_fc00 });
            assert_eq!(found.memory[0].kind, MemoryKind::Usable);
            assert_eq!(found.memory[1].kind, MemoryKind::Reserved, "an unknown kind");
            assert_eq!(found.modules[0].data, PhysRange { start: 0x30_0000, len: 0x1234 });
            assert_eq!(found.modules[0].cmdline, "vmlinuz quiet");
            assert_eq!(found.modules[1].cmdline, "initrd");
            assert_eq!(found.rsdp, None);
        });
    }

    #[test]
    fn the_newer_root_pointer_is_preferred() {
        let (v1, v2) = (RsdpV1Tag::new(*b"OEMID ", 0, 0x1234), RsdpV2Tag::new(*b"OEMID ", 2, 0, 36, 0x5678));
        let length =
            |builder| reading(builder, |found| crate::rsdp::check(found.unwrap().rsdp?).map(<[u8]>::len));
        assert_eq!(length(with_map().rsdpv1(v1)), Some(20));
        assert_eq!(length(with_map().rsdpv1(v1).rsdpv2(v2)), Some(36));
    }

    #[test]
    fn a_missing_memory_map_is_named() {
        reading(Builder::new(), |found| assert_eq!(found.unwrap_err(), LoaderError::NoMemoryMap));
    }
}

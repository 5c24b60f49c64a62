//! Multiboot 2 information, version 2.0, section 3.6, through the crate `multiboot2`.

use abi::boot::PhysRange;
use multiboot2::{BootInformation, MemoryArea, StringError, TagType};

use crate::error::LoaderError;
use crate::found::Found;

/// EAX at entry.
pub const MAGIC: u32 = multiboot2::MAGIC;

/// Translates the information.
pub fn read<'m>(information: &'m BootInformation<'m>) -> Result<Found<'m>, LoaderError> {
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

fn root_pointer<'m>(information: &'m BootInformation<'m>, kind: TagType) -> Option<&'m [u8]> {
    information.tags().find(|tag| tag.header().typ == kind).map(|tag| tag.payload())
}

fn text<'m>(string: Result<&'m str, StringError>, what: &'static str) -> Result<&'m str, LoaderError> {
    string.map_err(|error| match error {
        StringError::MissingNul(_) => LoaderError::Malformed { what },
        StringError::Utf8(_) => LoaderError::NotUtf8 { what },
    })
}

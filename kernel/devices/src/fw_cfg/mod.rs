//! The firmware configuration device, read-only and by ports: a selector chooses an item, and each read of the data
//! port gives its next byte.

mod spec;
#[cfg(test)]
mod tests;

use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use spec::{ID_TRADITIONAL, NAME_SIZE, SIGNATURE, WRITE_CHANNEL, key};

/// Offset of the selector, a word.
pub const SELECTOR: u16 = 0;
/// Width of the selector.
pub const SELECTOR_WIDTH: u8 = 2;
/// Offset of the data port, a byte.
pub const DATA: u16 = 1;
/// Width of the data port.
pub const DATA_WIDTH: u8 = 1;
/// Number of ports.
pub const PORTS: u16 = 2;

/// The bytes of an item: built for it, or a module where it lies.
pub type Bytes = Cow<'static, [u8]>;

/// A file in the directory.
#[derive(Clone, Debug)]
pub struct File<'a> {
    /// Its name; what does not fit into 55 bytes is cut off.
    pub name: &'a str,
    /// Its contents.
    pub bytes: Bytes,
}

/// What a guest may learn.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Number of CPUs.
    pub cpus: u16,
    /// Bytes of memory.
    pub memory: u64,
    /// The kernel's command line.
    pub cmdline: &'a str,
    /// The initial RAM disk; empty if there is none.
    pub initrd: Bytes,
    /// Files, in the order of the directory.
    pub files: Vec<File<'a>>,
}

/// The device. As it is by default it has no items.
#[derive(Clone, Debug, Default)]
pub struct FwCfg {
    items: Vec<(u16, Bytes)>,
    selector: u16,
    /// Bytes that were read since the selector was written.
    offset: usize,
}

impl FwCfg {
    /// A device with these facts.
    pub fn new(facts: Facts<'_>) -> FwCfg {
        let cmdline: Vec<u8> = facts.cmdline.bytes().chain([0]).collect();
        let directory = directory(&facts.files);
        let mut items = alloc::vec![
            (key::SIGNATURE, SIGNATURE.into()),
            (key::ID, integer(&ID_TRADITIONAL.to_le_bytes())),
            (key::RAM_SIZE, integer(&facts.memory.to_le_bytes())),
            (key::NB_CPUS, integer(&facts.cpus.to_le_bytes())),
            (key::MAX_CPUS, integer(&facts.cpus.to_le_bytes())),
            (key::INITRD_SIZE, integer(&(facts.initrd.len() as u32).to_le_bytes())),
            (key::INITRD_DATA, facts.initrd),
            (key::CMDLINE_SIZE, integer(&(cmdline.len() as u32).to_le_bytes())),
            (key::CMDLINE_DATA, cmdline.into()),
            (key::FILE_DIR, directory.into()),
        ];
        items.extend((key::FILE_FIRST..).zip(facts.files.into_iter().map(|file| file.bytes)));
        FwCfg { items, selector: 0, offset: 0 }
    }

    /// The next byte of the selected item; behind its end, and where there is none, zero.
    fn next_byte(&mut self) -> u8 {
        let item = self.items.iter().find(|(key, _)| *key == self.selector);
        let byte = item.and_then(|(_, bytes)| bytes.get(self.offset)).copied();
        self.offset += usize::from(byte.is_some());
        byte.unwrap_or(0)
    }
}

fn integer(bytes: &[u8]) -> Bytes {
    bytes.to_vec().into()
}

/// The directory of files. Its integers are big-endian.
fn directory(files: &[File<'_>]) -> Vec<u8> {
    let mut directory = (files.len() as u32).to_be_bytes().to_vec();
    for (selector, file) in (key::FILE_FIRST..).zip(files) {
        let reserved = [0; 2];
        let mut name = [0; NAME_SIZE];
        let length = file.name.len().min(NAME_SIZE - 1);
        name[..length].copy_from_slice(&file.name.as_bytes()[..length]);
        directory.extend((file.bytes.len() as u32).to_be_bytes());
        directory.extend(selector.to_be_bytes());
        directory.extend(reserved);
        directory.extend(name);
    }
    directory
}

impl Device for FwCfg {
    fn read(&mut self, offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        let value = if offset == DATA { self.next_byte().into() } else { FLOATING };
        (value, Effects::NONE)
    }

    fn write(&mut self, offset: u16, width: u8, value: u32, _now: Nanos) -> Effects {
        if (offset, width) == (SELECTOR, SELECTOR_WIDTH) {
            self.selector = value as u16 & !WRITE_CHANNEL;
            self.offset = 0;
        }
        Effects::NONE
    }
}

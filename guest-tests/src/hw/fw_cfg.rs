//! QEMU's firmware configuration device by ports (its specification: docs/specs/fw_cfg).

#![allow(missing_docs, reason = "names of the specification")]

use super::port::{inb, outw};
use arrayvec::ArrayString;

const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;

pub const SIGNATURE: u16 = 0x00;
pub const ID: u16 = 0x01;
pub const RAM_SIZE: u16 = 0x03;
pub const NB_CPUS: u16 = 0x05;
pub const CMDLINE_SIZE: u16 = 0x14;
pub const CMDLINE_DATA: u16 = 0x15;
pub const FILE_DIR: u16 = 0x19;

/// In ID: the interface by ports.
pub const ID_TRADITIONAL: u32 = 1 << 0;
/// Bytes of a name in the directory.
const NAME_SIZE: usize = 56;

/// A file in the directory.
pub struct File {
    pub size: u32,
    pub selector: u16,
    pub name: ArrayString<NAME_SIZE>,
}

/// Goes to the beginning of an item.
pub fn select(item: u16) {
    outw(SELECTOR, item);
}

/// The next bytes of the item.
pub fn bytes<const N: usize>() -> [u8; N] {
    core::array::from_fn(|_| inb(DATA))
}

/// An item that is a number.
pub fn number<const N: usize>(item: u16) -> u64 {
    select(item);
    bytes::<N>().into_iter().rev().fold(0, |value, byte| value << 8 | u64::from(byte))
}

/// Whether the device is there.
pub fn is_present() -> bool {
    select(SIGNATURE);
    bytes() == *b"QEMU"
}

/// Looks a file up.
pub fn file(name: &str) -> Option<File> {
    select(FILE_DIR);
    let count = u32::from_be_bytes(bytes());
    (0..count).map(|_| entry()).find(|file| &*file.name == name)
}

fn entry() -> File {
    let size = u32::from_be_bytes(bytes());
    let selector = u16::from_be_bytes(bytes());
    let _reserved = bytes::<2>();
    let characters = bytes::<NAME_SIZE>().into_iter().take_while(|&byte| byte != 0);
    let mut name = ArrayString::new();
    characters.for_each(|byte| name.push(char::from(byte & 0x7f)));
    File { size, selector, name }
}

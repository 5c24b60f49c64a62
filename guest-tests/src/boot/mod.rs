//! What the boot loader says: command line, memory map, modules and where the ACPI tables begin.

#![allow(unsafe_code, reason = "reads structures at addresses that the boot loader gives")]

mod linux;
mod multiboot1;
mod multiboot2;
mod pvh;

use crate::memory::read8;
use crate::single::Single;
use arrayvec::{ArrayString, ArrayVec};
use core::fmt;

/// How the guest was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Multiboot 1, by a boot loader or an emulator.
    Multiboot1,
    /// Multiboot 2.
    Multiboot2,
    /// Direct boot of the x86/HVM ABI, known as PVH.
    Pvh,
    /// Linux 64-bit boot protocol.
    Linux,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Multiboot1 => "multiboot 1",
            Self::Multiboot2 => "multiboot 2",
            Self::Pvh => "PVH",
            Self::Linux => "Linux 64-bit",
        })
    }
}

/// EAX at a multiboot 1 entry (multiboot specification 0.6.96, 3.2).
pub const MULTIBOOT1_MAGIC: u32 = 0x2bad_b002;
/// EAX at a multiboot 2 entry (multiboot 2 specification 2.0, 3.3).
pub const MULTIBOOT2_MAGIC: u32 = 0x36d7_6289;
/// What the PVH entry passes in its place: the first word of its start info, "xEn3" with the top bit set.
pub(crate) const PVH_MAGIC: u32 = pvh::MAGIC;
/// What the Linux entry passes in its place: "HdrS".
pub(crate) const LINUX_MAGIC: u32 = u32::from_le_bytes(*b"HdrS");

/// Longest command line.
const MAX_CMDLINE: usize = 512;
/// Most ranges of memory.
const MAX_RANGES: usize = 32;
/// Most modules.
const MAX_MODULES: usize = 4;

/// A file that the boot loader has placed in memory.
#[derive(Clone, Debug)]
pub struct Module {
    /// Where it lies.
    pub range: Range,
    /// Its name and arguments, as far as the protocol carries them.
    pub cmdline: ArrayString<MAX_CMDLINE>,
}

/// A range of memory.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// First physical address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

impl Range {
    /// The first address after it.
    pub fn end(self) -> u64 {
        self.start + self.len
    }
    /// Whether all of `other` lies in it.
    pub fn contains(self, other: Range) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}

/// What multiboot says of memory without the map.
#[derive(Clone, Copy, Debug)]
pub struct BasicMemory {
    /// KiB from address 0 on.
    pub lower: u32,
    /// KiB from 1 MiB to the first hole.
    pub upper: u32,
}

/// The answers.
pub struct Boot {
    /// How the guest was started.
    pub protocol: Protocol,
    /// Its command line.
    pub cmdline: ArrayString<MAX_CMDLINE>,
    /// What the boot loader calls itself, if the protocol says it.
    pub loader: Option<ArrayString<MAX_CMDLINE>>,
    /// Usable memory.
    pub ram: ArrayVec<Range, MAX_RANGES>,
    /// KiB of memory below 640 KiB and above 1 MiB, in protocols that say it apart from the map.
    pub basic: Option<BasicMemory>,
    /// The modules, in order.
    pub modules: ArrayVec<Module, MAX_MODULES>,
    /// Physical address of the ACPI root pointer, if the protocol says it.
    pub rsdp: Option<u64>,
}

impl Boot {
    /// One that says nothing yet.
    fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            cmdline: ArrayString::new(),
            loader: None,
            ram: ArrayVec::new(),
            basic: None,
            modules: ArrayVec::new(),
            rsdp: None,
        }
    }
    /// Takes a range of the memory map in, of a type that all protocols share.
    fn add_range(&mut self, start: u64, len: u64, kind: u32) {
        if kind == USABLE && !self.ram.is_full() {
            self.ram.push(Range { start, len });
        }
    }
    /// Takes a module in.
    fn add_module(&mut self, start: u64, len: u64, cmdline: ArrayString<MAX_CMDLINE>) {
        if !self.modules.is_full() {
            self.modules.push(Module { range: Range { start, len }, cmdline });
        }
    }
    /// Whether `word` is on the command line.
    pub fn has_word(&self, word: &str) -> bool {
        self.words().any(|w| w == word)
    }
    /// The words of the command line after the guest's own name, which some multiboot loaders put first.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.cmdline.split_ascii_whitespace().filter(|w| !w.contains('/'))
    }
    /// The value of `key=value` on the command line.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.words().find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
    }
}

static BOOT: Single<Option<Boot>> = Single::new(None);

/// What the boot loader has said.
pub fn get() -> &'static Boot {
    // SAFETY: written once, before any test runs.
    unsafe { (*BOOT.get()).as_ref() }.expect("the entry code has asked the boot loader")
}

impl Protocol {
    pub(crate) fn from_magic(magic: u32) -> Self {
        match magic {
            MULTIBOOT1_MAGIC => Self::Multiboot1,
            MULTIBOOT2_MAGIC => Self::Multiboot2,
            PVH_MAGIC => Self::Pvh,
            LINUX_MAGIC => Self::Linux,
            _ => panic!("started by an unknown boot protocol, magic {magic:#x}"),
        }
    }
}

/// Copies the boot information out of low memory, which tests overwrite.
pub(crate) fn init(protocol: Protocol, info: u64) -> &'static Boot {
    let boot = match protocol {
        Protocol::Multiboot1 => multiboot1::read(info),
        Protocol::Multiboot2 => multiboot2::read(info),
        Protocol::Pvh => pvh::read(info),
        Protocol::Linux => linux::read(info),
    };
    // SAFETY: called once, before anybody reads it.
    unsafe { (*BOOT.get()).insert(boot) }
}

fn string_at(address: u64) -> ArrayString<MAX_CMDLINE> {
    let mut text = ArrayString::new();
    for byte in (address..).map(read8).take_while(|&b| b != 0) {
        if text.try_push(char::from(byte)).is_err() {
            break;
        }
    }
    text
}

/// The string that a protocol's pointer names; 0: none.
fn string_by(pointer: u64) -> ArrayString<MAX_CMDLINE> {
    if pointer == 0 { ArrayString::new() } else { string_at(pointer) }
}

/// Type of usable memory in every protocol's memory map (ACPI 6.5, 15.1).
const USABLE: u32 = 1;

//! What the boot loader says: command line, memory map and where the ACPI tables begin.

#![allow(unsafe_code, reason = "reads structures at addresses that the boot loader gives")]

use crate::memory::{read8, read32, read64};
use crate::single::Single;
use arrayvec::{ArrayString, ArrayVec};

/// How the guest was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Multiboot 1, by a boot loader or an emulator.
    Multiboot,
    /// Linux 64-bit boot protocol.
    Linux,
}

/// EAX at a multiboot entry (multiboot specification 0.6.96, 3.2).
const MULTIBOOT_MAGIC: u32 = 0x2bad_b002;
/// What the Linux entry passes in its place: "HdrS".
pub(crate) const LINUX_MAGIC: u32 = u32::from_le_bytes(*b"HdrS");

/// Longest command line.
const MAX_CMDLINE: usize = 512;
/// Most ranges of memory.
const MAX_RANGES: usize = 32;

/// A range of usable memory.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// First physical address.
    pub start: u64,
    /// Bytes.
    pub len: u64,
}

/// The answers.
pub struct Boot {
    /// How the guest was started.
    pub protocol: Protocol,
    /// Its command line.
    pub cmdline: ArrayString<MAX_CMDLINE>,
    /// Usable memory.
    pub ram: ArrayVec<Range, MAX_RANGES>,
    /// Physical address of the ACPI root pointer, if the protocol says it.
    pub rsdp: Option<u64>,
}

impl Boot {
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

impl Protocol {
    pub(crate) fn from_magic(magic: u32) -> Self {
        match magic {
            MULTIBOOT_MAGIC => Self::Multiboot,
            LINUX_MAGIC => Self::Linux,
            _ => panic!("started by an unknown boot protocol, magic {magic:#x}"),
        }
    }
}

/// Copies the boot information out of low memory, which tests overwrite.
pub(crate) fn init(protocol: Protocol, info: u64) -> &'static Boot {
    let boot = match protocol {
        Protocol::Multiboot => multiboot::read(info),
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

/// Type of usable memory in both protocols' memory maps (ACPI 6.5, 15.1).
const USABLE: u32 = 1;

mod multiboot {
    use super::*;

    /// Multiboot information structure, section 3.3: offsets and flags.
    const CMDLINE: u64 = 16;
    const MMAP_LENGTH: u64 = 44;
    const MMAP_ADDR: u64 = 48;
    const HAS_CMDLINE: u32 = 1 << 2;
    const HAS_MMAP: u32 = 1 << 6;

    pub(super) fn read(info: u64) -> Boot {
        let flags = read32(info);
        let mut ram = ArrayVec::new();
        if flags & HAS_MMAP != 0 {
            let mut entry = u64::from(read32(info + MMAP_ADDR));
            let end = entry + u64::from(read32(info + MMAP_LENGTH));
            while entry < end && !ram.is_full() {
                // size, base, length, type; `size` does not count itself.
                if read32(entry + 20) == USABLE {
                    ram.push(Range { start: read64(entry + 4), len: read64(entry + 12) });
                }
                entry += u64::from(read32(entry)) + 4;
            }
        }
        let cmdline = if flags & HAS_CMDLINE != 0 {
            string_at(u64::from(read32(info + CMDLINE)))
        } else {
            ArrayString::new()
        };
        Boot { protocol: Protocol::Multiboot, cmdline, ram, rsdp: None }
    }
}

mod linux {
    use super::*;

    /// Offsets in `boot_params` (Linux, Documentation/arch/x86/zero-page.rst and boot.rst).
    const ACPI_RSDP_ADDR: u64 = 0x70;
    const E820_ENTRIES: u64 = 0x1e8;
    const CMD_LINE_PTR: u64 = 0x228;
    const E820_TABLE: u64 = 0x2d0;
    const E820_ENTRY_SIZE: u64 = 20;

    pub(super) fn read(params: u64) -> Boot {
        let mut ram = ArrayVec::new();
        for i in 0..u64::from(read8(params + E820_ENTRIES)) {
            let entry = params + E820_TABLE + i * E820_ENTRY_SIZE;
            if read32(entry + 16) == USABLE && !ram.is_full() {
                ram.push(Range { start: read64(entry), len: read64(entry + 8) });
            }
        }
        let cmdline = match read32(params + CMD_LINE_PTR) {
            0 => ArrayString::new(),
            address => string_at(u64::from(address)),
        };
        let rsdp = Some(read64(params + ACPI_RSDP_ADDR)).filter(|&a| a != 0);
        Boot { protocol: Protocol::Linux, cmdline, ram, rsdp }
    }
}

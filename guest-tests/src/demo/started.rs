//! How the kernel was started: registers, command line, modules, memory and ACPI.

#![allow(unsafe_code, reason = "names symbols of the linker script")]

use crate::boot::{BasicMemory, Boot, MULTIBOOT1_MAGIC, MULTIBOOT2_MAGIC, Module, Protocol, Range};
use crate::entry::{self, Entry, PROBE};
use crate::memory::read8;
use crate::{machine, say};
use arrayvec::ArrayString;
use x86defs::control::Cr0;

const EFLAGS_IF: u32 = 1 << 9;
const EFLAGS_VM: u32 = 1 << 17;
const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
const PAGE: u64 = 4096;
/// What BIOS and adapters use below 1 MiB.
const VIDEO_AND_ROM: Range = Range { start: 0xa_0000, len: 0x6_0000 };
/// Conventional memory less what a BIOS may keep of it, in KiB.
const LOWER: core::ops::RangeInclusive<u32> = 512..=640;

unsafe extern "C" {
    static load_address: u8;
    static bss_end: u8;
}

/// Says all of it.
pub(super) fn report(boot: &Boot) {
    let image = image();
    say!("{} kernel, linked at {:#x}", boot.protocol, image.start);
    report_registers(boot.protocol, &entry::state());
    let mut words = ArrayString::<128>::new();
    for word in boot.words() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    say!("command line: \"{words}\"");
    if let Some(name) = &boot.loader {
        say!("boot loader: {}", if name.is_empty() { "has no name" } else { "has a name" });
    }
    for module in &boot.modules {
        report_module(boot.protocol, module);
    }
    report_memory(boot, image);
    let acpi = if machine::get().acpi.is_some() { "RSDP and tables are valid" } else { "not found" };
    say!("ACPI: {acpi}");
}

/// Where the kernel lies.
fn image() -> Range {
    let start = (&raw const load_address) as u64;
    Range { start, len: (&raw const bss_end) as u64 - start }
}

fn report_registers(protocol: Protocol, entry: &Entry) {
    match protocol {
        Protocol::Multiboot1 => say!("EAX: {}", verdict(entry.eax == MULTIBOOT1_MAGIC, "the magic")),
        Protocol::Multiboot2 => say!("EAX: {}", verdict(entry.eax == MULTIBOOT2_MAGIC, "the magic")),
        _ => say!("EBX: leads to the start info"),
    }
    let cr0 = Cr0::from_bits_retain(entry.cr0.into());
    let has = |flag| if cr0.contains(flag) { "on" } else { "off" };
    say!("CR0: PE {}, PG {}; CR4: PAE {}", has(Cr0::PE), has(Cr0::PG), entry.cr4 >> 5 & 1);
    let flag = |flag| u32::from(entry.eflags & flag != 0);
    say!("EFLAGS: VM {}, IF {}", flag(EFLAGS_VM), flag(EFLAGS_IF));
    say!("segments: {}", verdict(entry.probes == [PROBE; 6], "flat"));
}

/// What holds, or that it does not.
fn verdict(holds: bool, what: &'static str) -> &'static str {
    if holds { what } else { "WRONG" }
}

fn report_module(protocol: Protocol, module: &Module) {
    let Range { start, len } = module.range;
    let sum = checksum(module.range);
    match protocol {
        // Not every loader passes a module's name here.
        Protocol::Pvh => say!("module: {len} bytes, checksum {sum:#010x}"),
        _ => say!("module \"{}\": {len} bytes, checksum {sum:#010x}", module.cmdline),
    }
    say!("  its place: {}", verdict(start.is_multiple_of(PAGE), "on a page boundary"));
}

/// FNV-1a.
fn checksum(range: Range) -> u32 {
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    (range.start..range.end())
        .map(read8)
        .fold(OFFSET_BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

fn report_memory(boot: &Boot, image: Range) {
    let end = boot.ram.iter().map(|range| range.end()).filter(|&end| end < 1 << 32).max().unwrap_or(0);
    // Firmware keeps something at the end.
    say!("memory: ends below {} MiB", end.div_ceil(MIB));
    let usable = |wanted: Range| boot.ram.iter().any(|range| range.contains(wanted));
    let touches = |r: &Range| r.start < VIDEO_AND_ROM.end() && VIDEO_AND_ROM.start < r.end();
    let apart = boot.ram.iter().is_sorted_by(|one, other| one.end() <= other.start);
    say!(
        "map: kernel {}, modules {}, video and ROM {}, ranges {}",
        verdict(usable(image), "in memory"),
        verdict(boot.modules.iter().all(|module| usable(module.range)), "in memory"),
        verdict(!boot.ram.iter().any(touches), "not"),
        verdict(apart, "apart")
    );
    if let Some(BasicMemory { lower, upper }) = boot.basic {
        let first = boot.ram.iter().find(|range| range.start == MIB);
        let agrees = first.is_some_and(|range| range.len / KIB == u64::from(upper));
        say!(
            "basic memory: lower {}, upper {}",
            verdict(LOWER.contains(&lower), "sane"),
            verdict(agrees, "as in the map")
        );
    }
}

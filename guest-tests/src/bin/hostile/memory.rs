//! Physical addresses where there is no RAM: read, written and executed.

#![allow(unsafe_code, reason = "jumps to where no code is")]

use crate::random::Random;
use core::arch::asm;
use runtime::fault::catch;
use runtime::memory::{self, FREE, PAGE, PRESENT, Space, WRITABLE};
use runtime::{boot, cpu, guest_test};
use x86defs::cpuid::leaf;

const GIB: u64 = 1 << 30;
const VGA: u64 = 0xa_0000;
const ROM: u64 = 0xc_0000;
const MIB: u64 = 1 << 20;
/// I/O APIC and local APIC lie in this range.
const DEVICES: u64 = 0xfec0_0000;
const DEVICES_END: u64 = 0xfef0_0000;

fn physical_bits() -> u32 {
    cpu::cpuid(leaf::ADDRESS_SIZES, 0).eax & 0xff
}

/// The first page behind RAM.
fn ram_end() -> u64 {
    boot::get().ram.iter().map(|range| range.start + range.len).max().unwrap_or(0).next_multiple_of(PAGE)
}

/// Pages without RAM: the VGA window, what follows RAM, the hole for devices, and both sides of every power of
/// two that an address can reach.
fn pages() -> impl Iterator<Item = u64> {
    let behind_ram = ram_end();
    let powers = (32..=physical_bits()).flat_map(|bit| [(1 << bit) - PAGE, 1 << bit]);
    (VGA..ROM)
        .step_by(PAGE as usize)
        .chain((behind_ram..behind_ram + 64 * PAGE).step_by(PAGE as usize))
        .chain((behind_ram..4 * GIB).step_by(MIB as usize))
        .chain((DEVICES - 16 * PAGE..DEVICES_END + 16 * PAGE).step_by(PAGE as usize))
        .chain((4 * GIB - 16 * PAGE..4 * GIB).step_by(PAGE as usize))
        .chain(powers)
}

/// Maps each page in turn and does something to it.
fn with_every_page(mut access: impl FnMut(u64)) {
    let space = Space::new();
    space.activate();
    for page in pages() {
        space.map(FREE, page, PRESENT | WRITABLE);
        access(FREE);
    }
}

guest_test!(reads);
fn reads() {
    with_every_page(|page| {
        let _ = catch(|| memory::read8(page));
        let _ = catch(|| memory::read16(page + 0xffe));
        let _ = catch(|| memory::read32(page + 0x10));
        let _ = catch(|| memory::read64(page + 0x20));
        // Into the page that follows, which is not mapped.
        let _ = catch(|| memory::read64(page + 0xffc));
    });
}

guest_test!(writes);
fn writes() {
    let mut random = Random::new(9);
    with_every_page(|page| {
        let _ = catch(|| memory::write8(page, random.odd() as u8));
        let _ = catch(|| memory::write16(page + 0xffe, random.odd() as u16));
        let _ = catch(|| memory::write32(page + 0x10, random.odd() as u32));
        let _ = catch(|| memory::write64(page + 0x20, random.odd()));
        let _ = catch(|| memory::write64(page + 0xffc, random.odd()));
    });
}

fn execute(address: u64) {
    // SAFETY: whatever is there, a return or an exception ends it.
    let _ = catch(|| unsafe { asm!("call {}", in(reg) address, clobber_abi("C")) });
}

guest_test!(executes);
fn executes() {
    with_every_page(|page| {
        execute(page);
        execute(page + 0xfff);
    });
}

guest_test!(writes_to_rom);
/// ROM is memory, but not to be written; what it says when executed is a reset.
fn writes_to_rom() {
    for address in (ROM..MIB).step_by(256) {
        let _ = catch(|| memory::write64(address, u64::MAX));
    }
}

guest_test!(odd_instructions);
/// Instructions that read, change and write what is not there, and cross into what is.
fn odd_instructions() {
    macro_rules! on {
        ($at:expr, $($instruction:literal),+) => {
            // SAFETY: nothing is there, and an exception ends it.
            $(let _ = catch(|| unsafe {
                asm!($instruction, in("rdi") $at, inout("rax") 1u64 => _, inout("rdx") 0u64 => _)
            });)+
        };
    }
    with_every_page(|page| {
        for at in [page, page + 0xffc] {
            on!(
                at,
                "lock xadd [rdi], rax",
                "lock cmpxchg [rdi], rdx",
                "xchg [rdi], eax",
                "bts [rdi], rax",
                "push qword ptr [rdi]; pop rax",
                "invlpg [rdi]",
                "clflush [rdi]",
                "movnti [rdi], rax",
                "prefetchw [rdi]"
            );
        }
    });
}

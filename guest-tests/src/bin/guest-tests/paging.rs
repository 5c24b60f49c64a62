//! Guest page tables over nested ones.

#![allow(unsafe_code, reason = "code that writes code")]

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicPtr, Ordering};
use runtime::boot::Boot;
use runtime::cpu::{self, cpuid};
use runtime::fault::catch;
use runtime::harness::{expect_fault, expect_ok};
use runtime::memory::{self, ACCESSED, DIRTY, FREE, LARGE, PAGE, PRESENT, Space, WRITABLE, read64, write64};
use runtime::{expect, expect_eq, guest_test, skip};
use x86defs::cpuid::{Ext1Edx, leaf};
use x86defs::event::Exception;

const MIB_2: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// The identity map ends here.
const MAPPED: u64 = 4 * GIB;
/// Everything below may be in use: by us up to the end of the image, which is small, and by the boot loader.
const FIRST_TOUCHED: u64 = 24 << 20;

static BOOT: AtomicPtr<Boot> = AtomicPtr::new(core::ptr::null_mut());

/// Remembers what the boot loader says of memory.
pub(crate) fn init(boot: &'static Boot) {
    BOOT.store(core::ptr::from_ref(boot).cast_mut(), Ordering::Relaxed);
}

/// Addresses one step apart in all usable memory that nobody uses, and the last quadword of each range.
fn probes(step: u64) -> impl Iterator<Item = u64> {
    // SAFETY: `init` stored a reference to a static.
    let boot: &'static Boot = unsafe { &*BOOT.load(Ordering::Relaxed) };
    boot.ram.iter().flat_map(move |range| {
        let start = range.start.max(FIRST_TOUCHED).next_multiple_of(8);
        let end = (range.start + range.len).min(MAPPED) & !7;
        let last = (end > start + 8).then(|| end - 8);
        (start..end.saturating_sub(8)).step_by(step as usize).chain(last)
    })
}

/// A pattern that differs from address to address.
fn pattern(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn touch_every(step: u64) -> u64 {
    for address in probes(step) {
        write64(address, pattern(address));
    }
    let mut count = 0;
    for address in probes(step) {
        expect_eq!(read64(address), pattern(address), "memory at {address:#x}");
        count += 1;
    }
    count
}

guest_test!(every_2_mib_of_memory);
fn every_2_mib_of_memory() {
    let count = touch_every(MIB_2);
    expect!(count >= 4, "{count} places in the memory map");
}

guest_test!(every_page_of_16_mib);
fn every_page_of_16_mib() {
    let Some(first) = probes(MIB_2).next() else { skip!("no memory beyond {FIRST_TOUCHED:#x}") };
    let pages = || (first..first + (16 << 20)).step_by(PAGE as usize);
    for address in pages() {
        write64(address, pattern(address));
    }
    for address in pages() {
        expect_eq!(read64(address), pattern(address), "memory at {address:#x}");
    }
}

guest_test!(accessed_and_dirty);
fn accessed_and_dirty() {
    let space = Space::new();
    space.map(FREE, memory::frame(), PRESENT | WRITABLE);
    space.activate();
    let leaf = space.entry(FREE, 1);
    let flags = || read64(leaf) & (ACCESSED | DIRTY);
    expect_eq!(flags(), 0, "A and D of a fresh entry");
    let _ = read64(FREE);
    expect_eq!(flags(), ACCESSED, "A and D after a read");
    write64(FREE, 1);
    expect_eq!(flags(), ACCESSED | DIRTY, "A and D after a write");
    for level in 2..=4 {
        expect!(read64(space.entry(FREE, level)) & ACCESSED != 0, "A of the entry at level {level}");
    }
}

guest_test!(large_pages);
fn large_pages() {
    let Some(page) = probes(MIB_2).map(|a| a.next_multiple_of(MIB_2)).next() else { skip!("no memory") };
    let space = Space::new();
    write64(space.entry(FREE, 2), page | PRESENT | WRITABLE | LARGE);
    space.activate();
    write64(FREE + 0x12_3458, 7);
    expect_eq!(read64(page + 0x12_3458), 7, "memory through a page of 2 MiB");
    expect_eq!(read64(space.entry(FREE, 2)) & (ACCESSED | DIRTY), ACCESSED | DIRTY, "A and D");
}

guest_test!(gigabyte_pages);
fn gigabyte_pages() {
    if !Ext1Edx::from_bits_retain(cpuid(leaf::EXTENDED_FEATURES, 0).edx).contains(Ext1Edx::PAGE_1G) {
        skip!("no pages of 1 GiB");
    }
    let space = Space::new();
    write64(space.entry(FREE, 3), PRESENT | WRITABLE | LARGE);
    space.activate();
    let frame = memory::frame();
    write64(frame, 5);
    expect_eq!(read64(FREE + frame), 5, "memory through a page of 1 GiB");
    write64(FREE + frame, 6);
    expect_eq!(read64(frame), 6, "memory written through it");
}

guest_test!(remapping_with_invlpg);
fn remapping_with_invlpg() {
    let space = Space::new();
    space.activate();
    let frames: [u64; 4] = core::array::from_fn(|_| memory::frame());
    for (value, &frame) in (1..).zip(&frames) {
        write64(frame, value);
    }
    for (value, &frame) in (1u64..).zip(&frames) {
        space.map(FREE, frame, PRESENT | WRITABLE);
        expect_eq!(read64(FREE), value, "the page after remapping");
    }
    write64(space.entry(FREE, 1), 0);
    cpu::invlpg(FREE);
    let result = catch(|| read64(FREE));
    expect_fault("read after unmapping", result, Exception::PageFault, 0);
}

guest_test!(switching_spaces);
fn switching_spaces() {
    let spaces: [Space; 3] = core::array::from_fn(|_| Space::new());
    for (value, space) in (1..).zip(&spaces) {
        let frame = memory::frame();
        write64(frame, value);
        space.map(FREE, frame, PRESENT | WRITABLE);
    }
    for round in 0..4 {
        for (value, space) in (1u64..).zip(&spaces) {
            space.activate();
            expect_eq!(read64(FREE), value, "the page of space {value} in round {round}");
        }
    }
}

guest_test!(two_mappings_of_one_page);
fn two_mappings_of_one_page() {
    let space = Space::new();
    let frame = memory::frame();
    // Far apart, at both ends of the lower half.
    let high = (1 << 47) - PAGE;
    for address in [FREE, high] {
        space.map(address, frame, PRESENT | WRITABLE);
    }
    space.activate();
    write64(FREE + 8, 11);
    expect_eq!(read64(high + 8), 11, "the second mapping");
    write64(high + 8, 12);
    expect_eq!([read64(FREE + 8), read64(frame + 8)], [12, 12], "the first mapping and the frame");
}

guest_test!(upper_half);
fn upper_half() {
    let space = Space::new();
    let address = 0xffff_8000_0000_0000;
    space.map(address, memory::frame(), PRESENT | WRITABLE);
    space.activate();
    write64(address, 3);
    expect_eq!(read64(address), 3, "the first page of the upper half");
}

/// Returns 1; its immediate operand is at offset 1.
#[unsafe(naked)]
unsafe extern "C" fn return_1() {
    naked_asm!("mov eax, 1", "ret")
}

guest_test!(self_modifying_code);
fn self_modifying_code() {
    let page = memory::frame();
    for offset in 0..8 {
        memory::write8(page + offset, memory::read8(return_1 as *const () as u64 + offset));
    }
    let call = || {
        let value: u32;
        // SAFETY: the page holds a copy of `return_1`, which clobbers nothing else.
        unsafe { asm!("call {}", in(reg) page, out("eax") value) };
        value
    };
    expect_eq!(call(), 1, "value of the copy");
    for value in 2..10 {
        memory::write32(page + 1, value);
        expect_eq!(call(), value, "value after modification");
    }
}

guest_test!(page_tables_in_use_can_be_written);
fn page_tables_in_use_can_be_written() {
    // Through a mapping of the table by itself.
    let space = Space::new();
    let (first, second) = (memory::frame(), memory::frame());
    write64(first, 1);
    write64(second, 2);
    space.map(FREE, first, PRESENT | WRITABLE);
    let entry = space.entry(FREE, 1);
    let window = FREE + MIB_2;
    space.map(window, entry & !(PAGE - 1), PRESENT | WRITABLE);
    space.activate();
    expect_eq!(read64(FREE), 1, "before");
    write64(window + entry % PAGE, second | PRESENT | WRITABLE);
    cpu::invlpg(FREE);
    expect_eq!(read64(FREE), 2, "after");
}

guest_test!(no_memory_fetch);
fn no_memory_fetch() {
    if runtime::machine::get().reference {
        skip!("what a fetch from nowhere does is the hypervisor's policy");
    }
    // SAFETY: the fault is caught.
    let result = catch(|| unsafe { asm!("call {}", in(reg) 0xfea0_0000u64, clobber_abi("C")) });
    expect_fault("fetch from where nothing is", result, Exception::InvalidOpcode, 0);
}

guest_test!(pcid_is_consistent);
fn pcid_is_consistent() {
    use x86defs::control::Cr4;
    use x86defs::cpuid::Leaf1Ecx;
    if !Leaf1Ecx::from_bits_retain(cpuid(leaf::FEATURES, 0).ecx).contains(Leaf1Ecx::PCID) {
        skip!("no PCID");
    }
    expect_ok("MOV to CR4", cpu::set_cr4(cpu::cr4() | Cr4::PCIDE));
    let spaces: [Space; 2] = core::array::from_fn(|_| Space::new());
    for (value, space) in (1..).zip(&spaces) {
        let frame = memory::frame();
        write64(frame, value);
        space.map(FREE, frame, PRESENT | WRITABLE);
    }
    for _ in 0..3 {
        for (value, space) in (1u64..).zip(&spaces) {
            expect_ok("MOV to CR3", cpu::set_cr3(space.cr3() | value));
            expect_eq!(read64(FREE), value, "the page with PCID {value}");
        }
    }
    expect_ok("MOV to CR3", cpu::set_cr3(memory::boot_cr3()));
    expect_ok("MOV to CR4", cpu::set_cr4(cpu::cr4() - Cr4::PCIDE));
}

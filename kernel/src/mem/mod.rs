//! The host's memory: physical frames, the direct map, the heap, page tables and stacks.
#![allow(unsafe_code, reason = "physical memory")]

mod heap;
pub mod paging;
pub mod stack;

use abi::boot::{BootInfo, DIRECT_MAP, MemoryKind, PhysRange};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use guestboot::config;
use heap::Heap;
use spin::Mutex;
use vmm::ranges::FreeRanges;
use x86defs::addr::Hpa;

/// Bytes for the heap, taken once: configuration, device state and tables of a handful of virtual machines.
const HEAP_BYTES: usize = 6 << 20;
// Any configuration can be read, and what else is on the heap has room beside it.
const _: () = assert!(HEAP_BYTES >= config::MAX_HEAP + (2 << 20));
/// Nothing is allocated below: real-mode code and old firmware use it.
const LOWEST: u64 = 1 << 20;

static FREE: Mutex<FreeRanges> = Mutex::new(FreeRanges::new());
/// Bytes taken for the hypervisor itself, not for guests' RAM.
static OWN: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static HEAP: Heap = Heap::empty();

/// Takes over the free memory that the loader reports and sets the heap up.
pub fn init(boot: &BootInfo) {
    let mut free = FREE.lock();
    for range in boot.memory().iter().filter(|r| r.kind == MemoryKind::Usable) {
        let start = range.range.start.max(LOWEST);
        free.give(PhysRange { start, len: range.range.end().saturating_sub(start) });
    }
    drop(free);
    for range in boot.memory().iter().filter(|r| r.kind == MemoryKind::Image) {
        OWN.fetch_add(range.range.len, Ordering::Relaxed);
    }
    let heap = alloc_zeroed(HEAP_BYTES, 4096);
    // SAFETY: just allocated for this alone, mapped writable for ever.
    unsafe { HEAP.init(direct(heap).as_ptr(), HEAP_BYTES) };
}

/// Where the direct map shows a physical address.
pub fn direct(address: Hpa) -> NonNull<u8> {
    NonNull::new((DIRECT_MAP + address.0) as *mut u8).expect("the direct map is not at 0")
}

/// Takes zeroed memory for the hypervisor itself.
///
/// # Panics
/// If there is none: a machine too small for the hypervisor. Guests cannot cause it.
pub fn alloc_zeroed(bytes: usize, align: u64) -> Hpa {
    try_alloc_zeroed(bytes, align).expect("not enough memory for the hypervisor itself")
}

/// As [`alloc_zeroed`], for what a virtual machine needs: it may be too much.
pub fn try_alloc_zeroed(bytes: usize, align: u64) -> Option<Hpa> {
    let start = FREE.lock().take(bytes as u64, align)?;
    OWN.fetch_add(bytes as u64, Ordering::Relaxed);
    // SAFETY: just taken, and the direct map covers all of it.
    unsafe { direct(Hpa(start)).as_ptr().write_bytes(0, bytes) };
    Some(Hpa(start))
}

/// Gives memory of [`alloc_zeroed`] back.
///
/// # Safety
/// Nobody refers to it any more.
pub unsafe fn free(start: Hpa, bytes: usize) {
    OWN.fetch_sub(bytes as u64, Ordering::Relaxed);
    FREE.lock().give(PhysRange { start: start.0, len: bytes as u64 });
}

/// Takes memory for a guest, at most `len` bytes and possibly less; not zeroed.
pub fn alloc_guest(len: u64, align: u64) -> Option<PhysRange> {
    FREE.lock().take_up_to(len, align)
}

/// Gives memory of [`alloc_guest`] back.
///
/// # Safety
/// No nested page table maps it any more, and nobody else refers to it.
pub unsafe fn free_guest(range: PhysRange) {
    FREE.lock().give(range);
}

/// Bytes that are free.
pub fn available() -> u64 {
    FREE.lock().total()
}

/// Bytes of the heap that are in use.
pub fn heap_used() -> usize {
    HEAP.used()
}

/// Bytes that the hypervisor uses for itself, the image included.
pub fn own() -> u64 {
    OWN.load(Ordering::Relaxed)
}

/// The bytes of a module or another range that the loader reserved.
///
/// # Safety
/// The range is memory that nobody writes.
pub unsafe fn bytes(range: PhysRange) -> &'static [u8] {
    // SAFETY: the caller's promise; the direct map covers all memory that the loader reports.
    unsafe { core::slice::from_raw_parts(direct(Hpa(range.start)).as_ptr(), range.len as usize) }
}

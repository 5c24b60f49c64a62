//! The host's page tables: the image by segment, all memory in the direct map, stacks, device registers.
//! Nothing is both writable and executable.
#![allow(unsafe_code, reason = "page tables")]

use super::{alloc_zeroed, direct};
use abi::boot::{BootInfo, DIRECT_MAP, KERNEL_BASE, MemoryKind};
use spin::Mutex;
use x86_64::structures::paging::mapper::MapToError;
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageSize, PageTable, PageTableFlags as Flags, PhysFrame,
    Size1GiB, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};
use x86defs::addr::{Hpa, Hva, PAGE_SIZE};

/// Where device registers are mapped.
const DEVICES: u64 = 0xffff_c000_0000_0000;

const READ_ONLY: Flags = Flags::PRESENT.union(Flags::NO_EXECUTE).union(Flags::GLOBAL);
const READ_WRITE: Flags = READ_ONLY.union(Flags::WRITABLE);
const EXECUTE: Flags = Flags::PRESENT.union(Flags::GLOBAL);
const REGISTERS: Flags = READ_WRITE.union(Flags::NO_CACHE).union(Flags::WRITE_THROUGH);

static TABLES: Mutex<Option<OffsetPageTable<'static>>> = Mutex::new(None);

unsafe extern "C" {
    static image_start: u8;
    static text_start: u8;
    static text_end: u8;
    static data_start: u8;
    static image_end: u8;
}

struct Frames;

// SAFETY: every frame is fresh and nobody else's.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        Some(PhysFrame::containing_address(PhysAddr::new(alloc_zeroed(4096, 4096).0)))
    }
}

/// Builds the kernel's own tables; loading [`root`] into CR3 makes them current.
pub fn init(boot: &BootInfo) {
    let root = alloc_zeroed(4096, 4096);
    // SAFETY: a zeroed page, which nobody else refers to, is an empty table; the direct map is at this offset.
    let mut tables =
        unsafe { OffsetPageTable::new(direct(root).cast::<PageTable>().as_mut(), VirtAddr::new(DIRECT_MAP)) };
    map_image(&mut tables, boot.kernel.start);
    let gigabyte = crate::cpu::cpuid(0x8000_0001, 0).edx & 1 << 26 != 0;
    for range in boot.memory().iter().filter(|r| holds_data(r.kind)) {
        let start = range.range.start & !(PAGE_SIZE - 1);
        let end = range.range.end().next_multiple_of(PAGE_SIZE);
        map_direct(&mut tables, start, end, gigabyte);
    }
    *TABLES.lock() = Some(tables);
}

/// Value of CR3 for the kernel's tables.
pub fn root() -> Hpa {
    let mut tables = TABLES.lock();
    let tables = tables.as_mut().expect("paging::init comes first");
    Hpa(core::ptr::from_ref(tables.level_4_table()) as u64 - DIRECT_MAP)
}

fn holds_data(kind: MemoryKind) -> bool {
    matches!(
        kind,
        MemoryKind::Usable
            | MemoryKind::Image
            | MemoryKind::Module
            | MemoryKind::AcpiReclaimable
            | MemoryKind::AcpiNvs
    )
}

fn map_image(tables: &mut OffsetPageTable<'_>, physical: u64) {
    let [start, text, text_stop, data, end] = [
        &raw const image_start,
        &raw const text_start,
        &raw const text_end,
        &raw const data_start,
        &raw const image_end,
    ]
    .map(|symbol| symbol as u64);
    debug_assert_eq!(start, KERNEL_BASE);
    for (from, to, flags) in [
        (start, text, READ_ONLY),
        (text, text_stop.next_multiple_of(PAGE_SIZE), EXECUTE),
        (data, end, READ_WRITE),
    ] {
        for page in (from..to).step_by(PAGE_SIZE as usize) {
            map::<Size4KiB>(tables, page, physical + (page - start), flags);
        }
    }
}

fn map_direct(tables: &mut OffsetPageTable<'_>, mut at: u64, end: u64, gigabyte: bool) {
    while at < end {
        let fits = |size: u64| at.is_multiple_of(size) && end - at >= size;
        at += if gigabyte && fits(Size1GiB::SIZE) {
            map::<Size1GiB>(tables, DIRECT_MAP + at, at, READ_WRITE)
        } else if fits(Size2MiB::SIZE) {
            map::<Size2MiB>(tables, DIRECT_MAP + at, at, READ_WRITE)
        } else {
            map::<Size4KiB>(tables, DIRECT_MAP + at, at, READ_WRITE)
        };
    }
}

/// Maps one page and returns its size. What is mapped already stays: ranges may share a page at their ends.
fn map<S: PageSize + core::fmt::Debug>(
    tables: &mut OffsetPageTable<'_>,
    to: u64,
    from: u64,
    flags: Flags,
) -> u64
where
    for<'a> OffsetPageTable<'a>: Mapper<S>,
{
    let page = Page::<S>::containing_address(VirtAddr::new(to));
    let frame = PhysFrame::containing_address(PhysAddr::new(from));
    // SAFETY: callers map fresh addresses; an address that is mapped already is left as it is.
    match unsafe { tables.map_to(page, frame, flags, &mut Frames) } {
        Ok(flush) => flush.flush(),
        Err(MapToError::PageAlreadyMapped(_) | MapToError::ParentEntryHugePage) => {}
        Err(MapToError::FrameAllocationFailed) => unreachable!("alloc_zeroed panics by itself"),
    }
    S::SIZE
}

/// Maps zeroed memory at a fresh virtual address.
pub fn map_memory(at: Hva, bytes: usize) {
    let mut tables = TABLES.lock();
    let tables = tables.as_mut().expect("paging::init comes first");
    for offset in (0..bytes as u64).step_by(PAGE_SIZE as usize) {
        map::<Size4KiB>(tables, at.0 + offset, alloc_zeroed(4096, 4096).0, READ_WRITE);
    }
}

/// Maps device registers, uncached. The same registers always appear at the same address.
pub fn map_registers(at: Hpa, bytes: u64) -> Hva {
    let mut tables = TABLES.lock();
    let tables = tables.as_mut().expect("paging::init comes first");
    for page in (at.page().0..at.0 + bytes).step_by(PAGE_SIZE as usize) {
        map::<Size4KiB>(tables, DEVICES + page, page, REGISTERS);
    }
    Hva(DEVICES + at.0)
}

/// Makes physical memory that the memory map calls reserved readable: firmware tables.
pub fn map_firmware(at: Hpa, bytes: u64) {
    let mut tables = TABLES.lock();
    let tables = tables.as_mut().expect("paging::init comes first");
    for page in (at.page().0..at.0.saturating_add(bytes)).step_by(PAGE_SIZE as usize) {
        map::<Size4KiB>(tables, DIRECT_MAP + page, page, READ_ONLY);
    }
}

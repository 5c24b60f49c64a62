//! Puts the kernel and its boot stack in memory and maps both.

use abi::boot::{BOOT_STACK_SIZE, BOOT_STACK_TOP, KERNEL_BASE, PhysRange};
use loader::error::LoaderError;
use loader::handover::REACH;
use loader::image::{KernelImage, Segment};
use loader::memory_map::{Allocation, MemoryMap};
use x86_64::registers::control::Cr3;
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};
use x86defs::addr::PAGE_SIZE;

use crate::identity::FreeMemory;

/// The kernel begins on such a boundary, so that the low 21 bits of any address in it are those of its link address.
const KERNEL_ALIGN: u64 = 2 << 20;
/// Memory covered by one page table.
const PAGE_TABLE_COVERS: u64 = 2 << 20;
/// Tables above the page tables: a page-directory-pointer table, and page directories for the kernel and for
/// the stack, which lie in different GiB.
const UPPER_TABLES: u64 = 3;
/// Page tables for the stack.
const STACK_TABLES: u64 = 1;
/// Memory below 1 MiB is left alone: real-mode code and old firmware use it.
const WINDOW: PhysRange = PhysRange { start: 1 << 20, len: REACH - (1 << 20) };

/// Places the kernel, maps it at its link address and its stack below [`BOOT_STACK_TOP`], and says where the
/// image lies. Every page not named by a segment or the stack stays unmapped.
pub(crate) fn place(
    image: &KernelImage<'_>,
    map: &mut MemoryMap,
    memory: &FreeMemory,
) -> Result<PhysRange, LoaderError> {
    let kernel = map.allocate(image.span(), KERNEL_ALIGN, WINDOW)?;
    let stack = map.allocate(BOOT_STACK_SIZE, PAGE_SIZE, WINDOW)?;
    let page_tables = UPPER_TABLES + STACK_TABLES + image.span().div_ceil(PAGE_TABLE_COVERS);
    let mut tables = Tables::new(map.allocate(page_tables * PAGE_SIZE, PAGE_SIZE, WINDOW)?, memory);
    let (kernel_range, stack_range) = (kernel.range(), stack.range());

    memory.zeroed(stack);
    tables.map(BOOT_STACK_TOP - BOOT_STACK_SIZE, stack_range, WRITABLE_DATA)?;

    let bytes = memory.zeroed(kernel);
    for segment in &image.segments {
        let at = (segment.start - KERNEL_BASE) as usize;
        bytes[at..at + segment.content.len()].copy_from_slice(segment.content);
        let pages = PhysRange {
            start: kernel_range.start + (segment.first_page() - KERNEL_BASE),
            len: segment.end_page() - segment.first_page(),
        };
        tables.map(segment.first_page(), pages, access(segment))?;
    }
    Ok(kernel_range)
}

const READ_ONLY: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::NO_EXECUTE);
const WRITABLE_DATA: PageTableFlags = READ_ONLY.union(PageTableFlags::WRITABLE);
const CODE: PageTableFlags = PageTableFlags::PRESENT;
const PARENT: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE);

/// W^X: an image with a segment that is both never gets here.
fn access(segment: &Segment<'_>) -> PageTableFlags {
    match (segment.writable, segment.executable) {
        (false, false) => READ_ONLY,
        (true, false) => WRITABLE_DATA,
        (_, true) => CODE,
    }
}

/// The active page tables, extended from a block of frames.
struct Tables {
    active: OffsetPageTable<'static>,
    frames: Frames,
}

impl Tables {
    fn new(block: Allocation, memory: &FreeMemory) -> Self {
        let frames = Frames { free: block.range() };
        memory.zeroed(block);
        let root = Cr3::read().0.start_address().as_u64() as *mut PageTable;
        // SAFETY: CR3 points at the entry code's PML4 in the loader's own image, which nothing else refers to,
        // and physical memory is mapped at offset 0.
        let active = unsafe { OffsetPageTable::new(&mut *root, VirtAddr::zero()) };
        Self { active, frames }
    }

    fn map(&mut self, start: u64, memory: PhysRange, flags: PageTableFlags) -> Result<(), LoaderError> {
        for offset in (0..memory.len).step_by(PAGE_SIZE as usize) {
            let page = Page::<Size4KiB>::containing_address(VirtAddr::new(start + offset));
            let frame = PhysFrame::containing_address(PhysAddr::new(memory.start + offset));
            // SAFETY: The frame was allocated for this page, which belongs to the kernel that is not running
            // yet: no live reference changes its meaning.
            let mapped =
                unsafe { self.active.map_to_with_table_flags(page, frame, flags, PARENT, &mut self.frames) };
            mapped.map_err(|_| LoaderError::Unmappable { range: memory })?.flush();
        }
        Ok(())
    }
}

struct Frames {
    free: PhysRange,
}

// SAFETY: Every frame of the block is given out at most once, and the block was allocated for nothing else.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let frame = PhysFrame::containing_address(PhysAddr::new(self.free.start));
        let rest = self.free.len.checked_sub(PAGE_SIZE)?;
        self.free = PhysRange { start: self.free.start + PAGE_SIZE, len: rest };
        Some(frame)
    }
}

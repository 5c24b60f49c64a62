//! The kernel's heap: crate linked_list_allocator behind our own kind of lock.
#![allow(unsafe_code, reason = "global allocator")]

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};
use spin::Mutex;

/// The heap; used on the slow path only.
pub(super) struct Heap(Mutex<linked_list_allocator::Heap>);

impl Heap {
    /// A heap without memory.
    pub(super) const fn empty() -> Self {
        Self(Mutex::new(linked_list_allocator::Heap::empty()))
    }

    /// Gives the heap its memory.
    ///
    /// # Safety
    /// Called once, with memory that nobody else uses, for ever.
    pub(super) unsafe fn init(&self, bottom: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.lock().init(bottom, bytes) };
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.0.lock().used()
    }
}

// SAFETY: the inner heap hands out disjoint blocks, under a lock.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().allocate_first_fit(layout).map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let Some(block) = NonNull::new(block) {
            // SAFETY: the caller's promise: the block came from `alloc` with this layout.
            unsafe { self.0.lock().deallocate(block, layout) };
        }
    }
}

//! Physical memory through the identity map of the first 4 GiB.

use abi::boot::PhysRange;
use loader::handover::REACH;
use loader::memory_map::Allocation;
use loader::physical::PhysicalMemory;

/// All that the boot loader has left. It is only read: the slices lent out end before the first allocation,
/// since [`IdentityMap::into_free`] consumes this.
pub(crate) struct IdentityMap {
    own_image: PhysRange,
}

/// Memory that the memory map hands out from then on.
pub(crate) struct FreeMemory(());

impl IdentityMap {
    /// # Safety
    /// The first 4 GiB are identity-mapped, `own_image` covers every byte of the running program, and no second
    /// `IdentityMap` or `FreeMemory` exists.
    pub(crate) const unsafe fn new(own_image: PhysRange) -> Self {
        Self { own_image }
    }

    pub(crate) fn into_free(self) -> FreeMemory {
        FreeMemory(())
    }
}

impl PhysicalMemory for IdentityMap {
    fn bytes(&self, range: PhysRange) -> Option<&[u8]> {
        let own = self.own_image;
        let is_own = range.start < own.end() && own.start < range.end();
        if range.start == 0 || range.end() > REACH || is_own {
            return None;
        }
        // SAFETY: The range is mapped, not null, and outside the program's own image, so nobody writes it while
        // `self` is borrowed: allocated memory exists only after `into_free`.
        Some(unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len as usize) })
    }
}

impl FreeMemory {
    /// The bytes of an allocation, all zero.
    pub(crate) fn zeroed(&self, allocation: Allocation) -> &'static mut [u8] {
        let range = allocation.range();
        assert!(range.start != 0 && range.end() <= REACH, "allocated within reach");
        // SAFETY: An allocation is unique, lies in usable memory below 4 GiB outside the program's image, and is
        // consumed here. Any byte is a valid u8.
        let bytes = unsafe { core::slice::from_raw_parts_mut(range.start as *mut u8, range.len as usize) };
        bytes.fill(0);
        bytes
    }
}

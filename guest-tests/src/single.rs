//! Shared data on a machine that runs one CPU.

#![allow(unsafe_code, reason = "shared mutable state without a lock")]

use core::cell::UnsafeCell;

/// A static that only the one CPU of the guest uses.
#[repr(transparent)]
pub(crate) struct Single<T>(UnsafeCell<T>);

// SAFETY: a guest starts no second CPU.
unsafe impl<T> Sync for Single<T> {}

impl<T> Single<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
    /// The address of the data, for the CPU or for an access that the caller argues for.
    pub(crate) const fn get(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Copy> Single<T> {
    pub(crate) fn load(&self) -> T {
        // SAFETY: the value is plain data that no reference points to.
        unsafe { self.get().read_volatile() }
    }
    pub(crate) fn store(&self, value: T) {
        // SAFETY: as for `load`.
        unsafe { self.get().write_volatile(value) }
    }
}

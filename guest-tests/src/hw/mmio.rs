//! Device registers in memory.

#![allow(unsafe_code, reason = "volatile access to device memory")]

/// A 32-bit register at a physical address, which is mapped where it lies.
#[derive(Clone, Copy)]
pub struct Reg32(pub u32);

/// A 64-bit register, likewise.
#[derive(Clone, Copy)]
pub struct Reg64(pub u32);

impl Reg64 {
    /// Reads it.
    pub fn read(self) -> u64 {
        // SAFETY: as for `Reg32`.
        unsafe { (self.0 as usize as *const u64).read_volatile() }
    }
    /// Writes it.
    pub fn write(self, value: u64) {
        // SAFETY: as for `Reg32`.
        unsafe { (self.0 as usize as *mut u64).write_volatile(value) }
    }
}

impl Reg32 {
    /// Reads it.
    pub fn read(self) -> u32 {
        // SAFETY: the address is that of a device register in the uncached identity map.
        unsafe { (self.0 as usize as *const u32).read_volatile() }
    }
    /// Writes it.
    pub fn write(self, value: u32) {
        // SAFETY: as for `read`; devices write no memory of ours.
        unsafe { (self.0 as usize as *mut u32).write_volatile(value) }
    }
}

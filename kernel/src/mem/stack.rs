//! Stacks: aligned to their size, with an unmapped guard below. The lowest word refers to the CPU that the
//! stack runs on, so that any code finds it by masking RSP.
#![allow(unsafe_code, reason = "stacks")]

use super::paging;
use crate::cpu::PerCpu;
use abi::boot::{BOOT_STACK_SIZE, BOOT_STACK_TOP};
use core::sync::atomic::{AtomicU64, Ordering};
use x86defs::addr::Hva;

/// Bytes of a stack, and its alignment.
pub const STACK_BYTES: usize = 64 << 10;
/// Where stacks are mapped; every other slot is a guard.
const STACKS: u64 = 0xffff_d000_0000_0000;

const _: () =
    assert!(BOOT_STACK_SIZE == STACK_BYTES as u64 && BOOT_STACK_TOP.is_multiple_of(BOOT_STACK_SIZE));

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    base: Hva,
}

impl Stack {
    /// A new, zeroed one for this CPU.
    pub fn new(cpu: &'static PerCpu) -> Self {
        let stack = Self::unbound();
        stack.bind(cpu);
        stack
    }

    /// A new, zeroed one that [`Stack::bind`] makes usable; it may not be mapped in the current tables yet.
    pub fn unbound() -> Self {
        let slot = NEXT.fetch_add(1, Ordering::Relaxed) * 2 + 1;
        let base = Hva(STACKS + slot * STACK_BYTES as u64);
        paging::map_memory(base, STACK_BYTES);
        Self { base }
    }

    /// Gives the stack to a CPU.
    pub fn bind(&self, cpu: &'static PerCpu) {
        // SAFETY: mapped by `unbound`; the lowest word is for this alone.
        unsafe { (self.base.0 as *mut &'static PerCpu).write(cpu) };
    }

    /// The one that begins at `base`.
    pub fn at(base: Hva) -> Self {
        Self { base }
    }

    /// Its lowest address.
    pub fn base(&self) -> Hva {
        self.base
    }

    /// One past the highest byte.
    pub fn top(&self) -> Hva {
        self.base.offset(STACK_BYTES as u64)
    }

    /// Whether an address is on this stack.
    pub fn contains(address: u64, sp: u64) -> bool {
        address & !(STACK_BYTES as u64 - 1) == sp & !(STACK_BYTES as u64 - 1)
    }
}

/// The CPU that runs this code; valid on stacks made by [`Stack::new`].
#[inline(always)]
pub fn this_cpu() -> &'static PerCpu {
    let sp: u64;
    // SAFETY: reads RSP; the stack's lowest word was written by `Stack::new` and holds for ever.
    unsafe {
        core::arch::asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags));
        *((sp & !(STACK_BYTES as u64 - 1)) as *const &'static PerCpu)
    }
}

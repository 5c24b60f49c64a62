//! Host memory for nested page tables.
#![allow(unsafe_code, reason = "tables that the hardware walks")]

use crate::mem;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use guestboot::memory_map::{ROM, TEXT_PAGE};
use spin::Mutex;
use vmm::nested::{NestedTables, PageFormat, Permissions, TableMemory};
use vmm::screen::WriteProtection;
use x86defs::addr::Hpa;

/// Pages of the hypervisor's own memory.
pub struct HostTables;

fn entry(table: Hpa, index: usize) -> &'static AtomicU64 {
    assert!(index < 512);
    // SAFETY: `table` is a page that `allocate` gave and `free` has not taken back; the hardware walks it at
    // any time, so it is accessed atomically only.
    unsafe { AtomicU64::from_ptr(mem::direct(table).cast::<u64>().as_ptr().add(index)) }
}

impl TableMemory for HostTables {
    fn allocate(&mut self) -> Option<Hpa> {
        mem::try_alloc_zeroed(4096, 4096)
    }
    fn free(&mut self, table: Hpa) {
        // SAFETY: no entry refers to it, and no virtual CPU runs on these tables any more.
        unsafe { mem::free(table, 4096) };
    }
    fn read(&self, table: Hpa, index: usize) -> u64 {
        entry(table, index).load(Ordering::Relaxed)
    }
    fn write(&mut self, table: Hpa, index: usize, value: u64) {
        entry(table, index).store(value, Ordering::Release);
    }
}

/// What a guest may do on its text page while writes are told.
pub const TEXT_PAGE_PROTECTED: Permissions = Permissions::EXECUTE;

/// The nested page tables of a virtual machine that runs.
pub type SharedTables<F> = Arc<Mutex<NestedTables<F>>>;

/// Changes what the text page allows.
pub struct TextPageProtection<F>(pub SharedTables<F>);

impl<F: PageFormat + Send> WriteProtection for TextPageProtection<F> {
    fn protect_text_page(&self, on: bool) {
        let permissions = if on { TEXT_PAGE_PROTECTED } else { TEXT_PAGE_PROTECTED | Permissions::WRITE };
        let len = ROM.0 - TEXT_PAGE.0;
        let changed = self.0.lock().protect(&mut HostTables, TEXT_PAGE, len, permissions);
        changed.expect("the page is mapped by pages of 4 KiB, so that no table is needed");
    }
}

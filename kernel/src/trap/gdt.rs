//! The host's descriptor table. Its limit is 0xffff, which is what a VMX exit leaves in GDTR anyway, so that
//! it never needs reloading (SDM 3, 28.5.2).
#![allow(unsafe_code, reason = "LGDT, LTR")]

use crate::mem::stack::STACK_BYTES;
use core::arch::asm;
use core::cell::UnsafeCell;
use x86_64::VirtAddr;
use x86_64::structures::gdt::{Descriptor, DescriptorFlags};
use x86_64::structures::tss::TaskStateSegment;

/// 64-bit code.
pub const CODE_SELECTOR: u16 = 0x08;
/// Data.
pub const DATA_SELECTOR: u16 = 0x10;
/// The task-state segment.
pub const TSS_SELECTOR: u16 = 0x18;

/// Entry of the TSS's interrupt stack table that #DF uses while no guest is resident, counted from 1.
pub(super) const DOUBLE_FAULT_IST: u8 = 1;

#[repr(C, align(4096))]
struct Tables {
    gdt: [u64; 5],
    tss: TaskStateSegment,
}

#[repr(C, align(16))]
struct DoubleFaultStack([u8; STACK_BYTES / 4]);

struct Shared<T>(UnsafeCell<T>);
// SAFETY: the tables are written by `init` alone, with interrupts off, while one CPU is in use; otherwise only the CPU
// uses them and the stack.
unsafe impl<T> Sync for Shared<T> {}

static TABLES: Shared<Tables> = Shared(UnsafeCell::new(Tables { gdt: [0; 5], tss: TaskStateSegment::new() }));
/// Apart from the tables, since it is all zeros and need not be in the image.
static DOUBLE_FAULT_STACK: Shared<DoubleFaultStack> =
    Shared(UnsafeCell::new(DoubleFaultStack([0; STACK_BYTES / 4])));

/// Fills the tables in and loads GDTR, the segment registers and TR: at start, and again when a guest has replaced
/// what SVM leaves to it. The contents are the same each time.
pub(super) fn init() {
    // SAFETY: interrupts are off and one CPU is in use: no other reference is live.
    let tables = unsafe { &mut *TABLES.0.get() };
    let stack_top = DOUBLE_FAULT_STACK.0.get().wrapping_add(1) as u64;
    tables.tss.interrupt_stack_table[usize::from(DOUBLE_FAULT_IST) - 1] = VirtAddr::new(stack_top);
    // SAFETY: the TSS lives as long as the kernel.
    let tss = unsafe { Descriptor::tss_segment_unchecked(&raw const tables.tss) };
    let Descriptor::SystemSegment(tss_low, tss_high) = tss else { unreachable!("a TSS is a system segment") };
    tables.gdt =
        [0, DescriptorFlags::KERNEL_CODE64.bits(), DescriptorFlags::KERNEL_DATA.bits(), tss_low, tss_high];
    let gdtr = x86_64::structures::DescriptorTablePointer { limit: 0xffff, base: VirtAddr::new(base()) };
    // SAFETY: selectors refer to the descriptors just written; the code segment is reloaded by the far return.
    unsafe {
        x86_64::instructions::tables::lgdt(&gdtr);
        asm!(
            "push {cs}",
            "lea {tmp}, [rip + 2f]",
            "push {tmp}",
            "retfq",
            "2:",
            "mov ds, {ds:e}",
            "mov es, {ds:e}",
            "mov ss, {ds:e}",
            "mov fs, {null:e}",
            "mov gs, {null:e}",
            "ltr {tr:x}",
            cs = in(reg) u64::from(CODE_SELECTOR),
            ds = in(reg) u32::from(DATA_SELECTOR),
            null = in(reg) 0,
            tr = in(reg) TSS_SELECTOR,
            tmp = out(reg) _,
        );
    }
}

/// GDTR's base.
pub(super) fn base() -> u64 {
    TABLES.0.get() as u64
}

/// Linear address of the TSS.
pub(super) fn tss_base() -> u64 {
    base() + core::mem::offset_of!(Tables, tss) as u64
}

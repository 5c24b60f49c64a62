//! Segments: flat ones for every mode and privilege level, and a TSS for stacks.

#![allow(unsafe_code, reason = "loads the task register")]

use crate::single::Single;
use core::arch::asm;
use x86_64::structures::gdt::DescriptorFlags as Flags;
use x86_64::structures::tss::TaskStateSegment;
use x86defs::descriptor::Descriptor;

/// 64-bit code.
pub const CODE64: u16 = 0x08;
/// Data, 4 GiB.
pub const DATA: u16 = 0x10;
/// 32-bit code, 4 GiB.
pub const CODE32: u16 = 0x18;
/// 16-bit code, base 0, limit 64 KiB.
pub const CODE16: u16 = 0x20;
/// 16-bit data, base 0, limit 64 KiB.
pub const DATA16: u16 = 0x28;
/// 32-bit code of ring 3.
pub const USER_CODE32: u16 = 0x30 | 3;
/// Data of ring 3.
pub const USER_DATA: u16 = 0x38 | 3;
/// 64-bit code of ring 3.
pub const USER_CODE64: u16 = 0x40 | 3;
/// A data segment that is not present.
pub const ABSENT: u16 = 0x48;
const TSS_SELECTOR: u16 = 0x50;
const ENTRIES: usize = 12;
/// Offset of the last byte of the GDT.
pub const LIMIT: u16 = (ENTRIES * 8 - 1) as u16;
/// The first selector beyond the GDT.
pub const BEYOND: u16 = LIMIT + 1;

/// IST slot of the double-fault stack.
pub(crate) const DOUBLE_FAULT_IST: u8 = 1;
const IST_STACK_SIZE: usize = 8 * 1024;

const LIMIT_64K: u64 = 0xffff;
const CODE_16: u64 = Flags::USER_SEGMENT.bits()
    | Flags::PRESENT.bits()
    | Flags::EXECUTABLE.bits()
    | Flags::WRITABLE.bits()
    | LIMIT_64K;
const DATA_16: u64 = Flags::USER_SEGMENT.bits() | Flags::PRESENT.bits() | Flags::WRITABLE.bits() | LIMIT_64K;

pub(crate) static GDT: Single<[u64; ENTRIES]> = Single::new([
    0,
    Flags::KERNEL_CODE64.bits(),
    Flags::KERNEL_DATA.bits(),
    Flags::KERNEL_CODE32.bits(),
    CODE_16,
    DATA_16,
    Flags::USER_CODE32.bits(),
    Flags::USER_DATA.bits(),
    Flags::USER_CODE64.bits(),
    Flags::KERNEL_DATA.bits() & !Flags::PRESENT.bits(),
    0,
    0,
]);

static TSS: Single<TaskStateSegment> = Single::new(TaskStateSegment::new());

#[repr(align(16))]
struct Stack(#[expect(dead_code, reason = "the CPU uses it")] [u8; IST_STACK_SIZE]);

static DOUBLE_FAULT_STACK: Single<Stack> = Single::new(Stack([0; IST_STACK_SIZE]));
static RING0_STACK: Single<Stack> = Single::new(Stack([0; IST_STACK_SIZE]));

fn top_of(stack: &'static Single<Stack>) -> x86_64::VirtAddr {
    x86_64::VirtAddr::new(stack.get() as u64 + IST_STACK_SIZE as u64)
}

/// A descriptor of the GDT.
pub(crate) fn descriptor(selector: u16) -> Descriptor {
    // SAFETY: nothing changes the GDT at the same time.
    Descriptor(unsafe { (*GDT.get())[usize::from(selector / 8)] })
}

/// Operand of LGDT in 64-bit mode.
#[repr(C, packed)]
struct Gdtr {
    limit: u16,
    base: u64,
}

/// Loads the GDT and the task register, as is needed after a stay in a mode with others.
pub(crate) fn reload() {
    let gdtr = Gdtr { limit: LIMIT, base: GDT.get() as u64 };
    // SAFETY: the GDT has every selector that is loaded.
    unsafe { asm!("lgdt [{}]", in(reg) &raw const gdtr, options(readonly, nostack, preserves_flags)) };
    reload_task_register();
}

/// Completes the GDT, which the entry code has loaded, with the TSS.
pub(crate) fn init() {
    // SAFETY: nothing refers to the TSS or the GDT but the CPU, which rereads neither before LTR.
    unsafe {
        let tss = &mut *TSS.get();
        tss.privilege_stack_table[0] = top_of(&RING0_STACK);
        tss.interrupt_stack_table[usize::from(DOUBLE_FAULT_IST) - 1] = top_of(&DOUBLE_FAULT_STACK);
    }
    reload_task_register();
}

/// Copies the GDT to memory of a test's own, which may go on behind it.
pub fn copy_to(address: u64) {
    // SAFETY: plain data that is not changed meanwhile.
    let entries = unsafe { GDT.get().read() };
    for (entry, slot) in entries.into_iter().zip((address..).step_by(8)) {
        crate::memory::write64(slot, entry);
    }
}

/// Writes a fresh TSS descriptor (LTR marks it busy) and loads it.
fn reload_task_register() {
    let x86_64::structures::gdt::Descriptor::SystemSegment(low, high) =
        // SAFETY: the TSS is a static.
        (unsafe { x86_64::structures::gdt::Descriptor::tss_segment_unchecked(TSS.get()) })
    else {
        unreachable!("a TSS descriptor is a system segment");
    };
    let slot = usize::from(TSS_SELECTOR / 8);
    // SAFETY: nothing else refers to the GDT; the descriptor is complete before LTR reads it.
    unsafe {
        let gdt = GDT.get();
        (*gdt)[slot] = low;
        (*gdt)[slot + 1] = high;
        asm!("ltr {0:x}", in(reg) TSS_SELECTOR, options(nostack, preserves_flags));
    }
}

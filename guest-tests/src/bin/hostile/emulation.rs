//! Instructions on what is no RAM that nobody need emulate: the virtual machine may be stopped for them.

#![allow(unsafe_code, reason = "chosen instructions")]

use core::arch::asm;
use runtime::fault::catch_all;
use runtime::guest_test;

/// The VGA window, where nothing answers.
const NOTHING: u64 = 0xa_0000;

macro_rules! on_nothing {
    ($($name:ident: $instruction:literal),+ $(,)?) => {
        $(
            guest_test!($name);
            fn $name() {
                // SAFETY: the guest has nothing to lose, and an exception ends it.
                let _ = catch_all(|| unsafe { asm!($instruction, in("rdi") NOTHING, options(nostack)) });
            }
        )+
    };
}

on_nothing!(
    x87_load: "fld tbyte ptr [rdi]",
    x87_save: "fnsave [rdi]",
    extended_state: "fxsave [rdi]",
    sse_load: "movups xmm0, [rdi]",
    descriptor_table: "lgdt [rdi]",
    interrupt_table: "lidt [rdi]",
    indirect_call: "call [rdi]",
    far_jump: "jmp fword ptr [rdi]",
    compare_sixteen: "cmpxchg16b [rdi]",
    checksum: "crc32 eax, dword ptr [rdi]",
    access_rights: "lar eax, word ptr [rdi]",
    no_instruction: "ud2",
);

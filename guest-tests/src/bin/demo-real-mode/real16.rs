//! The visit to real mode. Its code lies below 64 KiB, so that it runs where it is linked, in segment 0.

#![allow(unsafe_code, reason = "names assembly")]

use core::arch::global_asm;
use runtime::hw::{pic, pit, rtc, uart};
use runtime::legacy::{self, Paging};
use runtime::memory::write32;
use runtime::{demo, gdt};
use x86defs::control::Cr0;

/// A vector of the interrupt vector table that nobody else uses.
const VECTOR: u8 = 0x60;
/// Timer interrupts to wait for.
const TIMER_INTERRUPTS: u16 = 3;
/// A segment whose addresses are 0x8000 above those of segment 0.
const FAR_SEGMENT: u16 = 0x800;
/// Memory that only a segment of more than 1 MiB reaches.
const UNREAL_ADDRESS: u32 = 5 << 20;
const UNREAL_VALUE: u32 = u32::from_le_bytes(*b"GOSS");
/// Length of `text_outs`, which has to fit into a UART's FIFO.
const OUTS_LENGTH: usize = "demo: REP OUTS\n".len();
/// Lines that real mode writes to the text page.
const ROWS: usize = 6;
const BYTES_OF_ROW: usize = 160;

global_asm!(
    ".pushsection .real16, \"awx\"",
    // EDI: where on the text page to write. 32-bit code that is called without paging.
    ".code32",
    "real16_visit:",
    "mov [saved_esp], esp",
    "mov [screen], di",
    ".byte 0xea",
    ".long leave_protected",
    ".word {code16}",
    ".code16",
    "leave_protected:",
    "mov ax, {data16}",
    "mov ds, ax",
    "mov es, ax",
    "mov fs, ax",
    "mov gs, ax",
    "mov ss, ax",
    "mov eax, cr0",
    "and eax, {not_pe}",
    "mov cr0, eax",
    ".byte 0xea",
    ".word real, 0",
    "real:",
    "xor ax, ax",
    "mov ds, ax",
    "mov es, ax",
    "mov fs, ax",
    "mov gs, ax",
    "mov ss, ax",
    "mov sp, offset stack_top",
    "lidt [real_idtr]",
    "cld",
    "mov si, offset text_real",
    "call write",
    // The handler writes a line, too.
    "int {vector}",
    "call timer",
    "call unreal",
    "call far_jump",
    "call strings",
    // Back to where the visitor came from.
    "cli",
    "mov eax, cr0",
    "or eax, {pe}",
    "mov cr0, eax",
    ".byte 0x66, 0xea",
    ".long back",
    ".word {code32}",
    ".code32",
    "back:",
    "mov eax, {data}",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "mov esp, [saved_esp]",
    "ret",
    ".code16",

    "vector_handler:",
    "mov si, offset text_vector",
    "call write",
    "iret",

    // HLT until the timer's handler has counted enough.
    "timer:",
    "sti",
    "3: hlt",
    "cmp word ptr [ticks], {timer_interrupts}",
    "jb 3b",
    "cli",
    "mov si, offset text_timer",
    "jmp write",
    "timer_handler:",
    "push ax",
    "inc word ptr cs:[ticks]",
    "mov al, {eoi}",
    "out {pic}, al",
    "pop ax",
    "iret",

    // A segment keeps the limit of 4 GiB that protected mode has given it.
    "unreal:",
    "mov eax, cr0",
    "or al, {pe}",
    "mov cr0, eax",
    "mov bx, {data}",
    "mov fs, bx",
    "and al, {not_pe}",
    "mov cr0, eax",
    "xor bx, bx",
    "mov fs, bx",
    "mov ebx, {unreal_address}",
    "mov dword ptr fs:[ebx], {unreal_value}",
    "cmp dword ptr fs:[ebx], {unreal_value}",
    "mov si, offset text_unreal",
    "je write",
    "mov si, offset text_wrong",
    "jmp write",

    // The same code at another segment and offset, and back.
    "far_jump:",
    ".byte 0xea",
    ".word 1f - {far_segment} * 16, {far_segment}",
    "1: mov bx, cs",
    ".byte 0xea",
    ".word 2f, 0",
    "2: cmp bx, {far_segment}",
    "mov si, offset text_far",
    "je write",
    "mov si, offset text_wrong",
    "jmp write",

    // Both directions.
    "strings:",
    "mov al, {rtc_register_d}",
    "out {rtc_index}, al",
    "mov di, offset buffer",
    "mov cx, 4",
    "mov dx, {rtc_data}",
    "rep insb",
    "cmp dword ptr [buffer], {rtc_valid}",
    "mov si, offset text_ins",
    "je 1f",
    "mov si, offset text_wrong",
    "1: call write",
    "2: mov dx, {com1_lsr}",
    "in al, dx",
    "test al, {temt}",
    "jz 2b",
    "mov si, offset text_outs",
    "mov cx, {outs_length}",
    "mov dx, {com1}",
    "rep outsb",
    "ret",

    // Writes the string at DS:SI to all channels, each with its mark.
    "write:",
    "mov bx, offset mark_com1",
    "mov ebp, offset put_com1",
    "call write_channel",
    "mov bx, offset mark_debug",
    "mov ebp, offset put_debug",
    "call write_channel",
    "mov bx, offset mark_text",
    "mov ebp, offset put_text",
    "mov di, [screen]",
    "add word ptr [screen], {bytes_of_row}",
    // Mark at DS:BX, text at DS:SI, routine for a character in EBP. The assembler makes near calls and returns
    // 32 bits wide.
    "write_channel:",
    "push si",
    "xchg si, bx",
    "call write_string",
    "mov si, bx",
    "call write_string",
    "mov al, 10",
    "call ebp",
    "pop si",
    "ret",
    "write_string:",
    "lodsb",
    "test al, al",
    "jz 1f",
    "call ebp",
    "jmp write_string",
    "1: ret",
    "put_com1:",
    "push ax",
    "mov dx, {com1_lsr}",
    "2: in al, dx",
    "test al, {thre}",
    "jz 2b",
    "pop ax",
    "mov dx, {com1}",
    "out dx, al",
    "ret",
    "put_debug:",
    "mov dx, {debug}",
    "out dx, al",
    "ret",
    "put_text:",
    "cmp al, 10",
    "je 3f",
    "push es",
    "mov dx, {text_segment}",
    "mov es, dx",
    "mov ah, 7",
    "stosw",
    "pop es",
    "3: ret",

    "mark_com1: .asciz \"demo: \"",
    "mark_debug: .asciz \"e9: \"",
    "mark_text: .asciz \"vga: \"",
    "text_real: .asciz \"real mode: reached\"",
    "text_vector: .asciz \"real mode: INT through the vector table\"",
    "text_timer: .asciz \"real mode: timer interrupts end HLT\"",
    "text_unreal: .asciz \"real mode: unreal data above 1 MiB\"",
    "text_far: .asciz \"real mode: far jumps\"",
    "text_ins: .asciz \"real mode: REP INS\"",
    "text_wrong: .asciz \"real mode: WRONG\"",
    "text_outs: .ascii \"demo: REP OUTS\\n\"",
    ".balign 4",
    "saved_esp: .long 0",
    "buffer: .long 0",
    "screen: .word 0",
    "ticks: .word 0",
    "real_idtr: .word 256 * 4 - 1",
    ".long 0",
    ".balign 4",
    ".zero 1024",
    "stack_top:",
    ".code64",
    ".popsection",
    code16 = const gdt::CODE16,
    data16 = const gdt::DATA16,
    code32 = const gdt::CODE32,
    data = const gdt::DATA,
    pe = const Cr0::PE.bits(),
    not_pe = const !(Cr0::PE.bits() as i32),
    vector = const VECTOR,
    timer_interrupts = const TIMER_INTERRUPTS,
    eoi = const pic::OCW2_EOI,
    pic = const pic::MASTER,
    unreal_address = const UNREAL_ADDRESS,
    unreal_value = const UNREAL_VALUE,
    far_segment = const FAR_SEGMENT,
    rtc_register_d = const rtc::REGISTER_D,
    rtc_index = const rtc::INDEX,
    rtc_data = const rtc::DATA,
    rtc_valid = const u32::from_le_bytes([rtc::VALID; 4]),
    outs_length = const OUTS_LENGTH,
    com1 = const uart::COM1_PORT,
    com1_lsr = const uart::COM1_PORT + uart::LSR,
    thre = const uart::Lsr::THRE.bits(),
    temt = const uart::Lsr::TEMT.bits(),
    debug = const demo::DEBUG_CONSOLE,
    text_segment = const demo::TEXT_PAGE >> 4,
    bytes_of_row = const BYTES_OF_ROW,
);

unsafe extern "C" {
    fn real16_visit();
    static vector_handler: u8;
    static timer_handler: u8;
}

/// Goes there, does everything, and comes back.
pub(crate) fn visit() {
    set_vector(VECTOR, &raw const vector_handler);
    set_vector(pic::vector(pit::IRQ), &raw const timer_handler);
    pic::unmask_only(pit::IRQ);
    let place = demo::reserve(ROWS) * BYTES_OF_ROW;
    match legacy::protected(real16_visit, place as u32, Paging::Off) {
        Ok(_) => runtime::say!("real mode: left"),
        Err(fault) => runtime::say!("real mode: {fault}"),
    }
    pic::set_mask(u16::MAX);
}

/// Puts a handler in segment 0 into the interrupt vector table at address 0.
fn set_vector(vector: u8, handler: *const u8) {
    write32(u64::from(vector) * 4, handler as u32);
}

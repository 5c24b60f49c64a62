//! Instructions that access device memory, which a hypervisor has to decode. IOREGSEL of the I/O APIC stands for
//! a register that keeps one byte, IOWIN for one of 32 bits, and an address that nobody answers reads as ones.

#![allow(unsafe_code, reason = "chosen instruction forms")]

use core::arch::{asm, naked_asm};
use runtime::cpu;
use runtime::hw::ioapic::{self, IOREGSEL, low};
use runtime::legacy::{self, Paging};
use runtime::memory;
use runtime::{expect_eq, guest_test, platform_wrong};
use x86defs::control::Rflags;

const SELECT: u64 = ioapic::BASE as u64;
const WINDOW: u64 = SELECT + 0x10;
/// Within the hole below the I/O APIC, where none of the machines has anything.
const NOBODY: u64 = 0xfea0_0000;
/// Low half of the redirection entry that serves as a 32-bit register: bits that keep what is written, with the
/// mask set.
const PIN: u8 = 20;
const VALUE: u32 = 0x0001_a055;
const MARK: u64 = 0x0123_4567_89ab_cdef;

/// Selects the redirection entry and gives it a value.
fn window_holds(value: u32) {
    ioapic::write(low(PIN), value);
}
fn window() -> u32 {
    ioapic::read(low(PIN))
}

/// Runs an instruction on RAX (holding a value), RDX (an address), RCX, and returns RAX.
macro_rules! rax_after {
    ($asm:literal, $rax:expr, $address:expr) => {{
        let rax: u64;
        // SAFETY: the address is that of device memory.
        unsafe { asm!($asm, inout("rax") $rax => rax, in("rdx") $address, options(nostack)) };
        rax
    }};
}

guest_test!(loads_of_all_widths);
fn loads_of_all_widths() {
    IOREGSEL.write(0x12);
    expect_eq!(rax_after!("mov al, [rdx]", MARK, SELECT), MARK & !0xff | 0x12, "MOV AL");
    expect_eq!(rax_after!("mov ah, [rdx]", MARK, SELECT), MARK & !0xff00 | 0x1200, "MOV AH");
    expect_eq!(rax_after!("mov ax, [rdx]", MARK, SELECT), MARK & !0xffff | 0x12, "MOV AX");
    expect_eq!(rax_after!("mov eax, [rdx]", MARK, SELECT), 0x12, "MOV EAX");
    expect_eq!(rax_after!("movzx eax, byte ptr [rdx]", MARK, SELECT), 0x12, "MOVZX EAX, m8");
    expect_eq!(rax_after!("movzx ax, byte ptr [rdx]", MARK, SELECT), MARK & !0xffff | 0x12, "MOVZX AX, m8");
    expect_eq!(rax_after!("movzx rax, word ptr [rdx]", MARK, SELECT), 0x12, "MOVZX RAX, m16");
    expect_eq!(rax_after!("movsx rax, byte ptr [rdx]", MARK, SELECT), 0x12, "MOVSX RAX, m8");
}

guest_test!(loads_with_sign);
fn loads_with_sign() {
    platform_wrong!(QemuTcg, "memory that nobody answers reads as zeros");
    expect_eq!(rax_after!("mov al, [rdx]", MARK, NOBODY), MARK | 0xff, "MOV AL");
    expect_eq!(rax_after!("mov ax, [rdx]", MARK, NOBODY + 2), MARK | 0xffff, "MOV AX");
    expect_eq!(rax_after!("mov eax, [rdx]", MARK, NOBODY + 4), 0xffff_ffff, "MOV EAX");
    expect_eq!(rax_after!("mov rax, [rdx]", MARK, NOBODY + 8), u64::MAX, "MOV RAX");
    expect_eq!(rax_after!("movzx eax, byte ptr [rdx]", MARK, NOBODY), 0xff, "MOVZX EAX, m8");
    expect_eq!(rax_after!("movzx eax, word ptr [rdx]", MARK, NOBODY), 0xffff, "MOVZX EAX, m16");
    expect_eq!(rax_after!("movsx eax, byte ptr [rdx]", MARK, NOBODY), 0xffff_ffff, "MOVSX EAX, m8");
    expect_eq!(rax_after!("movsx ax, byte ptr [rdx]", MARK, NOBODY), MARK | 0xffff, "MOVSX AX, m8");
    expect_eq!(rax_after!("movsx rax, word ptr [rdx]", MARK, NOBODY), u64::MAX, "MOVSX RAX, m16");
    expect_eq!(rax_after!("movsxd rax, dword ptr [rdx]", MARK, NOBODY), u64::MAX, "MOVSXD RAX, m32");
    // Unaligned, and across a page boundary.
    expect_eq!(rax_after!("mov eax, [rdx]", MARK, NOBODY + 0xffe), 0xffff_ffff, "MOV EAX across pages");
}

guest_test!(loads_of_32_bits);
fn loads_of_32_bits() {
    window_holds(VALUE);
    let value = u64::from(VALUE);
    expect_eq!(rax_after!("mov eax, [rdx]", MARK, WINDOW), value, "MOV EAX");
    expect_eq!(rax_after!("movsxd rax, dword ptr [rdx]", MARK, WINDOW), value, "MOVSXD RAX");
    let (r8, r15, ebp): (u64, u64, u64);
    // SAFETY: device memory; RBP is put back.
    unsafe {
        asm!("mov r8d, [rdx]", "mov r15d, [rdx]", "xchg rbp, rax", "mov ebp, [rdx]", "xchg rbp, rax",
            in("rdx") WINDOW, out("r8") r8, out("r15") r15, inout("rax") MARK => ebp)
    };
    expect_eq!([r8, r15, ebp], [value; 3], "R8D, R15D and EBP");
}

guest_test!(stores_of_all_widths);
fn stores_of_all_widths() {
    let select = || IOREGSEL.read() & 0xff;
    rax_after!("mov [rdx], al", 0x21u64, SELECT);
    expect_eq!(select(), 0x21, "MOV m8, AL");
    rax_after!("mov [rdx], ah", 0x2200u64, SELECT);
    expect_eq!(select(), 0x22, "MOV m8, AH");
    rax_after!("mov byte ptr [rdx], 0x23", 0u64, SELECT);
    expect_eq!(select(), 0x23, "MOV m8, imm8");
    rax_after!("mov [rdx], eax", 0x24u64, SELECT);
    expect_eq!(select(), 0x24, "MOV m32, EAX");
    rax_after!("mov dword ptr [rdx], 0x25", 0u64, SELECT);
    expect_eq!(select(), 0x25, "MOV m32, imm32");
    window_holds(0x1_0000);
    rax_after!("mov [rdx], eax", u64::from(VALUE), WINDOW);
    expect_eq!(window(), VALUE, "IOWIN after MOV m32, EAX");
    rax_after!("mov dword ptr [rdx], 0x1a044", 0u64, WINDOW);
    expect_eq!(window(), 0x1_a044, "IOWIN after MOV m32, imm32");
}

guest_test!(stores_of_16_bits);
fn stores_of_16_bits() {
    rax_after!("mov [rdx], ax", 0x26u64, SELECT);
    expect_eq!(IOREGSEL.read() & 0xff, 0x26, "MOV m16, AX");
    rax_after!("mov word ptr [rdx], 0x27", 0u64, SELECT);
    expect_eq!(IOREGSEL.read() & 0xff, 0x27, "MOV m16, imm16");
}

guest_test!(stores_to_nobody);
fn stores_to_nobody() {
    rax_after!("mov [rdx], al", MARK, NOBODY);
    rax_after!("mov [rdx], ax", MARK, NOBODY);
    rax_after!("mov [rdx], eax", MARK, NOBODY);
    rax_after!("mov [rdx], rax", MARK, NOBODY);
    rax_after!("mov qword ptr [rdx], -1", MARK, NOBODY);
    rax_after!("mov [rdx], eax", MARK, NOBODY + 0xffe);
}

guest_test!(absolute_addresses);
fn absolute_addresses() {
    IOREGSEL.write(0x13);
    let (long, byte): (u64, u64);
    // SAFETY: device memory.
    unsafe {
        asm!("movabs eax, dword ptr [{}]", const SELECT, out("rax") long);
        asm!("movabs al, byte ptr [{}]", const SELECT, inout("rax") MARK => byte);
        asm!("movabs byte ptr [{}], al", const SELECT, in("rax") 0x14u64);
    }
    expect_eq!([long, byte], [0x13, MARK & !0xff | 0x13], "MOV EAX, moffs32 and MOV AL, moffs8");
    expect_eq!(IOREGSEL.read() & 0xff, 0x14, "MOV moffs8, AL");
}

guest_test!(addressing_forms);
fn addressing_forms() {
    IOREGSEL.write(0x15);
    let mut values = [0u64; 6];
    // SAFETY: device memory; FS.base is the harness's to restore, and nothing uses it.
    unsafe {
        asm!("mov eax, [rdx + 8*rcx]", in("rdx") SELECT - 0x80, in("rcx") 0x10u64, out("rax") values[0]);
        asm!("mov eax, [rdx + r12 - 0x100]", in("rdx") SELECT, in("r12") 0x100u64, out("rax") values[1]);
        asm!("mov eax, [r13]", in("r13") SELECT, out("rax") values[2]);
        asm!("mov eax, [r12]", in("r12") SELECT, out("rax") values[3]);
        // 32-bit addresses: the upper half does not count.
        asm!("mov eax, [edx]", in("rdx") SELECT | 1 << 40, out("rax") values[4]);
    }
    cpu::wrmsr(x86defs::msr::FS_BASE, SELECT - 0x40).expect("a canonical base");
    // SAFETY: as above.
    unsafe { asm!("mov eax, fs:[rdx]", in("rdx") 0x40u64, out("rax") values[5]) };
    expect_eq!(values, [0x15; 6], "IOREGSEL by scaled index, R12, R13, 32-bit address and FS");
}

guest_test!(rip_relative);
fn rip_relative() {
    // The I/O APIC is within 2 GiB of an alias of the code: a page is mapped there.
    const ALIAS: u64 = 0xfeb0_0000;
    let space = memory::Space::new();
    let code = load_rip_relative as *const () as u64;
    let frame = memory::frame();
    for offset in 0..16 {
        memory::write8(frame + offset, memory::read8(code + offset));
    }
    // MOV EAX, [RIP + disp32], of six bytes, with the displacement in its last four.
    memory::write32(frame + 2, (SELECT - (ALIAS + 6)) as u32);
    // The boot tables, which a space shares, map 2 MiB there; a table for slot 1 gets its own of both.
    let high = memory::FREE;
    space.map(high + ALIAS, frame, memory::PRESENT);
    space.map(high + SELECT, SELECT, memory::PRESENT | memory::WRITABLE | memory::UNCACHED);
    space.activate();
    IOREGSEL.write(0x16);
    let value: u64;
    // SAFETY: the copy at the alias is code that returns.
    unsafe { asm!("call {}", in(reg) high + ALIAS, out("rax") value) };
    expect_eq!(value, 0x16, "IOREGSEL relative to RIP");
}

#[unsafe(naked)]
unsafe extern "C" fn load_rip_relative() {
    naked_asm!("mov eax, [rip + 0x1000]", "ret")
}

/// Status flags.
const FLAGS: u64 = Rflags::CF.bits() | Rflags::ZF.bits() | Rflags::SF.bits() | Rflags::OF.bits();

/// Runs an instruction with EAX and an address in RDX; returns EAX and the status flags.
macro_rules! flags_after {
    ($asm:literal, $eax:expr, $address:expr) => {{
        let (rax, flags): (u64, u64);
        // SAFETY: the address is that of device memory.
        unsafe { asm!($asm, "pushfq", "pop rcx", inout("rax") u64::from($eax) => rax, in("rdx") $address, out("rcx") flags) };
        (rax as u32, flags & FLAGS)
    }};
}

guest_test!(logic_to_memory);
fn logic_to_memory() {
    window_holds(VALUE);
    let (_, flags) = flags_after!("or dword ptr [rdx], eax", 0x0000_0a02u32 & 0xff, WINDOW);
    expect_eq!(window(), VALUE | 2, "OR m32, EAX");
    expect_eq!(flags, 0, "flags after OR");
    let (_, flags) = flags_after!("and dword ptr [rdx], 0x1ff0f", 0u32, WINDOW);
    expect_eq!(window(), (VALUE | 2) & 0x1_ff0f, "AND m32, imm32");
    expect_eq!(flags, 0, "flags after AND");
    let before = window();
    flags_after!("xor dword ptr [rdx], eax", 0x2000u32, WINDOW);
    expect_eq!(window(), before ^ 0x2000, "XOR m32, EAX");
    flags_after!("xor dword ptr [rdx], 0x11", 0u32, WINDOW);
    expect_eq!(window(), before ^ 0x2011, "XOR m32, imm8");
}

guest_test!(logic_to_bytes);
fn logic_to_bytes() {
    let select = || IOREGSEL.read() & 0xff;
    IOREGSEL.write(0x0f);
    let (_, flags) = flags_after!("and byte ptr [rdx], al", 0xf0u32, SELECT);
    expect_eq!((select(), flags), (0, Rflags::ZF.bits()), "AND m8, AL: value and flags");
    let (_, flags) = flags_after!("or byte ptr [rdx], 0x80", 0u32, SELECT);
    expect_eq!((select(), flags), (0x80, Rflags::SF.bits()), "OR m8, imm8: value and flags");
    flags_after!("xor byte ptr [rdx], ah", 0x8100u32, SELECT);
    expect_eq!(select(), 1, "XOR m8, AH");
}

guest_test!(logic_from_memory);
fn logic_from_memory() {
    window_holds(VALUE);
    expect_eq!(flags_after!("and eax, [rdx]", 0xffffu32, WINDOW), (VALUE & 0xffff, 0), "AND EAX, m32");
    expect_eq!(
        flags_after!("or eax, [rdx]", 0x8000_0000u32, WINDOW),
        (VALUE | 1 << 31, Rflags::SF.bits()),
        "OR EAX, m32"
    );
    expect_eq!(flags_after!("xor eax, [rdx]", VALUE, WINDOW), (0, Rflags::ZF.bits()), "XOR EAX, m32");
    IOREGSEL.write(0x55);
    expect_eq!(flags_after!("xor al, [rdx]", 0xff55u32, SELECT), (0xff00, Rflags::ZF.bits()), "XOR AL, m8");
}

guest_test!(test_and_cmp);
fn test_and_cmp() {
    window_holds(VALUE);
    let (zf, cf, sf) = (Rflags::ZF.bits(), Rflags::CF.bits(), Rflags::SF.bits());
    expect_eq!(flags_after!("test dword ptr [rdx], eax", 0x0000_0f00u32, WINDOW).1, zf, "TEST m32, EAX");
    expect_eq!(flags_after!("test dword ptr [rdx], 0x10000", 0u32, WINDOW).1, 0, "TEST m32, imm32");
    expect_eq!(flags_after!("cmp dword ptr [rdx], eax", VALUE, WINDOW).1, zf, "CMP m32, EAX when equal");
    expect_eq!(
        flags_after!("cmp dword ptr [rdx], eax", VALUE + 1, WINDOW).1,
        cf | sf,
        "CMP m32, EAX when below"
    );
    expect_eq!(flags_after!("cmp eax, [rdx]", VALUE + 1, WINDOW).1, 0, "CMP EAX, m32 when above");
    expect_eq!(flags_after!("cmp dword ptr [rdx], 0x1a055", 0u32, WINDOW).1, zf, "CMP m32, imm32");
    expect_eq!(window(), VALUE, "IOWIN");
    IOREGSEL.write(0x40);
    expect_eq!(flags_after!("test byte ptr [rdx], 0x40", 0u32, SELECT).1, 0, "TEST m8, imm8");
    expect_eq!(flags_after!("test byte ptr [rdx], al", 0xbfu32, SELECT).1, zf, "TEST m8, AL");
    expect_eq!(flags_after!("cmp byte ptr [rdx], 0x41", 0u32, SELECT).1, cf | sf, "CMP m8, imm8");
    expect_eq!(flags_after!("cmp al, [rdx]", 0x40u32, SELECT).1, zf, "CMP AL, m8");
}

guest_test!(exchange);
fn exchange() {
    window_holds(VALUE);
    expect_eq!(
        rax_after!("xchg [rdx], eax", MARK & !0xffff_ffff | 0x1_0033, WINDOW),
        u64::from(VALUE),
        "EAX"
    );
    expect_eq!(window(), 0x1_0033, "IOWIN");
    IOREGSEL.write(0x17);
    expect_eq!(rax_after!("xchg [rdx], al", MARK, SELECT), MARK & !0xff | 0x17, "RAX after XCHG m8, AL");
    expect_eq!(IOREGSEL.read() & 0xff, MARK as u32 & 0xff, "IOREGSEL");
}

guest_test!(store_string);
fn store_string() {
    let (rcx, rdi): (u64, u64);
    IOREGSEL.write(u32::from(low(PIN)));
    // SAFETY: device memory.
    unsafe { asm!("rep stosd", in("eax") VALUE, inout("rcx") 1u64 => rcx, inout("rdi") WINDOW => rdi) };
    expect_eq!([rcx, rdi], [0, WINDOW + 4], "RCX and RDI");
    expect_eq!(window(), VALUE, "IOWIN after REP STOSD");
    // SAFETY: device memory.
    unsafe { asm!("stosb", in("al") 0x18u8, inout("rdi") SELECT => _) };
    expect_eq!(IOREGSEL.read() & 0xff, 0x18, "IOREGSEL after STOSB");
    let mut ends = [0u64; 4];
    // SAFETY: nobody answers there; the direction flag is cleared again.
    unsafe {
        asm!("rep stosb", in("rax") MARK, inout("rcx") 5u64 => _, inout("rdi") NOBODY => ends[0]);
        asm!("rep stosw", in("rax") MARK, inout("rcx") 5u64 => _, inout("rdi") NOBODY => ends[1]);
        asm!("rep stosq", in("rax") MARK, inout("rcx") 5u64 => _, inout("rdi") NOBODY => ends[2]);
        asm!("std", "rep stosd", "cld", in("rax") MARK, inout("rcx") 5u64 => _, inout("rdi") NOBODY + 64 => ends[3]);
    }
    expect_eq!(ends, [NOBODY + 5, NOBODY + 10, NOBODY + 40, NOBODY + 44], "RDI afterwards");
}

guest_test!(move_string);
fn move_string() {
    let buffer = memory::frame();
    window_holds(VALUE);
    let (rsi, rdi): (u64, u64);
    // SAFETY: device memory and a frame of ours.
    unsafe { asm!("movsd", inout("rsi") WINDOW => rsi, inout("rdi") buffer => rdi) };
    expect_eq!(memory::read32(buffer), VALUE, "memory after MOVSD from IOWIN");
    expect_eq!([rsi, rdi], [WINDOW + 4, buffer + 4], "RSI and RDI");
    memory::write32(buffer + 8, 0x1_0077);
    // SAFETY: as above.
    unsafe { asm!("movsd", inout("rsi") buffer + 8 => _, inout("rdi") WINDOW => _) };
    expect_eq!(window(), 0x1_0077, "IOWIN after MOVSD from memory");
    memory::write8(buffer + 16, 0x19);
    // SAFETY: as above.
    unsafe { asm!("movsb", inout("rsi") buffer + 16 => _, inout("rdi") SELECT => _) };
    expect_eq!(IOREGSEL.read() & 0xff, 0x19, "IOREGSEL after MOVSB from memory");
    // From device to device.
    window_holds(0x1_0021);
    // SAFETY: device memory.
    unsafe { asm!("movsd", inout("rsi") WINDOW => _, inout("rdi") SELECT => _) };
    expect_eq!(IOREGSEL.read() & 0xff, 0x21, "IOREGSEL after MOVSD from IOWIN");
}

guest_test!(move_string_repeated);
fn move_string_repeated() {
    platform_wrong!(QemuTcg, "memory that nobody answers reads as zeros");
    let buffer = memory::frame();
    let mut ends = [0u64; 3];
    // SAFETY: nobody answers there; the buffer is a frame of ours.
    unsafe {
        asm!("rep movsb", inout("rcx") 7u64 => _, inout("rsi") NOBODY => ends[0], inout("rdi") buffer => _);
        asm!("rep movsw", inout("rcx") 7u64 => _, inout("rsi") NOBODY => ends[1], inout("rdi") buffer + 0x100 => _);
        asm!("rep movsq", inout("rcx") 7u64 => _, inout("rsi") NOBODY => ends[2], inout("rdi") buffer + 0x200 => _);
    }
    expect_eq!(ends, [NOBODY + 7, NOBODY + 14, NOBODY + 56], "RSI afterwards");
    for (offset, bytes) in [(0, 7), (0x100, 14), (0x200, 56)] {
        let ones = (buffer + offset..).map(memory::read8).take_while(|&b| b == u8::MAX).count();
        expect_eq!(ones, bytes, "bytes of ones at {offset:#x}");
    }
}

/// Code for 32-bit modes: EDI is the I/O APIC; selects a register, writes it, combines and reads back.
#[unsafe(naked)]
unsafe extern "C" fn use_io_apic() {
    naked_asm!(
        ".code32",
        "mov byte ptr [edi], 0x38",
        "mov dword ptr [edi + 0x10], 0x1a055",
        "or dword ptr [edi + 0x10], 2",
        "mov ecx, 4",
        "movzx eax, byte ptr [edi + ecx*4 - 0x10]",
        "shl eax, 24",
        "or eax, [edi + 0x10]",
        // 16-bit operands and an absolute address.
        "mov dx, [edi]",
        "cmp dx, 0x38",
        "jne 2f",
        "xor eax, 0x40000000",
        "2: ret",
        ".code64",
    )
}

/// What it returns: the selected register, with a bit flipped by the 16-bit comparison, and the entry.
const FROM_32_BIT_CODE: u32 = (0x38 << 24 ^ 0x4000_0000) | VALUE | 2;

guest_test!(from_compatibility_mode);
fn from_compatibility_mode() {
    expect_eq!(low(PIN), 0x38, "register of the entry");
    expect_eq!(legacy::compatibility(use_io_apic, ioapic::BASE), FROM_32_BIT_CODE, "EAX");
    expect_eq!(window(), VALUE | 2, "IOWIN");
}

guest_test!(from_protected_mode);
fn from_protected_mode() {
    expect_eq!(legacy::protected(use_io_apic, ioapic::BASE, Paging::Off), Ok(FROM_32_BIT_CODE), "EAX");
    expect_eq!(window(), VALUE | 2, "IOWIN");
}

/// Code for 16-bit protected mode with 32-bit addresses is met in boot loaders; real mode reaches the VGA hole:
/// word of ones from A000:0010.
#[unsafe(naked)]
unsafe extern "C" fn load_from_vga_hole() {
    naked_asm!(".code16", "mov ax, 0xa000", "mov es, ax", "mov ax, es:[0x10]", ".byte 0xcb", ".code64")
}

guest_test!(from_real_mode);
fn from_real_mode() {
    if runtime::machine::get().reference {
        runtime::skip!("a bare machine has video memory there");
    }
    expect_eq!(legacy::real(load_from_vga_hole), u16::MAX, "AX");
}

guest_test!(lapic_by_logic);
fn lapic_by_logic() {
    use runtime::hw::lapic;
    use x86defs::apic::{DEFAULT_BASE, Lvt, reg};
    let lvt = DEFAULT_BASE + u64::from(reg::LVT_ERROR);
    lapic::mmio(reg::LVT_ERROR).write(Lvt::MASKED.bits() | 0x60);
    flags_after!("or dword ptr [rdx], 0x0f", 0u32, lvt);
    expect_eq!(lapic::mmio(reg::LVT_ERROR).read(), Lvt::MASKED.bits() | 0x6f, "LVT error after OR");
    flags_after!("and dword ptr [rdx], eax", Lvt::MASKED.bits() | 0x65, lvt);
    expect_eq!(lapic::mmio(reg::LVT_ERROR).read(), Lvt::MASKED.bits() | 0x65, "LVT error after AND");
    expect_eq!(
        rax_after!("xchg [rdx], eax", u64::from(Lvt::MASKED.bits() | 0x70), lvt),
        u64::from(Lvt::MASKED.bits() | 0x65),
        "EAX after XCHG"
    );
    let id = u64::from(lapic::mmio(reg::ID).read());
    expect_eq!(rax_after!("mov eax, [rdx]", MARK, DEFAULT_BASE + u64::from(reg::ID)), id, "ID");
}

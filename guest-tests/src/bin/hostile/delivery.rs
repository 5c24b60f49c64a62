//! Exceptions while exceptions are delivered.

#![allow(unsafe_code, reason = "chosen instructions and tables")]

use core::arch::{asm, naked_asm};
use runtime::fault::catch_all;
use runtime::interrupt::{self, Frame};
use runtime::legacy::{self, Paging};
use runtime::memory::{self, PAGE, write32, write64};
use runtime::{cpu, cpu_wrong, gdt, guest_test};
use x86defs::control::{Cr0, Rflags};
use x86defs::event::Exception;
use x86defs::reset::DR7_RESET;

/// INT1, which not every assembler knows.
macro_rules! int1 {
    () => {
        ".byte 0xf1"
    };
}

/// Local breakpoint 0, on writes of eight bytes.
const WATCH_WRITES: u64 = 1 << 0 | 1 << 16 | 2 << 18;

guest_test!(debug_exception_on_its_own_stack);
/// Delivering #DB writes where a breakpoint lies, which is the next #DB: a CPU that nobody interrupts would
/// never come back.
fn debug_exception_on_its_own_stack() {
    const BELOW: u64 = 256;
    cpu_wrong!(QemuTcg, "it ends with a failed assertion when delivering an exception meets a breakpoint");
    interrupt::handle(Exception::Debug as u8, |_| {});
    let stack = runtime::memory::frame() + PAGE;
    let _ = cpu::set_dr7(DR7_RESET | WATCH_WRITES);
    for below in (8..BELOW).step_by(8) {
        let _ = cpu::set_dr0(stack - below);
        // SAFETY: the stack is a frame of its own, and comes back.
        let _ = catch_all(|| unsafe {
            asm!("mov r15, rsp", "mov rsp, {}", int1!(), "int3", "mov rsp, r15", in(reg) stack, out("r15") _)
        });
    }
}

guest_test!(alignment_check_without_end);
/// #AC on a stack that is not aligned, in ring 3, whose handler is in ring 3, too: each delivery is misaligned
/// again.
fn alignment_check_without_end() {
    cpu_wrong!(Bochs, "it writes a line to its log for each #AC, and ends when the file is too long");
    let tables = memory::frame();
    let (table, idt, stack) = (tables, tables + 0x100, memory::frame() + PAGE - 2);
    // The GDT in use has what is needed; only the IDT is new.
    for vector in 0..32 {
        write_gate32(idt + vector * 8, gdt::USER_CODE32, misaligned as *const () as u32);
    }
    write_table_register(table, idt, 32 * 8 - 1);
    write32(table + 8, stack as u32);
    let _ = legacy::protected(enter_ring_3, table as u32, Paging::Off);
}

/// EDI: IDTR, and behind it ESP.
#[unsafe(naked)]
unsafe extern "C" fn enter_ring_3() {
    naked_asm!(
        ".code32",
        "lidt [edi]",
        "mov eax, cr0",
        "or eax, {am}",
        "mov cr0, eax",
        "mov eax, {data}",
        "push eax",
        "push dword ptr [edi + 8]",
        "mov eax, {flags}",
        "push eax",
        "mov eax, {code}",
        "push eax",
        "mov eax, offset {misaligned}",
        "push eax",
        "iretd",
        ".code64",
        am = const Cr0::AM.bits() as u32,
        data = const gdt::USER_DATA as u32,
        code = const gdt::USER_CODE32 as u32,
        flags = const (Rflags::AC.bits() | Rflags::ONE.bits()) as u32,
        misaligned = sym misaligned,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn misaligned() {
    naked_asm!(".code32", "2:", "push eax", "jmp 2b", ".code64")
}

/// A present 32-bit interrupt gate that ring 3 may use.
fn write_gate32(at: u64, selector: u16, handler: u32) {
    const ATTRIBUTES: u32 = 0xee << 8;
    write32(at, u32::from(selector) << 16 | handler & 0xffff);
    write32(at + 4, handler & 0xffff_0000 | ATTRIBUTES);
}

/// Limit and base for LIDT or LGDT.
fn write_table_register(at: u64, base: u64, limit: u16) {
    memory::write16(at, limit);
    write64(at + 2, base);
}

/// The IDT, or the stack of a handler, lies in a device, in ROM or nowhere.
const PLACES: [u64; 5] = [0xa_0000, 0xf_0000, 0xfec0_0000, 0xfee0_0000, 0xc000_0000];

fn exception_with_idt_at(base: u64) {
    let table = memory::frame();
    write_table_register(table, base, PAGE as u16 - 1);
    // SAFETY: the end of this machine, most likely.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) table, options(noreturn)) }
}

guest_test!(idt_in_the_vga_window);
fn idt_in_the_vga_window() {
    exception_with_idt_at(PLACES[0]);
}

guest_test!(idt_in_rom);
fn idt_in_rom() {
    exception_with_idt_at(PLACES[1]);
}

guest_test!(idt_in_the_local_apic);
fn idt_in_the_local_apic() {
    exception_with_idt_at(PLACES[3]);
}

guest_test!(tables_at_noncanonical_addresses);
fn tables_at_noncanonical_addresses() {
    let table = memory::frame();
    write_table_register(table, 1 << 47, u16::MAX);
    // SAFETY: exceptions, or the end of this machine where the CPU does not look.
    let _ = catch_all(|| unsafe { asm!("lgdt [{}]", in(reg) table) });
    // SAFETY: as above.
    let _ = catch_all(|| unsafe { asm!("lidt [{}]", in(reg) table) });
}

guest_test!(stacks_in_devices);
/// Pushes go nowhere.
fn stacks_in_devices() {
    for place in PLACES {
        // SAFETY: if it ever comes back, the stack is the old one.
        let _ = catch_all(|| unsafe {
            asm!("mov r15, rsp", "mov rsp, {}", "int3", "ud2", "mov rsp, r15", in(reg) place + 0x800, out("r15") _)
        });
    }
}

guest_test!(page_faults_within_page_faults);
/// Page faults of a page-fault handler that touches what is not there, forever.
fn page_faults_within_page_faults() {
    fn again(_: &mut Frame) {
        let _ = memory::read8(1 << 45);
    }
    interrupt::handle(Exception::PageFault as u8, again);
    let _ = memory::read8(1 << 45);
}

guest_test!(single_steps);
/// Single steps without end, through exits.
fn single_steps() {
    interrupt::handle(Exception::Debug as u8, |frame| frame.rflags |= Rflags::TF.bits());
    // SAFETY: an endless loop of instructions that exit.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], {tf}", "popfq", "2:", "cpuid", "in al, dx", "mov ss, {ss:x}", "cpuid",
            "jmp 2b", tf = const Rflags::TF.bits() as i32, ss = in(reg) u64::from(gdt::DATA),
            in("edx") 0x80, options(noreturn))
    }
}

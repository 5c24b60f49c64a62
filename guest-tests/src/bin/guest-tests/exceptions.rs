//! Exceptions and their error codes, in ring 0.

#![allow(unsafe_code, reason = "instructions that fault")]

use core::arch::asm;
use runtime::cpu;
use runtime::fault::{Fault, catch};
use runtime::gdt;
use runtime::harness::expect_fault;
use runtime::interrupt::{self, Frame};
use runtime::memory::{self, PRESENT, Space, WRITABLE};
use runtime::{cpu_wrong, expect, expect_eq, guest_mode_wrong, guest_test, skip};
use x86defs::control::{Cr0, Cr4, Rflags};
use x86defs::cpuid::leaf;
use x86defs::event::Exception;

/// Error code of a fault on a gate (SDM 3, 6.13): its offset in the IDT, and the IDT bit.
const fn gate(vector: u64) -> u64 {
    (vector * 8) | 1 << 1
}
/// Error code bits of #PF (SDM 3, 4.7).
const PF_PRESENT: u64 = 1 << 0;
const PF_WRITE: u64 = 1 << 1;
const PF_RESERVED: u64 = 1 << 3;
const PF_FETCH: u64 = 1 << 4;

/// Runs assembly under [`catch`].
macro_rules! caught {
    ($($asm:tt)*) => {
        // SAFETY: what the instruction does, other than to fault, is undone by the harness.
        catch(|| unsafe { asm!($($asm)*) })
    };
}

guest_test!(divide_error);
fn divide_error() {
    let result = caught!("div {zero:e}", zero = in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _);
    expect_fault("DIV by 0", result, Exception::DivideError, 0);
    let result = caught!("div {one:e}", one = in(reg) 1, inout("eax") 0 => _, inout("edx") 1 => _);
    expect_fault("DIV with a quotient of 2^32", result, Exception::DivideError, 0);
}

/// RIP at the start and at the end of the instruction that a fault belongs to.
fn rip_after(fault: &Fault, start: u64) -> u64 {
    fault.rip - start
}

guest_test!(breakpoint_is_a_trap);
fn breakpoint_is_a_trap() {
    let start = core::cell::Cell::new(0u64);
    let result = catch(|| {
        // SAFETY: the harness has a handler.
        unsafe {
            asm!("lea {0}, [rip + 2f]", "mov [{1}], {0}", "2: int3", out(reg) _, in(reg) start.as_ptr())
        }
    });
    let fault = expect_fault("INT3", result, Exception::Breakpoint, 0);
    expect_eq!(rip_after(&fault, start.get()), 1, "saved RIP, from the instruction on");
}

guest_test!(invalid_opcode_is_a_fault);
fn invalid_opcode_is_a_fault() {
    let start = core::cell::Cell::new(0u64);
    let result = catch(|| {
        // SAFETY: the harness has a handler.
        unsafe { asm!("lea {0}, [rip + 2f]", "mov [{1}], {0}", "2: ud2", out(reg) _, in(reg) start.as_ptr()) }
    });
    let fault = expect_fault("UD2", result, Exception::InvalidOpcode, 0);
    expect_eq!(rip_after(&fault, start.get()), 0, "saved RIP, from the instruction on");
}

guest_test!(virtualization_instructions);
fn virtualization_instructions() {
    if runtime::machine::get().reference {
        skip!("a bare machine may offer them");
    }
    let operand = 0u64;
    let address = &raw const operand;
    let not_offered = [
        ("VMCLEAR", caught!("vmclear [{}]", in(reg) address)),
        ("VMPTRLD", caught!("vmptrld [{}]", in(reg) address)),
        ("VMPTRST", caught!("vmptrst [{}]", in(reg) address)),
        ("VMREAD", caught!("vmread {0}, {0}", inout(reg) 0u64 => _)),
        ("VMWRITE", caught!("vmwrite {0}, {0}", in(reg) 0u64)),
        ("VMLAUNCH", caught!("vmlaunch")),
        ("VMXOFF", caught!("vmxoff")),
        ("VMXON", caught!("vmxon [{}]", in(reg) address)),
        ("VMRUN", caught!("vmrun", in("rax") 0u64)),
        ("VMLOAD", caught!("vmload", in("rax") 0u64)),
        ("VMSAVE", caught!("vmsave", in("rax") 0u64)),
        ("STGI", caught!("stgi")),
        ("CLGI", caught!("clgi")),
        ("INVEPT", caught!("invept {0}, [{1}]", in(reg) 0u64, in(reg) address)),
        ("INVVPID", caught!("invvpid {0}, [{1}]", in(reg) 0u64, in(reg) address)),
    ];
    for (name, result) in not_offered {
        expect_fault(name, result, Exception::InvalidOpcode, 0);
    }
}

guest_test!(device_not_available);
fn device_not_available() {
    cpu::set_cr0(cpu::cr0() | Cr0::TS).expect("TS may be set");
    expect_fault("FNINIT with CR0.TS", caught!("fninit"), Exception::DeviceNotAvailable, 0);
    expect_fault("FNSTSW with CR0.TS", caught!("fnstsw ax", out("ax") _), Exception::DeviceNotAvailable, 0);
    // SAFETY: the x87 registers are nobody's.
    unsafe { asm!("clts", "fninit") };
    expect!(!cpu::cr0().contains(Cr0::TS), "{:?} after CLTS", cpu::cr0());
}

guest_test!(x87_error);
fn x87_error() {
    cpu::set_cr0(cpu::cr0() | Cr0::NE).expect("NE may be set");
    // Control word with divide by zero unmasked; the pending exception is taken by the next waiting one.
    let control: u16 = 0x37b;
    let result = catch(|| {
        // SAFETY: the x87 registers are nobody's.
        unsafe {
            asm!("fninit", "fldcw [{}]", "fld1", "fldz", "fdivp st(1), st", "fwait", in(reg) &raw const control)
        }
    });
    // SAFETY: as above.
    unsafe { asm!("fninit") };
    expect_fault("FWAIT after 1/0", result, Exception::X87, 0);
}

guest_test!(simd_error);
fn simd_error() {
    cpu_wrong!(QemuTcg, "SSE instructions raise no #XM");
    cpu::set_cr4(cpu::cr4() | Cr4::OSFXSR | Cr4::OSXMMEXCPT).expect("SSE may be enabled");
    // MXCSR with divide by zero unmasked.
    let (mxcsr, reset): (u32, u32) = (0x1d80, 0x1f80);
    let result = catch(|| {
        // SAFETY: the guest is built without SSE, so that these registers are nobody's.
        unsafe {
            asm!("ldmxcsr [{}]", "mov eax, 1", "cvtsi2ss xmm0, eax", "xorps xmm1, xmm1", "divss xmm0, xmm1",
                in(reg) &raw const mxcsr, out("eax") _)
        }
    });
    // SAFETY: as above.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const reset) };
    expect_fault("DIVSS by 0", result, Exception::Simd, 0);
}

guest_test!(segment_faults);
fn segment_faults() {
    let beyond = u64::from(gdt::BEYOND);
    let absent = u64::from(gdt::ABSENT);
    let code = u64::from(gdt::CODE64);
    let load_ds = |selector: u64| caught!("mov ds, {:x}", in(reg) selector);
    let load_ss = |selector: u64| caught!("mov ss, {:x}", in(reg) selector);
    expect_fault("DS beyond the GDT", load_ds(beyond), Exception::GeneralProtection, beyond);
    expect_fault("SS beyond the GDT", load_ss(beyond | 1), Exception::GeneralProtection, beyond);
    expect_fault("DS not present", load_ds(absent), Exception::SegmentNotPresent, absent);
    expect_fault("SS not present", load_ss(absent), Exception::StackFault, absent);
    expect_fault("code in SS", load_ss(code), Exception::GeneralProtection, code);
    // SAFETY: no selector of ours lies in an LDT.
    unsafe { asm!("lldt {:x}", in(reg) 0) };
    expect_fault("selector in a null LDT", load_ds(4), Exception::GeneralProtection, 4);
}

guest_test!(non_canonical_address);
fn non_canonical_address() {
    let address = 1u64 << 47;
    let data = caught!("mov {0}, [{0}]", inout(reg) address => _);
    expect_fault("non-canonical data", data, Exception::GeneralProtection, 0);
    let jump = caught!("jmp {}", in(reg) address);
    expect_fault("non-canonical jump", jump, Exception::GeneralProtection, 0);
}

guest_test!(non_canonical_stack_address);
fn non_canonical_stack_address() {
    cpu_wrong!(QemuTcg, "a non-canonical address by RBP is #GP");
    let stack = catch(|| {
        // SAFETY: RBP is put back, on a fault by the catch frame.
        unsafe { asm!("push rbp", "mov rbp, {0}", "mov {0}, [rbp]", "pop rbp", inout(reg) 1u64 << 47 => _) }
    });
    expect_fault("non-canonical address by RBP", stack, Exception::StackFault, 0);
}

guest_test!(absent_gate);
fn absent_gate() {
    cpu_wrong!(QemuTcg, "error codes name gates by vector * 16");
    const VECTOR: u64 = 0x77;
    interrupt::make_absent(VECTOR as u8);
    let result = caught!("int {}", const VECTOR);
    expect_fault("INT through an absent gate", result, Exception::SegmentNotPresent, gate(VECTOR));
    // SAFETY: the vector has a gate and no handler.
    unsafe { asm!("int {}", const VECTOR + 1) };
    expect_eq!(interrupt::count(VECTOR as u8 + 1), 1, "interrupts taken by INT");
}

guest_test!(double_fault);
fn double_fault() {
    // A contributory exception (#NP for the gate) while another one is delivered (SDM 3, table 6-5).
    interrupt::make_absent(Exception::GeneralProtection as u8);
    let result = caught!("mov {0}, [{0}]", inout(reg) 1u64 << 47 => _);
    expect_fault("#GP without a gate", result, Exception::DoubleFault, 0);
    interrupt::make_absent(Exception::PageFault as u8);
    let result = caught!("mov {0}, [{0}]", inout(reg) memory::FREE => _);
    expect_fault("#PF without a gate", result, Exception::DoubleFault, 0);
}

guest_test!(benign_exceptions_are_serial);
fn benign_exceptions_are_serial() {
    cpu_wrong!(QemuTcg, "error codes name gates by vector * 16");
    // #UD is benign, so that the second fault is delivered by itself.
    let vector = Exception::InvalidOpcode;
    interrupt::make_absent(vector as u8);
    let code = gate(vector as u64);
    // The event that caused it came from outside the program flow (EXT) or not: CPUs differ.
    match caught!("ud2") {
        Err(f)
            if f.is(Exception::SegmentNotPresent, code) || f.is(Exception::SegmentNotPresent, code | 1) => {}
        Err(fault) => panic!("#UD without a gate: {fault}"),
        Ok(()) => panic!("#UD without a gate: nothing happened"),
    }
}

/// A page for faults, and an address in it.
const PAGE: u64 = memory::FREE + 0x1234_5000;
const ADDRESS: u64 = PAGE + 0x678;

fn read() -> Result<(), Fault> {
    caught!("mov {0}, [{0}]", inout(reg) ADDRESS => _)
}
fn write() -> Result<(), Fault> {
    caught!("mov [{0}], {0}", in(reg) ADDRESS)
}
fn fetch() -> Result<(), Fault> {
    caught!("call {}", in(reg) ADDRESS, clobber_abi("C"))
}

fn check_page_fault(what: &str, result: Result<(), Fault>, code: u64) {
    let fault = expect_fault(what, result, Exception::PageFault, code);
    expect_eq!(fault.cr2, ADDRESS, "CR2 after {what}");
}

guest_test!(page_fault_error_codes);
fn page_fault_error_codes() {
    let space = Space::new();
    space.activate();
    check_page_fault("read of nothing", read(), 0);
    check_page_fault("write to nothing", write(), PF_WRITE);
    check_page_fault("fetch from nothing", fetch(), PF_FETCH);
    space.map(PAGE, memory::frame(), PRESENT | memory::NO_EXECUTE);
    check_page_fault("write to a read-only page", write(), PF_WRITE | PF_PRESENT);
    check_page_fault("fetch from a data page", fetch(), PF_FETCH | PF_PRESENT);
    expect!(read().is_ok(), "a read-only page can be read");
}

guest_test!(page_fault_on_reserved_bit);
fn page_fault_on_reserved_bit() {
    cpu_wrong!(QemuTcg, "#PF for a reserved bit says that the page is not present");
    // Bit 51 of an address is reserved with less than 52 address bits.
    if cpu::cpuid(leaf::ADDRESS_SIZES, 0).eax & 0xff == 52 {
        skip!("no address bit is reserved");
    }
    let space = Space::new();
    space.activate();
    space.map(PAGE, memory::frame() | 1 << 51, PRESENT | WRITABLE);
    check_page_fault("read through a reserved bit", read(), PF_RESERVED | PF_PRESENT);
    check_page_fault("write through a reserved bit", write(), PF_RESERVED | PF_PRESENT | PF_WRITE);
}

/// Handler of #DB that counts (by the runtime) and goes on.
fn go_on(_: &mut Frame) {}

guest_test!(single_step);
fn single_step() {
    guest_mode_wrong!(Bochs, Amd, "an intercepted #DB leaves DR6 as it was");
    interrupt::handle(Exception::Debug as u8, go_on);
    // SAFETY: TF is cleared again.
    unsafe {
        asm!("pushfq", "or qword ptr [rsp], {tf}", "popfq", "nop", "nop", "nop", "pushfq", "and qword ptr [rsp], ~{tf}", "popfq", tf = const Rflags::TF.bits())
    };
    // Three NOPs, PUSHFQ, AND, POPFQ: the trap comes after each of them.
    expect_eq!(interrupt::count(Exception::Debug as u8), 6, "single-step traps");
    let dr6 = cpu::dr6();
    expect!(dr6 & 1 << 14 != 0, "DR6.BS in {dr6:#x}");
}

guest_test!(single_step_over_intercepted);
fn single_step_over_intercepted() {
    guest_mode_wrong!(Bochs, Amd, "VMRUN with TF set single-steps for ever");
    interrupt::handle(Exception::Debug as u8, go_on);
    // Instructions that a hypervisor intercepts and skips.
    // SAFETY: as for `single_step`; reading the LAPIC ID and port 0x61 has no effect.
    unsafe {
        asm!("mov {saved:r}, rbx", "pushfq", "or qword ptr [rsp], {tf}", "popfq", "cpuid", "in al, 0x61",
            "mov eax, [{lapic:r}]", "pushfq", "and qword ptr [rsp], ~{tf}", "popfq", "mov rbx, {saved:r}",
            tf = const Rflags::TF.bits(), lapic = in(reg) x86defs::apic::DEFAULT_BASE + 0x20, saved = out(reg) _,
            inout("eax") 0 => _, inout("ecx") 0 => _, out("edx") _)
    };
    expect_eq!(interrupt::count(Exception::Debug as u8), 6, "single-step traps");
}

guest_test!(icebp);
fn icebp() {
    cpu_wrong!(QemuTcg, "INT1 is #UD");
    let start = core::cell::Cell::new(0u64);
    let result = catch(|| {
        // SAFETY: the harness has a handler.
        unsafe {
            asm!("lea {0}, [rip + 2f]", "mov [{1}], {0}", "2: .byte 0xf1", out(reg) _, in(reg) start.as_ptr())
        }
    });
    let fault = expect_fault("INT1", result, Exception::Debug, 0);
    expect_eq!(rip_after(&fault, start.get()), 1, "saved RIP, from the instruction on");
}

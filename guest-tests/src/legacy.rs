//! Leaving 64-bit mode: compatibility mode, protected mode with and without paging, and real mode.

#![allow(unsafe_code, reason = "mode switches are assembly")]

use crate::gdt;
use crate::interrupt;
use crate::memory::{read8, write8, write16, write32};
use core::arch::{global_asm, naked_asm};
use core::fmt;
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::msr;

/// 32-bit code: a naked function in `.code32` that takes an argument in EDI and returns in EAX, with the stack as
/// it was. It may use every register but ESP.
pub type Code32 = unsafe extern "C" fn();

/// 16-bit code: a naked function in `.code16` that does not depend on its address. It is copied to
/// [`REAL_CODE`] and called far with CS = DS = ES pointing there; it returns by a 16-bit far return (0xCB) with a value in AX.
pub type Code16 = unsafe extern "C" fn();

/// Where 16-bit code runs, at offset 0 of its segment.
pub const REAL_CODE: u64 = 0x9000;
/// Room for 16-bit code; it may use the rest of its segment for data.
const REAL_CODE_SIZE: u64 = 1024;
const REAL_SEGMENT: u16 = (REAL_CODE >> 4) as u16;
/// Where the way into and out of real mode is copied to.
const REAL_STUB: u64 = 0x8000;
/// IDTR of real mode, and the value that 16-bit code returned.
const REAL_IDTR: u64 = 0x8200;
const REAL_RESULT: u64 = 0x8210;
/// Stack of real mode, in segment 0.
const REAL_STACK_TOP: u16 = 0x7c00;
/// Interrupt vectors of real mode: 256 of four bytes.
const IVT_LIMIT: u16 = 256 * 4 - 1;

/// `Job::vector` of code that returned.
const NO_VECTOR: u32 = 0x100;
/// Vectors that protected mode has gates for.
const GATES: usize = 32;
const STUB_SIZE: u32 = 16;

/// What the assembly needs, and what it brings back.
#[repr(C)]
struct Job {
    entry: u32,
    argument: u32,
    cr0: u32,
    cr3: u32,
    cr4: u32,
    result: u32,
    vector: u32,
    error_code: u32,
    protected_esp: u32,
    long_rsp: u64,
}

static JOB: crate::single::Single<Job> = crate::single::Single::new(Job {
    entry: 0,
    argument: 0,
    cr0: 0,
    cr3: 0,
    cr4: 0,
    result: 0,
    vector: 0,
    error_code: 0,
    protected_esp: 0,
    long_rsp: 0,
});

/// Gates of the 32-bit IDT (SDM 3, 6.11).
static IDT32: crate::single::Single<[[u16; 4]; GATES]> = crate::single::Single::new([[0; 4]; GATES]);
const GATE32_INTERRUPT: u16 = 1 << 15 | 0xe << 8;
const GATE32_TASK: u16 = 1 << 15 | 5 << 8;

/// What the next stay in protected mode finds at a vector in place of its interrupt gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing.
    Absent,
    /// A task gate to this TSS.
    Task(u16),
}

static GATES32: crate::single::Single<[Option<Gate>; GATES]> = crate::single::Single::new([None; GATES]);

/// Puts a gate into the IDT of the next stay in protected mode.
pub fn set_gate(vector: u8, gate: Gate) {
    let mut gates = GATES32.load();
    gates[usize::from(vector)] = Some(gate);
    GATES32.store(gates);
}

/// Defines 32-bit code.
#[macro_export]
macro_rules! code32 {
    ($name:ident, $($line:literal),+) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(".code32", $($line),+, ".code64")
        }
    };
}

/// An exception in protected mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyFault {
    /// Its vector.
    pub vector: u8,
    /// Its error code, 0 if it has none.
    pub error_code: u32,
}

impl fmt::Display for LegacyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vector {} with error code {:#x} in protected mode", self.vector, self.error_code)
    }
}

/// Paging of protected mode.
#[derive(Clone, Copy, Debug)]
pub enum Paging {
    /// None: linear addresses are physical.
    Off,
    /// By tables that map the guest's image where it lies: CR3, and CR4 (PSE or PAE).
    On {
        /// Physical address of the page directory or the page-directory-pointer table.
        cr3: u64,
        /// CR4 while it is on.
        cr4: Cr4,
    },
}

global_asm!(
    ".pushsection .text.legacy, \"ax\"",
    // From 64-bit mode to protected mode, to JOB.entry and back; a C function without arguments.
    "legacy_run:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "pushfq",
    "cli",
    "mov [rip + {job} + {long_rsp}], rsp",
    "lidt [rip + legacy_idtr]",
    "push {code32}",
    "lea rax, [rip + 1f]",
    "push rax",
    "retfq",
    ".code32",
    "1:",
    "mov eax, cr0",
    "and eax, {not_pg}",
    "mov cr0, eax",
    "mov ecx, {msr_efer}",
    "rdmsr",
    "and eax, {not_lme}",
    "wrmsr",
    "mov eax, [{job} + {cr4}]",
    "mov cr4, eax",
    "mov eax, [{job} + {cr3}]",
    "mov cr3, eax",
    "mov eax, [{job} + {cr0}]",
    "mov cr0, eax",
    "jmp 2f",
    "2:",
    "mov esp, offset legacy_stack_top",
    "mov edi, [{job} + {argument}]",
    "call dword ptr [{job} + {entry}]",
    "mov [{job} + {result}], eax",
    "mov dword ptr [{job} + {vector}], {no_vector}",
    "legacy_leave:",
    "mov eax, cr0",
    "and eax, {not_pg}",
    "mov cr0, eax",
    "mov eax, {long_cr4}",
    "mov cr4, eax",
    "mov eax, offset boot_pml4",
    "mov cr3, eax",
    "mov ecx, {msr_efer}",
    "rdmsr",
    "or eax, {lme}",
    "wrmsr",
    "mov eax, {long_cr0}",
    "mov cr0, eax",
    "mov eax, {code64}",
    "push eax",
    "mov eax, offset legacy_back",
    "push eax",
    "retf",
    ".code64",
    "legacy_back:",
    "mov rsp, [rip + {job} + {long_rsp}]",
    "popfq",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",

    // Exceptions of protected mode end the job.
    ".code32",
    "legacy_fault:",
    "mov eax, {data}",
    "mov ds, eax",
    "pop dword ptr [{job} + {vector}]",
    "pop dword ptr [{job} + {error_code}]",
    "mov esp, offset legacy_stack_top",
    "mov es, eax",
    "mov ss, eax",
    "jmp legacy_leave",
    ".code64",
    ".popsection",

    ".pushsection .data.legacy, \"aw\"",
    "legacy_idtr:",
    ".word {gates} * 8 - 1",
    ".quad {idt}",
    ".popsection",

    ".pushsection .bss.legacy, \"aw\", @nobits",
    ".balign 16",
    ".zero 8192",
    "legacy_stack_top:",
    ".popsection",

    job = sym JOB,
    idt = sym IDT32,
    gates = const GATES,
    entry = const core::mem::offset_of!(Job, entry),
    argument = const core::mem::offset_of!(Job, argument),
    cr0 = const core::mem::offset_of!(Job, cr0),
    cr3 = const core::mem::offset_of!(Job, cr3),
    cr4 = const core::mem::offset_of!(Job, cr4),
    result = const core::mem::offset_of!(Job, result),
    vector = const core::mem::offset_of!(Job, vector),
    error_code = const core::mem::offset_of!(Job, error_code),
    long_rsp = const core::mem::offset_of!(Job, long_rsp),
    no_vector = const NO_VECTOR,
    msr_efer = const msr::EFER,
    lme = const Efer::LME.bits(),
    not_lme = const !(Efer::LME.bits() as u32) as i32,
    not_pg = const !(Cr0::PG.bits() as u32) as i32,
    long_cr0 = const crate::machine::CR0.union(Cr0::PG).bits() as u32,
    long_cr4 = const crate::machine::CR4.union(Cr4::PAE).bits() as u32,
    code32 = const gdt::CODE32,
    code64 = const gdt::CODE64,
    data = const gdt::DATA,
);

global_asm!(
    ".pushsection .text.legacy, \"ax\"",
    ".code32",
    ".set vector, 0",
    ".balign {stub_size}",
    "legacy_stubs:",
    ".rept {gates}",
    ".balign {stub_size}",
    ".if (vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21)",
    ".else",
    "pushl $0",
    ".endif",
    "pushl $vector",
    "jmp legacy_fault",
    ".set vector, vector + 1",
    ".endr",
    ".code64",
    ".popsection",
    gates = const GATES,
    stub_size = const STUB_SIZE,
    options(att_syntax)
);

unsafe extern "C" {
    safe fn legacy_run();
    static legacy_stubs: u8;
}

/// Builds the IDT with the gates that were asked for.
fn build_idt32() {
    let stubs = (&raw const legacy_stubs) as u32;
    for (number, index) in (0..GATES).zip(0u32..) {
        let stub = stubs + index * STUB_SIZE;
        let gate = match GATES32.load()[number] {
            None => [stub as u16, gdt::CODE32, GATE32_INTERRUPT, (stub >> 16) as u16],
            Some(Gate::Absent) => [0; 4],
            Some(Gate::Task(selector)) => [0, selector, GATE32_TASK, 0],
        };
        // SAFETY: nothing refers to the table but the CPU, which does not use it in 64-bit mode.
        unsafe { (*IDT32.get())[number] = gate };
    }
}

/// Runs 32-bit code in protected mode; an exception ends it.
pub fn protected(code: Code32, argument: u32, paging: Paging) -> Result<u32, LegacyFault> {
    build_idt32();
    let base = crate::machine::CR0.bits() as u32;
    let (cr0, cr3, cr4) = match paging {
        Paging::Off => (base, 0, 0),
        Paging::On { cr3, cr4 } => (base | Cr0::PG.bits() as u32, cr3 as u32, cr4.bits() as u32),
    };
    // SAFETY: nothing else refers to the job; the volatile accesses are the assembly's view of it.
    unsafe {
        let job = JOB.get();
        (&raw mut (*job).entry).write_volatile(code as *const () as u32);
        (&raw mut (*job).argument).write_volatile(argument);
        (&raw mut (*job).cr0).write_volatile(cr0);
        (&raw mut (*job).cr3).write_volatile(cr3);
        (&raw mut (*job).cr4).write_volatile(cr4);
    }
    legacy_run();
    interrupt::load();
    // SAFETY: as above.
    let (result, vector, error_code) = unsafe {
        let job = JOB.get();
        (
            (&raw const (*job).result).read_volatile(),
            (&raw const (*job).vector).read_volatile(),
            (&raw const (*job).error_code).read_volatile(),
        )
    };
    GATES32.store([None; GATES]);
    if vector == NO_VECTOR { Ok(result) } else { Err(LegacyFault { vector: vector as u8, error_code }) }
}

global_asm!(
    // Copied to REAL_STUB. 32-bit code for JOB.entry: to real mode, to REAL_CODE and back.
    ".pushsection .rodata.legacy, \"a\"",
    "real_stub:",
    ".code32",
    "mov [{job} + {esp}], esp",
    "mov eax, {code16}",
    "push eax",
    // PUSH imm32
    ".byte 0x68",
    ".long {stub} + (1f - real_stub)",
    "retf",
    ".code16",
    "1:",
    "mov ax, {data16}",
    "mov ds, ax",
    "mov es, ax",
    "mov ss, ax",
    "mov fs, ax",
    "mov gs, ax",
    "mov eax, cr0",
    "and eax, {not_pe}",
    "mov cr0, eax",
    // JMP ptr16:16
    ".byte 0xea",
    ".word {stub} + (2f - real_stub), 0",
    "2:",
    "xor ax, ax",
    "mov ss, ax",
    "mov sp, {real_stack}",
    "mov ds, ax",
    "mov fs, ax",
    "mov gs, ax",
    "lidt [{idtr}]",
    "mov ax, {segment}",
    "mov ds, ax",
    "mov es, ax",
    // CALL ptr16:16
    ".byte 0x9a",
    ".word 0, {segment}",
    "cli",
    "mov cs:[{result}], ax",
    "mov eax, cr0",
    "or eax, {pe}",
    "mov cr0, eax",
    // JMP ptr16:32
    ".byte 0x66, 0xea",
    ".long {stub} + (3f - real_stub)",
    ".word {code32}",
    ".code32",
    "3:",
    "mov eax, {data}",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "mov esp, [{job} + {esp}]",
    "lidt [legacy_idtr]",
    "movzx eax, word ptr [{result}]",
    "ret",
    ".code64",
    "real_stub_end:",
    ".popsection",
    job = sym JOB,
    esp = const core::mem::offset_of!(Job, protected_esp),
    stub = const REAL_STUB,
    segment = const REAL_SEGMENT,
    idtr = const REAL_IDTR,
    result = const REAL_RESULT,
    real_stack = const REAL_STACK_TOP,
    pe = const Cr0::PE.bits(),
    not_pe = const !(Cr0::PE.bits() as u32) as i32,
    code16 = const gdt::CODE16,
    data16 = const gdt::DATA16,
    code32 = const gdt::CODE32,
    data = const gdt::DATA,
);

unsafe extern "C" {
    static real_stub: u8;
    static real_stub_end: u8;
}

fn copy(from: u64, to: u64, len: u64) {
    for offset in 0..len {
        write8(to + offset, read8(from + offset));
    }
}

/// Runs 16-bit code in real mode and returns its AX. Interrupt vectors are those at address 0.
pub fn real(code: Code16) -> u16 {
    let (start, end) = ((&raw const real_stub) as u64, (&raw const real_stub_end) as u64);
    copy(start, REAL_STUB, end - start);
    copy(code as *const () as u64, REAL_CODE, REAL_CODE_SIZE);
    write16(REAL_IDTR, IVT_LIMIT);
    write32(REAL_IDTR + 2, 0);
    // SAFETY: the address is that of the stub's copy, which is 32-bit code.
    let stub = unsafe { core::mem::transmute::<*const (), Code32>(REAL_STUB as *const ()) };
    match protected(stub, 0, Paging::Off) {
        Ok(ax) => ax as u16,
        Err(fault) => panic!("on the way to real mode: {fault}"),
    }
}

/// Runs 32-bit code in compatibility mode, with the IDT of 64-bit mode.
pub fn compatibility(code: Code32, argument: u32) -> u32 {
    // SAFETY: the code keeps to the convention of `Code32`.
    unsafe { compatibility_call(code, argument) }
}

#[unsafe(naked)]
unsafe extern "C" fn compatibility_call(code: Code32, argument: u32) -> u32 {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov rcx, rdi",
        "mov edi, esi",
        "push {code32}",
        "lea rax, [rip + 2f]",
        "push rax",
        "retfq",
        ".code32",
        "2:",
        "call ecx",
        "mov edx, {code64}",
        "push edx",
        "mov edx, offset compatibility_back",
        "push edx",
        "retf",
        ".code64",
        "compatibility_back:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        code32 = const gdt::CODE32,
        code64 = const gdt::CODE64,
    )
}

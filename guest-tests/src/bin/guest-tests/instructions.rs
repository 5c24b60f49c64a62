//! Every instruction with a memory operand against the table of crate `instruction-cases`, which the hypervisor's
//! emulator is tested with: in RAM, where the CPU executes it, and on devices, where a hypervisor does.

#![allow(unsafe_code, reason = "executes a table")]

use core::arch::naked_asm;
use runtime::fault::catch;
use runtime::harness::{expect_fault, expect_ok};
use runtime::hw::lapic;
use runtime::{cpu, expect_eq, guest_test, memory, platform_wrong};
use x86defs::apic::{DEFAULT_BASE, Lvt, reg};
use x86defs::control::Rflags;
use x86defs::cpuid::{Ext1Ecx, Leaf1Ecx, Leaf7Ebx, leaf};
use x86defs::event::Exception;

/// See `instruction_cases::State`. The memory operand is at RSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    rax: u64,
    rbx: u64,
    rcx: u64,
    rdx: u64,
    flags: u64,
    memory: [u64; 2],
}

/// See `instruction_cases::Outcome`.
struct Outcome {
    state: State,
    undefined: u64,
}

/// See `instruction_cases::Needs`.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Bmi1,
    Cx16,
    Lzcnt,
    Movbe,
    Popcnt,
}

/// See `instruction_cases::Form`.
struct Form {
    name: &'static str,
    code: &'static [u8],
    width: u64,
    needs: Needs,
    cases: &'static [(State, Option<Outcome>)],
}

include!(concat!(env!("OUT_DIR"), "/forms.rs"));

/// Status flags.
const STATUS: u64 = Rflags::CF.bits()
    | Rflags::PF.bits()
    | Rflags::AF.bits()
    | Rflags::ZF.bits()
    | Rflags::SF.bits()
    | Rflags::OF.bits();

/// Where nobody answers, which reads as ones.
const NOBODY: u64 = 0xfea0_0000;

impl Needs {
    fn is_there(self) -> bool {
        let features = Leaf1Ecx::from_bits_retain(cpu::cpuid(leaf::FEATURES, 0).ecx);
        match self {
            Needs::Nothing => true,
            Needs::Bmi1 => {
                cpu::cpuid(leaf::VENDOR, 0).eax >= leaf::STRUCTURED_FEATURES
                    && cpu::cpuid(leaf::STRUCTURED_FEATURES, 0).ebx & Leaf7Ebx::BMI1.bits() != 0
            }
            Needs::Cx16 => features.contains(Leaf1Ecx::CMPXCHG16B),
            Needs::Lzcnt => cpu::cpuid(leaf::EXTENDED_FEATURES, 0).ecx & Ext1Ecx::ABM.bits() != 0,
            Needs::Movbe => features.contains(Leaf1Ecx::MOVBE),
            Needs::Popcnt => features.contains(Leaf1Ecx::POPCNT),
        }
    }
}

/// Registers and flags for `execute`, in the order that it knows.
#[repr(C)]
struct Registers([u64; 5]);

/// Calls code with these registers and an address in RSI.
#[unsafe(naked)]
unsafe extern "C" fn execute(registers: *mut Registers, address: u64, code: u64) {
    naked_asm!(
        "push rbx",
        "push rdi",
        "mov r8, rdx",
        "mov rax, [rdi]",
        "mov rbx, [rdi + 8]",
        "mov rcx, [rdi + 16]",
        "mov rdx, [rdi + 24]",
        "push qword ptr [rdi + 32]",
        "popfq",
        "call r8",
        "pushfq",
        "pop r9",
        "pop rdi",
        "mov [rdi], rax",
        "mov [rdi + 8], rbx",
        "mov [rdi + 16], rcx",
        "mov [rdi + 24], rdx",
        "mov [rdi + 32], r9",
        "pop rbx",
        "ret",
    )
}

/// Executes the code on registers and the memory at an address, and returns the state without that memory.
fn run(code: u64, before: &State, address: u64) -> State {
    let flags = cpu::rflags() & !STATUS | before.flags;
    let mut registers = Registers([before.rax, before.rbx, before.rcx, before.rdx, flags]);
    // SAFETY: the code is an instruction of the table and RET, and the table's instructions change only these
    // registers and the memory at the address.
    unsafe { execute(&raw mut registers, address, code) };
    let [rax, rbx, rcx, rdx, flags] = registers.0;
    State { rax, rbx, rcx, rdx, flags: flags & STATUS, memory: [0; 2] }
}

/// Somewhere that keeps what is written, or does not.
struct Place {
    address: u64,
    set: fn(u64, [u64; 2]),
    /// What is there; of the table's memory only that part is compared.
    get: fn(u64) -> [u64; 2],
    kept: [u64; 2],
}

/// Runs the cases that are wanted in a place.
fn check(place: &Place, wanted: impl Fn(&Form, &State) -> bool) {
    let code = memory::frame();
    let mut executed = 0;
    for form in FORMS.iter().filter(|form| form.needs.is_there()) {
        for (offset, &byte) in form.code.iter().chain(&[0xc3]).enumerate() {
            memory::write8(code + offset as u64, byte);
        }
        for (before, outcome) in form.cases.iter().filter(|(before, _)| wanted(form, before)) {
            (place.set)(place.address, before.memory);
            let after = catch(|| run(code, before, place.address));
            executed += 1;
            let Some(outcome) = outcome else {
                expect_fault(form.name, after, Exception::DivideError, 0);
                continue;
            };
            let kept = |memory: [u64; 2]| [memory[0] & place.kept[0], memory[1] & place.kept[1]];
            let after = State { memory: kept((place.get)(place.address)), ..expect_ok(form.name, after) };
            let after = State { flags: after.flags & !outcome.undefined, ..after };
            let expected = State { memory: kept(outcome.state.memory), ..outcome.state };
            expect_eq!(after, expected, "{} with {before:x?}", form.name);
        }
    }
    runtime::println!("{executed} cases");
}

guest_test!(in_memory);
fn in_memory() {
    let place = Place {
        address: memory::frame(),
        set: |at, [low, high]| {
            memory::write64(at, low);
            memory::write64(at + 8, high);
        },
        get: |at| [memory::read64(at), memory::read64(at + 8)],
        kept: [u64::MAX; 2],
    };
    check(&place, |_, _| true);
}

guest_test!(where_nobody_answers);
fn where_nobody_answers() {
    platform_wrong!(QemuTcg, "memory that nobody answers reads as zeros");
    let place = Place { address: NOBODY, set: |_, _| {}, get: |_| [0; 2], kept: [0; 2] };
    check(&place, |_, before| before.memory == [u64::MAX; 2]);
}

guest_test!(on_a_register);
fn on_a_register() {
    // The initial count keeps 32 bits; the timer's interrupt is masked.
    lapic::mmio(reg::LVT_TIMER).write(Lvt::MASKED.bits());
    let place = Place {
        address: DEFAULT_BASE + u64::from(reg::INITIAL_COUNT),
        set: |_, memory| lapic::mmio(reg::INITIAL_COUNT).write(memory[0] as u32),
        get: |_| [lapic::mmio(reg::INITIAL_COUNT).read().into(), 0],
        kept: [u32::MAX.into(), 0],
    };
    // Bit strings reach beyond the register.
    check(&place, |form, before| form.width == 4 && !(form.name.starts_with("bt") && before.rcx >= 32));
}

//! Hardware task switches in 32-bit protected mode.

#![allow(unsafe_code, reason = "code for other modes")]

use runtime::legacy::{Code32, Gate, LegacyFault, set_gate};
use runtime::tasks::{CODE, DATA, MAIN, OTHER, OTHER_16, Tasks};
use runtime::{code32, cpu, cpu_wrong, expect, expect_eq, gdt, guest_mode_wrong, guest_test, platform_wrong};
use x86defs::control::{Cr0, Rflags};
use x86defs::descriptor::{Descriptor, TssLayout};
use x86defs::event::Exception;
use x86defs::reset::DR6_RESET;

/// A vector for INT n that protected mode has a gate for.
const VECTOR: u8 = 30;
/// Error code bit of a fault on the way of an event from outside (SDM 3, 6.13).
const EXT: u32 = 1;
const LAYOUT: &TssLayout = &TssLayout::BITS_32;
/// DR6.BT (SDM 3, 18.2.3).
const DR6_BT: u64 = 1 << 15;

// The far operands are MAIN (0x60), OTHER (0x68) and OTHER_16 (0x70).
const _: () = assert!(MAIN == 0x60 && OTHER == 0x68 && OTHER_16 == 0x70);
code32!(jump_to_other, "mov eax, 0x1111", ".byte 0xea", ".long 0", ".word 0x68", "mov eax, cr0", "ret");
code32!(jump_to_main, "mov eax, 0x2222", ".byte 0xea", ".long 0", ".word 0x60", "ud2");
code32!(jump_to_self, ".byte 0xea", ".long 0", ".word 0x60", "ud2");
code32!(
    call_twice,
    "xor ebx, ebx",
    ".byte 0x9a",
    ".long 0",
    ".word 0x68",
    "inc ebx",
    ".byte 0x9a",
    ".long 0",
    ".word 0x68",
    "inc ebx",
    "mov eax, ebx",
    "ret"
);
code32!(call_16, "mov ebx, 0x1234", ".byte 0x9a", ".long 0", ".word 0x70", "mov eax, ebx", "ret");
code32!(count_and_return, "1:", "pushfd", "pop dword ptr [edi]", "inc dword ptr [edi + 4]", "iret", "jmp 1b");
// What a 16-bit TSS leaves in the upper halves is not defined.
code32!(
    count_and_return_16,
    "movzx edi, di",
    "pushfd",
    "pop dword ptr [edi]",
    "inc dword ptr [edi + 4]",
    "iret"
);
code32!(interrupt, "mov eax, 5", "int 30", "inc eax", "ret");
code32!(return_nested, "pushfd", "or dword ptr [esp], 0x4000", "popfd", "iret");
code32!(load_bad_selector, "mov eax, 0x7ff8", "mov ds, eax", "ret");
// Pops the error code into EDI[0] and lets the first task, whose TSS lies at EDI[8], return to its caller.
code32!(
    handle_double_fault,
    "pop dword ptr [edi]",
    "mov edx, [edi + 8]",
    "mov eax, [edx + 0x20]",
    "mov [edi + 4], eax",
    "lea eax, [edi + 16]",
    "mov [edx + 0x20], eax",
    "iret"
);
/// MOV EAX, 0x4242; RET.
const RETURN_4242: u64 = 0x0000_c300_0042_42b8;

fn fault(exception: Exception, error_code: u32) -> Result<u32, LegacyFault> {
    Err(LegacyFault { vector: exception as u8, error_code })
}

fn busy(tasks: &Tasks, selector: u16) -> bool {
    tasks.descriptor(selector).0 & Descriptor::BUSY != 0
}

guest_test!(jump_there_and_back);
fn jump_there_and_back() {
    let tasks = Tasks::new(jump_to_main, 0);
    let cr0 = tasks.run(jump_to_other, 7).map(|cr0| Cr0::from_bits_retain(cr0.into()));
    expect!(cr0.is_ok_and(|cr0| cr0.contains(Cr0::TS)), "CR0 after the switches: {cr0:?}");
    expect_eq!([busy(&tasks, MAIN), busy(&tasks, OTHER)], [true, false], "busy flags");
    expect_eq!(tasks.saved(MAIN, LAYOUT.gprs), 0x1111, "EAX of the first task");
    expect_eq!(tasks.saved(OTHER, LAYOUT.gprs), 0x2222, "EAX of the other task");
    expect_eq!(tasks.saved(MAIN, LAYOUT.gprs + 7 * 4), 7, "EDI of the first task");
    expect_eq!(tasks.saved(MAIN, LAYOUT.eip), jump_to_other as *const () as u32 + 12, "EIP behind the jump");
    expect_eq!(tasks.saved(MAIN, LAYOUT.segments + 4) as u16, CODE, "CS of the first task");
    expect_eq!([tasks.link(MAIN), tasks.link(OTHER)], [0, 0], "links");
}

guest_test!(calls_nest);
fn calls_nest() {
    let place = runtime::memory::frame();
    let tasks = Tasks::new(count_and_return, place as u32);
    expect_eq!(tasks.run(call_twice, 0), Ok(2), "EBX after two calls");
    expect_eq!(runtime::memory::read32(place + 4), 2, "passes of the other task");
    let eflags = Rflags::from_bits_retain(runtime::memory::read32(place).into());
    expect!(eflags.contains(Rflags::NT), "EFLAGS in the nested task: {eflags:?}");
    expect_eq!(tasks.link(OTHER), MAIN, "link");
    let saved = Rflags::from_bits_retain(tasks.saved(OTHER, LAYOUT.eflags).into());
    expect!(!saved.contains(Rflags::NT), "EFLAGS saved by IRET: {saved:?}");
    expect_eq!([busy(&tasks, MAIN), busy(&tasks, OTHER)], [true, false], "busy flags");
}

guest_test!(sixteen_bit_task);
fn sixteen_bit_task() {
    // Code and data of a 16-bit TSS lie below 64 KiB.
    const PLACE: u32 = 0x9800;
    const CODE_AT: u64 = 0x9000;
    for offset in 0..32 {
        runtime::memory::write8(
            CODE_AT + offset,
            runtime::memory::read8(count_and_return_16 as *const () as u64 + offset),
        );
    }
    runtime::memory::write32(u64::from(PLACE) + 4, 0);
    let tasks = Tasks::new(count_and_return_16, PLACE);
    tasks.set(OTHER_16, TssLayout::BITS_16.eip, CODE_AT as u16);
    tasks.set(OTHER_16, TssLayout::BITS_16.gprs + 4 * 2, 0x9f00);
    expect_eq!(tasks.run(call_16, 0), Ok(0x1234), "EBX after the call");
    expect_eq!(runtime::memory::read32(u64::from(PLACE) + 4), 1, "passes of the 16-bit task");
    expect_eq!(tasks.link(OTHER_16), MAIN, "link");
}

guest_test!(task_gate_of_a_software_interrupt);
fn task_gate_of_a_software_interrupt() {
    let place = runtime::memory::frame();
    let tasks = Tasks::new(count_and_return, place as u32);
    set_gate(VECTOR, Gate::Task(OTHER));
    expect_eq!(tasks.run(interrupt, 0), Ok(6), "EAX after INT");
    expect_eq!(runtime::memory::read32(place + 4), 1, "passes of the handler");
}

guest_test!(double_fault_task);
fn double_fault_task() {
    // #GP without a gate is a contributory fault on top of another: #DF, by a task of its own.
    let place = runtime::memory::frame();
    runtime::memory::write32(place, 0xdead);
    runtime::memory::write64(place + 16, RETURN_4242);
    let tasks = Tasks::new(handle_double_fault, place as u32);
    runtime::memory::write32(place + 8, tasks.base(MAIN) as u32);
    set_gate(Exception::GeneralProtection as u8, Gate::Absent);
    set_gate(Exception::DoubleFault as u8, Gate::Task(OTHER));
    expect_eq!(tasks.run(load_bad_selector, 0), Ok(0x4242), "EAX after the handler");
    expect_eq!(runtime::memory::read32(place), 0, "error code");
    let faulting = load_bad_selector as *const () as u32 + 5;
    expect_eq!(runtime::memory::read32(place + 4), faulting, "EIP of the instruction that faults");
}

guest_test!(refused_tasks);
fn refused_tasks() {
    let refused = |what: &str, code: Code32, change: &dyn Fn(&Tasks), wanted: Result<u32, LegacyFault>| {
        let tasks = Tasks::new(jump_to_main, 0);
        change(&tasks);
        expect_eq!(tasks.run(code, 0), wanted, "{what}");
        expect_eq!(tasks.saved(MAIN, LAYOUT.eip), 0, "saved EIP: {what}");
        runtime::memory::reset();
    };
    let with = |set: u64, clear: u64| {
        move |tasks: &Tasks| {
            let old = tasks.descriptor(OTHER).0;
            tasks.set_descriptor(OTHER, Descriptor(old & !clear | set));
        }
    };
    use Exception::{GeneralProtection, InvalidTss, SegmentNotPresent};
    let other = u32::from(OTHER);
    refused("a busy task", jump_to_other, &with(Descriptor::BUSY, 0), fault(GeneralProtection, other));
    refused("the same task", jump_to_self, &|_| {}, fault(GeneralProtection, MAIN.into()));
    refused("an absent task", jump_to_other, &with(0, 1 << 47), fault(SegmentNotPresent, other));
    refused("a short task", jump_to_other, &with(0, 1), fault(InvalidTss, other));
    refused(
        "a return to an available task",
        return_nested,
        &|t| t.set(MAIN, 0, OTHER),
        fault(InvalidTss, other),
    );
    refused("a return to nothing", return_nested, &|t| t.set(MAIN, 0, DATA), fault(InvalidTss, DATA.into()));
}

/// Switches to a task with this selector in this field of its TSS.
fn expect_fault_inside(what: &str, field: u64, selector: u16, exception: Exception) {
    let tasks = Tasks::new(jump_to_main, 0);
    tasks.set(OTHER, field, selector);
    expect_eq!(tasks.run(jump_to_other, 0), fault(exception, selector.into()), "{what}");
    expect_eq!([busy(&tasks, MAIN), busy(&tasks, OTHER)], [false, true], "busy flags: {what}");
    runtime::memory::reset();
}

/// The field of a segment register.
const fn segment(number: u64) -> u64 {
    LAYOUT.segments + number * LAYOUT.width as u64
}

// A bad stack cannot take the fault that it causes, so that there is no test for SS.
guest_test!(code_of_the_new_task);
fn code_of_the_new_task() {
    platform_wrong!(Bochs, "it runs into a triple fault");
    guest_mode_wrong!(Bochs, Amd, "it runs into a triple fault");
    expect_fault_inside("code beyond the GDT", segment(1), 0x7f8, Exception::InvalidTss);
    expect_fault_inside("data as code", segment(1), DATA, Exception::InvalidTss);
}

guest_test!(data_of_the_new_task);
fn data_of_the_new_task() {
    platform_wrong!(Bochs, "it runs into a triple fault");
    guest_mode_wrong!(Bochs, Amd, "it runs into a triple fault");
    expect_fault_inside("absent data", segment(3), gdt::ABSENT, Exception::SegmentNotPresent);
    expect_fault_inside("data beyond the GDT", segment(0), 0x7f8, Exception::InvalidTss);
    expect_fault_inside("data as LDT", LAYOUT.ldt, DATA, Exception::InvalidTss);
}

guest_test!(fault_on_the_way_of_an_exception);
fn fault_on_the_way_of_an_exception() {
    let tasks = Tasks::new(jump_to_main, 0);
    tasks.set_descriptor(OTHER, Descriptor(tasks.descriptor(OTHER).0 & !(1 << 47)));
    set_gate(Exception::InvalidOpcode as u8, Gate::Task(OTHER));
    code32!(undefined, "ud2");
    // Whether an exception is an event from outside, CPUs differ.
    let end = tasks.run(undefined, 0).map_err(|f| LegacyFault { error_code: f.error_code & !EXT, ..f });
    expect_eq!(end, fault(Exception::SegmentNotPresent, OTHER.into()), "#UD by an absent task");
}

guest_test!(debug_trap_of_a_task);
fn debug_trap_of_a_task() {
    guest_mode_wrong!(Bochs, Amd, "an intercepted #DB leaves DR6 as it was");
    cpu_wrong!(QemuTcg, "the T flag of a TSS does nothing");
    let tasks = Tasks::new(jump_to_main, 0);
    cpu::set_dr6(DR6_RESET).expect("the reset value is valid");
    tasks.set(OTHER, 0x64, 1);
    expect_eq!(tasks.run(jump_to_other, 0), fault(Exception::Debug, 0), "a task with the T flag");
    expect!(cpu::dr6() & DR6_BT != 0, "DR6 is {:#x}", cpu::dr6());
    cpu::set_dr6(DR6_RESET).expect("the reset value is valid");
}

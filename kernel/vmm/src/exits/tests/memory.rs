//! Accesses that the nested page tables refuse.

use crate::exit::{Access, Exit};
use crate::fake::{FakeVcpu, Machine};
use crate::hazard;
use crate::state::StopReason;
use crate::vcpu::Vcpu;
use guestboot::platform::LAPIC_BASE;
use x86defs::addr::Gpa;
use x86defs::apic::reg;
use x86defs::event::{Event, Exception};
use x86defs::gpr::Gpr;

/// Guest physical addresses that nobody answers.
const NOBODY: Gpa = Gpa(0xd000_0000);
const CODE: u64 = 0x1000;

/// A 32-bit guest without paging whose next instruction is this one, with an address in EBX.
fn machine(code: &[u8], at: Gpa) -> Machine {
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.state.vm.memory().write(Gpa(CODE), code).expect("RAM");
    machine.vcpu.rip = CODE;
    machine.vcpu.set_gpr(Gpr::Rbx, at.0);
    machine
}

const LOAD_EAX: [u8; 2] = [0x8b, 0x03];
const STORE_EAX: [u8; 2] = [0x89, 0x03];
const HLT: [u8; 1] = [0xf4];

#[test]
fn a_fetch_from_where_no_ram_is_faults() {
    let mut machine = machine(&HLT, NOBODY);
    machine.exit(Exit::NestedFault(NOBODY, Access::FETCH));
    machine.assert_raises(Event::UD);
}

#[test]
fn a_load_from_nobody_reads_ones() {
    let mut machine = machine(&LOAD_EAX, NOBODY);
    machine.vcpu.set_gpr(Gpr::Rax, u64::MAX - 1);
    machine.exit(Exit::NestedFault(NOBODY, Access::empty()));
    machine.assert_skipped();
    assert_eq!((machine.vcpu.gpr(Gpr::Rax), machine.vcpu.rip), (0xffff_ffff, CODE + 2));
}

#[test]
fn a_task_priority_in_memory_and_cr8_are_one() {
    let tpr = LAPIC_BASE.offset(reg::TPR.into());
    let mut written = machine(&STORE_EAX, tpr);
    written.vcpu.set_gpr(Gpr::Rax, 0x70);
    written.exit(Exit::NestedFault(tpr, Access::WRITE));
    written.assert_skipped();
    assert_eq!((written.vcpu.cr8, written.state.lapic.cr8()), (7, 7));

    let mut read = machine(&LOAD_EAX, tpr);
    read.vcpu.cr8 = 5;
    read.exit(Exit::NestedFault(tpr, Access::empty()));
    read.assert_skipped();
    assert_eq!(read.vcpu.gpr(Gpr::Rax), 0x50);
}

#[test]
fn a_fault_while_an_event_is_delivered_stops_the_machine() {
    let mut machine = machine(&LOAD_EAX, NOBODY);
    let event = Event::exception(Exception::Breakpoint);
    machine.vcpu.inject(event);
    machine.exit(Exit::NestedFault(NOBODY, Access::WRITE));
    machine.assert_raises(event);
    assert_eq!(machine.state.port.hazard.take(), hazard::STOP);
    let Some(StopReason::Unsupported(what)) = &machine.state.stop else { panic!("it went on") };
    assert!(what.contains("delivering an event") && what.contains("d0000000"), "{what}");
}

#[test]
fn an_instruction_that_is_not_emulated_stops_the_machine_when_it_comes_back() {
    let mut machine = machine(&HLT, NOBODY);
    machine.exit(Exit::NestedFault(NOBODY, Access::empty()));
    assert_eq!((&machine.state.stop, machine.vcpu.rip), (&None, CODE), "it may have been changed");
    machine.exit(Exit::NestedFault(NOBODY, Access::empty()));
    let Some(StopReason::Unsupported(what)) = &machine.state.stop else { panic!("it went on") };
    assert!(what.contains("f4") && what.contains("0x1000"), "{what}");
}

#[test]
fn an_instruction_that_others_keep_changing_does_not_stop_the_machine() {
    let mut machine = machine(&HLT, NOBODY);
    for _ in 0..3 {
        machine.exit(Exit::NestedFault(NOBODY, Access::empty()));
        // It has got on in between.
        machine.exit(Exit::Cpuid);
        machine.vcpu.rip = CODE;
    }
    assert_eq!(machine.state.stop, None);
}

#[test]
fn page_tables_where_no_ram_is_fault() {
    let mut fetch = machine(&HLT, NOBODY);
    fetch.vcpu = FakeVcpu { rip: CODE, ..FakeVcpu::long(NOBODY.0) };
    fetch.exit(Exit::NestedFault(NOBODY, Access::FETCH | Access::PAGE_WALK));
    // Present, reserved bit, fetch.
    fetch.assert_raises(Event::fault(Exception::PageFault, 0x19));
    assert_eq!(fetch.vcpu.cr2, CODE);

    let mut pointers = machine(&HLT, NOBODY);
    pointers.exit(Exit::NestedFault(NOBODY, Access::PDPTES));
    pointers.assert_raises(Event::GP0);
}

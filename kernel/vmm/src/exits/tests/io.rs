//! Port I/O: what reaches the bus, and what a result leaves in RAX.

use crate::exit::{Exit, Io, IoForm};
use crate::fake::{FakeVcpu, Machine};
use crate::memory::Width;
use crate::state::StopReason;
use crate::vcpu::Vcpu;
use devices::effects::Nanos;
use guestboot::platform;
use x86defs::addr::Gpa;
use x86defs::event::Event;
use x86defs::gpr::Gpr;

/// A port that nobody answers.
const NOBODY: u16 = 0xe000;
/// The UART's scratch register.
const SCRATCH: u16 = platform::COM1.first + 7;
/// The first register of configuration space behind the PCI data port.
const PCI_DATA: u16 = platform::PCI_CONFIG.first + 4;
const RAX: u64 = 0x1122_3344_5566_7788;

fn machine(rax: u64) -> Machine {
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.vcpu.set_gpr(Gpr::Rax, rax);
    machine
}

fn input(port: u16, width: u8) -> Exit {
    Exit::Io(Io { port, width, form: IoForm::IN })
}

fn output(port: u16, width: u8) -> Exit {
    Exit::Io(Io { port, width, form: IoForm::empty() })
}

#[test]
fn unclaimed_reads_float_to_ones_in_their_width() {
    for (width, rax) in [(1, 0x1122_3344_5566_77ff), (2, 0x1122_3344_5566_ffff), (4, 0xffff_ffff)] {
        let mut machine = machine(RAX);
        machine.exit(input(NOBODY, width));
        machine.assert_skipped();
        assert_eq!(machine.vcpu.gpr(Gpr::Rax), rax, "width {width}");
    }
}

#[test]
fn a_device_fills_as_much_of_rax_as_the_access_is_wide() {
    for (width, rax) in [(1, 0x1122_3344_5566_7736), (2, 0x1122_3344_5566_1b36), (4, 0x0008_1b36)] {
        let mut machine = machine(RAX);
        machine.state.vm.board.output(platform::PCI_CONFIG.first, 4, 0x8000_0000, Nanos(0));
        machine.exit(input(PCI_DATA, width));
        machine.assert_skipped();
        assert_eq!(machine.vcpu.gpr(Gpr::Rax), rax, "width {width}");
    }
}

#[test]
fn a_register_that_floats_fills_no_more() {
    let mut machine = machine(0);
    let control_word_is_write_only = platform::PIT.last();
    machine.exit(input(control_word_is_write_only, 1));
    assert_eq!(machine.vcpu.gpr(Gpr::Rax), 0xff);
}

#[test]
fn out_writes_the_low_part_of_rax_and_keeps_it() {
    let mut machine = machine(RAX);
    machine.exit(output(SCRATCH, 1));
    machine.assert_skipped();
    assert_eq!(machine.vcpu.gpr(Gpr::Rax), RAX);
    assert_eq!(machine.state.vm.board.input(SCRATCH, 1, Nanos(0)), 0x88);
    machine.exit(output(NOBODY, 4));
    assert_eq!(machine.vcpu.skips, 2, "a write to nobody is dropped");
}

#[test]
fn string_instructions_go_through_memory() {
    let mut machine = Machine::new(FakeVcpu::protected32());
    let write = |at, bytes: &[u8]| machine.state.vm.memory().write(Gpa(at), bytes).expect("RAM");
    write(0x1000, &[0x6e]);
    write(0x2000, &[0x5a]);
    machine.vcpu.rip = 0x1000;
    machine.vcpu.set_gpr(Gpr::Rsi, 0x2000);
    machine.vcpu.set_gpr(Gpr::Rdx, SCRATCH.into());
    machine.exit(Exit::Io(Io { port: SCRATCH, width: 1, form: IoForm::STRING }));
    assert_eq!(machine.state.vm.board.input(SCRATCH, 1, Nanos(0)), 0x5a);
    assert_eq!((machine.vcpu.gpr(Gpr::Rsi), machine.vcpu.rip), (0x2001, 0x1001));
}

#[test]
fn a_string_instruction_that_is_none_stops_the_machine() {
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.state.vm.memory().store(Gpa(0x1000), Width::Byte, 0x90).expect("RAM");
    machine.vcpu.rip = 0x1000;
    for _ in 0..2 {
        machine.exit(Exit::Io(Io { port: SCRATCH, width: 1, form: IoForm::STRING }));
    }
    let Some(StopReason::Unsupported(what)) = &machine.state.stop else { panic!("it went on") };
    assert!(what.contains("90") && what.contains("0x1000"), "{what}");
}

#[test]
fn a_single_step_trap_follows_an_access() {
    use x86defs::control::Rflags;
    let mut machine = machine(0);
    machine.vcpu.rflags |= Rflags::TF;
    machine.exit(output(SCRATCH, 1));
    assert_eq!(machine.vcpu.pending, Some(Event::exception(x86defs::event::Exception::Debug)));
}

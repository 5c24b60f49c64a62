//! MOV to and from debug registers, and exceptions that exit.

use crate::exit::Exit;
use crate::fake::{FakeVcpu, Machine};
use crate::state::StopReason;
use crate::vcpu::Vcpu;
use x86defs::control::Cr4;
use x86defs::event::{Event, Exception};
use x86defs::gpr::Gpr;

const DB: Event = Event::exception(Exception::Debug);
/// DR7: general detect, and the bit that always reads as one.
const GD: u64 = 1 << 13;
const ONE: u64 = 1 << 10;
/// DR6: access detected.
const BD: u64 = 1 << 13;

fn mov(vcpu: FakeVcpu, register: u8, value: u64, write: bool) -> Machine {
    let mut machine = Machine::new(vcpu);
    machine.vcpu.set_gpr(Gpr::Rbx, value);
    machine.exit(Exit::MovDr(register, Gpr::Rbx, write));
    machine
}

#[test]
fn dr6_and_dr7_are_written_and_read_under_both_names() {
    for (register, alias) in [(6, 4), (7, 5)] {
        for name in [register, alias] {
            let machine = mov(FakeVcpu::long(0), name, 0x0000_0455, true);
            machine.assert_skipped();
            let seen = if register == 6 { machine.vcpu.dr6 } else { machine.vcpu.dr7 };
            assert_eq!(seen, 0x0000_0455, "DR{name}");

            let vcpu = FakeVcpu { dr6: 0xffff_0ff1, dr7: 0x401, ..FakeVcpu::long(0) };
            let machine = mov(vcpu, name, 0, false);
            machine.assert_skipped();
            let expected = if register == 6 { 0xffff_0ff1 } else { 0x401 };
            assert_eq!(machine.vcpu.gpr(Gpr::Rbx), expected, "DR{name}");
        }
    }
}

#[test]
fn with_debug_extensions_the_aliases_do_not_exist() {
    for register in [4, 5] {
        for write in [true, false] {
            let vcpu = FakeVcpu { cr4: Cr4::PAE | Cr4::DE, ..FakeVcpu::long(0) };
            mov(vcpu, register, 0, write).assert_raises(Event::UD);
        }
    }
}

#[test]
fn upper_halves_are_refused_in_64_bit_code() {
    for register in [6, 7] {
        let before = FakeVcpu::long(0);
        let machine = mov(before.clone(), register, 1 << 32, true);
        machine.assert_raises(Event::GP0);
        assert_eq!((machine.vcpu.dr6, machine.vcpu.dr7), (before.dr6, before.dr7));
    }
}

#[test]
fn outside_64_bit_code_upper_halves_do_not_exist() {
    for register in [6, 7] {
        let machine = mov(FakeVcpu::protected32(), register, 0xdead_0000_0000_0400, true);
        machine.assert_skipped();
        let seen = if register == 6 { machine.vcpu.dr6 } else { machine.vcpu.dr7 };
        assert_eq!(seen, 0x400, "DR{register}");
    }
}

#[test]
fn general_detect_traps_every_access_once() {
    for (register, write) in [(0, true), (3, false), (4, true), (6, false), (7, true), (7, false)] {
        let vcpu = FakeVcpu { dr6: 0xffff_0ff0, dr7: GD | ONE, ..FakeVcpu::long(0) };
        let machine = mov(vcpu, register, 0x55, write);
        machine.assert_raises(DB);
        assert_eq!((machine.vcpu.dr6, machine.vcpu.dr7), (0xffff_0ff0 | BD, ONE), "DR{register}");
        assert_eq!(machine.vcpu.gpr(Gpr::Rbx), 0x55);
    }
}

#[test]
fn delivery_of_a_debug_exception_clears_general_detect() {
    let mut machine = Machine::new(FakeVcpu { dr7: GD | ONE | 0b11, ..FakeVcpu::long(0) });
    machine.exit(Exit::Exception(Exception::Debug as u8, 0));
    machine.assert_raises(DB);
    assert_eq!(machine.vcpu.dr7, ONE | 0b11);
}

#[test]
fn an_alignment_check_goes_back_with_its_error_code() {
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.exit(Exit::Exception(Exception::AlignmentCheck as u8, 0));
    machine.assert_raises(Event::fault(Exception::AlignmentCheck, 0));
}

#[test]
fn a_machine_check_ends_the_machine() {
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.exit(Exit::Exception(Exception::MachineCheck as u8, 0));
    assert_eq!(machine.vcpu.pending, None);
    assert!(
        matches!(&machine.state.stop, Some(StopReason::Unsupported(what)) if what.contains("machine check"))
    );
}

#[test]
fn other_exceptions_are_not_delivered_twice() {
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.exit(Exit::Exception(Exception::PageFault as u8, 2));
    assert_eq!((machine.vcpu.pending, &machine.state.stop), (None, &None));
}

#[test]
fn an_exception_on_the_way_of_another_follows_the_table() {
    let alignment = Event::fault(Exception::AlignmentCheck, 0);
    for first in [Event::interrupt(0x30), Event::GP0] {
        let mut machine = Machine::new(FakeVcpu::protected32());
        machine.vcpu.inject(first);
        machine.exit(Exit::Exception(17, 0));
        machine.assert_raises(alignment);
    }
}

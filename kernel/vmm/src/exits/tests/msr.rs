//! RDMSR and WRMSR: halves, faults, and what is counted and said.

use crate::exit::Exit;
use crate::fake::{FakeVcpu, Machine};
use crate::vcpu::Vcpu;
use std::cell::RefCell;
use std::string::{String, ToString};
use std::sync::Once;
use std::thread_local;
use std::vec::Vec;
use x86defs::event::Event;
use x86defs::gpr::Gpr;
use x86defs::msr;

/// An MSR that nobody answers.
const UNKNOWN: u64 = 0x31;

thread_local! {
    static LOGGED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps what the present thread logs.
struct Keeper;

impl log::Log for Keeper {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        LOGGED.with_borrow_mut(|logged| logged.push(record.args().to_string()));
    }
    fn flush(&self) {}
}

/// What `action` logs.
fn logged(action: impl FnOnce()) -> Vec<String> {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        log::set_logger(&Keeper).expect("no other test installs a logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
    LOGGED.take();
    action();
    LOGGED.take()
}

/// RCX, RAX and RDX before, with their upper halves set, which do not matter.
fn machine(number: u64, value: u64) -> Machine {
    const IGNORED: u64 = 0xffff_ffff_0000_0000;
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.vcpu.set_gpr(Gpr::Rcx, IGNORED | number);
    machine.vcpu.set_gpr(Gpr::Rax, IGNORED | value & 0xffff_ffff);
    machine.vcpu.set_gpr(Gpr::Rdx, IGNORED | value >> 32);
    machine
}

#[test]
fn values_travel_in_two_halves() {
    let value = 0xffff_8123_4567_89ab;
    let mut machine = machine(msr::LSTAR.into(), value);
    machine.exit(Exit::Wrmsr);
    machine.assert_skipped();
    assert_eq!(machine.vcpu.state_msr(crate::vcpu::StateMsr::Lstar), value);
    machine.exit(Exit::Rdmsr);
    assert_eq!(machine.vcpu.skips, 2);
    assert_eq!((machine.vcpu.gpr(Gpr::Rax), machine.vcpu.gpr(Gpr::Rdx)), (0x4567_89ab, 0xffff_8123));
}

#[test]
fn an_unknown_msr_faults_with_the_registers_untouched() {
    for exit in [Exit::Rdmsr, Exit::Wrmsr] {
        let mut machine = machine(UNKNOWN, 0x1_0000_0002);
        let gprs = machine.vcpu.gprs;
        machine.exit(exit);
        machine.assert_raises(Event::GP0);
        assert_eq!(machine.vcpu.gprs, gprs);
        assert_eq!(machine.state.counters.unknown_msrs, 1);
    }
}

#[test]
fn an_unknown_msr_is_counted_each_time_and_said_once() {
    let mut machine = machine(UNKNOWN, 7);
    let said = logged(|| {
        for exit in [Exit::Wrmsr, Exit::Wrmsr, Exit::Rdmsr] {
            machine.vcpu.pending = None;
            machine.exit(exit);
        }
    });
    assert_eq!(said, ["vm test: WRMSR of 0x7 to MSR 0x31: there is no such MSR: #GP"]);
    assert_eq!(machine.state.counters.unknown_msrs, 3);
}

#[test]
fn a_refused_value_of_a_known_msr_faults_and_is_not_unknown() {
    let mut machine = machine(msr::LSTAR.into(), 1 << 63);
    let said = logged(|| machine.exit(Exit::Wrmsr));
    machine.assert_raises(Event::GP0);
    assert_eq!((said.len(), machine.state.counters.unknown_msrs), (0, 0));
}

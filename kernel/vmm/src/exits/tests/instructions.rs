//! CPUID, HLT, hypercalls, and the exits of one line.

use crate::exit::Exit;
use crate::fake::{FakeVcpu, Machine};
use crate::hazard;
use crate::state::StopReason;
use crate::vcpu::Vcpu;
use x86defs::cpuid::leaf;
use x86defs::event::Event;
use x86defs::gpr::Gpr;

#[test]
fn cpuid_sets_four_registers_and_clears_their_upper_halves() {
    let mut machine = Machine::new(FakeVcpu::long(0));
    machine.vcpu.gprs = [u64::MAX; 16];
    machine.vcpu.set_gpr(Gpr::Rax, 0xffff_ffff_0000_0000 | u64::from(leaf::FEATURES));
    machine.vcpu.set_gpr(Gpr::Rcx, 0xffff_ffff_0000_0000);
    let expected = machine.state.cpuid.lookup(leaf::FEATURES, 0, &machine.vcpu, &machine.state.lapic);
    assert_ne!(expected.eax, 0);
    machine.exit(Exit::Cpuid);
    machine.assert_skipped();
    let four = [Gpr::Rax, Gpr::Rbx, Gpr::Rcx, Gpr::Rdx];
    let results = [expected.eax, expected.ebx, expected.ecx, expected.edx].map(u64::from);
    assert_eq!(four.map(|r| machine.vcpu.gpr(r)), results);
    for other in Gpr::ALL.into_iter().filter(|r| !four.contains(r)) {
        assert_eq!(machine.vcpu.gpr(other), u64::MAX, "{other:?}");
    }
}

#[test]
fn cpuid_takes_the_subleaf_from_ecx() {
    let size = |subleaf| {
        let mut machine = Machine::new(FakeVcpu::long(0));
        machine.vcpu.set_gpr(Gpr::Rax, leaf::XSAVE.into());
        machine.vcpu.set_gpr(Gpr::Rcx, subleaf);
        machine.exit(Exit::Cpuid);
        machine.vcpu.gpr(Gpr::Rax)
    };
    assert_eq!((size(2), size(6)), (0x100, 0x200), "YMM and upper ZMM state");
}

#[test]
fn hlt_is_over_at_once_and_asks_for_the_slow_path() {
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.vcpu.shadow = true;
    machine.exit(Exit::Hlt);
    machine.assert_skipped();
    assert!(machine.state.halted && !machine.vcpu.shadow);
    assert_eq!(machine.state.port.hazard.take(), hazard::HALT);
}

#[test]
fn hypercalls_exist_in_ring_0_only_and_none_is_known() {
    for cpl in 1..=3 {
        let mut machine = Machine::new(FakeVcpu::protected32());
        machine.vcpu.cpl = cpl;
        machine.vcpu.set_gpr(Gpr::Rax, 5);
        machine.exit(Exit::Hypercall);
        machine.assert_raises(Event::UD);
        assert_eq!(machine.vcpu.gpr(Gpr::Rax), 5);
    }
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.exit(Exit::Hypercall);
    machine.assert_skipped();
    assert_eq!(machine.vcpu.gpr(Gpr::Rax) as i64, -1000);
}

#[test]
fn some_instructions_do_nothing_and_some_do_not_exist() {
    for (exit, event) in [
        (Exit::CacheFlush, None),
        (Exit::Pause, None),
        (Exit::Undefined, Some(Event::UD)),
        (Exit::Rdpmc, Some(Event::GP0)),
    ] {
        let mut machine = Machine::new(FakeVcpu::protected32());
        let gprs = machine.vcpu.gprs;
        machine.exit(exit);
        match event {
            None => machine.assert_skipped(),
            Some(event) => machine.assert_raises(event),
        }
        assert_eq!(machine.vcpu.gprs, gprs);
        assert!(!machine.state.hazard(), "{exit:?} goes straight back");
    }
}

#[test]
fn host_events_leave_the_guest_alone_and_ask_for_the_slow_path() {
    for exit in [Exit::ExternalInterrupt, Exit::HostNmi, Exit::Init, Exit::Slice] {
        let mut machine = Machine::new(FakeVcpu::protected32());
        let before = machine.vcpu.clone();
        machine.exit(exit);
        assert_eq!(machine.vcpu, before);
        assert_eq!(machine.state.port.hazard.take(), hazard::HOST_INTERRUPT);
    }
}

#[test]
fn an_open_window_is_closed_and_asks_for_the_slow_path() {
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.vcpu.interrupt_window = true;
    machine.vcpu.nmi_window = true;
    machine.vcpu.tpr_threshold = 4;
    machine.exit(Exit::InterruptWindow);
    assert_eq!((machine.vcpu.interrupt_window, machine.vcpu.nmi_window), (false, true));
    assert_eq!(machine.vcpu.tpr_threshold, 0);
    machine.exit(Exit::NmiWindow);
    assert!(!machine.vcpu.nmi_window);
    assert_eq!(machine.state.port.hazard.take(), hazard::EVENT);
}

#[test]
fn what_cannot_go_on_stops_with_its_reason() {
    let stopped = |exit| {
        let mut machine = Machine::new(FakeVcpu::protected32());
        machine.vcpu.rip = 0x1234;
        machine.exit(exit);
        assert_eq!(machine.state.port.hazard.take(), hazard::STOP);
        machine.state.stop
    };
    assert_eq!(stopped(Exit::TripleFault), Some(StopReason::TripleFault));
    for (exit, words) in [(Exit::EntryFailed, "refused to enter"), (Exit::Unknown(77), "Unknown(77)")] {
        let Some(StopReason::Unsupported(what)) = stopped(exit) else { panic!("{exit:?} goes on") };
        assert!(what.contains(words) && what.contains("0x1234"), "{what}");
    }
}

#[test]
fn the_first_reason_to_stop_is_kept() {
    let mut machine = Machine::new(FakeVcpu::protected32());
    machine.exit(Exit::TripleFault);
    machine.exit(Exit::EntryFailed);
    assert_eq!(machine.state.stop, Some(StopReason::TripleFault));
}

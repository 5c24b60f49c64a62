//! The registers that concern a whole virtual CPU.

use super::setup;
use crate::fake::{FakeVcpu, Machine};
use crate::lapic::ApicMode;
use crate::memory::Width;
use crate::msr::{self, FaultReason, MsrSetup, MsrState};
use x86defs::cpuid::Vendor;
use x86defs::msr as number;

impl Machine {
    fn read(&mut self, number: u32) -> Result<u64, FaultReason> {
        msr::read(number, &mut self.vcpu, &mut self.state).map_err(|f| f.reason)
    }
    fn write(&mut self, number: u32, value: u64) -> Result<(), FaultReason> {
        msr::write(number, value, &mut self.vcpu, &mut self.state).map_err(|f| f.reason)
    }
}

#[test]
fn tsc_and_tsc_adjust_move_together() {
    let mut cpu = Machine::new(FakeVcpu::real());
    cpu.vcpu.host_tsc = 1000;
    assert_eq!(cpu.write(number::IA32_TIME_STAMP_COUNTER, 5000), Ok(()));
    assert_eq!(cpu.read(number::IA32_TIME_STAMP_COUNTER), Ok(5000));
    assert_eq!(cpu.read(number::IA32_TSC_ADJUST), Ok(4000));
    assert_eq!(cpu.write(number::IA32_TSC_ADJUST, 0), Ok(()));
    assert_eq!(cpu.read(number::IA32_TIME_STAMP_COUNTER), Ok(1000));
}

#[test]
fn the_paravirtual_clock_keeps_time_when_the_tsc_is_set() {
    let mut cpu = Machine::new(FakeVcpu::real());
    assert_eq!(cpu.write(number::KVM_SYSTEM_TIME_NEW, 0x1001), Ok(()));
    assert_eq!(cpu.write(number::IA32_TIME_STAMP_COUNTER, 0x1234_5678), Ok(()));
    let timestamp = |cpu: &Machine| {
        let mut bytes = [0; 8];
        cpu.state.vm.memory().read(x86defs::addr::Gpa(0x1008), &mut bytes).expect("RAM");
        u64::from_le_bytes(bytes)
    };
    assert_eq!(timestamp(&cpu), 0x1234_5678);
    assert_eq!(cpu.read(number::KVM_SYSTEM_TIME_NEW), Ok(0x1001));
    assert_eq!(cpu.write(number::KVM_SYSTEM_TIME_NEW, 0x9001), Err(FaultReason::NotRam));
    assert_eq!(cpu.write(number::KVM_WALL_CLOCK_NEW, 0x9000), Err(FaultReason::NotRam));
}

#[test]
fn x2apic_mode_opens_its_msrs() {
    let mut cpu = Machine::new(FakeVcpu::real());
    let tpr = 0x808;
    assert_eq!(cpu.read(tpr), Err(FaultReason::Unknown));
    let base = cpu.read(number::IA32_APIC_BASE).expect("always there");
    assert_eq!(base, 0xfee0_0900);
    assert_eq!(cpu.write(number::IA32_APIC_BASE, base | 1 << 10), Ok(()));
    assert_eq!(cpu.state.lapic.mode(), ApicMode::X2Apic);
    assert!(cpu.state.port.mailbox.address().x2apic, "the router knows");
    assert_eq!(cpu.write(tpr, 0x50), Ok(()));
    assert_eq!((cpu.vcpu.cr8, cpu.read(tpr)), (5, Ok(0x50)));
    assert_eq!(cpu.write(number::IA32_APIC_BASE, base), Err(FaultReason::Transition));
}

#[test]
fn a_tsc_deadline_is_an_alarm_of_the_local_apic() {
    let mut cpu = Machine::new(FakeVcpu::real());
    assert_eq!(cpu.write(number::IA32_TSC_DEADLINE, 900), Ok(()));
    assert_eq!(cpu.read(number::IA32_TSC_DEADLINE), Ok(0), "another mode");
    cpu.state.lapic.write(x86defs::apic::reg::LVT_TIMER, Width::Dword, 0x4_0040, 0);
    assert_eq!(cpu.write(number::IA32_TSC_DEADLINE, 900), Ok(()));
    assert_eq!((cpu.read(number::IA32_TSC_DEADLINE), cpu.state.lapic.deadline()), (Ok(900), Some(900)));
}

#[test]
fn unknown_msrs_fault_or_are_ignored_as_configured() {
    let mut cpu = Machine::new(FakeVcpu::real());
    assert_eq!(cpu.read(0x31), Err(FaultReason::Unknown));
    assert_eq!(cpu.write(0x31, 1), Err(FaultReason::Unknown));
    let mut cpu = Machine::new(FakeVcpu::real());
    cpu.state.msrs = MsrState::new(MsrSetup { ignore_unknown: true, ..setup(Vendor::Intel) });
    assert_eq!((cpu.read(0x31), cpu.write(0x31, 1)), (Ok(0), Ok(())));
    assert_eq!(cpu.state.counters.unknown_msrs, 2);
    assert!(!cpu.state.msrs.first_time(0x31), "it was reported");
    assert_eq!(cpu.write(number::IA32_MTRRCAP, 1), Err(FaultReason::ReadOnly), "a known one faults");
}

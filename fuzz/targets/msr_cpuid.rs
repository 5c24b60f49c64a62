//! Any sequence of CPUID, RDMSR, WRMSR, XSETBV and moves to control registers on any host. What is refused changes
//! nothing, what reaches hardware is valid there, and CPUID offers nothing that the host has not.

#![no_main]

use fuzz::policy::{self, Host};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use vmm::Exit;
use vmm::cpuid::{CpuidTable, Offered, Setup};
use vmm::fake::{AMD, FakeVcpu, INTEL, Machine, cpuid_setup, host, msr_setup};
use vmm::msr::{MsrSetup, MsrState};
use vmm::vcpu::StateMsr;
use x86defs::control::Efer;
use x86defs::cpuid::CpuidResult;
use x86defs::gpr::Gpr;
use x86defs::msr::PAT_RESET;

#[derive(Arbitrary, Debug)]
struct Input {
    amd: bool,
    /// What differs from a host with every feature.
    changes: Vec<Change>,
    offered: u8,
    cpus: u8,
    physical_bits: u8,
    ignore_unknown: bool,
    long: bool,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Change {
    extended: bool,
    leaf: u8,
    subleaf: u8,
    /// Bits that are cleared: EAX, EBX, ECX, EDX.
    cleared: [u32; 4],
}

#[derive(Arbitrary, Debug)]
enum Step {
    Cpuid { leaf: Number, subleaf: u8 },
    Rdmsr(Number),
    Wrmsr(Number, Value),
    Xsetbv { register: u8, value: u16 },
    WriteCr { register: u8, value: Value },
    Lmsw(u16),
    Advance(u32),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Number {
    Low(u16),
    /// From 0x40000000 on.
    Hypervisor(u16),
    /// Of KVM's clock.
    Kvm(u8),
    /// From 0x80000000 on.
    Extended(u8),
    /// From 0xc0000000 on.
    High(u16),
    /// From 0xc0010000 on.
    Amd(u16),
    Any(u32),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Value {
    Small(u16),
    Bit(u8),
    Canonical(u32),
    Any(u64),
}

/// Longest sequence.
const STEPS: usize = 256;

fuzz_target!(|input: Input| {
    let host = host_of(&input);
    let mut machine = machine(&input, &host);
    for step in input.steps.iter().take(STEPS) {
        let before = machine.vcpu.clone();
        let exit = prepare(&mut machine.vcpu, step);
        let ready = machine.vcpu.clone();
        let Some(exit) = exit else { continue };
        machine.exit(exit);
        if machine.state.stop.is_some() {
            return;
        }
        if let Some(event) = machine.vcpu.pending.take() {
            assert_eq!(machine.vcpu, ready, "{event:?} after {step:?} left something changed");
        } else if let Step::Cpuid { leaf, subleaf } = *step {
            policy::offers_what_the_host_has(&host, &machine, leaf.number(), subleaf.into());
        }
        policy::hardware_takes_it(&machine);
        machine.vcpu.rip = before.rip;
        machine.state.port.hazard.take();
        machine.vcpu.pending = None;
    }
});

fn host_of(input: &Input) -> Host {
    let mut answers = Host::new(host(if input.amd { AMD } else { INTEL }));
    for change in &input.changes {
        let leaf = u32::from(change.leaf) | if change.extended { 0x8000_0000 } else { 0 };
        let [eax, ebx, ecx, edx] = change.cleared;
        answers.clear(leaf, change.subleaf.into(), CpuidResult { eax, ebx, ecx, edx });
    }
    answers
}

fn machine(input: &Input, host: &Host) -> Machine {
    let setup = Setup {
        offered: Offered::from_bits_truncate(input.offered.into()),
        cpus: u32::from(input.cpus).max(1),
        physical_bits: 32 + input.physical_bits % 21,
        ..cpuid_setup()
    };
    let cpuid = CpuidTable::new(|leaf, subleaf| host.answer(leaf, subleaf), &setup);
    let long = FakeVcpu::long(0x1000);
    let can_be_long =
        cpuid.allowed_cr4().contains(long.cr4) && cpuid.allowed_efer().contains(long.efer - Efer::LMA);
    let mut machine = Machine::new(if input.long && can_be_long { long } else { FakeVcpu::real() });
    machine.state.msrs = MsrState::new(MsrSetup {
        physical_bits: setup.physical_bits,
        allowed_efer: cpuid.allowed_efer(),
        ignore_unknown: input.ignore_unknown,
        ..msr_setup(cpuid.vendor())
    });
    machine.state.cpuid = cpuid;
    machine.vcpu.state_msrs[StateMsr::Pat as usize] = PAT_RESET;
    machine
}

/// Puts the operands of a step into registers. Gives its exit, unless it is none.
fn prepare(vcpu: &mut FakeVcpu, step: &Step) -> Option<Exit> {
    let mut set = |gpr: Gpr, value: u64| vcpu.gprs[gpr as usize] = value;
    Some(match *step {
        Step::Cpuid { leaf, subleaf } => {
            set(Gpr::Rax, leaf.number().into());
            set(Gpr::Rcx, subleaf.into());
            Exit::Cpuid
        }
        Step::Rdmsr(number) => {
            set(Gpr::Rcx, number.number().into());
            Exit::Rdmsr
        }
        Step::Wrmsr(number, value) => {
            set(Gpr::Rcx, number.number().into());
            set(Gpr::Rax, value.value() & 0xffff_ffff);
            set(Gpr::Rdx, value.value() >> 32);
            Exit::Wrmsr
        }
        Step::Xsetbv { register, value } => {
            set(Gpr::Rcx, register.into());
            set(Gpr::Rax, value.into());
            set(Gpr::Rdx, 0);
            Exit::Xsetbv
        }
        Step::WriteCr { register, value } => {
            set(Gpr::Rbx, value.value());
            Exit::WriteCr(register % 9, Gpr::Rbx)
        }
        Step::Lmsw(value) => Exit::Lmsw(value),
        Step::Advance(ticks) => {
            vcpu.host_tsc = vcpu.host_tsc.wrapping_add(ticks.into());
            return None;
        }
    })
}

impl Number {
    fn number(self) -> u32 {
        match self {
            Number::Low(n) => n.into(),
            Number::Hypervisor(n) => 0x4000_0000 + u32::from(n),
            Number::Kvm(n) => 0x4b56_4d00 + u32::from(n),
            Number::Extended(n) => 0x8000_0000 + u32::from(n),
            Number::High(n) => 0xc000_0000 + u32::from(n),
            Number::Amd(n) => 0xc001_0000 + u32::from(n),
            Number::Any(n) => n,
        }
    }
}

impl Value {
    fn value(self) -> u64 {
        match self {
            Value::Small(value) => value.into(),
            Value::Bit(bit) => 1 << (bit % 64),
            Value::Canonical(low) => low as i32 as u64,
            Value::Any(value) => value,
        }
    }
}

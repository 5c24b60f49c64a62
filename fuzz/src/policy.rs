//! What holds of MSRs, control registers and CPUID whatever a guest did. Written down a second time, independently of
//! the tables under test.

use std::collections::HashMap;
use vmm::fake::Machine;
use vmm::vcpu::{StateMsr, Vcpu};
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::cpuid::{CpuidResult, Leaf1Ecx, Leaf1Edx, Leaf6Eax, Leaf7Ebx, Register, leaf};
use x86defs::gpr::Gpr;
use x86defs::msr::{DebugCtl, PAT_UNCACHED, is_canonical};

/// A host's CPUID.
pub struct Host {
    full: Box<dyn Fn(u32, u32) -> CpuidResult>,
    cleared: HashMap<(u32, u32), CpuidResult>,
}

impl Host {
    /// With these answers.
    pub fn new(full: impl Fn(u32, u32) -> CpuidResult + 'static) -> Self {
        Self { full: Box::new(full), cleared: HashMap::new() }
    }

    /// Clears bits of an answer.
    pub fn clear(&mut self, leaf: u32, subleaf: u32, bits: CpuidResult) {
        self.cleared.insert((leaf, subleaf), bits);
    }

    /// Its answer.
    pub fn answer(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        let full = (self.full)(leaf, subleaf);
        match self.cleared.get(&(leaf, subleaf)) {
            Some(c) => CpuidResult {
                eax: full.eax & !c.eax,
                ebx: full.ebx & !c.ebx,
                ecx: full.ecx & !c.ecx,
                edx: full.edx & !c.edx,
            },
            None => full,
        }
    }
}

/// Registers that are all feature bits, and the bits that are emulated, whatever the host has. HTT says how many CPUs
/// the virtual machine has.
const FEATURES: [(u32, u32, Register, u32); 10] = [
    (
        leaf::FEATURES,
        0,
        Register::Ecx,
        Leaf1Ecx::X2APIC.bits()
            | Leaf1Ecx::TSC_DEADLINE.bits()
            | Leaf1Ecx::HYPERVISOR.bits()
            | Leaf1Ecx::OSXSAVE.bits(),
    ),
    (
        leaf::FEATURES,
        0,
        Register::Edx,
        Leaf1Edx::APIC.bits()
            | Leaf1Edx::MTRR.bits()
            | Leaf1Edx::MCE.bits()
            | Leaf1Edx::MCA.bits()
            | Leaf1Edx::HTT.bits(),
    ),
    (leaf::THERMAL_POWER, 0, Register::Eax, Leaf6Eax::ARAT.bits()),
    (leaf::STRUCTURED_FEATURES, 0, Register::Ebx, Leaf7Ebx::TSC_ADJUST.bits()),
    (leaf::STRUCTURED_FEATURES, 0, Register::Ecx, 0),
    (leaf::STRUCTURED_FEATURES, 0, Register::Edx, 0),
    (leaf::STRUCTURED_FEATURES, 1, Register::Eax, 0),
    (leaf::XSAVE, 1, Register::Eax, 0),
    (leaf::EXTENDED_FEATURES, 0, Register::Ecx, 0),
    (leaf::ADDRESS_SIZES, 0, Register::Ebx, 0),
];

/// After CPUID of this leaf: no feature is offered that the host lacks.
pub fn offers_what_the_host_has(host: &Host, machine: &Machine, leaf: u32, subleaf: u32) {
    let seen = |register| {
        machine.vcpu.gpr(match register {
            Register::Eax => Gpr::Rax,
            Register::Ebx => Gpr::Rbx,
            Register::Ecx => Gpr::Rcx,
            Register::Edx => Gpr::Rdx,
        })
    };
    for register in [Register::Eax, Register::Ebx, Register::Ecx, Register::Edx] {
        assert_eq!(seen(register) >> 32, 0, "{register:?} of leaf {leaf:#x}");
    }
    for (_, _, register, emulated) in FEATURES.iter().filter(|row| (row.0, row.1) == (leaf, subleaf)) {
        let has = host.answer(leaf, subleaf).get(*register) | emulated;
        let more = seen(*register) as u32 & !has;
        assert_eq!(more, 0, "{register:?} of leaf {leaf:#x}.{subleaf} offers more than the host");
    }
}

/// Every value that goes to hardware is one that the CPU takes.
pub fn hardware_takes_it(machine: &Machine) {
    use StateMsr::{
        Cstar, Fmask, FsBase, GsBase, KernelGsBase, Lstar, Pat, SysenterCs, SysenterEip, SysenterEsp, TscAux,
    };
    let vcpu = &machine.vcpu;
    for msr in [FsBase, GsBase, KernelGsBase, Lstar, Cstar, SysenterEsp, SysenterEip] {
        assert!(is_canonical(vcpu.state_msr(msr)), "{msr:?} is {:#x}", vcpu.state_msr(msr));
    }
    for msr in [Fmask, SysenterCs, TscAux] {
        assert_eq!(vcpu.state_msr(msr) >> 32, 0, "{msr:?}");
    }
    let pat = vcpu.state_msr(Pat).to_le_bytes();
    assert!(pat.iter().all(|kind| matches!(kind, 0 | 1 | 4..=6) || *kind == PAT_UNCACHED), "{pat:x?}");
    assert_eq!(vcpu.state_msr(StateMsr::DebugCtl) & !DebugCtl::BTF.bits(), 0);

    let (cr0, cr4, efer) = (vcpu.cr0(), vcpu.cr4(), vcpu.efer());
    assert!(!cr0.contains(Cr0::PG) || cr0.contains(Cr0::PE), "{cr0:?}");
    assert!(!cr0.contains(Cr0::NW) || cr0.contains(Cr0::CD), "{cr0:?}");
    assert_eq!(cr0.bits() & !Cr0::all().bits(), 0);
    assert!(machine.state.cpuid.allowed_cr4().contains(cr4 - Cr4::PAE), "{cr4:?}");
    assert!((machine.state.cpuid.allowed_efer() | Efer::LMA).contains(efer), "{efer:?}");
    let long = cr0.contains(Cr0::PG) && efer.contains(Efer::LME);
    assert_eq!(efer.contains(Efer::LMA), long, "{efer:?} with {cr0:?}");
    assert!(!long || cr4.contains(Cr4::PAE), "long mode without PAE");
    assert!(vcpu.cr8() < 16);
    xcr0_is_legal(machine);
}

/// SDM 1, 13.3: the rules of XSETBV.
fn xcr0_is_legal(machine: &Machine) {
    const X87: u64 = 1 << 0;
    const SSE: u64 = 1 << 1;
    const AVX: u64 = 1 << 2;
    const AVX512: u64 = 7 << 5;
    let xcr0 = machine.vcpu.xcr0();
    assert_ne!(xcr0 & X87, 0);
    assert!(xcr0 & AVX == 0 || xcr0 & SSE != 0, "{xcr0:#x}");
    assert!(xcr0 & AVX512 == 0 || xcr0 & AVX512 == AVX512 && xcr0 & AVX != 0, "{xcr0:#x}");
    let offered = machine.state.cpuid.xsave().offered().bits() | X87;
    assert_eq!(xcr0 & !offered, 0, "{xcr0:#x} of {offered:#x}");
}

//! The table of hosts that have much, everything, or little.

use super::features::{FEATURES, When};
use super::*;
use crate::fake::{AMD, FakeVcpu, INTEL, cpuid_setup as setup, host};
use x86defs::cpuid::Register;

struct Cpu {
    table: CpuidTable,
    vcpu: FakeVcpu,
    lapic: Lapic,
}

impl Cpu {
    fn new(host: impl Fn(u32, u32) -> CpuidResult, setup: &Setup) -> Self {
        let lapic = Lapic::new(setup.apic_id, true, 40, setup.clock);
        Self { table: CpuidTable::new(host, setup), vcpu: FakeVcpu::real(), lapic }
    }
    fn intel() -> Self {
        Self::new(host(INTEL), &setup())
    }
    fn amd() -> Self {
        Self::new(host(AMD), &setup())
    }
    fn get(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        self.table.lookup(leaf, subleaf, &self.vcpu, &self.lapic)
    }
}

#[test]
fn features_appear_with_their_control_and_vanish_without() {
    for offered in [Offered::empty(), Offered::RDTSCP, Offered::INVPCID, Offered::all()] {
        let cpu = Cpu::new(host(INTEL), &Setup { offered, ..setup() });
        for feature in FEATURES {
            let When::Control(needed) = feature.when else { continue };
            let seen = cpu.get(feature.leaf, feature.subleaf).get(feature.register) & feature.bits;
            let expected = if offered.contains(needed) { feature.bits } else { 0 };
            assert_eq!(seen, expected, "{feature:?} with {offered:?}");
        }
    }
}

#[test]
fn a_host_with_everything_shows_just_the_rows_of_the_table() {
    let registers = [Register::Eax, Register::Ebx, Register::Ecx, Register::Edx];
    let flags = [
        (1, 0, &registers[2..]),
        (5, 0, &registers[..]),
        (6, 0, &registers[..]),
        (7, 0, &registers[1..]),
        (7, 1, &registers[..]),
        (0xa, 0, &registers[..]),
        (0xd, 1, &registers[..1]),
        (0x12, 0, &registers[..]),
        (0x14, 0, &registers[..]),
        (leaf::KVM_FEATURES, 0, &registers[..]),
        (leaf::EXTENDED_FEATURES, 0, &registers[2..]),
        (leaf::POWER_MANAGEMENT, 0, &registers[..]),
    ];
    for (leaf, subleaf, registers) in flags {
        for &register in registers {
            let rows =
                FEATURES.iter().filter(|f| (f.leaf, f.subleaf, f.register) == (leaf, subleaf, register));
            let expected = rows.fold(0, |bits, f| bits | f.bits);
            let seen = Cpu::intel().get(leaf, subleaf).get(register);
            assert_eq!(seen, expected, "leaf {leaf:#x}, {subleaf} {register:?}");
        }
    }
}

#[test]
fn no_bit_has_two_rows() {
    for (i, a) in FEATURES.iter().enumerate() {
        for b in &FEATURES[i + 1..] {
            let same = (a.leaf, a.subleaf, a.register) == (b.leaf, b.subleaf, b.register);
            assert!(!same || a.bits & b.bits == 0, "{a:?} and {b:?}");
        }
    }
}

#[test]
fn hidden_features_stay_hidden() {
    for cpu in [Cpu::intel(), Cpu::amd()] {
        let one = cpu.get(1, 0);
        let hidden = Leaf1Ecx::VMX | Leaf1Ecx::MONITOR | Leaf1Ecx::PDCM | Leaf1Ecx::EIST | Leaf1Ecx::SMX;
        assert_eq!(one.ecx & hidden.bits(), 0);
        let seven = cpu.get(7, 0);
        assert_eq!(seven.ebx & 0x0200_4814, 0, "SGX, HLE, RTM, MPX, PT");
        assert_eq!(seven.ecx & 0x0001_00a8, 0, "PKU, WAITPKG, CET_SS, LA57");
        assert_eq!(seven.edx & 0xac00_0000, 0, "speculation control");
        assert_eq!(cpu.get(0xd, 1).eax & 0x18, 0, "XSAVES, XFD");
        let extended = cpu.get(leaf::EXTENDED_FEATURES, 0);
        assert_eq!(extended.ecx & 0x20c0_8604, 0, "SVM, OSVW, IBS, LWP, TOPOEXT, PERFCTR, MWAITX");
        assert_eq!(cpu.get(5, 0), cpu.get(0xa, 0));
    }
    for leaf in [leaf::SVM, 0x8000_001e, 0x8000_001f, leaf::CACHE_TOPOLOGY] {
        assert_eq!(Cpu::amd().get(leaf, 0), CpuidResult::default(), "leaf {leaf:#x}");
    }
}

#[test]
fn a_host_with_nothing_still_offers_what_is_emulated() {
    let bare = |leaf, _| match leaf {
        leaf::VENDOR => CpuidResult { eax: 1, ..CpuidResult::default() },
        leaf::EXTENDED_MAX => CpuidResult { eax: leaf::EXTENDED_FEATURES, ..CpuidResult::default() },
        leaf::FEATURES | leaf::EXTENDED_FEATURES => CpuidResult::default(),
        other => panic!("leaf {other:#x} does not exist on this host"),
    };
    let cpu = Cpu::new(bare, &setup());
    assert_eq!(cpu.get(1, 0).ecx, (Leaf1Ecx::X2APIC | Leaf1Ecx::TSC_DEADLINE | Leaf1Ecx::HYPERVISOR).bits());
    assert_eq!(cpu.get(6, 0).eax, 4);
    assert_eq!(cpu.get(0xd, 0), CpuidResult::default());
    assert_eq!(cpu.get(0xd, 1), CpuidResult::default());
    assert_eq!(cpu.get(leaf::ADDRESS_SIZES, 0).eax, 0x3028);
    assert!(!cpu.table.allowed_cr4().contains(Cr4::OSXSAVE));
}

#[test]
fn avx_needs_its_state() {
    let without = |leaf, subleaf| match (leaf, subleaf) {
        (leaf::XSAVE, 0) => CpuidResult { eax: 3, ..CpuidResult::default() },
        _ => host(INTEL)(leaf, subleaf),
    };
    let cpu = Cpu::new(without, &setup());
    assert_eq!(cpu.get(1, 0).ecx & (Leaf1Ecx::AVX | Leaf1Ecx::FMA | Leaf1Ecx::F16C).bits(), 0);
    assert_ne!(cpu.get(1, 0).ecx & Leaf1Ecx::XSAVE.bits(), 0);
    assert_eq!(cpu.get(7, 0).ebx & 0xd023_0020, 0, "AVX2, AVX-512");
    assert_eq!(cpu.get(7, 0).ecx & 0x0000_5f42 & !0x100, 0, "VAES, VPCLMULQDQ, AVX-512");
}

#[test]
fn live_bits_follow_cr4_xcr0_and_the_apic() {
    let mut cpu = Cpu::amd();
    let osxsave = |cpu: &Cpu| cpu.get(1, 0).ecx & Leaf1Ecx::OSXSAVE.bits() != 0;
    assert!(!osxsave(&cpu));
    cpu.vcpu.cr4 = Cr4::OSXSAVE;
    assert!(osxsave(&cpu));
    for (xcr0, standard, compacted) in [(1, 576, 576), (7, 832, 832), (0xe7, 2688, 2432)] {
        cpu.vcpu.xcr0 = xcr0;
        assert_eq!((cpu.get(0xd, 0).ebx, cpu.get(0xd, 1).ebx), (standard, compacted));
    }
    let apic = |cpu: &Cpu, leaf| cpu.get(leaf, 0).edx & Leaf1Edx::APIC.bits() != 0;
    assert!(apic(&cpu, 1) && apic(&cpu, leaf::EXTENDED_FEATURES));
    cpu.lapic.set_base(x86defs::apic::DEFAULT_BASE).expect("disabled");
    assert!(!apic(&cpu, 1) && !apic(&cpu, leaf::EXTENDED_FEATURES));
}

#[test]
fn leaf_d_adds_up() {
    let cpu = Cpu::intel();
    let main = cpu.get(0xd, 0);
    assert_eq!((main.eax, main.edx), (0xe7, 0));
    let ends = (2..63).filter(|i| main.eax & 1u32.checked_shl(*i).unwrap_or(0) != 0).map(|i| {
        let component = cpu.get(0xd, i);
        assert!(component.eax > 0 && component.ebx >= 576, "component {i}");
        component.eax + component.ebx
    });
    assert_eq!(ends.max(), Some(main.ecx));
    for absent in [3, 4, 8, 9, 17, 62, 63, 0xffff_ffff] {
        assert_eq!(cpu.get(0xd, absent), CpuidResult::default());
    }
}

#[test]
fn leaves_that_do_not_exist_follow_the_vendors_rule() {
    let intel = Cpu::intel();
    assert_eq!(intel.get(0, 0).eax, 0x16);
    for leaf in [0x17, 0x1f, 0xffff, 0x8000_0009, 0x8fff_ffff, 0xc000_0000, u32::MAX] {
        assert_eq!(intel.get(leaf, 7), intel.get(0x16, 7), "leaf {leaf:#x}");
        assert_eq!(Cpu::amd().get(leaf.max(0x8000_0022), 7), CpuidResult::default());
    }
    let amd = Cpu::amd();
    assert_eq!((amd.get(0, 0).eax, amd.get(0x8000_0000, 0).eax), (0xd, 0x8000_0021));
    for leaf in [0xe, 0x15, 0x16, 0x8000_0022] {
        assert_eq!(amd.get(leaf, 0), CpuidResult::default());
    }
}

#[test]
fn hypervisor_leaves_name_us_and_the_clock() {
    let text = |r: CpuidResult| [r.ebx, r.ecx, r.edx].map(u32::to_le_bytes).concat();
    for cpu in [Cpu::intel(), Cpu::amd()] {
        let own = cpu.get(0x4000_0000, 0);
        assert_eq!((own.eax, &text(own)[..]), (0x4000_0000, &b"GossamerGoss"[..]));
        let kvm = cpu.get(0x4000_0100, 0);
        assert_eq!((kvm.eax, &text(kvm)[..]), (0x4000_0101, &b"KVMKVMKVM\0\0\0"[..]));
        let features = cpu.get(0x4000_0101, 0);
        assert_eq!(features, CpuidResult { eax: 1 << 3 | 1 << 24, ..CpuidResult::default() });
        for leaf in [0x4000_0001, 0x4000_00ff, 0x4000_0102, 0x4fff_ffff] {
            assert_eq!(cpu.get(leaf, 0), CpuidResult::default(), "leaf {leaf:#x}");
        }
    }
}

#[test]
fn the_frequencies_are_the_measured_ones() {
    for khz in [100_000, 2_899_998, 5_000_002] {
        let clock = TimerClock::for_tsc(khz);
        let tsc = Cpu::new(host(INTEL), &Setup { clock, ..setup() }).get(0x15, 0);
        assert_eq!(u64::from(tsc.ecx) * u64::from(tsc.ebx) / u64::from(tsc.eax), khz * 1000);
        // Linux multiplies in 32 bits.
        assert_eq!((tsc.ecx / 1000).checked_mul(tsc.ebx).map(u64::from), Some(khz));
    }
    assert_eq!(Cpu::intel().get(0x16, 0).eax, 2900);
}

#[test]
fn topology_is_one_package_of_our_own() {
    let one = Cpu::intel();
    assert_eq!(one.get(1, 0).ebx, 0x0001_0800);
    assert_eq!(one.get(1, 0).edx & Leaf1Edx::HTT.bits(), 0);
    assert_eq!(one.get(4, 0).eax >> 14, 0);
    let four = Cpu::new(host(INTEL), &Setup { apic_id: 2, cpus: 4, ..setup() });
    assert_eq!(four.get(1, 0).ebx, 0x0204_0800);
    assert_ne!(four.get(1, 0).edx & Leaf1Edx::HTT.bits(), 0);
    assert_eq!((four.get(4, 0).eax >> 14) & 0xfff, 0, "the first level is private");
    assert_eq!((four.get(4, 1).eax >> 14) & 0xfff, 3, "the last is shared");
    let core = CpuidResult { eax: 2, ebx: 4, ecx: 0x201, edx: 2 };
    assert_eq!((four.get(0xb, 0).ebx, four.get(0xb, 1)), (1, core));
    assert_eq!(four.get(0xb, 9), CpuidResult { ecx: 9, edx: 2, ..CpuidResult::default() });
    let amd = Cpu::new(host(AMD), &Setup { apic_id: 2, cpus: 3, ..setup() });
    assert_eq!(amd.get(leaf::ADDRESS_SIZES, 0).ecx, 0x2002);
    assert_ne!(amd.get(leaf::EXTENDED_FEATURES, 0).ecx & 2, 0, "CMP_LEGACY");
}

#[test]
fn control_registers_follow_the_features() {
    let cpu = Cpu::intel();
    let cr4 = cpu.table.allowed_cr4();
    assert!(
        cr4.contains(
            Cr4::PAE | Cr4::OSXSAVE | Cr4::SMEP | Cr4::SMAP | Cr4::UMIP | Cr4::PCIDE | Cr4::FSGSBASE
        )
    );
    let hidden = Cr4::VMXE | Cr4::SMXE | Cr4::LA57 | Cr4::PKE | Cr4::CET | Cr4::PKS;
    assert!(!cr4.intersects(hidden));
    let efer = cpu.table.allowed_efer();
    assert_eq!(efer, Efer::SCE | Efer::LME | Efer::LMA | Efer::NXE | Efer::FFXSR);
    let small = |leaf, subleaf| match leaf {
        7 => CpuidResult::default(),
        leaf::EXTENDED_FEATURES => CpuidResult { edx: 1 << 29 | 1 << 11, ..CpuidResult::default() },
        _ => host(INTEL)(leaf, subleaf),
    };
    let table = CpuidTable::new(small, &setup());
    assert!(!table.allowed_cr4().intersects(Cr4::SMEP | Cr4::SMAP | Cr4::UMIP | Cr4::FSGSBASE));
    assert_eq!(table.allowed_efer(), Efer::SCE | Efer::LME | Efer::LMA);
    assert_eq!(table.signature(), 0x0005_0654);
}

#[test]
fn address_sizes_are_the_guests() {
    assert_eq!(Cpu::intel().get(leaf::ADDRESS_SIZES, 0).eax, 0x3028);
    let la57 = |leaf, subleaf| match leaf {
        leaf::ADDRESS_SIZES => CpuidResult { eax: 0x3934, ..CpuidResult::default() },
        _ => host(INTEL)(leaf, subleaf),
    };
    assert_eq!(Cpu::new(la57, &setup()).get(leaf::ADDRESS_SIZES, 0).eax, 0x3028);
}

//! CPUID.

#![allow(unsafe_code, reason = "CPUID with chosen upper halves")]

use core::arch::asm;
use runtime::cpu::{self, Vendor, cpuid, xsetbv};
use runtime::harness::expect_ok;
use runtime::hw::lapic;
use runtime::machine;
use runtime::{expect, expect_eq, guest_test, platform_wrong, skip};
use x86defs::control::Cr4;
use x86defs::cpuid::{Ext1Ecx, KvmFeatures, Leaf1Ecx, Xcr0, leaf};

fn features() -> Leaf1Ecx {
    Leaf1Ecx::from_bits_retain(cpuid(leaf::FEATURES, 0).ecx)
}

guest_test!(vendor);
fn vendor() {
    let basic = cpuid(leaf::VENDOR, 0);
    let extended = cpuid(leaf::EXTENDED_MAX, 0);
    expect!(cpu::vendor() != Vendor::Other, "leaf 0 is {basic:#x?}");
    if cpu::vendor() == Vendor::Intel {
        platform_wrong!(QemuTcg, "leaf 0x80000000 repeats the vendor on an Intel CPU, too");
    }
    let repeated = [extended.ebx, extended.ecx, extended.edx];
    match cpu::vendor() {
        Vendor::Amd => expect_eq!(repeated, [basic.ebx, basic.ecx, basic.edx], "leaf 0x80000000"),
        _ => expect_eq!(repeated, [0; 3], "leaf 0x80000000"),
    }
}

guest_test!(max_leaf);
fn max_leaf() {
    let (basic, extended) = (cpuid(leaf::VENDOR, 0).eax, cpuid(leaf::EXTENDED_MAX, 0).eax);
    if features().contains(Leaf1Ecx::XSAVE) {
        expect!(basic >= leaf::XSAVE, "{basic:#x}, but XSAVE is offered");
    }
    expect!(basic < 0x100, "{basic:#x}");
    expect!(extended >= leaf::ADDRESS_SIZES, "{extended:#x}, but every CPU with long mode has address sizes");
    expect!(extended < leaf::EXTENDED_MAX + 0x100, "{extended:#x}");
}

guest_test!(out_of_range_leaf);
fn out_of_range_leaf() {
    if cpu::vendor() == Vendor::Amd {
        platform_wrong!(QemuTcg, "leaves out of range act as Intel's on an AMD CPU, too");
    }
    // Intel: the highest basic leaf, whatever the subleaf; AMD: zeros.
    let expected = match cpu::vendor() {
        Vendor::Amd => [0; 4],
        _ => words(cpuid(cpuid(leaf::VENDOR, 0).eax, 0)),
    };
    for number in [0x1000, 0x0fff_ffff, 0x8fff_ffff] {
        expect_eq!(words(cpuid(number, 0)), expected, "leaf {number:#x}");
    }
}

fn words(leaf: cpu::CpuidResult) -> [u32; 4] {
    [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]
}

guest_test!(clears_upper_halves);
fn clears_upper_halves() {
    let (rax, rbx, rcx, rdx): (u64, u64, u64, u64);
    // SAFETY: RBX, which the compiler reserves, is put back.
    unsafe {
        asm!("xchg rbx, {other}", "cpuid", "xchg rbx, {other}", other = inout(reg) u64::MAX => rbx,
            inout("rax") 0xffff_ffff_0000_0000u64 => rax, inout("rcx") 0xffff_ffff_0000_0000u64 => rcx,
            inout("rdx") u64::MAX => rdx)
    };
    for (name, value) in [("RAX", rax), ("RBX", rbx), ("RCX", rcx), ("RDX", rdx)] {
        expect_eq!(value >> 32, 0, "upper half of {name}");
    }
}

guest_test!(osxsave_follows_cr4);
fn osxsave_follows_cr4() {
    if !features().contains(Leaf1Ecx::XSAVE) {
        skip!("no XSAVE");
    }
    for on in [false, true, false] {
        let mut cr4 = cpu::cr4();
        cr4.set(Cr4::OSXSAVE, on);
        expect_ok("MOV to CR4", cpu::set_cr4(cr4));
        expect_eq!(features().contains(Leaf1Ecx::OSXSAVE), on, "CPUID.1:ECX.OSXSAVE after CR4.OSXSAVE={on}");
    }
}

guest_test!(apic_id);
fn apic_id() {
    let initial = (cpuid(leaf::FEATURES, 0).ebx >> 24) as u8;
    expect_eq!(initial, lapic::id(), "initial APIC ID");
    if cpuid(leaf::VENDOR, 0).eax >= leaf::EXTENDED_TOPOLOGY {
        let topology = cpuid(leaf::EXTENDED_TOPOLOGY, 0);
        if topology.ebx != 0 {
            expect_eq!(topology.edx, u32::from(initial), "x2APIC ID");
        }
    }
}

guest_test!(leaf_d_adds_up);
fn leaf_d_adds_up() {
    if !features().contains(Leaf1Ecx::XSAVE) {
        skip!("no XSAVE");
    }
    let main = cpuid(leaf::XSAVE, 0);
    let offered = u64::from(main.edx) << 32 | u64::from(main.eax);
    // Legacy region and header (SDM 1, 13.4).
    let mut end = 512 + 64;
    for component in (2..63).filter(|c| offered & 1 << c != 0) {
        let part = cpuid(leaf::XSAVE, component);
        expect!(part.eax > 0 && part.ebx >= 512 + 64, "component {component}: {part:x?}");
        end = end.max(part.eax + part.ebx);
    }
    expect_eq!(main.ecx, end, "size of all components of {offered:#x}");
}

guest_test!(leaf_d_follows_xcr0);
fn leaf_d_follows_xcr0() {
    if !features().contains(Leaf1Ecx::XSAVE) {
        skip!("no XSAVE");
    }
    expect_ok("MOV to CR4", cpu::set_cr4(cpu::cr4() | Cr4::OSXSAVE));
    expect_ok("XSETBV", xsetbv(0, Xcr0::X87.bits()));
    let small = cpuid(leaf::XSAVE, 0).ebx;
    expect_eq!(small, 512 + 64, "size for x87 alone");
    if Xcr0::from_bits_retain(cpuid(leaf::XSAVE, 0).eax.into()).contains(Xcr0::AVX) {
        let avx = cpuid(leaf::XSAVE, Xcr0::AVX.bits().trailing_zeros());
        expect_ok("XSETBV", xsetbv(0, (Xcr0::X87 | Xcr0::SSE | Xcr0::AVX).bits()));
        expect_eq!(cpuid(leaf::XSAVE, 0).ebx, avx.eax + avx.ebx, "size with AVX");
        expect_ok("XSETBV", xsetbv(0, Xcr0::X87.bits()));
    }
}

guest_test!(hypervisor_leaves);
fn hypervisor_leaves() {
    let machine = machine::get();
    let Some(signature) = machine::hypervisor_signature() else {
        expect!(machine.reference, "CPUID.1:ECX[31] is clear");
        skip!("not under a hypervisor");
    };
    let max = cpuid(leaf::HYPERVISOR, 0).eax;
    expect!((leaf::HYPERVISOR..leaf::HYPERVISOR_END).contains(&max), "last leaf {max:#x}");
    if machine.reference {
        return;
    }
    expect_eq!(&signature, machine::GOSSAMER_SIGNATURE, "signature");
    let kvm = cpuid(leaf::HYPERVISOR_SECOND, 0);
    expect_eq!(kvm.eax, leaf::KVM_FEATURES, "last leaf of the KVM interface");
    let name = [kvm.ebx, kvm.ecx, kvm.edx].map(u32::to_le_bytes);
    expect_eq!(name.as_flattened(), b"KVMKVMKVM\0\0\0", "its signature");
    let clock = KvmFeatures::CLOCKSOURCE2 | KvmFeatures::CLOCKSOURCE_STABLE;
    expect_eq!(cpuid(leaf::KVM_FEATURES, 0).eax, clock.bits(), "its features");
}

guest_test!(no_nested_virtualization);
fn no_nested_virtualization() {
    if machine::get().reference {
        skip!("a bare machine may offer it");
    }
    expect!(!features().contains(Leaf1Ecx::VMX), "{:?}", features());
    let extended = Ext1Ecx::from_bits_retain(cpuid(leaf::EXTENDED_FEATURES, 0).ecx);
    expect!(!extended.contains(Ext1Ecx::SVM), "{extended:?}");
}

guest_test!(physical_address_width);
fn physical_address_width() {
    let sizes = cpuid(leaf::ADDRESS_SIZES, 0).eax;
    let (physical, linear) = (sizes & 0xff, sizes >> 8 & 0xff);
    expect!((36..=52).contains(&physical), "{physical} bits");
    expect!(linear == 48 || linear == 57, "{linear} bits");
}

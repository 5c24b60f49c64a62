//! Control registers.

#![allow(unsafe_code, reason = "instructions that control registers allow or forbid")]

use core::arch::asm;
use runtime::cpu::{self, cpuid, rdmsr, set_cr0, set_cr4, xgetbv, xsetbv};
use runtime::fault::catch;
use runtime::harness::{expect_fault, expect_gp, expect_ok};
use runtime::hw::lapic;
use runtime::memory::{self, PRESENT, Space, USER, WRITABLE, read64};
use runtime::{cpu_wrong, expect, expect_eq, guest_mode_wrong, guest_test, skip};
use x86defs::apic::reg;
use x86defs::control::{Cr0, Cr4, Rflags};
use x86defs::cpuid::{Leaf1Ecx, Leaf7Ebx, Xcr0, leaf};
use x86defs::event::Exception;
use x86defs::msr;

guest_test!(cr0_invalid_combinations);
fn cr0_invalid_combinations() {
    guest_mode_wrong!(Bochs, Amd, "it accepts PG without PE, and then gives up");
    cpu_wrong!(QemuTcg, "MOV to CR0 checks nothing");
    let cr0 = cpu::cr0();
    expect_gp("PG without PE", set_cr0(cr0 - Cr0::PE));
    expect_gp("NW without CD", set_cr0(cr0 | Cr0::NW));
    expect_gp("a bit above 31", set_cr0(cr0 | Cr0::from_bits_retain(1 << 32)));
    expect_eq!(cpu::cr0(), cr0, "CR0 after faults");
}

guest_test!(cr0_paging_off_in_64_bit_mode);
fn cr0_paging_off_in_64_bit_mode() {
    cpu_wrong!(QemuTcg, "MOV to CR0 checks nothing");
    expect_gp("clearing PG in 64-bit mode", set_cr0(cpu::cr0() - Cr0::PG));
}

guest_test!(cr0_reserved_bits_below_32_are_ignored);
fn cr0_reserved_bits_below_32_are_ignored() {
    // Bit 6 reads as zero whatever is written; ET reads as one (SDM 3, 2.5).
    cpu_wrong!(QemuTcg, "CR0 keeps reserved bits");
    let cr0 = cpu::cr0();
    expect_ok("reserved bit", set_cr0((cr0 - Cr0::ET) | Cr0::from_bits_retain(1 << 6)));
    expect_eq!(cpu::cr0(), cr0, "CR0");
}

guest_test!(cr0_bits_read_back);
fn cr0_bits_read_back() {
    let cr0 = cpu::cr0();
    for bit in [Cr0::MP, Cr0::EM, Cr0::TS, Cr0::WP, Cr0::AM, Cr0::CD] {
        expect_ok("MOV to CR0", set_cr0(cr0 ^ bit));
        expect_eq!(cpu::cr0(), cr0 ^ bit, "CR0");
    }
    expect_ok("MOV to CR0", set_cr0(cr0));
}

guest_test!(lmsw_and_clts);
fn lmsw_and_clts() {
    let cr0 = cpu::cr0();
    let low = (cr0 | Cr0::TS | Cr0::MP).bits();
    let smsw: u64;
    // SAFETY: TS and MP do not matter to code without x87 instructions. LMSW cannot clear PE.
    unsafe { asm!("lmsw {0:x}", "smsw {0}", inout(reg) low & !Cr0::PE.bits() => smsw) };
    expect_eq!(cpu::cr0(), cr0 | Cr0::TS | Cr0::MP, "CR0 after LMSW");
    expect_eq!(smsw & 0xffff, low & 0xffff, "SMSW");
    // SAFETY: as above.
    unsafe { asm!("clts") };
    expect_eq!(cpu::cr0(), cr0 | Cr0::MP, "CR0 after CLTS");
}

guest_test!(write_protect);
fn write_protect() {
    const PAGE: u64 = memory::FREE;
    let space = Space::new();
    space.map(PAGE, memory::frame(), PRESENT);
    space.activate();
    // SAFETY: the page is the test's own.
    let write = || catch(|| unsafe { asm!("mov qword ptr [{}], 1", in(reg) PAGE) });
    expect_fault("write with CR0.WP", write(), Exception::PageFault, 3);
    expect_ok("MOV to CR0", set_cr0(cpu::cr0() - Cr0::WP));
    expect_ok("write without CR0.WP", write());
    expect_eq!(read64(PAGE), 1, "the page");
    expect_ok("MOV to CR0", set_cr0(cpu::cr0() | Cr0::WP));
    expect_fault("write with CR0.WP again", write(), Exception::PageFault, 3);
}

guest_test!(cr4_reserved_bits);
fn cr4_reserved_bits() {
    cpu_wrong!(QemuTcg, "MOV to CR4 accepts reserved bits");
    let cr4 = cpu::cr4();
    for bit in [15, 31, 32, 63] {
        expect_gp("reserved bit of CR4", set_cr4(cr4 | Cr4::from_bits_retain(1 << bit)));
    }
    expect_eq!(cpu::cr4(), cr4, "CR4 after faults");
}

guest_test!(cr4_pae_is_locked_by_long_mode);
fn cr4_pae_is_locked_by_long_mode() {
    cpu_wrong!(QemuTcg, "MOV to CR4 checks nothing");
    expect_gp("clearing PAE in long mode", set_cr4(cpu::cr4() - Cr4::PAE));
}

guest_test!(cr4_hides_virtualization);
fn cr4_hides_virtualization() {
    if runtime::machine::get().reference {
        skip!("a bare machine may offer it");
    }
    cpu_wrong!(QemuTcg, "CR4 accepts bits that CPUID does not offer");
    expect!(!cpu::cr4().contains(Cr4::VMXE), "{:?}", cpu::cr4());
    expect_gp("VMXE without VMX", set_cr4(cpu::cr4() | Cr4::VMXE));
}

fn features() -> Leaf1Ecx {
    Leaf1Ecx::from_bits_retain(cpuid(leaf::FEATURES, 0).ecx)
}
fn structured_features() -> Leaf7Ebx {
    Leaf7Ebx::from_bits_retain(cpuid(leaf::STRUCTURED_FEATURES, 0).ebx)
}

guest_test!(cr4_bits_follow_cpuid);
fn cr4_bits_follow_cpuid() {
    cpu_wrong!(QemuTcg, "CR4 accepts bits that CPUID does not offer");
    let cr4 = cpu::cr4();
    let (one, seven) = (features(), structured_features());
    for (bit, offered) in [
        (Cr4::OSXSAVE, one.contains(Leaf1Ecx::XSAVE)),
        (Cr4::PCIDE, one.contains(Leaf1Ecx::PCID)),
        (Cr4::FSGSBASE, seven.contains(Leaf7Ebx::FSGSBASE)),
        (Cr4::SMEP, seven.contains(Leaf7Ebx::SMEP)),
        (Cr4::SMAP, seven.contains(Leaf7Ebx::SMAP)),
    ] {
        let result = set_cr4(cr4 | bit);
        expect_eq!(result.is_ok(), offered, "setting {bit:?}, offered {offered}");
        expect_ok("MOV to CR4", set_cr4(cr4));
    }
}

guest_test!(global_pages);
fn global_pages() {
    const PAGE: u64 = memory::FREE;
    let (old, new) = (memory::frame(), memory::frame());
    memory::write64(old, 1);
    memory::write64(new, 2);
    let space = Space::new();
    space.activate();
    for flush in [true, false] {
        expect_ok("MOV to CR4", set_cr4(cpu::cr4() | Cr4::PGE));
        space.map(PAGE, old, PRESENT | WRITABLE | memory::GLOBAL);
        expect_eq!(read64(PAGE), 1, "the old page");
        // Without INVLPG: only clearing PGE may be relied on to drop a global translation.
        memory::write64(space.entry(PAGE, 1), new | PRESENT | memory::GLOBAL);
        if flush {
            expect_ok("MOV to CR4", set_cr4(cpu::cr4() - Cr4::PGE));
        } else {
            cpu::invlpg(PAGE);
        }
        expect_eq!(read64(PAGE), 2, "the new page");
    }
}

guest_test!(fsgsbase);
fn fsgsbase() {
    if !structured_features().contains(Leaf7Ebx::FSGSBASE) {
        skip!("no FSGSBASE");
    }
    // SAFETY: nothing uses FS.
    let wrfsbase = |value: u64| catch(|| unsafe { asm!("wrfsbase {}", in(reg) value) });
    expect_fault("WRFSBASE without CR4.FSGSBASE", wrfsbase(0x1234), Exception::InvalidOpcode, 0);
    expect_ok("MOV to CR4", set_cr4(cpu::cr4() | Cr4::FSGSBASE));
    expect_ok("WRFSBASE", wrfsbase(0x1234));
    expect_eq!(rdmsr(msr::FS_BASE).ok(), Some(0x1234), "FS.base");
}

guest_test!(xsetbv_faults);
fn xsetbv_faults() {
    if !features().contains(Leaf1Ecx::XSAVE) {
        skip!("no XSAVE");
    }
    expect_fault("XSETBV without CR4.OSXSAVE", xsetbv(0, 1), Exception::InvalidOpcode, 0);
    expect_fault("XGETBV without CR4.OSXSAVE", xgetbv(0), Exception::InvalidOpcode, 0);
    expect_ok("MOV to CR4", set_cr4(cpu::cr4() | Cr4::OSXSAVE));
    let before = expect_ok("XGETBV", xgetbv(0));
    expect_gp("XCR1", xsetbv(1, 1));
    expect_gp("XCR0 without x87", xsetbv(0, Xcr0::SSE.bits()));
    expect_gp("XCR0 with AVX but not SSE", xsetbv(0, (Xcr0::X87 | Xcr0::AVX).bits()));
    expect_gp("XCR0 with bit 63", xsetbv(0, 1 << 63 | Xcr0::X87.bits()));
    expect_gp("XCR0 with a reserved bit", xsetbv(0, 1 << 62 | Xcr0::X87.bits()));
    expect_eq!(xgetbv(0).ok(), Some(before), "XCR0 after faults");
}

guest_test!(xcr0_with_everything);
fn xcr0_with_everything() {
    if !features().contains(Leaf1Ecx::XSAVE) {
        skip!("no XSAVE");
    }
    expect_ok("MOV to CR4", set_cr4(cpu::cr4() | Cr4::OSXSAVE));
    let main = cpuid(leaf::XSAVE, 0);
    let offered = u64::from(main.edx) << 32 | u64::from(main.eax);
    expect_ok("XSETBV with all that is offered", xsetbv(0, offered));
    expect_eq!(xgetbv(0).ok(), Some(offered), "XCR0");
    expect_ok("XSETBV", xsetbv(0, Xcr0::X87.bits()));
}

/// A page that ring 3 may use, with a RET in it.
fn user_page_with_ret() -> u64 {
    const RET: u8 = 0xc3;
    let space = Space::new();
    let frame = memory::frame();
    memory::write8(frame, RET);
    space.map(memory::FREE, frame, PRESENT | WRITABLE | USER);
    space.activate();
    memory::FREE
}

guest_test!(smep);
fn smep() {
    if !structured_features().contains(Leaf7Ebx::SMEP) {
        skip!("no SMEP");
    }
    let page = user_page_with_ret();
    // SAFETY: there is a RET at the address.
    let call = || catch(|| unsafe { asm!("call {}", in(reg) page, clobber_abi("C")) });
    expect_ok("call without SMEP", call());
    expect_ok("MOV to CR4", set_cr4(cpu::cr4() | Cr4::SMEP));
    expect_fault("call with SMEP", call(), Exception::PageFault, 0x11);
}

guest_test!(smap);
fn smap() {
    if !structured_features().contains(Leaf7Ebx::SMAP) {
        skip!("no SMAP");
    }
    let page = user_page_with_ret();
    // SAFETY: the page is mapped.
    let load = || catch(|| unsafe { asm!("mov {0}, [{0}]", inout(reg) page => _) });
    expect_ok("load without SMAP", load());
    expect_ok("MOV to CR4", set_cr4(cpu::cr4() | Cr4::SMAP));
    expect_fault("load with SMAP", load(), Exception::PageFault, 1);
    // SAFETY: AC means nothing else in ring 0; CLAC and the catch frame put it back.
    let allowed = catch(|| unsafe { asm!("stac", "mov {0}, [{0}]", "clac", inout(reg) page => _) });
    expect_ok("load with SMAP and EFLAGS.AC", allowed);
    expect_eq!(cpu::rflags() & Rflags::AC.bits(), 0, "EFLAGS.AC after CLAC");
}

guest_test!(cr8_is_the_task_priority);
fn cr8_is_the_task_priority() {
    for priority in [0u64, 1, 7, 15] {
        expect_ok("MOV to CR8", cpu::set_cr8(priority));
        expect_eq!(cpu::cr8(), priority, "CR8");
        expect_eq!(lapic::read(reg::TPR), (priority as u32) << 4, "TPR after CR8");
    }
    lapic::write(reg::TPR, 0x35);
    expect_eq!(cpu::cr8(), 3, "CR8 after TPR 0x35");
    lapic::write(reg::TPR, 0);
}

guest_test!(cr8_reserved_bits);
fn cr8_reserved_bits() {
    cpu_wrong!(QemuTcg, "MOV to CR8 drops reserved bits without a fault");
    expect_gp("reserved bits of CR8", cpu::set_cr8(16));
    expect_eq!(cpu::cr8(), 0, "CR8 after the fault");
}

guest_test!(undefined_control_registers);
fn undefined_control_registers() {
    // SAFETY: reads no memory; the numbers are not defined.
    let cr1 = catch(|| unsafe { asm!("mov {}, cr1", out(reg) _) });
    expect_fault("MOV from CR1", cr1, Exception::InvalidOpcode, 0);
    // SAFETY: as above.
    let cr5 = catch(|| unsafe { asm!("mov {}, cr5", out(reg) _) });
    expect_fault("MOV from CR5", cr5, Exception::InvalidOpcode, 0);
}

guest_test!(cr3_reserved_bits);
fn cr3_reserved_bits() {
    cpu_wrong!(QemuTcg, "MOV to CR3 accepts reserved bits");
    let cr3 = cpu::cr3();
    expect_gp("reserved bit of CR3", cpu::set_cr3(cr3 | 1 << 62));
    expect_eq!(cpu::cr3(), cr3, "CR3 after the fault");
}

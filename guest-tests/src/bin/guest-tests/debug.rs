//! Debug registers.

#![allow(unsafe_code, reason = "instructions that hit breakpoints")]

use core::arch::asm;
use runtime::cpu;
use runtime::fault::catch;
use runtime::harness::{expect_fault, expect_gp, expect_ok};
use runtime::interrupt::{self, Frame};
use runtime::memory;
use runtime::{cpu_wrong, expect, expect_eq, guest_mode_wrong, guest_test};
use x86defs::control::{Cr4, Rflags};
use x86defs::event::Exception;
use x86defs::reset::{DR6_RESET, DR7_RESET};

/// DR7 bits (SDM 3, 18.2.4).
const L0: u64 = 1 << 0;
const GD: u64 = 1 << 13;
const RW0_WRITE: u64 = 1 << 16;
const RW0_READ_WRITE: u64 = 3 << 16;
const LEN0_8: u64 = 2 << 18;
/// DR6 bits (SDM 3, 18.2.3).
const B0: u64 = 1 << 0;
const BD: u64 = 1 << 13;

guest_test!(registers_read_back);
fn registers_read_back() {
    let values = [0x1111_2222, 0xffff_8000_0000_0001, 3, 0x7fff_ffff_ffff];
    let set = [cpu::set_dr0, cpu::set_dr1, cpu::set_dr2, cpu::set_dr3];
    for (set, value) in set.iter().zip(values) {
        expect_ok("MOV to DRn", set(value));
    }
    expect_eq!([cpu::dr0(), cpu::dr1(), cpu::dr2(), cpu::dr3()], values, "DR0 to DR3");
}

guest_test!(fixed_bits);
fn fixed_bits() {
    // Whatever is written below bit 32, the fixed bits read as after reset.
    expect_ok("MOV to DR6", cpu::set_dr6(0));
    let dr6 = cpu::dr6();
    expect!(dr6 & 0xffff_0ff0 == 0xffff_0ff0 && dr6 & 0xe00f == 0, "DR6 is {dr6:#x} after writing 0");
    expect_ok("MOV to DR7", cpu::set_dr7(0));
    expect_eq!(cpu::dr7(), DR7_RESET, "DR7 after writing 0");
    expect_ok("MOV to DR6", cpu::set_dr6(DR6_RESET));
}

guest_test!(upper_halves_are_reserved);
fn upper_halves_are_reserved() {
    expect_gp("bit 32 of DR6", cpu::set_dr6(DR6_RESET | 1 << 32));
    expect_gp("bit 32 of DR7", cpu::set_dr7(DR7_RESET | 1 << 32));
}

guest_test!(dr4_and_dr5_alias);
fn dr4_and_dr5_alias() {
    let read_dr4 = || {
        catch(|| {
            let value: u64;
            // SAFETY: reads no memory.
            unsafe { asm!("mov {}, dr4", out(reg) value) };
            value
        })
    };
    expect_eq!(read_dr4().ok(), Some(cpu::dr6()), "DR4 without CR4.DE");
    expect_ok("MOV to CR4", cpu::set_cr4(cpu::cr4() | Cr4::DE));
    expect_fault("DR4 with CR4.DE", read_dr4(), Exception::InvalidOpcode, 0);
}

/// Handler of #DB that goes on.
fn go_on(frame: &mut Frame) {
    // An instruction breakpoint is a fault: RF lets the instruction run.
    frame.rflags |= Rflags::RF.bits();
}

guest_test!(data_breakpoint);
fn data_breakpoint() {
    guest_mode_wrong!(Bochs, Amd, "an intercepted #DB leaves DR6 as it was");
    interrupt::handle(Exception::Debug as u8, go_on);
    let place = memory::frame();
    expect_ok("MOV to DR0", cpu::set_dr0(place + 8));
    expect_ok("MOV to DR6", cpu::set_dr6(DR6_RESET));
    expect_ok("MOV to DR7", cpu::set_dr7(DR7_RESET | L0 | RW0_WRITE | LEN0_8));
    memory::write64(place, 1);
    let _ = memory::read64(place + 8);
    expect_eq!(interrupt::count(1), 0, "#DB without a match");
    memory::write64(place + 8, 1);
    expect_eq!(interrupt::count(1), 1, "#DB after a write");
    expect_eq!(cpu::dr6() & 0xf, B0, "DR6");
    expect_ok("MOV to DR7", cpu::set_dr7(DR7_RESET | L0 | RW0_READ_WRITE | LEN0_8));
    let _ = memory::read8(place + 15);
    expect_eq!(interrupt::count(1), 2, "#DB after a read");
    expect_ok("MOV to DR7", cpu::set_dr7(DR7_RESET));
    memory::write64(place + 8, 1);
    expect_eq!(interrupt::count(1), 2, "#DB with the breakpoint off");
}

guest_test!(instruction_breakpoint);
fn instruction_breakpoint() {
    interrupt::handle(Exception::Debug as u8, go_on);
    let mut passed = 0u32;
    for round in 1..=2u64 {
        let place: u64;
        // SAFETY: computes an address.
        unsafe { asm!("lea {}, [rip + {}]", out(reg) place, sym target, options(nomem)) };
        expect_ok("MOV to DR0", cpu::set_dr0(place));
        expect_ok("MOV to DR7", cpu::set_dr7(DR7_RESET | L0));
        // SAFETY: `target` is a function.
        unsafe { asm!("call {}", sym target, inout("eax") passed, clobber_abi("C")) };
        expect_eq!(interrupt::count(1), round, "#DB at the breakpoint");
        expect_eq!(passed, round as u32, "passes through the instruction");
    }
}

/// Increments EAX.
#[unsafe(naked)]
unsafe extern "C" fn target() {
    core::arch::naked_asm!("inc eax", "ret")
}

guest_test!(general_detect);
fn general_detect() {
    guest_mode_wrong!(Bochs, Amd, "an intercepted #DB leaves DR6 as it was");
    cpu_wrong!(QemuTcg, "DR7.GD is not there");
    expect_ok("MOV to DR7", cpu::set_dr7(DR7_RESET | GD));
    // SAFETY: reads no memory.
    let result = catch(|| unsafe { asm!("mov {}, dr0", out(reg) _) });
    expect_fault("MOV from DR0 with DR7.GD", result, Exception::Debug, 0);
    expect!(cpu::dr6() & BD != 0, "DR6 is {:#x}", cpu::dr6());
    // Delivery clears GD, so that the handler can use the registers.
    expect_eq!(cpu::dr7(), DR7_RESET, "DR7 after #DB");
    expect_ok("MOV to DR6", cpu::set_dr6(DR6_RESET));
}

//! INS and OUTS with memory operands that are not plain RAM, and what they check before a port is used. With RAM they
//! are tested in `ports`.

#![allow(unsafe_code, reason = "INS and OUTS")]

use core::arch::{asm, naked_asm};
use runtime::fault::catch;
use runtime::harness::{expect_fault, expect_gp};
use runtime::hw::lapic;
use runtime::hw::port::{inl, outl};
use runtime::hw::uart::COM1;
use runtime::memory::{self, FREE, PAGE, PRESENT, Space, UNCACHED, WRITABLE};
use runtime::{cpu, expect_eq, guest_mode_wrong, guest_test, platform_wrong, user};
use x86defs::apic::{DEFAULT_BASE, Lvt, reg};
use x86defs::control::Rflags;
use x86defs::event::Exception;
use x86defs::msr;

/// A port that keeps a byte: COM1's scratch register.
const SCRATCH: u16 = 0x3f8 + 7;
/// Ports that nothing on any of the machines answers.
const UNCLAIMED: u16 = 0x5b0;
/// A port that keeps 32 bits: the address of PCI configuration space. Bits 30:24 and 1:0 are reserved.
const CONFIG_ADDRESS: u16 = 0xcf8;
/// Device memory that keeps 32 bits: the initial count of the local APIC's timer.
const COUNT: u64 = DEFAULT_BASE + reg::INITIAL_COUNT as u64;
/// Where nobody answers.
const NOBODY: u64 = 0xfea0_0000;

guest_test!(device_memory);
fn device_memory() {
    lapic::mmio(reg::LVT_TIMER).write(Lvt::MASKED.bits());
    let count = lapic::mmio(reg::INITIAL_COUNT);
    let before = inl(CONFIG_ADDRESS);
    count.write(0x8000_1234);
    let (source, target): (u64, u64);
    // SAFETY: device memory.
    unsafe { asm!("outsd", in("dx") CONFIG_ADDRESS, inout("rsi") COUNT => source) };
    let written = inl(CONFIG_ADDRESS);
    outl(CONFIG_ADDRESS, 0x8000_4320);
    // SAFETY: device memory.
    unsafe { asm!("insd", in("dx") CONFIG_ADDRESS, inout("rdi") COUNT => target) };
    outl(CONFIG_ADDRESS, before);
    expect_eq!([source, target], [COUNT + 4; 2], "RSI and RDI afterwards");
    expect_eq!(written, 0x8000_1234, "port after OUTSD from the initial count");
    expect_eq!(count.read(), 0x8000_4320, "initial count after INSD");
}

guest_test!(input_to_nobody);
fn input_to_nobody() {
    let mut ends = [0u64; 3];
    // SAFETY: what is written is lost.
    unsafe {
        asm!("rep insb", in("dx") SCRATCH, inout("rcx") 3u64 => _, inout("rdi") NOBODY => ends[0]);
        asm!("rep insw", in("dx") UNCLAIMED, inout("rcx") 3u64 => _, inout("rdi") NOBODY => ends[1]);
        asm!("rep insd", in("dx") UNCLAIMED, inout("rcx") 3u64 => _, inout("rdi") NOBODY => ends[2]);
    }
    expect_eq!(ends, [NOBODY + 3, NOBODY + 6, NOBODY + 12], "RDI afterwards");
}

guest_test!(output_from_nobody);
fn output_from_nobody() {
    platform_wrong!(QemuTcg, "memory that nobody answers reads as zeros");
    COM1.set_scr(0);
    // SAFETY: nothing is written.
    unsafe { asm!("outsb", in("dx") SCRATCH, inout("rsi") NOBODY => _) };
    expect_eq!(COM1.scr(), 0xff, "scratch register");
}

/// Maps a page of RAM at `FREE` and something behind it; returns the page.
fn page_before(physical: Option<u64>) -> u64 {
    let (space, page) = (Space::new(), memory::frame());
    space.map(FREE, page, PRESENT | WRITABLE);
    if let Some(physical) = physical {
        space.map(FREE + PAGE, physical, PRESENT | WRITABLE | UNCACHED);
    }
    space.activate();
    page
}

guest_test!(from_ram_to_nobody);
fn from_ram_to_nobody() {
    let page = page_before(Some(NOBODY));
    COM1.set_scr(0x5a);
    let end: u64;
    // SAFETY: the page is the test's own.
    unsafe {
        asm!("rep insb", in("dx") SCRATCH, inout("rcx") 4u64 => _, inout("rdi") FREE + PAGE - 2 => end);
        asm!("insd", in("dx") CONFIG_ADDRESS, inout("rdi") FREE + PAGE - 3 => _);
    }
    expect_eq!(end, FREE + PAGE + 2, "RDI afterwards");
    let address = inl(CONFIG_ADDRESS).to_le_bytes();
    let bytes: [u8; 3] = core::array::from_fn(|i| memory::read8(page + PAGE - 3 + i as u64));
    expect_eq!(bytes, address[..3], "end of the page after INSD across it");
}

guest_test!(a_fault_on_the_way);
fn a_fault_on_the_way() {
    guest_mode_wrong!(Bochs, Amd, "CR2 after REP INS is another page's");
    let page = page_before(None);
    COM1.set_scr(0x6b);
    // SAFETY: the fault is caught.
    let result = catch(|| unsafe {
        asm!("rep insb", in("dx") SCRATCH, inout("rcx") 8u64 => _, inout("rdi") FREE + PAGE - 3 => _)
    });
    let fault = expect_fault("REP INSB", result, Exception::PageFault, 2);
    expect_eq!(fault.cr2, FREE + PAGE, "CR2");
    expect_eq!(memory::read32(page + PAGE - 4), 0x6b6b_6b00, "bytes before the fault");
    // The first byte that faults is in the second page.
    // SAFETY: as above.
    let result =
        catch(|| unsafe { asm!("outsd", in("dx") CONFIG_ADDRESS, inout("rsi") FREE + PAGE - 1 => _) });
    expect_eq!(expect_fault("OUTSD", result, Exception::PageFault, 0).cr2, FREE + PAGE, "CR2 across pages");
}

guest_test!(output_has_a_segment);
fn output_has_a_segment() {
    let buffer = memory::frame();
    memory::write8(buffer + 8, 0x42);
    cpu::wrmsr(msr::FS_BASE, buffer).expect("a canonical base");
    let (source, by_32_bits): (u64, u64);
    // SAFETY: nothing uses FS; the harness restores it.
    unsafe { asm!(".byte 0x64, 0x6e", in("dx") SCRATCH, inout("rsi") 8u64 => source) };
    expect_eq!((COM1.scr(), source), (0x42, 9), "scratch register and RSI after OUTSB with FS");
    memory::write8(buffer + 9, 0x43);
    // SAFETY: as above.
    unsafe { asm!(".byte 0x64, 0x67, 0x6e", in("dx") SCRATCH, inout("rsi") 1u64 << 32 | 9 => by_32_bits) };
    expect_eq!((COM1.scr(), by_32_bits), (0x43, 10), "and with 32-bit addresses");
}

guest_test!(addresses_that_are_not_canonical);
fn addresses_that_are_not_canonical() {
    COM1.set_scr(1);
    // SAFETY: the fault is caught.
    let result = catch(|| unsafe { asm!("insb", in("dx") SCRATCH, inout("rdi") 1u64 << 47 => _) });
    expect_gp("INSB", result);
    // SAFETY: as above.
    let result = catch(|| unsafe { asm!("outsb", in("dx") SCRATCH, inout("rsi") 1u64 << 47 => _) });
    expect_gp("OUTSB", result);
    expect_eq!(COM1.scr(), 1, "scratch register");
}

/// OUTSB to the scratch register from the stack, and a trap that says that it got through.
#[unsafe(naked)]
unsafe extern "C" fn output_as_user() {
    naked_asm!("mov edx, 0x3ff", "lea rsi, [rsp - 8]", "outsb", "int3")
}

guest_test!(ring_3_needs_permission);
fn ring_3_needs_permission() {
    COM1.set_scr(0x77);
    user::space_for(output_as_user).activate();
    let refused = user::run_with(output_as_user, 0, Rflags::empty());
    expect_eq!(
        (refused.vector, refused.error_code),
        (Exception::GeneralProtection as u8, 0),
        "vector, error code"
    );
    expect_eq!(COM1.scr(), 0x77, "scratch register");
    let end = user::run_with(output_as_user, 0, Rflags::IOPL);
    expect_eq!(end.vector, Exception::Breakpoint as u8, "vector with IOPL 3");
    expect_eq!(COM1.scr(), 0, "scratch register with IOPL 3");
}

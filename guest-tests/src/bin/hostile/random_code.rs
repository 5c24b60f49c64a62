//! Random bytes as instructions of ring 0, in every mode, with a fixed seed.
//!
//! Single-stepping ends what does not end by an exception. The guest may wreck itself, and loses its machine then.

#![allow(unsafe_code, reason = "executes random bytes")]

use crate::random::Random;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU32, Ordering};
use runtime::fault::{self, catch_all};
use runtime::interrupt::{self, Frame};
use runtime::legacy::{self, Code16, Code32, Paging, REAL_CODE};
use runtime::memory::{self, PAGE, write8, write16};
use runtime::{guest_test, machine};
use x86defs::control::Rflags;
use x86defs::event::Exception;

const RUNS: u32 = 1500;
/// Instructions of a run in 64-bit and compatibility mode; in the others it is one.
const STEPS: u32 = 32;
/// How often the machine is put in order.
const RUNS_BETWEEN_RESTORES: u32 = 50;
/// Halting for ever is a behaviour of its own, and would be the end of most runs.
const HLT: u8 = 0xf4;
const NOP: u8 = 0x90;

static LEFT: AtomicU32 = AtomicU32::new(0);

fn count_step(_: &mut Frame) {
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
        LEFT.store(u32::MAX, Ordering::Relaxed);
        fault::abandon();
    }
}

/// Random bytes up to the end of a page.
fn fill(random: &mut Random, from: u64) {
    for address in from..from.next_multiple_of(PAGE) {
        let byte = random.next() as u8;
        write8(address, if byte == HLT { NOP } else { byte });
    }
}

fn put(address: u64, code: &[u8]) {
    for (at, byte) in (address..).zip(code) {
        write8(at, *byte);
    }
}

/// Runs `once` many times, on a fresh page each time.
fn repeatedly(seed: u64, mut once: impl FnMut(&mut Random, u64)) {
    let mut random = Random::new(seed);
    for run in 0..RUNS {
        if run.is_multiple_of(RUNS_BETWEEN_RESTORES) {
            machine::restore();
        } else {
            memory::reset();
        }
        interrupt::handle(Exception::Debug as u8, count_step);
        LEFT.store(STEPS, Ordering::Relaxed);
        let page = memory::frame();
        once(&mut random, page);
    }
}

/// RAX to R15 without RSP, in the order of their numbers.
type Registers = [u64; 15];

/// Enters `code` with these registers, this stack and TF.
#[unsafe(naked)]
unsafe extern "C" fn enter(registers: &Registers, code: u64, stack: u64) {
    naked_asm!(
        "mov rsp, rdx",
        "push rsi",
        "pushfq",
        "or qword ptr [rsp], {tf}",
        "mov rax, [rdi]",
        "mov rcx, [rdi + 8]",
        "mov rdx, [rdi + 16]",
        "mov rbx, [rdi + 24]",
        "mov rbp, [rdi + 32]",
        "mov rsi, [rdi + 40]",
        "mov r8, [rdi + 56]",
        "mov r9, [rdi + 64]",
        "mov r10, [rdi + 72]",
        "mov r11, [rdi + 80]",
        "mov r12, [rdi + 88]",
        "mov r13, [rdi + 96]",
        "mov r14, [rdi + 104]",
        "mov r15, [rdi + 112]",
        "mov rdi, [rdi + 48]",
        "popfq",
        "ret",
        tf = const Rflags::TF.bits() as i32,
    )
}

fn long(seed: u64) {
    repeatedly(seed, |random, page| {
        let stack = memory::frame() + PAGE / 2;
        fill(random, page);
        let registers = Registers::default().map(|_| match random.below(3) {
            0 => stack,
            1 => page,
            _ => random.odd(),
        });
        let entry = page + random.below(PAGE / 2);
        // SAFETY: steps or an exception end it.
        let _ = catch_all(|| unsafe { enter(&registers, entry, stack) });
    });
}

/// PUSHFD; OR DWORD PTR [ESP], 100h; POPFD: the instruction that follows is the only one.
const SINGLE_STEP_32: [u8; 9] = [0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d];

fn code32(random: &mut Random, page: u64) -> Code32 {
    put(page, &SINGLE_STEP_32);
    fill(random, page + SINGLE_STEP_32.len() as u64);
    // SAFETY: below 4 GiB, and executed as 32-bit code.
    unsafe { core::mem::transmute::<*const (), Code32>(page as *const ()) }
}

fn compatibility(seed: u64) {
    repeatedly(seed, |random, page| {
        let code = code32(random, page);
        let _ = catch_all(|| legacy::compatibility(code, random.odd() as u32));
    });
}

fn protected(seed: u64) {
    repeatedly(seed, |random, page| {
        let code = code32(random, page);
        let _ = legacy::protected(code, random.odd() as u32, Paging::Off);
    });
}

/// PUSHF; POP AX; OR AX, 100h; PUSH AX; POPF
const SINGLE_STEP_16: [u8; 7] = [0x9c, 0x58, 0x0d, 0, 1, 0x50, 0x9d];
/// XOR AX, AX; MOV SS, AX; MOV SP, 7BFCh; RETF: back to where `legacy::real` called, whatever happened.
const BACK_16: [u8; 8] = [0x31, 0xc0, 0x8e, 0xd0, 0xbc, 0xfc, 0x7b, 0xcb];
/// Where in the code [`BACK_16`] lies: within what `legacy::real` copies.
const BACK_OFFSET: u16 = 0x300;

fn real(seed: u64) {
    repeatedly(seed, |random, page| {
        put(page, &SINGLE_STEP_16);
        fill(random, page + SINGLE_STEP_16.len() as u64);
        put(page + u64::from(BACK_OFFSET), &BACK_16);
        for vector in 0..256 {
            write16(vector * 4, BACK_OFFSET);
            write16(vector * 4 + 2, (REAL_CODE >> 4) as u16);
        }
        // SAFETY: copied and executed as 16-bit code.
        let code = unsafe { core::mem::transmute::<*const (), Code16>(page as *const ()) };
        legacy::real(code);
    });
}

macro_rules! seeds {
    ($($name:ident: $run:ident $seed:literal),+ $(,)?) => {
        $(
            guest_test!($name);
            fn $name() {
                $run($seed);
            }
        )+
    };
}

seeds!(
    long_mode_a: long 21,
    long_mode_b: long 22,
    long_mode_c: long 23,
    compatibility_mode_a: compatibility 31,
    compatibility_mode_b: compatibility 32,
    protected_mode_a: protected 41,
    protected_mode_b: protected 42,
    real_mode_a: real 51,
    real_mode_b: real 52,
);

//! What instructions with a memory operand do, as a table: the emulator is tested against it on the host, and the
//! same table is executed by real CPUs in the guest tests, which shows that it is right.
//!
//! The results come from the manual's definitions, as literally as possible: sums of exact integers, shifts bit by
//! bit. Each form is tried with several operands, with all status flags clear and all set.

#![forbid(unsafe_code)]

mod arithmetic;
mod exchanges;
mod moves;
mod shifts;

use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

/// Status flags (SDM 1, 3.4.3.1).
pub mod flag {
    #![allow(missing_docs, reason = "the manual's names")]
    pub const CF: u64 = 1 << 0;
    pub const PF: u64 = 1 << 2;
    pub const AF: u64 = 1 << 4;
    pub const ZF: u64 = 1 << 6;
    pub const SF: u64 = 1 << 7;
    pub const OF: u64 = 1 << 11;
    pub const ALL: u64 = CF | PF | AF | ZF | SF | OF;
}

/// What an instruction reads and changes. The memory operand is at RSI, which no form changes.
#[allow(missing_docs, reason = "the manual's names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    /// Status flags.
    pub flags: u64,
    /// The 16 bytes at RSI.
    pub memory: [u64; 2],
}

/// What becomes of a [`State`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Afterwards; undefined flags are clear.
    pub state: State,
    /// Flags that the manual leaves undefined.
    pub undefined: u64,
}

/// A feature that an instruction needs.
#[allow(missing_docs, reason = "CPUID's names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    Bmi1,
    Cx16,
    Lzcnt,
    Movbe,
    Popcnt,
}

/// An instruction in one of its forms.
pub struct Form {
    /// Its text, for messages.
    pub name: String,
    /// Its bytes in 64-bit mode.
    pub code: Vec<u8>,
    /// Bytes of the memory operand.
    pub width: usize,
    /// The feature that it needs.
    pub needs: Needs,
    /// States to begin with, and what becomes of each; nothing if it raises #DE.
    pub cases: Vec<(State, Option<Outcome>)>,
}

/// Puts an instruction into the assembler.
type Build = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// Changes the state as an instruction of this width does. Gives the undefined flags, or nothing for #DE.
type Effect = Box<dyn Fn(&mut State, usize) -> Option<u64>>;

/// A form to be.
struct Row {
    name: String,
    width: usize,
    build: Build,
    needs: Needs,
    /// Makes an input fit, e.g. so that a quotient does.
    adjust: fn(&mut State, usize),
    effect: Effect,
}

impl Row {
    fn new(
        name: impl Into<String>,
        width: usize,
        build: Build,
        effect: impl Fn(&mut State, usize) -> Option<u64> + 'static,
    ) -> Row {
        Row {
            name: name.into(),
            width,
            build,
            needs: Needs::Nothing,
            adjust: |_, _| {},
            effect: Box::new(effect),
        }
    }

    fn form(self) -> Form {
        let mut assembler = CodeAssembler::new(64).expect("64 is a bitness");
        (self.build)(&mut assembler).expect("the operands fit");
        let code = assembler.assemble(0).expect("no branches");
        let cases = inputs().map(|mut before| {
            (self.adjust)(&mut before, self.width);
            let mut state = before;
            let undefined = (self.effect)(&mut state, self.width);
            state.flags &= !undefined.unwrap_or(0);
            (before, undefined.map(|undefined| Outcome { state, undefined }))
        });
        Form { name: self.name, code, width: self.width, needs: self.needs, cases: cases.collect() }
    }
}

/// All forms.
pub fn forms() -> Vec<Form> {
    let rows = [arithmetic::rows(), shifts::rows(), exchanges::rows(), moves::rows()];
    rows.into_iter().flatten().map(Row::form).collect()
}

/// The operands that each form is tried with: memory and RCX. All ones in memory are what addresses hold that
/// nobody answers.
fn inputs() -> impl Iterator<Item = State> {
    const OPERANDS: [(u64, u64); 5] = [
        (u64::MAX, u64::MAX),
        (u64::MAX, 0x0000_0100_0001_0101),
        (0, 0),
        (0x8000_0000_8000_8080, 0x7fff_ffff_7fff_7f7f),
        (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3217),
    ];
    OPERANDS.into_iter().flat_map(|(memory, rcx)| {
        [0, flag::ALL].map(|flags| State {
            rax: memory ^ u64::from(flags == 0),
            rbx: 0x1111_2222_3333_4444,
            rcx,
            rdx: !0 / 3,
            flags,
            memory: [memory, if memory == u64::MAX { memory } else { 0x5a5a_1234_a5a5_8765 }],
        })
    })
}

/// The low bits of a width in bytes.
fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// A value of this width as a signed number.
fn signed(width: usize, value: u64) -> i128 {
    let unused = 64 - 8 * width as u32;
    i128::from((value << unused) as i64 >> unused)
}

/// A value of this width as an unsigned number.
fn unsigned(width: usize, value: u64) -> i128 {
    i128::from(value & mask(width))
}

/// SF, ZF and PF of a result.
fn sign_zero_parity(width: usize, value: u64) -> u64 {
    let value = value & mask(width);
    let sign = if signed(width, value) < 0 { flag::SF } else { 0 };
    let zero = if value == 0 { flag::ZF } else { 0 };
    let parity = if (0..8).filter(|bit| value >> bit & 1 != 0).count() % 2 == 0 { flag::PF } else { 0 };
    sign | zero | parity
}

/// An operand of a form.
#[derive(Clone, Copy)]
enum Operand {
    Memory,
    Rcx,
    Immediate(i64),
}

impl State {
    fn get(&self, operand: Operand, width: usize) -> u64 {
        let value = match operand {
            Operand::Memory => self.memory[0],
            Operand::Rcx => self.rcx,
            Operand::Immediate(value) => value as u64,
        };
        value & mask(width)
    }

    fn set(&mut self, operand: Operand, width: usize, value: u64) {
        match operand {
            Operand::Memory => self.memory[0] = self.memory[0] & !mask(width) | value & mask(width),
            Operand::Rcx => self.rcx = merged(self.rcx, width, value),
            Operand::Immediate(_) => unreachable!("nothing is written to a number"),
        }
    }

    /// Sets the flags of `which` to those of `values`.
    fn set_flags(&mut self, which: u64, values: u64) {
        self.flags = self.flags & !which | values & which;
    }
}

/// A register after a write to its low part: 32 bits clear the upper half (SDM 1, 3.4.1.1).
fn merged(old: u64, width: usize, value: u64) -> u64 {
    if width == 4 { value & mask(4) } else { old & !mask(width) | value & mask(width) }
}

/// A row for each width of a form that has a memory operand and RCX.
macro_rules! memory_and_rcx {
    ($name:ident) => {
        [
            (1, (|a| a.$name(byte_ptr(rsi), cl)) as $crate::Build),
            (2, |a| a.$name(word_ptr(rsi), cx)),
            (4, |a| a.$name(dword_ptr(rsi), ecx)),
            (8, |a| a.$name(qword_ptr(rsi), rcx)),
        ]
    };
}
/// As above, the other way round.
macro_rules! rcx_and_memory {
    ($name:ident) => {
        [
            (1, (|a| a.$name(cl, byte_ptr(rsi))) as $crate::Build),
            (2, |a| a.$name(cx, word_ptr(rsi))),
            (4, |a| a.$name(ecx, dword_ptr(rsi))),
            (8, |a| a.$name(rcx, qword_ptr(rsi))),
        ]
    };
}
/// As above, without an operand of a byte.
macro_rules! wide_rcx_and_memory {
    ($name:ident) => {
        [
            (2, (|a| a.$name(cx, word_ptr(rsi))) as $crate::Build),
            (4, |a| a.$name(ecx, dword_ptr(rsi))),
            (8, |a| a.$name(rcx, qword_ptr(rsi))),
        ]
    };
}
/// A row for each width of a form that has a memory operand and something else.
macro_rules! memory_and {
    ($name:ident $(, $other:expr)?) => {
        [
            (1, (|a| a.$name(byte_ptr(rsi) $(, $other)?)) as $crate::Build),
            (2, |a| a.$name(word_ptr(rsi) $(, $other)?)),
            (4, |a| a.$name(dword_ptr(rsi) $(, $other)?)),
            (8, |a| a.$name(qword_ptr(rsi) $(, $other)?)),
        ]
    };
}
use {memory_and, memory_and_rcx, rcx_and_memory, wide_rcx_and_memory};

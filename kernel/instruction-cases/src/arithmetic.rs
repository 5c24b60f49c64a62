//! Sums, differences, logic, products, quotients.

use crate::flag::{AF, ALL, CF, OF, PF, SF, ZF};
use crate::*;
use iced_x86::code_asm::*;

/// Two operands and CF to a result and flags.
type Operation = fn(usize, u64, u64, u64) -> (u64, u64);

/// A result with its flags: from the unsigned, the signed and the low four bits' exact result.
fn exact(width: usize, unsigned: i128, exact: i128, nibble: i128) -> (u64, u64) {
    let value = unsigned as u64 & mask(width);
    let carry = if unsigned < 0 || unsigned > i128::from(mask(width)) { CF } else { 0 };
    let adjust = if (0..16).contains(&nibble) { 0 } else { AF };
    let overflow = if exact == signed(width, value) { 0 } else { OF };
    (value, carry | adjust | overflow | sign_zero_parity(width, value))
}

fn sum(width: usize, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let carry = i128::from(carry);
    let nibbles = (a & 15) as i128 + (b & 15) as i128 + carry;
    exact(
        width,
        unsigned(width, a) + unsigned(width, b) + carry,
        signed(width, a) + signed(width, b) + carry,
        nibbles,
    )
}

fn difference(width: usize, a: u64, b: u64, borrow: u64) -> (u64, u64) {
    let borrow = i128::from(borrow);
    let nibbles = (a & 15) as i128 - (b & 15) as i128 - borrow;
    exact(
        width,
        unsigned(width, a) - unsigned(width, b) - borrow,
        signed(width, a) - signed(width, b) - borrow,
        nibbles,
    )
}

fn logic(width: usize, value: u64) -> (u64, u64) {
    (value, sign_zero_parity(width, value))
}

const ADD: Operation = |w, a, b, _| sum(w, a, b, 0);
const ADC: Operation = sum;
const SUB: Operation = |w, a, b, _| difference(w, a, b, 0);
const SBB: Operation = difference;
const AND: Operation = |w, a, b, _| logic(w, a & b);
const OR: Operation = |w, a, b, _| logic(w, a | b);
const XOR: Operation = |w, a, b, _| logic(w, a ^ b);

/// What happens to the result and the flags of an [`Operation`].
#[derive(Clone, Copy)]
enum Use {
    /// It goes to the first operand.
    Store,
    /// Only the flags count.
    Flags,
}

/// Rows of an operation with two operands. AF is undefined after logic.
fn binary<const N: usize>(
    name: &str,
    builds: [(usize, Build); N],
    [a, b]: [Operand; 2],
    (operation, undefined): (Operation, u64),
    target: Use,
) -> Vec<Row> {
    let row = |(width, build)| {
        Row::new(format!("{name} ({width} bytes)"), width, build, move |s, w| {
            let (value, flags) = operation(w, s.get(a, w), s.get(b, w), s.flags & CF);
            s.set_flags(ALL, flags);
            if let Use::Store = target {
                s.set(a, w, value);
            }
            Some(undefined)
        })
    };
    builds.into_iter().map(row).collect()
}

/// The forms of an operation: memory with register, register with memory, memory with immediates.
macro_rules! forms {
    ($rows:ident, $name:ident, $operation:expr, $target:expr) => {{
        let name = stringify!($name);
        let (m, r) = (Operand::Memory, Operand::Rcx);
        $rows.extend(binary(&format!("{name} m, r"), memory_and_rcx!($name), [m, r], $operation, $target));
        $rows.extend(binary(&format!("{name} r, m"), rcx_and_memory!($name), [r, m], $operation, $target));
        for (value, builds) in [
            (-3, memory_and!($name, -3)),
            // As an immediate that is as wide as the operand, or 32 bits.
            (0x65, memory_and!($name, 0x65)),
        ] {
            let name = format!("{name} m, {value:#x}");
            $rows.extend(binary(&name, builds, [m, Operand::Immediate(value)], $operation, $target));
        }
        let wide: [(usize, Build); 2] =
            [(4, |a| a.$name(dword_ptr(rsi), 0x7234_5678)), (8, |a| a.$name(qword_ptr(rsi), 0x7234_5678))];
        let number = Operand::Immediate(0x7234_5678);
        $rows.extend(binary(&format!("{name} m, imm32"), wide, [m, number], $operation, $target));
    }};
}

/// Rows of an operation with one operand in memory. `defined` are the flags that it changes.
fn unary(name: &str, builds: [(usize, Build); 4], defined: u64, operation: Operation) -> Vec<Row> {
    let row = |(width, build)| {
        Row::new(format!("{name} m ({width} bytes)"), width, build, move |s, w| {
            let (value, flags) = operation(w, s.get(Operand::Memory, w), 1, 0);
            s.set_flags(defined, flags);
            s.set(Operand::Memory, w, value);
            Some(0)
        })
    };
    builds.into_iter().map(row).collect()
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    forms!(rows, add, (ADD, 0), Use::Store);
    forms!(rows, adc, (ADC, 0), Use::Store);
    forms!(rows, sub, (SUB, 0), Use::Store);
    forms!(rows, sbb, (SBB, 0), Use::Store);
    forms!(rows, and, (AND, AF), Use::Store);
    forms!(rows, or, (OR, AF), Use::Store);
    forms!(rows, xor, (XOR, AF), Use::Store);
    forms!(rows, cmp, (SUB, 0), Use::Flags);
    let [m, r] = [Operand::Memory, Operand::Rcx];
    rows.extend(binary("test m, r", memory_and_rcx!(test), [m, r], (AND, AF), Use::Flags));
    let number = Operand::Immediate(0x65);
    rows.extend(binary("test m, 0x65", memory_and!(test, 0x65), [m, number], (AND, AF), Use::Flags));
    rows.extend(unary("inc", memory_and!(inc), ALL & !CF, |w, a, one, _| sum(w, a, one, 0)));
    rows.extend(unary("dec", memory_and!(dec), ALL & !CF, |w, a, one, _| difference(w, a, one, 0)));
    rows.extend(unary("neg", memory_and!(neg), ALL, |w, a, _, _| difference(w, 0, a, 0)));
    rows.extend(unary("not", memory_and!(not), 0, |_, a, _, _| (!a, 0)));
    rows.extend(products());
    rows.extend(quotients());
    rows
}

/// How a number is read.
type Reading = fn(usize, u64) -> i128;

fn products() -> Vec<Row> {
    let mut rows = Vec::new();
    let long = [("mul", unsigned as Reading, memory_and!(mul)), ("imul", signed, memory_and!(imul))];
    for (name, read, builds) in long {
        rows.extend(builds.map(|(width, build)| {
            Row::new(format!("{name} m ({width} bytes)"), width, build, move |s, w| {
                // A product of unsigned 64-bit numbers needs the sign bit.
                let product = read(w, s.rax).wrapping_mul(read(w, s.memory[0]));
                let (low, high) = (product as u64 & mask(w), (product >> (8 * w)) as u64 & mask(w));
                set_accumulators(s, w, high, low);
                s.set_flags(CF | OF, if read(w, low) == product { 0 } else { CF | OF });
                Some(SF | ZF | AF | PF)
            })
        }));
    }
    rows.extend(short_products("imul r, m", wide_rcx_and_memory!(imul_2), Operand::Rcx));
    let by_small: [(usize, Build); 3] = [
        (2, |a| a.imul_3(cx, word_ptr(rsi), -5)),
        (4, |a| a.imul_3(ecx, dword_ptr(rsi), -5)),
        (8, |a| a.imul_3(rcx, qword_ptr(rsi), -5)),
    ];
    rows.extend(short_products("imul r, m, -5", by_small, Operand::Immediate(-5)));
    let by_large: [(usize, Build); 3] = [
        (2, |a| a.imul_3(cx, word_ptr(rsi), -0x1234)),
        (4, |a| a.imul_3(ecx, dword_ptr(rsi), -0x1234)),
        (8, |a| a.imul_3(rcx, qword_ptr(rsi), -0x1234)),
    ];
    rows.extend(short_products("imul r, m, -0x1234", by_large, Operand::Immediate(-0x1234)));
    rows
}

fn short_products(name: &str, builds: [(usize, Build); 3], by: Operand) -> Vec<Row> {
    let row = |(width, build)| {
        Row::new(format!("{name} ({width} bytes)"), width, build, move |s: &mut State, w| {
            let product = signed(w, s.memory[0]) * signed(w, s.get(by, w));
            s.set(Operand::Rcx, w, product as u64);
            s.set_flags(CF | OF, if signed(w, product as u64) == product { 0 } else { CF | OF });
            Some(SF | ZF | AF | PF)
        })
    };
    builds.into_iter().map(row).collect()
}

fn quotients() -> Vec<Row> {
    let mut rows = Vec::new();
    let both = [("div", unsigned as Reading, memory_and!(div)), ("idiv", signed, memory_and!(idiv))];
    for (name, read, builds) in both {
        rows.extend(builds.map(|(width, build)| {
            let effect = move |s: &mut State, w: usize| {
                // The upper half of the dividend is zero, and its lower half is positive (see `adjust`).
                let (dividend, divisor) = (unsigned(w, s.rax), read(w, s.memory[0]));
                let quotient = dividend.checked_div(divisor)?;
                set_accumulators(s, w, (dividend % divisor) as u64, quotient as u64);
                Some(ALL)
            };
            let row = Row::new(format!("{name} m ({width} bytes)"), width, build, effect);
            Row { adjust: small_dividend, ..row }
        }));
    }
    rows
}

fn small_dividend(s: &mut State, width: usize) {
    s.rax &= mask(width) >> 1;
    s.rdx &= !mask(width);
}

/// Sets AH and AL, or the parts of RDX and RAX.
fn set_accumulators(s: &mut State, width: usize, high: u64, low: u64) {
    if width == 1 {
        s.rax = merged(s.rax, 2, (high & 0xff) << 8 | low & 0xff);
    } else {
        s.rdx = merged(s.rdx, width, high);
        s.rax = merged(s.rax, width, low);
    }
}

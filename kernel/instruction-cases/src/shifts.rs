//! Shifts, rotations, and instructions on single bits.

use crate::flag::{AF, ALL, CF, OF, PF, SF, ZF};
use crate::*;
use iced_x86::code_asm::*;

/// What one step does to the operand and CF.
type Step = fn(usize, u64, bool) -> (u64, bool);

fn top(width: usize, value: u64) -> bool {
    signed(width, value) < 0
}

fn shl(width: usize, a: u64, _: bool) -> (u64, bool) {
    (a << 1, top(width, a))
}

fn shr(_: usize, a: u64, _: bool) -> (u64, bool) {
    (a >> 1, a & 1 != 0)
}

fn sar(width: usize, a: u64, _: bool) -> (u64, bool) {
    ((signed(width, a) >> 1) as u64, a & 1 != 0)
}

fn with_top(width: usize, a: u64, bit: bool) -> u64 {
    a | u64::from(bit) << (8 * width - 1)
}

fn rol(width: usize, a: u64, _: bool) -> (u64, bool) {
    let out = top(width, a);
    (a << 1 | u64::from(out), out)
}

fn ror(width: usize, a: u64, _: bool) -> (u64, bool) {
    let out = a & 1 != 0;
    (with_top(width, a >> 1, out), out)
}

fn rcl(width: usize, a: u64, carry: bool) -> (u64, bool) {
    (a << 1 | u64::from(carry), top(width, a))
}

fn rcr(width: usize, a: u64, carry: bool) -> (u64, bool) {
    (with_top(width, a >> 1, carry), a & 1 != 0)
}

/// The count as the CPU takes it.
fn count_of(operand: Operand, s: &State, width: usize) -> u64 {
    s.get(operand, 1) & if width == 8 { 63 } else { 31 }
}

/// Rows of a shift or rotation by one, by a number, and by CL.
fn shift(
    name: &'static str,
    step: Step,
    rotates: bool,
    builds: [(Operand, [(usize, Build); 4]); 3],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for (count, builds) in builds {
        rows.extend(builds.map(|(width, build)| {
            let how = match count {
                Operand::Immediate(count) => format!("{count:#x}"),
                _ => String::from("cl"),
            };
            Row::new(format!("{name} m, {how} ({width} bytes)"), width, build, move |s, w| {
                let count = count_of(count, s, w);
                let before = s.get(Operand::Memory, w);
                let (mut value, mut carry) = (before, s.flags & CF != 0);
                for _ in 0..count {
                    (value, carry) = step(w, value, carry);
                    value &= mask(w);
                }
                s.set(Operand::Memory, w, value);
                if count == 0 {
                    return Some(0);
                }
                let overflow = if top(w, before) == top(w, value) { 0 } else { OF };
                s.set_flags(CF | OF, u64::from(carry) | overflow);
                let of_many = if count == 1 { 0 } else { OF };
                if rotates {
                    return Some(of_many);
                }
                s.set_flags(SF | ZF | PF, sign_zero_parity(w, value));
                // Beyond the operand's width the last bit that went out is not defined, unless it is the sign's.
                let carry_of_many = if count > 8 * w as u64 && name != "sar" { CF } else { 0 };
                Some(AF | of_many | carry_of_many)
            })
        }));
    }
    rows
}

macro_rules! shifts {
    ($name:ident, $rotates:literal) => {
        shift(
            stringify!($name),
            $name,
            $rotates,
            [
                (Operand::Immediate(1), memory_and!($name, 1)),
                (Operand::Immediate(0x25), memory_and!($name, 0x25)),
                (Operand::Rcx, memory_and!($name, cl)),
            ],
        )
    };
}

/// SHLD and SHRD fill from RCX, so that CL, the count, is a part of what they fill from.
fn double_shifts() -> Vec<Row> {
    let left: [(usize, Build); 6] = [
        (2, |a| a.shld(word_ptr(rsi), cx, 5)),
        (4, |a| a.shld(dword_ptr(rsi), ecx, 1)),
        (8, |a| a.shld(qword_ptr(rsi), rcx, 37)),
        (2, |a| a.shld(word_ptr(rsi), cx, cl)),
        (4, |a| a.shld(dword_ptr(rsi), ecx, cl)),
        (8, |a| a.shld(qword_ptr(rsi), rcx, cl)),
    ];
    let right: [(usize, Build); 6] = [
        (2, |a| a.shrd(word_ptr(rsi), cx, 5)),
        (4, |a| a.shrd(dword_ptr(rsi), ecx, 1)),
        (8, |a| a.shrd(qword_ptr(rsi), rcx, 37)),
        (2, |a| a.shrd(word_ptr(rsi), cx, cl)),
        (4, |a| a.shrd(dword_ptr(rsi), ecx, cl)),
        (8, |a| a.shrd(qword_ptr(rsi), rcx, cl)),
    ];
    let counts = [5, 1, 37].map(Operand::Immediate).into_iter().chain([Operand::Rcx; 3]);
    let rows = |name: &'static str,
                builds: [(usize, Build); 6],
                shift: fn(usize, u64, u64, u64) -> (u64, bool)| {
        builds.into_iter().zip(counts.clone()).map(move |((width, build), count)| {
            let how = if let Operand::Immediate(n) = count { n.to_string() } else { String::from("cl") };
            let row = Row::new(format!("{name} m, r, {how} ({width} bytes)"), width, build, move |s, w| {
                double_shift(s, w, count_of(count, s, w), shift)
            });
            // A word shifted by more than its width is undefined as a whole.
            Row { adjust: |s, w| s.rcx &= if w == 2 { !0x10 } else { !0 }, ..row }
        })
    };
    rows("shld", left, |w, a, filler, count| {
        let bit =
            |i: u64| if i < count { filler >> (8 * w as u64 - count + i) } else { a >> (i - count) } & 1;
        let value = (0..8 * w as u64).map(|i| bit(i) << i).sum();
        (value, a >> (8 * w as u64 - count) & 1 != 0)
    })
    .chain(rows("shrd", right, |w, a, filler, count| {
        let bits = 8 * w as u64;
        let bit = |i: u64| if i + count < bits { a >> (i + count) } else { filler >> (i + count - bits) } & 1;
        ((0..bits).map(|i| bit(i) << i).sum(), a >> (count - 1) & 1 != 0)
    }))
    .collect()
}

fn double_shift(
    s: &mut State,
    w: usize,
    count: u64,
    shift: fn(usize, u64, u64, u64) -> (u64, bool),
) -> Option<u64> {
    if count == 0 {
        return Some(0);
    }
    let before = s.get(Operand::Memory, w);
    let (value, carry) = shift(w, before, s.get(Operand::Rcx, w), count);
    s.set(Operand::Memory, w, value);
    let overflow = if top(w, before) == top(w, value) { 0 } else { OF };
    s.set_flags(CF | OF | SF | ZF | PF, u64::from(carry) | overflow | sign_zero_parity(w, value));
    Some(AF | if count == 1 { 0 } else { OF })
}

/// What a bit becomes.
type BitChange = fn(bool) -> bool;

macro_rules! bit_rows {
    ($rows:ident, $name:ident, $change:expr) => {{
        let change: BitChange = $change;
        let by_number: [(usize, Build); 3] = [
            (2, |a| a.$name(word_ptr(rsi), 0x2b)),
            (4, |a| a.$name(dword_ptr(rsi), 0x2b)),
            (8, |a| a.$name(qword_ptr(rsi), 0x2b)),
        ];
        let by_register: [(usize, Build); 3] = [
            (2, |a| a.$name(word_ptr(rsi), cx)),
            (4, |a| a.$name(dword_ptr(rsi), ecx)),
            (8, |a| a.$name(qword_ptr(rsi), rcx)),
        ];
        $rows.extend(by_number.map(|(width, build)| {
            let name = format!("{} m, 0x2b ({width} bytes)", stringify!($name));
            Row::new(name, width, build, move |s, w| change_bit(s, 0x2b % (8 * w), change))
        }));
        $rows.extend(by_register.map(|(width, build)| {
            let name = format!("{} m, r ({width} bytes)", stringify!($name));
            let row = Row::new(name, width, build, move |s, _| change_bit(s, s.rcx as usize, change));
            // A register reaches beyond the operand: within the 16 bytes that a state has.
            Row { adjust: |s, _| s.rcx &= 0x7f, ..row }
        }));
    }};
}

fn change_bit(s: &mut State, number: usize, change: BitChange) -> Option<u64> {
    let word = &mut s.memory[number / 64];
    let mask = 1 << (number % 64);
    let bit = *word & mask != 0;
    *word = if change(bit) { *word | mask } else { *word & !mask };
    s.set_flags(CF, u64::from(bit));
    // ZF is not affected.
    Some(OF | SF | AF | PF)
}

/// Rows of an instruction that puts a number of bits into RCX; it gives the number and CF and ZF.
fn counting(
    name: &str,
    needs: Needs,
    builds: [(usize, Build); 3],
    count: fn(usize, u64) -> (Option<u32>, u64),
    (defined, undefined): (u64, u64),
) -> Vec<Row> {
    let row = |(width, build)| {
        let row = Row::new(format!("{name} r, m ({width} bytes)"), width, build, move |s: &mut State, w| {
            let (number, flags) = count(w, s.get(Operand::Memory, w));
            if let Some(number) = number {
                s.set(Operand::Rcx, w, number.into());
            }
            s.set_flags(defined, flags);
            Some(undefined)
        });
        // Where a 32-bit destination stays as it is, CPUs differ about its upper half.
        Row { needs, adjust: |s, w| s.rcx &= if w == 4 { mask(4) } else { !0 }, ..row }
    };
    builds.into_iter().map(row).collect()
}

fn bits_of(width: usize, value: u64) -> impl DoubleEndedIterator<Item = bool> + Clone {
    (0..8 * width).map(move |i| value >> i & 1 != 0)
}

fn position(mut bits: impl Iterator<Item = bool>) -> Option<u32> {
    bits.position(|bit| bit).map(|i| i as u32)
}

/// The position of the first bit that is set, or how many there are; CF where none is, ZF where the result is zero.
fn zeros(width: usize, first: Option<u32>) -> (Option<u32>, u64) {
    let number = first.unwrap_or(8 * width as u32);
    (Some(number), if first.is_none() { CF } else { 0 } | if number == 0 { ZF } else { 0 })
}

fn counts() -> Vec<Row> {
    let others = OF | SF | AF | PF;
    let mut rows = counting(
        "bsf",
        Needs::Nothing,
        wide_rcx_and_memory!(bsf),
        |w, a| {
            let first = position(bits_of(w, a));
            (first, if first.is_none() { ZF } else { 0 })
        },
        (ZF, CF | others),
    );
    rows.extend(counting(
        "bsr",
        Needs::Nothing,
        wide_rcx_and_memory!(bsr),
        |w, a| {
            let last = position(bits_of(w, a).rev()).map(|i| 8 * w as u32 - 1 - i);
            (last, if last.is_none() { ZF } else { 0 })
        },
        (ZF, CF | others),
    ));
    rows.extend(counting(
        "tzcnt",
        Needs::Bmi1,
        wide_rcx_and_memory!(tzcnt),
        |w, a| zeros(w, position(bits_of(w, a))),
        (CF | ZF, others),
    ));
    rows.extend(counting(
        "lzcnt",
        Needs::Lzcnt,
        wide_rcx_and_memory!(lzcnt),
        |w, a| zeros(w, position(bits_of(w, a).rev())),
        (CF | ZF, others),
    ));
    rows.extend(counting(
        "popcnt",
        Needs::Popcnt,
        wide_rcx_and_memory!(popcnt),
        |w, a| {
            let number = bits_of(w, a).filter(|bit| *bit).count() as u32;
            (Some(number), if number == 0 { ZF } else { 0 })
        },
        (ALL, 0),
    ));
    rows
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = shifts!(shl, false);
    rows.extend(shifts!(shr, false));
    rows.extend(shifts!(sar, false));
    rows.extend(shifts!(rol, true));
    rows.extend(shifts!(ror, true));
    rows.extend(shifts!(rcl, true));
    rows.extend(shifts!(rcr, true));
    rows.extend(double_shifts());
    bit_rows!(rows, bt, |bit| bit);
    bit_rows!(rows, bts, |_| true);
    bit_rows!(rows, btr, |_| false);
    bit_rows!(rows, btc, |bit| !bit);
    rows.extend(counts());
    rows
}

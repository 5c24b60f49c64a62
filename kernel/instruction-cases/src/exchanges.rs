//! Instructions that read and write both operands.

use crate::flag::{AF, ALL, CF, OF, PF, SF, ZF};
use crate::*;
use iced_x86::code_asm::*;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(memory_and_rcx!(xchg).map(|(width, build)| {
        Row::new(format!("xchg m, r ({width} bytes)"), width, build, |s, w| {
            let (m, r) = (s.get(Operand::Memory, w), s.get(Operand::Rcx, w));
            s.set(Operand::Memory, w, r);
            s.set(Operand::Rcx, w, m);
            Some(0)
        })
    }));
    rows.extend(memory_and_rcx!(xadd).map(|(width, build)| {
        Row::new(format!("xadd m, r ({width} bytes)"), width, build, |s, w| {
            let (m, r) = (s.get(Operand::Memory, w), s.get(Operand::Rcx, w));
            s.set_flags(ALL, flags_of_sum(w, m, r));
            s.set(Operand::Rcx, w, m);
            s.set(Operand::Memory, w, m.wrapping_add(r));
            Some(0)
        })
    }));
    rows.extend(memory_and_rcx!(cmpxchg).map(|(width, build)| {
        Row::new(format!("cmpxchg m, r ({width} bytes)"), width, build, |s, w| {
            let (m, accumulator) = (s.get(Operand::Memory, w), s.rax & mask(w));
            s.set_flags(ALL, flags_of_comparison(w, accumulator, m));
            if accumulator == m {
                s.set(Operand::Memory, w, s.rcx);
            } else {
                s.rax = merged(s.rax, w, m);
            }
            Some(0)
        })
    }));
    rows.push(Row::new("cmpxchg8b m", 8, |a| a.cmpxchg8b(qword_ptr(rsi)), compare_exchange_8));
    // With the accumulators as they have to be for the exchange.
    let expecting = |s: &mut State, _| (s.rdx, s.rax) = (s.memory[0] >> 32, s.memory[0] & mask(4));
    rows.push(Row {
        adjust: expecting,
        ..Row::new("lock cmpxchg8b m", 8, |a| a.lock().cmpxchg8b(qword_ptr(rsi)), compare_exchange_8)
    });
    let both = |name, build, adjust| Row {
        needs: Needs::Cx16,
        adjust,
        ..Row::new(name, 16, build, compare_exchange_16)
    };
    rows.push(both("cmpxchg16b m", |a| a.cmpxchg16b(xmmword_ptr(rsi)), |_, _| {}));
    rows.push(both(
        "lock cmpxchg16b m",
        |a| a.lock().cmpxchg16b(xmmword_ptr(rsi)),
        |s, _| {
            [s.rax, s.rdx] = s.memory;
        },
    ));
    rows
}

/// The flags of a sum, from the carries out of the bits (SDM 1, 3.4.3.1).
fn flags_of_sum(width: usize, a: u64, b: u64) -> u64 {
    let sum = a.wrapping_add(b) & mask(width);
    let carry = if unsigned(width, a) + unsigned(width, b) > i128::from(mask(width)) { CF } else { 0 };
    let adjust = if (a & 15) + (b & 15) > 15 { AF } else { 0 };
    let overflow = if signed(width, a) + signed(width, b) == signed(width, sum) { 0 } else { OF };
    carry | adjust | overflow | sign_zero_parity(width, sum)
}

fn flags_of_comparison(width: usize, a: u64, b: u64) -> u64 {
    let carry = if a < b { CF } else { 0 };
    let adjust = if a & 15 < b & 15 { AF } else { 0 };
    let difference = a.wrapping_sub(b) & mask(width);
    let overflow = if signed(width, a) - signed(width, b) == signed(width, difference) { 0 } else { OF };
    let result = sign_zero_parity(width, difference);
    carry | adjust | overflow | result & (SF | ZF | PF)
}

fn compare_exchange_8(s: &mut State, _: usize) -> Option<u64> {
    let equal = s.memory[0] == s.rdx << 32 | s.rax & mask(4);
    if equal {
        s.memory[0] = s.rcx << 32 | s.rbx & mask(4);
    } else {
        (s.rdx, s.rax) = (s.memory[0] >> 32, s.memory[0] & mask(4));
    }
    s.set_flags(ZF, if equal { ZF } else { 0 });
    Some(0)
}

fn compare_exchange_16(s: &mut State, _: usize) -> Option<u64> {
    let equal = s.memory == [s.rax, s.rdx];
    if equal {
        s.memory = [s.rbx, s.rcx];
    } else {
        [s.rax, s.rdx] = s.memory;
    }
    s.set_flags(ZF, if equal { ZF } else { 0 });
    Some(0)
}

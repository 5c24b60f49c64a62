//! Moves, with and without a condition.

use crate::flag::{CF, OF, PF, SF, ZF};
use crate::*;
use iced_x86::code_asm::*;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(memory_and_rcx!(mov).map(|(width, build)| {
        Row::new(format!("mov m, r ({width} bytes)"), width, build, |s, w| {
            s.set(Operand::Memory, w, s.rcx);
            Some(0)
        })
    }));
    rows.extend(rcx_and_memory!(mov).map(|(width, build)| {
        Row::new(format!("mov r, m ({width} bytes)"), width, build, |s, w| {
            s.set(Operand::Rcx, w, s.memory[0]);
            Some(0)
        })
    }));
    rows.extend(memory_and!(mov, -0x12).map(|(width, build)| {
        Row::new(format!("mov m, -0x12 ({width} bytes)"), width, build, |s, w| {
            s.set(Operand::Memory, w, -0x12i64 as u64);
            Some(0)
        })
    }));
    rows.extend(extending());
    rows.extend(reversing());
    rows.extend(set_if());
    rows.extend(move_if());
    let plain: [(&str, usize, Build); 4] = [
        ("mov ch, m", 1, |a| a.mov(ch, byte_ptr(rsi))),
        ("mov m, ah", 1, |a| a.mov(byte_ptr(rsi), ah)),
        ("movnti m, r", 4, |a| a.movnti(dword_ptr(rsi), ecx)),
        ("movnti m, r", 8, |a| a.movnti(qword_ptr(rsi), rcx)),
    ];
    rows.extend(plain.map(|(name, width, build)| {
        Row::new(format!("{name} ({width} bytes)"), width, build, move |s, w| {
            match name {
                "mov ch, m" => s.rcx = s.rcx & !0xff00 | (s.memory[0] & 0xff) << 8,
                "mov m, ah" => s.set(Operand::Memory, 1, s.rax >> 8),
                _ => s.set(Operand::Memory, w, s.rcx),
            }
            Some(0)
        })
    }));
    rows
}

/// MOVZX, MOVSX and MOVSXD: bytes of the source, of the destination, and whether the sign counts.
fn extending() -> Vec<Row> {
    let forms: [(usize, usize, bool, Build); 11] = [
        (1, 2, false, |a| a.movzx(cx, byte_ptr(rsi))),
        (1, 4, false, |a| a.movzx(ecx, byte_ptr(rsi))),
        (1, 8, false, |a| a.movzx(rcx, byte_ptr(rsi))),
        (2, 4, false, |a| a.movzx(ecx, word_ptr(rsi))),
        (2, 8, false, |a| a.movzx(rcx, word_ptr(rsi))),
        (1, 2, true, |a| a.movsx(cx, byte_ptr(rsi))),
        (1, 4, true, |a| a.movsx(ecx, byte_ptr(rsi))),
        (1, 8, true, |a| a.movsx(rcx, byte_ptr(rsi))),
        (2, 4, true, |a| a.movsx(ecx, word_ptr(rsi))),
        (2, 8, true, |a| a.movsx(rcx, word_ptr(rsi))),
        (4, 8, true, |a| a.movsxd(rcx, dword_ptr(rsi))),
    ];
    let row = |(from, to, sign, build)| {
        let name = if sign { "movsx" } else { "movzx" };
        Row::new(format!("{name} r, m (from {from} to {to} bytes)"), from, build, move |s: &mut State, _| {
            let value = if sign { signed(from, s.memory[0]) } else { unsigned(from, s.memory[0]) };
            s.set(Operand::Rcx, to, value as u64);
            Some(0)
        })
    };
    forms.into_iter().map(row).collect()
}

fn reversing() -> Vec<Row> {
    let stores: [(usize, Build); 3] = [
        (2, |a| a.movbe(word_ptr(rsi), cx)),
        (4, |a| a.movbe(dword_ptr(rsi), ecx)),
        (8, |a| a.movbe(qword_ptr(rsi), rcx)),
    ];
    let row = |name: &str, (width, build), from: Operand, to: Operand| {
        let row = Row::new(format!("movbe {name} ({width} bytes)"), width, build, move |s: &mut State, w| {
            let mut bytes = s.get(from, w).to_le_bytes();
            bytes[..w].reverse();
            s.set(to, w, u64::from_le_bytes(bytes));
            Some(0)
        });
        Row { needs: Needs::Movbe, ..row }
    };
    let loads = wide_rcx_and_memory!(movbe);
    let loads = loads.into_iter().map(|form| row("r, m", form, Operand::Memory, Operand::Rcx));
    loads.chain(stores.into_iter().map(|form| row("m, r", form, Operand::Rcx, Operand::Memory))).collect()
}

/// The conditions in the order of their numbers (SDM 1, table B-1): an odd one is the opposite of the one before.
fn holds(number: usize, flags: u64) -> bool {
    let set = |flag| flags & flag != 0;
    let less = set(SF) != set(OF);
    let even = match number / 2 {
        0 => set(OF),
        1 => set(CF),
        2 => set(ZF),
        3 => set(CF) || set(ZF),
        4 => set(SF),
        5 => set(PF),
        6 => less,
        _ => less || set(ZF),
    };
    even == number.is_multiple_of(2)
}

/// With one flag less, so that conditions of several flags are seen to depend on each.
fn vary_flags(s: &mut State, _: usize) {
    s.flags &= [!0, !CF, !ZF, !SF, !OF][(s.rcx % 5) as usize];
}

fn set_if() -> Vec<Row> {
    let builds: [Build; 16] = [
        |a| a.seto(byte_ptr(rsi)),
        |a| a.setno(byte_ptr(rsi)),
        |a| a.setb(byte_ptr(rsi)),
        |a| a.setae(byte_ptr(rsi)),
        |a| a.sete(byte_ptr(rsi)),
        |a| a.setne(byte_ptr(rsi)),
        |a| a.setbe(byte_ptr(rsi)),
        |a| a.seta(byte_ptr(rsi)),
        |a| a.sets(byte_ptr(rsi)),
        |a| a.setns(byte_ptr(rsi)),
        |a| a.setp(byte_ptr(rsi)),
        |a| a.setnp(byte_ptr(rsi)),
        |a| a.setl(byte_ptr(rsi)),
        |a| a.setge(byte_ptr(rsi)),
        |a| a.setle(byte_ptr(rsi)),
        |a| a.setg(byte_ptr(rsi)),
    ];
    let row = |(number, build)| {
        let row = Row::new(format!("setcc m, condition {number}"), 1, build, move |s: &mut State, w| {
            s.set(Operand::Memory, w, u64::from(holds(number, s.flags)));
            Some(0)
        });
        Row { adjust: vary_flags, ..row }
    };
    builds.into_iter().enumerate().map(row).collect()
}

fn move_if() -> Vec<Row> {
    let builds: [(usize, usize, Build); 16] = [
        (0, 4, |a| a.cmovo(ecx, dword_ptr(rsi))),
        (1, 8, |a| a.cmovno(rcx, qword_ptr(rsi))),
        (2, 2, |a| a.cmovb(cx, word_ptr(rsi))),
        (3, 4, |a| a.cmovae(ecx, dword_ptr(rsi))),
        (4, 8, |a| a.cmove(rcx, qword_ptr(rsi))),
        (5, 2, |a| a.cmovne(cx, word_ptr(rsi))),
        (6, 4, |a| a.cmovbe(ecx, dword_ptr(rsi))),
        (7, 8, |a| a.cmova(rcx, qword_ptr(rsi))),
        (8, 2, |a| a.cmovs(cx, word_ptr(rsi))),
        (9, 4, |a| a.cmovns(ecx, dword_ptr(rsi))),
        (10, 8, |a| a.cmovp(rcx, qword_ptr(rsi))),
        (11, 2, |a| a.cmovnp(cx, word_ptr(rsi))),
        (12, 4, |a| a.cmovl(ecx, dword_ptr(rsi))),
        (13, 8, |a| a.cmovge(rcx, qword_ptr(rsi))),
        (14, 2, |a| a.cmovle(cx, word_ptr(rsi))),
        (15, 4, |a| a.cmovg(ecx, dword_ptr(rsi))),
    ];
    let row = |(number, width, build)| {
        let name = format!("cmovcc r, m, condition {number} ({width} bytes)");
        let row = Row::new(name, width, build, move |s: &mut State, w| {
            let value = if holds(number, s.flags) { s.memory[0] } else { s.rcx };
            s.set(Operand::Rcx, w, value);
            Some(0)
        });
        Row { adjust: vary_flags, ..row }
    };
    builds.into_iter().map(row).collect()
}

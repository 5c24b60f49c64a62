//! The arithmetic itself is tested beside `alu`; here: what each instruction reads, writes and leaves.

use super::super::alu::Alu;
use super::*;
use iced_x86::code_asm::*;

const OLD: u64 = 0x8000_0000_8000_80ff;
const OTHER: u64 = 0x7fff_1234_8000_8101;

/// A form of an instruction, its width, and the operation with the operand to the right.
type Form = (fn(&mut CodeAssembler) -> Result<(), IcedError>, Width, Alu, u64);

fn long(flags: Rflags) -> Guest {
    let mut guest = Guest::long();
    guest.bus.poke(DEVICE_AT, Width::Qword, OLD);
    guest.set(Gpr::Rbx, DEVICE).set(Gpr::Rcx, OTHER);
    guest.vcpu.rflags = flags;
    guest
}

/// The same instruction with all flags clear and all set.
fn with_both_flags(test: impl Fn(Guest, Rflags)) {
    for flags in [Rflags::ONE, ALL_FLAGS] {
        test(long(flags), flags);
    }
}

const TO_MEMORY: [Form; 17] = [
    (|a| a.add(qword_ptr(rbx), rcx), Width::Qword, Alu::Add, OTHER),
    (|a| a.adc(dword_ptr(rbx), ecx), Width::Dword, Alu::Adc, OTHER),
    (|a| a.sub(word_ptr(rbx), cx), Width::Word, Alu::Sub, OTHER),
    (|a| a.sbb(byte_ptr(rbx), cl), Width::Byte, Alu::Sbb, OTHER),
    (|a| a.and(dword_ptr(rbx), ecx), Width::Dword, Alu::And, OTHER),
    (|a| a.and(byte_ptr(rbx), ch), Width::Byte, Alu::And, OTHER >> 8),
    (|a| a.or(word_ptr(rbx), cx), Width::Word, Alu::Or, OTHER),
    (|a| a.xor(qword_ptr(rbx), rcx), Width::Qword, Alu::Xor, OTHER),
    (|a| a.and(dword_ptr(rbx), -16), Width::Dword, Alu::And, !0xf),
    (|a| a.or(qword_ptr(rbx), 0x1234_5678), Width::Qword, Alu::Or, 0x1234_5678),
    (|a| a.add(qword_ptr(rbx), -1), Width::Qword, Alu::Add, u64::MAX),
    (|a| a.xor(byte_ptr(rbx), 0xff), Width::Byte, Alu::Xor, 0xff),
    (|a| a.inc(dword_ptr(rbx)), Width::Dword, Alu::Inc, 0),
    (|a| a.dec(byte_ptr(rbx)), Width::Byte, Alu::Dec, 0),
    (|a| a.not(word_ptr(rbx)), Width::Word, Alu::Not, 0),
    (|a| a.neg(qword_ptr(rbx)), Width::Qword, Alu::Neg, 0),
    (|a| a.lock().or(dword_ptr(rbx), ecx), Width::Dword, Alu::Or, OTHER),
];

#[test]
fn the_result_goes_to_memory() {
    for (form, width, alu, other) in TO_MEMORY {
        with_both_flags(|mut g, flags| {
            let (value, expected) = alu.compute(width, OLD & width.mask(), other, flags);
            g.run(form);
            assert_eq!(g.bus.reads, [(DEVICE_AT, width)], "{alu:?}");
            assert_eq!(g.bus.writes, [(DEVICE_AT, width, value)], "{alu:?} {width:?}");
            assert_eq!(g.vcpu.rflags, expected, "{alu:?} {width:?}");
        });
    }
}

const TO_REGISTER: [Form; 7] = [
    (|a| a.add(rcx, qword_ptr(rbx)), Width::Qword, Alu::Add, OLD),
    (|a| a.adc(cx, word_ptr(rbx)), Width::Word, Alu::Adc, OLD),
    (|a| a.sub(ecx, dword_ptr(rbx)), Width::Dword, Alu::Sub, OLD),
    (|a| a.sbb(cl, byte_ptr(rbx)), Width::Byte, Alu::Sbb, OLD),
    (|a| a.and(ecx, dword_ptr(rbx)), Width::Dword, Alu::And, OLD),
    (|a| a.or(rcx, qword_ptr(rbx)), Width::Qword, Alu::Or, OLD),
    (|a| a.xor(cl, byte_ptr(rbx)), Width::Byte, Alu::Xor, OLD),
];

#[test]
fn the_result_goes_to_a_register() {
    for (form, width, alu, other) in TO_REGISTER {
        with_both_flags(|mut g, flags| {
            let (value, expected) = alu.compute(width, OTHER & width.mask(), other & width.mask(), flags);
            let kept = if width == Width::Dword { 0 } else { OTHER & !width.mask() };
            g.run(form);
            assert_eq!(g.get(Gpr::Rcx), kept | value, "{alu:?} {width:?}");
            assert_eq!(g.vcpu.rflags, expected, "{alu:?} {width:?}");
            assert!(g.bus.writes.is_empty());
        });
    }
}

#[test]
fn comparisons_write_nothing() {
    let forms: [(Form, u64); 6] = [
        ((|a| a.cmp(dword_ptr(rbx), ecx), Width::Dword, Alu::Sub, OTHER), OLD),
        ((|a| a.cmp(cl, byte_ptr(rbx)), Width::Byte, Alu::Sub, OLD), OTHER),
        ((|a| a.cmp(qword_ptr(rbx), -1), Width::Qword, Alu::Sub, u64::MAX), OLD),
        ((|a| a.test(dword_ptr(rbx), ecx), Width::Dword, Alu::And, OTHER), OLD),
        ((|a| a.test(byte_ptr(rbx), 0x80), Width::Byte, Alu::And, 0x80), OLD),
        ((|a| a.test(qword_ptr(rbx), i32::MIN), Width::Qword, Alu::And, 0xffff_ffff_8000_0000), OLD),
    ];
    for ((form, width, alu, b), a) in forms {
        with_both_flags(|mut g, flags| {
            let (_, expected) = alu.compute(width, a & width.mask(), b & width.mask(), flags);
            g.run(form);
            assert_eq!(g.bus.reads, [(DEVICE_AT, width)]);
            assert!(g.bus.writes.is_empty());
            assert_eq!(g.vcpu.rflags, expected, "{alu:?} {width:?}");
            assert_eq!(g.get(Gpr::Rcx), OTHER);
        });
    }
    // A page that can only be read suffices.
    let mut g = long(Rflags::ONE);
    g.set(Gpr::Rbx, READ_ONLY);
    g.run(|a| a.cmp(dword_ptr(rbx), ecx))
        .run(|a| a.test(dword_ptr(rbx), ecx))
        .run(|a| a.bt(dword_ptr(rbx), 1));
}

#[test]
fn exchange() {
    with_both_flags(|mut g, flags| {
        g.run(|a| a.xchg(dword_ptr(rbx), ecx));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, OTHER & 0xffff_ffff)]);
        assert_eq!(g.get(Gpr::Rcx), OLD & 0xffff_ffff, "the upper half is cleared");
        g.run(|a| a.xchg(byte_ptr(rbx), ch));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Byte, 0x80)]);
        assert_eq!(g.get(Gpr::Rcx), 0x8000_01ff);
        assert_eq!(g.vcpu.rflags, flags);
    });
}

#[test]
fn exchange_and_add() {
    with_both_flags(|mut g, flags| {
        let (sum, expected) = Alu::Add.compute(Width::Word, OLD, OTHER, flags);
        g.run(|a| a.xadd(word_ptr(rbx), cx));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, sum)]);
        assert_eq!(g.get(Gpr::Rcx), OTHER & !0xffff | OLD & 0xffff);
        assert_eq!(g.vcpu.rflags, expected);
        g.set(Gpr::Rax, 5).run(|a| a.xadd(rax, rax));
        assert_eq!(g.get(Gpr::Rax), 10);
    });
}

#[test]
fn compare_and_exchange() {
    with_both_flags(|mut g, flags| {
        g.set(Gpr::Rax, 0x1_0000_0000 | OLD & 0xffff_ffff);
        g.run(|a| a.cmpxchg(dword_ptr(rbx), ecx));
        let (_, equal) = Alu::Sub.compute(Width::Dword, OLD, OLD, flags);
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, OTHER & 0xffff_ffff)]);
        assert_eq!(g.get(Gpr::Rax), 0x1_0000_0000 | OLD & 0xffff_ffff, "the accumulator is kept");
        assert_eq!(g.vcpu.rflags, equal);

        g.set(Gpr::Rax, u64::MAX).set(Gpr::Rcx, 7);
        g.run(|a| a.cmpxchg(dword_ptr(rbx), ecx));
        let seen = OTHER & 0xffff_ffff;
        let (_, unequal) = Alu::Sub.compute(Width::Dword, 0xffff_ffff, seen, equal);
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, seen)], "what was there is written back");
        assert_eq!(g.get(Gpr::Rax), seen);
        assert_eq!(g.vcpu.rflags, unequal);
    });
}

#[test]
fn compare_and_exchange_8_bytes() {
    with_both_flags(|mut g, flags| {
        g.set(Gpr::Rsi, DEVICE).set(Gpr::Rbx, 0x1111_2222).set(Gpr::Rcx, 0x3333_4444);
        g.set(Gpr::Rax, 1).set(Gpr::Rdx, u64::MAX);
        g.run(|a| a.cmpxchg8b(qword_ptr(rsi)));
        assert_eq!((g.get(Gpr::Rdx), g.get(Gpr::Rax)), (OLD >> 32, OLD & 0xffff_ffff));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, OLD)]);
        assert_eq!(g.vcpu.rflags, flags - Rflags::ZF);
        g.run(|a| a.lock().cmpxchg8b(qword_ptr(rsi)));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, 0x3333_4444_1111_2222)]);
        assert_eq!(g.vcpu.rflags, flags | Rflags::ZF);
    });
}

#[test]
fn bit_tests() {
    with_both_flags(|mut g, flags| {
        g.run(|a| a.bt(dword_ptr(rbx), 31));
        assert!(g.bus.writes.is_empty());
        assert_eq!(g.vcpu.rflags, flags | Rflags::CF);
        g.run(|a| a.btr(qword_ptr(rbx), 63));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, OLD & !(1 << 63))]);
        g.run(|a| a.lock().bts(dword_ptr(rbx), 40));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, 0x8000_81ff)], "an immediate counts modulo 32");
        assert_eq!(g.vcpu.rflags, flags - Rflags::CF);
        g.run(|a| a.btc(word_ptr(rbx), 15));
        assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x01ff)]);
        assert_eq!(g.vcpu.rflags, flags | Rflags::CF);
    });
}

#[test]
fn bit_strings_reach_beyond_the_operand() {
    let mut g = long(Rflags::ONE);
    g.set(Gpr::Rcx, 32 * 3 + 4).run(|a| a.bts(dword_ptr(rbx), ecx));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 12, Width::Dword, 0x10)]);
    g.set(Gpr::Rbx, DEVICE + 8).set(Gpr::Rcx, -1i64 as u64).run(|a| a.bts(word_ptr(rbx), cx));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 6, Width::Word, 0x8000)]);
    g.set(Gpr::Rcx, -64i64 as u64).run(|a| a.bt(qword_ptr(rbx), rcx));
    assert_eq!(g.bus.reads, [(DEVICE_AT, Width::Qword)]);
    assert!(g.vcpu.rflags.contains(Rflags::CF));
}

#[test]
fn ram_is_changed_in_place() {
    let mut g = long(Rflags::ONE);
    g.memory.poke(DATA_AT, Width::Dword, 40);
    g.set(Gpr::Rbx, DATA).set(Gpr::Rcx, 2);
    g.run(|a| a.lock().add(dword_ptr(rbx), ecx));
    assert_eq!(g.memory.peek(DATA_AT, Width::Dword), 42);
    g.run(|a| a.sub(dword_ptr(rbx), ecx));
    assert_eq!(g.memory.peek(DATA_AT, Width::Dword), 40);
    g.run(|a| a.lock().add(dword_ptr(rbx + 1), ecx));
    assert_eq!(g.memory.peek(DATA_AT, Width::Dword), 40 + 0x200, "also where it is not aligned");
}

/// RAM in which another CPU changes an operand between its being read and written, once.
struct Raced<'a>(&'a VecMemory, std::sync::atomic::AtomicBool);

impl GuestMemory for Raced<'_> {
    fn read(&self, at: Gpa, into: &mut [u8]) -> Result<(), crate::memory::NotRam> {
        self.0.read(at, into)
    }
    fn write(&self, at: Gpa, from: &[u8]) -> Result<(), crate::memory::NotRam> {
        self.0.write(at, from)
    }
    fn load(&self, at: Gpa, width: Width) -> Result<u64, crate::memory::NotRam> {
        self.0.load(at, width)
    }
    fn store(&self, at: Gpa, width: Width, value: u64) -> Result<(), crate::memory::NotRam> {
        self.0.store(at, width, value)
    }
    fn compare_exchange(
        &self,
        at: Gpa,
        width: Width,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, crate::memory::NotRam> {
        if at.0 == DATA_AT && !self.1.swap(true, std::sync::atomic::Ordering::SeqCst) {
            self.0.poke(DATA_AT, Width::Dword, 100);
        }
        self.0.compare_exchange(at, width, current, new)
    }
}

#[test]
fn a_locked_instruction_that_lost_a_race_runs_again() {
    let mut g = long(Rflags::ONE);
    g.set(Gpr::Rbx, DATA).set(Gpr::Rcx, 2);
    g.assemble(|a| a.lock().xadd(dword_ptr(rbx), ecx));
    let memory = Raced(&g.memory, false.into());
    let before = g.vcpu.clone();
    assert_eq!(emulate(&mut g.vcpu, &memory, &mut g.bus, None), Outcome::Done);
    assert_eq!(g.vcpu, before, "nothing has happened");
    assert_eq!(emulate(&mut g.vcpu, &memory, &mut g.bus, None), Outcome::Done);
    assert_eq!(g.memory.peek(DATA_AT, Width::Dword), 102);
    assert_eq!(g.get(Gpr::Rcx), 100);
}

#[test]
fn widths_do_not_leak_into_neighbours() {
    for width in WIDTHS {
        let mut g = long(Rflags::ONE);
        match width {
            Width::Byte => g.run(|a| a.not(byte_ptr(rbx))),
            Width::Word => g.run(|a| a.not(word_ptr(rbx))),
            Width::Dword => g.run(|a| a.not(dword_ptr(rbx))),
            Width::Qword => g.run(|a| a.not(qword_ptr(rbx))),
        };
        assert_eq!(g.bus.peek(DEVICE_AT, Width::Qword), OLD ^ width.mask());
    }
}

#[test]
fn quotients_that_do_not_fit_fault() {
    let mut g = long(Rflags::ONE);
    let divide_error = (Event::exception(Exception::DivideError), None);
    g.bus.poke(DEVICE_AT, Width::Qword, 2);
    g.set(Gpr::Rdx, 2).set(Gpr::Rax, 0);
    assert_eq!(g.fault(|a| a.div(qword_ptr(rbx))), divide_error);
    g.set(Gpr::Rdx, 1).run(|a| a.div(qword_ptr(rbx)));
    assert_eq!((g.get(Gpr::Rax), g.get(Gpr::Rdx)), (1 << 63, 0));
    // The most negative dividend, which has no opposite.
    g.bus.poke(DEVICE_AT, Width::Qword, u64::MAX);
    g.set(Gpr::Rdx, 1 << 63).set(Gpr::Rax, 0);
    assert_eq!(g.fault(|a| a.idiv(qword_ptr(rbx))), divide_error);
    g.set(Gpr::Rdx, u64::MAX).set(Gpr::Rax, -6i64 as u64).run(|a| a.idiv(qword_ptr(rbx)));
    assert_eq!((g.get(Gpr::Rax), g.get(Gpr::Rdx)), (6, 0));
}

#[test]
fn bounds() {
    let mut g = Guest::protected32();
    g.bus.poke(DEVICE_AT, Width::Qword, 0x0000_0004_ffff_fffe);
    g.set(Gpr::Rbx, DEVICE_AT);
    for (index, within) in [(-3i32, false), (-2, true), (4, true), (5, false)] {
        g.set(Gpr::Rcx, u64::from(index as u32));
        if within {
            g.run(|a| a.bound(ecx, qword_ptr(ebx)));
        } else {
            let range = (Event::exception(Exception::BoundRange), None);
            assert_eq!(g.fault(|a| a.bound(ecx, qword_ptr(ebx))), range);
        }
    }
}

#[test]
fn sixteen_bytes_are_aligned() {
    let mut g = long(Rflags::ONE);
    g.set(Gpr::Rsi, DEVICE + 8);
    assert_eq!(g.fault(|a| a.cmpxchg16b(xmmword_ptr(rsi))), (Event::GP0, None));
    g.set(Gpr::Rsi, READ_ONLY);
    let refused = Event::fault(Exception::PageFault, 0b011);
    assert_eq!(g.fault(|a| a.cmpxchg16b(xmmword_ptr(rsi))), (refused, Some(READ_ONLY)));
}

use super::*;
use iced_x86::code_asm::*;

const PATTERN: u64 = 0x8182_8384_8586_8788;
const OLD: u64 = 0x1122_3344_5566_7788;

fn long() -> Guest {
    let mut guest = Guest::long();
    guest.bus.poke(DEVICE_AT + 0x20, Width::Qword, PATTERN);
    guest.set(Gpr::Rbx, DEVICE).set(Gpr::Rax, OLD).set(Gpr::R13, OLD);
    guest
}

#[test]
fn loads_of_each_width_and_what_they_leave_of_the_register() {
    let mut g = long();
    assert_eq!(g.run(|a| a.mov(rax, qword_ptr(rbx + 0x20))).get(Gpr::Rax), PATTERN);
    assert_eq!(g.bus.reads, [(DEVICE_AT + 0x20, Width::Qword)]);
    assert_eq!(g.run(|a| a.mov(r13d, dword_ptr(rbx + 0x20))).get(Gpr::R13), 0x8586_8788);
    assert_eq!(g.bus.reads, [(DEVICE_AT + 0x20, Width::Dword)]);
    g.set(Gpr::R13, OLD);
    assert_eq!(g.run(|a| a.mov(r13w, word_ptr(rbx + 0x20))).get(Gpr::R13), 0x1122_3344_5566_8788);
    g.set(Gpr::R13, OLD).set(Gpr::Rax, OLD).set(Gpr::Rsi, OLD);
    assert_eq!(g.run(|a| a.mov(r13b, byte_ptr(rbx + 0x21))).get(Gpr::R13), 0x1122_3344_5566_7787);
    assert_eq!(g.run(|a| a.mov(ah, byte_ptr(rbx + 0x21))).get(Gpr::Rax), 0x1122_3344_5566_8788);
    assert_eq!(g.run(|a| a.mov(sil, byte_ptr(rbx + 0x21))).get(Gpr::Rsi), 0x1122_3344_5566_7787);
    assert!(g.bus.writes.is_empty());
}

#[test]
fn stores_of_each_width() {
    let mut g = long();
    g.run(|a| a.mov(qword_ptr(rbx), rax));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, OLD)]);
    g.run(|a| a.mov(dword_ptr(rbx), eax));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, 0x5566_7788)]);
    g.run(|a| a.mov(word_ptr(rbx), ax));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x7788)]);
    g.run(|a| a.mov(byte_ptr(rbx), ah));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Byte, 0x77)]);
    g.run(|a| a.mov(byte_ptr(rbx), r13b));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Byte, 0x88)]);
    g.set(Gpr::Rbp, 0x1234).run(|a| a.mov(byte_ptr(rbx), bpl));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Byte, 0x34)]);
    g.set(Gpr::Rdx, DEVICE).set(Gpr::Rbx, 0x4321);
    g.run(|a| a.mov(byte_ptr(rdx), bh));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Byte, 0x43)]);
    assert!(g.bus.reads.is_empty());
}

#[test]
fn immediates_are_sign_extended() {
    let mut g = long();
    g.run(|a| a.mov(qword_ptr(rbx), -2));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, u64::MAX - 1)]);
    g.run(|a| a.mov(dword_ptr(rbx), -2));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Dword, 0xffff_fffe)]);
    g.run(|a| a.mov(word_ptr(rbx), 0x8001));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x8001)]);
    g.run(|a| a.mov(byte_ptr(rbx), 0x81));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Byte, 0x81)]);
}

#[test]
fn extending_moves() {
    let mut g = long();
    let at = 0x20;
    assert_eq!(g.run(|a| a.movzx(eax, byte_ptr(rbx + at))).get(Gpr::Rax), 0x88);
    assert_eq!(g.bus.reads, [(DEVICE_AT + 0x20, Width::Byte)]);
    assert_eq!(g.run(|a| a.movzx(r13, word_ptr(rbx + at))).get(Gpr::R13), 0x8788);
    assert_eq!(g.run(|a| a.movsx(rax, byte_ptr(rbx + at))).get(Gpr::Rax), 0xffff_ffff_ffff_ff88);
    assert_eq!(g.run(|a| a.movsx(eax, word_ptr(rbx + at))).get(Gpr::Rax), 0xffff_8788);
    g.set(Gpr::Rax, OLD);
    assert_eq!(g.run(|a| a.movsx(ax, byte_ptr(rbx + at))).get(Gpr::Rax), 0x1122_3344_5566_ff88);
    assert_eq!(g.run(|a| a.movsxd(rax, dword_ptr(rbx + at))).get(Gpr::Rax), 0xffff_ffff_8586_8788);
    g.set(Gpr::Rax, OLD);
    assert_eq!(g.run(|a| a.movzx(ax, byte_ptr(rbx + at))).get(Gpr::Rax), 0x1122_3344_5566_0088);
}

#[test]
fn moves_leave_the_flags() {
    for flags in [Rflags::ONE, ALL_FLAGS] {
        let mut g = long();
        g.vcpu.rflags = flags;
        g.run(|a| a.mov(eax, dword_ptr(rbx)));
        g.run(|a| a.movzx(eax, byte_ptr(rbx)));
        g.run(|a| a.xchg(dword_ptr(rbx), eax));
        g.run(|a| a.not(dword_ptr(rbx)));
        assert_eq!(g.vcpu.rflags, flags);
    }
}

#[test]
fn absolute_offsets() {
    let mut g = Guest::protected32();
    g.bus.poke(DEVICE_AT + 8, Width::Dword, 0x1234_5678);
    // MOV EAX, moffs32 and back.
    g.code(&[0xa1, 8, 0, 0xe0, 0xfe]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.get(Gpr::Rax), 0x1234_5678);
    g.vcpu.rip = CODE_AT;
    g.code(&[0xa2, 1, 0, 0xe0, 0xfe]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT + 1, Width::Byte, 0x78)]);

    let mut g = Guest::long();
    g.set(Gpr::Rax, OLD);
    g.code(&[0x48, 0xa3, 0, 0x40, 0x40, 0, 0, 0, 0, 0]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, OLD)]);
}

#[test]
fn every_way_to_form_an_address() {
    let mut g = long();
    let to = |g: &Guest| g.bus.writes[0].0;
    g.run(|a| a.mov(dword_ptr(DEVICE + 0x10), eax));
    assert_eq!(to(&g), DEVICE_AT + 0x10, "absolute");
    let displacement = (DEVICE + 0x24 - (CODE + 6)) as u8;
    g.code(&[0x89, 0x05, displacement, 0x40, 0, 0]);
    g.step();
    assert_eq!(to(&g), DEVICE_AT + 0x24, "relative to RIP");
    g.vcpu.rip = CODE;
    g.set(Gpr::R12, 3).set(Gpr::R13, DEVICE);
    g.run(|a| a.mov(dword_ptr(r13 + r12 * 8 + 4), eax));
    assert_eq!(to(&g), DEVICE_AT + 0x1c, "base, index, scale, displacement");
    g.run(|a| a.mov(dword_ptr(rbx - 0x1000 + 0x1010), eax));
    assert_eq!(to(&g), DEVICE_AT + 0x10);
    g.set(Gpr::Rcx, DEVICE / 2);
    g.run(|a| a.mov(dword_ptr(rcx * 2), eax));
    assert_eq!(to(&g), DEVICE_AT, "index without base");
    g.set(Gpr::Rbx, 0xffff_ffff_0000_0000 | DEVICE);
    g.run(|a| a.mov(dword_ptr(ebx + 4), eax));
    assert_eq!(to(&g), DEVICE_AT + 4, "32-bit addresses drop the upper half");
    g.set(Gpr::Rbx, 0xffff_ffff);
    g.run(|a| a.mov(dword_ptr(ebx + DEVICE as i32 + 1), eax));
    assert_eq!(to(&g), DEVICE_AT, "and wrap");
}

#[test]
fn fs_and_gs_have_bases_in_64_bit_mode() {
    let mut g = long();
    g.vcpu.segment_mut(SegmentName::Gs).base = DEVICE;
    g.vcpu.segment_mut(SegmentName::Ds).base = 0x1_0000_0000;
    g.run(|a| a.mov(dword_ptr(0x10).gs(), eax));
    assert_eq!(g.bus.writes[0].0, DEVICE_AT + 0x10);
    g.run(|a| a.mov(dword_ptr(rbx), eax));
    assert_eq!(g.bus.writes[0].0, DEVICE_AT, "the others have none");
}

#[test]
fn real_mode_with_both_address_sizes() {
    let mut g = Guest::real();
    g.vcpu.segment_mut(SegmentName::Ds).base = 0xb_8000;
    g.vcpu.segment_mut(SegmentName::Es).base = 0xa_0000;
    g.set(Gpr::Rbx, 0xffff_0100).set(Gpr::Rsi, 0x20).set(Gpr::Rax, OLD);
    g.run(|a| a.mov(word_ptr(bx + si + 2), ax));
    assert_eq!(g.bus.writes, [(0xb_8122, Width::Word, 0x7788)]);
    g.run(|a| a.mov(dword_ptr(bx).es(), eax));
    assert_eq!(g.bus.writes, [(0xa_0100, Width::Dword, 0x5566_7788)]);
    g.set(Gpr::Rbx, 0x100);
    g.run(|a| a.mov(word_ptr(ebx + esi * 2), ax));
    assert_eq!(g.bus.writes, [(0xb_8140, Width::Word, 0x7788)]);
    g.set(Gpr::Rbx, 0xffff);
    g.run(|a| a.mov(byte_ptr(bx + si), al));
    assert_eq!(g.bus.writes, [(0xb_801f, Width::Byte, 0x88)], "16-bit offsets wrap");
    g.vcpu.segment_mut(SegmentName::Ss).base = 0xc_0000;
    g.set(Gpr::Rbp, 0x10);
    g.run(|a| a.mov(byte_ptr(bp + 1), al));
    assert_eq!(g.bus.writes, [(0xc_0011, Width::Byte, 0x88)], "BP means SS");
}

#[test]
fn operand_size_follows_the_mode() {
    let mut vcpu = FakeVcpu::protected16();
    vcpu.segment_mut(SegmentName::Ds).base = 0xb_8000;
    let mut g = Guest::unpaged(vcpu);
    g.set(Gpr::Rax, OLD);
    g.code(&[0xa3, 2, 0]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.bus.writes, [(0xb_8002, Width::Word, 0x7788)]);
    let mut vcpu = FakeVcpu::virtual8086();
    vcpu.segment_mut(SegmentName::Ds).base = 0xb_8000;
    let mut g = Guest::unpaged(vcpu);
    g.set(Gpr::Rax, OLD);
    g.code(&[0x66, 0xa3, 2, 0]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.bus.writes, [(0xb_8002, Width::Dword, 0x5566_7788)]);
}

#[test]
fn segment_registers_are_stored_and_not_loaded() {
    let mut g = long();
    g.vcpu.segment_mut(SegmentName::Fs).selector = 0x2b;
    g.run(|a| a.mov(word_ptr(rbx), fs));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x2b)]);
    g.assemble(|a| a.mov(fs, word_ptr(rbx)));
    assert!(matches!(g.step(), Outcome::Unsupported(_)));
    assert!(g.bus.reads.is_empty());
}

#[test]
fn operands_across_pages() {
    let mut g = long();
    g.run(|a| a.mov(qword_ptr(rbx + 0xffd), rax));
    let expected = [
        (DEVICE_AT + 0xffd, Width::Byte, 0x88),
        (DEVICE_AT + 0xffe, Width::Word, 0x6677),
        (DEVICE_AT + 0x1000, Width::Dword, 0x2233_4455),
        (DEVICE_AT + 0x1004, Width::Byte, 0x11),
    ];
    assert_eq!(g.bus.writes, expected);
    assert_eq!(g.run(|a| a.mov(r13, qword_ptr(rbx + 0xffd))).get(Gpr::R13), OLD);
    assert_eq!(g.bus.reads, expected.map(|(at, width, _)| (at, width)));

    g.set(Gpr::Rcx, MIXED).run(|a| a.mov(dword_ptr(rcx + 0xffe), eax));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x5566)], "half of it is RAM");
    assert_eq!(g.memory.peek(MIXED_AT + 0xffe, Width::Word), 0x7788);
    assert_eq!(g.run(|a| a.mov(edx, dword_ptr(rcx + 0xffe))).get(Gpr::Rdx), 0x5566_7788);

    g.set(Gpr::Rcx, DATA).run(|a| a.mov(qword_ptr(rcx + 0xffb), rax));
    assert_eq!(g.memory.peek(DATA_AT + 0xffb, Width::Dword), 0x5566_7788);
    assert_eq!(g.memory.peek(DATA_2_AT, Width::Word), 0x2233, "pages need not be neighbours");
}

#[test]
fn misaligned_in_one_page_is_one_access() {
    let mut g = long();
    g.run(|a| a.mov(dword_ptr(rbx + 3), eax));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 3, Width::Dword, 0x5566_7788)]);
    g.set(Gpr::Rcx, DATA).run(|a| a.mov(qword_ptr(rcx + 3), rax));
    assert_eq!(g.memory.peek(DATA_AT + 3, Width::Qword), OLD);
    assert_eq!(g.run(|a| a.mov(rdx, qword_ptr(rcx + 3))).get(Gpr::Rdx), OLD);
}

#[test]
fn translation_adds_al_to_the_table() {
    let mut g = long();
    g.set(Gpr::Rax, 0x1122_3344_5566_7723).set(Gpr::Rbx, DEVICE);
    assert_eq!(g.run(|a| a.xlatb()).get(Gpr::Rax), 0x1122_3344_5566_7785);
    assert_eq!(g.bus.reads, [(DEVICE_AT + 0x23, Width::Byte)]);
}

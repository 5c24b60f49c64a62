use super::*;
use iced_x86::code_asm::*;
use x86defs::control::{Cr0, Cr4};
use x86defs::segment::{Attributes, Segment};

const READ_FAULT: u32 = 0b000;
const WRITE_FAULT: u32 = 0b010;
const WRITE_REFUSED: u32 = 0b011;
const FETCH_FAULT: u32 = 0b10000;

fn page_fault(code: u32, at: u64) -> (Event, Option<u64>) {
    (Event::fault(Exception::PageFault, code), Some(at))
}
const GP: (Event, Option<u64>) = (Event::GP0, None);
const SS: (Event, Option<u64>) = (Event::fault(Exception::StackFault, 0), None);

fn long() -> Guest {
    let mut guest = Guest::long();
    guest.set(Gpr::Rbx, DEVICE).set(Gpr::Rcx, UNMAPPED).set(Gpr::Rdx, READ_ONLY);
    guest
}

#[test]
fn page_faults_of_data() {
    let mut g = long();
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rcx + 5))), page_fault(READ_FAULT, UNMAPPED + 5));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(rcx), eax)), page_fault(WRITE_FAULT, UNMAPPED));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(rdx), eax)), page_fault(WRITE_REFUSED, READ_ONLY));
    assert_eq!(g.fault(|a| a.or(dword_ptr(rdx), eax)), page_fault(WRITE_REFUSED, READ_ONLY));
    assert_eq!(g.fault(|a| a.cmpxchg(dword_ptr(rdx), eax)), page_fault(WRITE_REFUSED, READ_ONLY));
    assert!(g.bus.reads.is_empty(), "the access is refused before the read");
    assert_eq!(g.fault(|a| a.cmp(dword_ptr(rcx), eax)), page_fault(READ_FAULT, UNMAPPED));
    g.vcpu.cpl = 3;
    assert_eq!(g.fault(|a| a.mov(dword_ptr(rdx), eax)), page_fault(WRITE_REFUSED | 4, READ_ONLY));
}

#[test]
fn the_second_page_of_an_operand_faults_before_the_first_is_written() {
    let mut g = long();
    // The page after READ_ONLY is not mapped, nor is the one after the device's second page.
    let last = DEVICE + 0x1ffe;
    g.set(Gpr::Rbx, last);
    g.memory.poke(0x4000 + 8 * ((DEVICE + 0x2000) >> 12 & 511), Width::Qword, 0);
    assert_eq!(g.fault(|a| a.mov(dword_ptr(rbx), eax)), page_fault(WRITE_FAULT, DEVICE + 0x2000));
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx))), page_fault(READ_FAULT, DEVICE + 0x2000));
    assert!(g.bus.reads.is_empty());
}

#[test]
fn smap_applies_to_emulated_accesses() {
    let mut g = long();
    g.vcpu.cr4 |= Cr4::SMAP;
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx))), page_fault(0b001, DEVICE));
    g.vcpu.rflags |= Rflags::AC;
    g.run(|a| a.mov(eax, dword_ptr(rbx)));
}

#[test]
fn addresses_that_are_not_canonical() {
    let mut g = long();
    g.set(Gpr::Rbx, 1 << 47).set(Gpr::Rbp, 0xffff_7fff_ffff_fff0);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx))), GP);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbp))), SS);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx).ss())), GP, "other prefixes than FS and GS do nothing");
    g.set(Gpr::Rbx, (1 << 47) - 2);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx))), GP, "the last byte counts");
    g.vcpu.segment_mut(SegmentName::Gs).base = 0x7fff_ffff_f000;
    g.set(Gpr::Rbx, 0x1000);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx).gs())), GP, "with the base");
}

#[test]
fn segment_limits() {
    let mut g = Guest::protected32();
    g.vcpu.segment_mut(SegmentName::Ds).limit = 0xfee0_000f;
    g.set(Gpr::Rbx, DEVICE_AT + 0xc);
    g.run(|a| a.mov(dword_ptr(ebx), eax));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx + 1), eax)), GP);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(ebx + 1))), GP);
    g.run(|a| a.mov(dword_ptr(ebx + 1).es(), eax));
    g.vcpu.segment_mut(SegmentName::Ss).limit = 0xfff;
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(ebx).ss())), SS);
    g.vcpu.segment_mut(SegmentName::Ds).limit = u32::MAX;
    g.set(Gpr::Rbx, 0xffff_fffe);
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(ebx))), GP, "across 4 GiB");
}

#[test]
fn expand_down_segments() {
    let mut g = Guest::protected32();
    let data = g.vcpu.segment_mut(SegmentName::Ds);
    data.attributes |= Attributes::EXPAND_DOWN;
    data.limit = 0xfedf_ffff;
    g.set(Gpr::Rbx, DEVICE_AT);
    g.run(|a| a.mov(dword_ptr(ebx), eax));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx - 1), eax)), GP);
    g.vcpu.segment_mut(SegmentName::Ds).attributes -= Attributes::DEFAULT_BIG;
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx), eax)), GP, "a small one ends at 64 KiB");
}

#[test]
fn segment_types() {
    let mut g = Guest::protected32();
    g.set(Gpr::Rbx, DEVICE_AT);
    g.run(|a| a.mov(eax, dword_ptr(ebx).cs()));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx).cs(), eax)), GP, "code is not written");
    g.vcpu.segment_mut(SegmentName::Cs).attributes -= Attributes::READ_WRITE;
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(ebx).cs())), GP, "execute-only");
    g.vcpu.segment_mut(SegmentName::Ds).attributes -= Attributes::READ_WRITE;
    g.run(|a| a.mov(eax, dword_ptr(ebx)));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx), eax)), GP, "read-only");
    *g.vcpu.segment_mut(SegmentName::Fs) = Segment { limit: u32::MAX, ..Segment::default() };
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(ebx).fs())), GP, "null selector");
    g.vcpu.segment_mut(SegmentName::Es).attributes |= Attributes::UNUSABLE;
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(ebx).es())), GP, "unusable");
}

#[test]
fn real_mode_checks_limits_only_and_pushes_no_error_code() {
    let mut g = Guest::real();
    let data = g.vcpu.segment_mut(SegmentName::Ds);
    data.base = 0xb_8000;
    data.attributes = Attributes::empty();
    g.set(Gpr::Rbx, 0xfffe);
    g.run(|a| a.mov(word_ptr(bx), ax));
    let gp = (Event::exception(Exception::GeneralProtection), None);
    assert_eq!(g.fault(|a| a.mov(word_ptr(bx + 1), ax)), gp);
    assert_eq!(g.fault(|a| a.mov(dword_ptr(bx), eax)), gp);
    let mut v86 = Guest::unpaged(FakeVcpu::virtual8086());
    v86.vcpu.segment_mut(SegmentName::Ds).base = 0xb_8000;
    v86.set(Gpr::Rbx, 0xffff);
    assert_eq!(v86.fault(|a| a.mov(word_ptr(bx), ax)), GP, "virtual-8086 mode does push one");
}

#[test]
fn instructions_across_pages() {
    let mut g = long();
    g.vcpu.rip = CODE + 0xffd;
    g.code_at = CODE_AT + 0xffd;
    g.run(|a| a.mov(dword_ptr(rbx + 0x1000), 0x1234_5678));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0x1000, Width::Dword, 0x1234_5678)]);
    g.memory.poke(0x4000 + 8, Width::Qword, 0);
    assert_eq!(g.fault(|a| a.mov(dword_ptr(rbx), 1)), page_fault(FETCH_FAULT, CODE + 0x1000));
    g.vcpu.rip = CODE + 0xffe;
    g.code_at = CODE_AT + 0xffe;
    g.run(|a| a.mov(dword_ptr(rbx), eax));
    g.memory.poke(0x4000 + 8, Width::Qword, DEVICE_AT | 7);
    g.vcpu.rip = CODE + 0xfff;
    g.code_at = CODE_AT + 0xfff;
    assert_eq!(g.fault(|a| a.mov(dword_ptr(rbx), eax)), (Event::UD, None), "it ends in a device");
}

#[test]
fn fetches_that_fail() {
    let mut g = long();
    g.vcpu.rip = UNMAPPED;
    assert_eq!(g.fault(|a| a.nop()), page_fault(FETCH_FAULT, UNMAPPED));
    g.vcpu.rip = DEVICE;
    assert_eq!(g.fault(|a| a.nop()), (Event::UD, None));
    assert!(g.bus.reads.is_empty());

    let mut g = Guest::protected32();
    g.vcpu.segment_mut(SegmentName::Cs).limit = CODE_AT as u32 + 1;
    g.set(Gpr::Rbx, DEVICE_AT);
    g.run(|a| a.mov(dword_ptr(ebx), eax));
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx + 1), eax)), GP, "past the limit of CS");
    g.vcpu.segment_mut(SegmentName::Cs).limit = CODE_AT as u32 - 1;
    assert_eq!(g.fault(|a| a.mov(dword_ptr(ebx), eax)), GP);
}

#[test]
fn bytes_are_fetched_as_far_as_they_can_be() {
    let mut g = long();
    let mut bytes = [0; 15];
    g.vcpu.rip = CODE + 0xffe;
    g.memory.poke(CODE_AT + 0xffe, Width::Dword, 0x4433_2211);
    assert_eq!(fetch(&g.vcpu, &g.memory, &mut bytes), 15);
    assert_eq!(bytes[..4], [0x11, 0x22, 0x33, 0x44]);
    g.memory.poke(0x4000 + 8, Width::Qword, 0);
    assert_eq!(fetch(&g.vcpu, &g.memory, &mut bytes), 2);
    g.vcpu.rip = UNMAPPED;
    assert_eq!(fetch(&g.vcpu, &g.memory, &mut bytes), 0);
    let mut g = Guest::protected32();
    g.vcpu.segment_mut(SegmentName::Cs).limit = CODE_AT as u32 + 4;
    assert_eq!(fetch(&g.vcpu, &g.memory, &mut bytes), 5);
}

#[test]
fn the_longest_instruction_has_15_bytes() {
    let mut g = long();
    let mut code = [0x66; 16];
    code[14..].copy_from_slice(&[0x89, 0x03]);
    g.code(&code[1..]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0)]);
    g.vcpu.rip = CODE;
    g.code(&code);
    assert_eq!(g.step(), Outcome::Fault(Event::GP0, None));
}

#[test]
fn what_cannot_be_emulated_is_named_and_nothing_changes() {
    let mut g = long();
    g.assemble(|a| a.fld(dword_ptr(rbx)));
    let before = g.vcpu.clone();
    let Outcome::Unsupported(bytes) = g.step() else { panic!("FLD is not emulated") };
    assert!(std::format!("{bytes}").starts_with("d9 03 00"), "{bytes}");
    assert_eq!(g.vcpu, before);
    assert!(g.bus.reads.is_empty());
    g.code(&[0xc5, 0xf8, 0x28, 0x03]);
    assert!(matches!(g.step(), Outcome::Unsupported(_)), "VEX-encoded");
    g.assemble(|a| a.mov(cr3, rax));
    assert!(matches!(g.step(), Outcome::Unsupported(_)));
}

#[test]
fn invalid_instructions_fault() {
    let mut g = long();
    for code in
        [[0x0f, 0x04, 0x90], [0x0f, 0x0a, 0xc0], [0x06, 0x90, 0x90], [0xf0, 0x89, 0x03], [0xf0, 0x01, 0xd8]]
    {
        g.code(&code);
        let Outcome::Fault(Event::UD, None) = g.step() else { panic!("{code:x?} did not raise #UD") };
        g.vcpu.pending = None;
    }
}

#[test]
fn alignment_is_checked_for_users_who_ask_for_it() {
    let mut g = long();
    let ac = (Event::fault(Exception::AlignmentCheck, 0), None);
    g.vcpu.rflags |= Rflags::AC;
    g.run(|a| a.mov(eax, dword_ptr(rbx + 1)));
    g.vcpu.cr0 |= Cr0::AM;
    g.run(|a| a.mov(eax, dword_ptr(rbx + 1)));
    g.vcpu.cpl = 3;
    assert_eq!(g.fault(|a| a.mov(eax, dword_ptr(rbx + 1))), ac);
    assert_eq!(g.fault(|a| a.or(word_ptr(rbx + 1), 1)), ac);
    g.run(|a| a.mov(al, byte_ptr(rbx + 1))).run(|a| a.mov(rax, qword_ptr(rbx + 8)));
    g.vcpu.rflags -= Rflags::AC;
    g.run(|a| a.mov(eax, dword_ptr(rbx + 1)));
}

#[test]
fn the_end_of_an_instruction_drops_blocking_and_steps() {
    let mut g = long();
    g.vcpu.shadow = true;
    g.run(|a| a.mov(dword_ptr(rbx), eax));
    assert!(!g.vcpu.shadow);
    g.vcpu.rflags |= Rflags::TF;
    g.run(|a| a.mov(dword_ptr(rbx), eax));
    assert_eq!(g.vcpu.pending, Some(Event::exception(Exception::Debug)));
}

#[test]
fn write_protect_is_the_supervisors_choice() {
    let mut g = long();
    g.vcpu.cr0 -= Cr0::WP;
    g.run(|a| a.mov(dword_ptr(rdx), eax));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0x2000, Width::Dword, 0)]);
}

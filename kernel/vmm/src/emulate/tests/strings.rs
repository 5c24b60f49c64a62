use super::super::string::MAX_REPETITIONS;
use super::*;

const PATTERN: u64 = 0x1122_3344_5566_7788;

fn long() -> Guest {
    let mut guest = Guest::long();
    guest.bus.poke(DEVICE_AT, Width::Qword, PATTERN);
    guest.memory.poke(DATA_AT, Width::Qword, !PATTERN);
    guest
}

#[test]
fn movs_from_ram_to_device_and_back() {
    let mut g = long();
    g.set(Gpr::Rsi, DATA).set(Gpr::Rdi, DEVICE + 0x10);
    g.run(|a| a.movsd());
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0x10, Width::Dword, !PATTERN & 0xffff_ffff)]);
    assert_eq!((g.get(Gpr::Rsi), g.get(Gpr::Rdi)), (DATA + 4, DEVICE + 0x14));
    g.vcpu.rflags |= Rflags::DF;
    g.set(Gpr::Rsi, DEVICE).set(Gpr::Rdi, DATA + 0x10);
    g.run(|a| a.movsq());
    assert_eq!(g.memory.peek(DATA_AT + 0x10, Width::Qword), PATTERN);
    assert_eq!((g.get(Gpr::Rsi), g.get(Gpr::Rdi)), (DEVICE - 8, DATA + 8), "backwards");
}

#[test]
fn repeated_movs_crosses_pages_of_both_sides() {
    let mut g = long();
    for i in 0..0x100 {
        g.memory.poke(DATA_AT + 0xf00 + i, Width::Byte, i % 251);
        g.memory.poke(DATA_2_AT + i, Width::Byte, (i + 0x100) % 251);
    }
    g.set(Gpr::Rsi, DATA + 0xf00).set(Gpr::Rdi, DEVICE + 0xf80).set(Gpr::Rcx, 0x200);
    g.run(|a| a.rep().movsb());
    assert_eq!(g.bus.writes.len(), 0x200);
    for (i, &(at, width, value)) in g.bus.writes.iter().enumerate() {
        assert_eq!((at, width, value), (DEVICE_AT + 0xf80 + i as u64, Width::Byte, i as u64 % 251));
    }
    assert_eq!((g.get(Gpr::Rcx), g.get(Gpr::Rsi)), (0, DATA + 0x1100));
}

#[test]
fn stos_and_lods_of_each_width() {
    let mut g = long();
    g.set(Gpr::Rax, PATTERN).set(Gpr::Rdi, DEVICE + 0x20);
    g.run(|a| a.stosb()).run(|a| a.stosw()).run(|a| a.stosd()).run(|a| a.stosq());
    assert_eq!(g.get(Gpr::Rdi), DEVICE + 0x2f);
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0x27, Width::Qword, PATTERN)]);
    assert_eq!(g.bus.peek(DEVICE_AT + 0x20, Width::Qword), 0x8855_6677_8877_8888);
    g.set(Gpr::Rsi, DEVICE).set(Gpr::Rax, u64::MAX);
    assert_eq!(g.run(|a| a.lodsb()).get(Gpr::Rax), 0xffff_ffff_ffff_ff88);
    assert_eq!(g.run(|a| a.lodsw()).get(Gpr::Rax), 0xffff_ffff_ffff_6677);
    assert_eq!(g.run(|a| a.lodsd()).get(Gpr::Rax), 0x2233_4455);
    assert_eq!(g.get(Gpr::Rsi), DEVICE + 7);
}

#[test]
fn no_repetition_touches_nothing() {
    let mut g = long();
    g.set(Gpr::Rcx, 0).set(Gpr::Rdi, UNMAPPED).set(Gpr::Rsi, UNMAPPED);
    g.run(|a| a.rep().movsb()).run(|a| a.rep().stosd()).run(|a| a.repe().cmpsb());
    assert!(g.bus.reads.is_empty() && g.bus.writes.is_empty());
    assert_eq!((g.get(Gpr::Rdi), g.get(Gpr::Rcx)), (UNMAPPED, 0));
}

#[test]
fn comparisons_stop_where_the_flag_says() {
    let mut g = long();
    g.bus.poke(DEVICE_AT, Width::Qword, 0x0101_0202_0101_0101);
    g.set(Gpr::Rdi, DEVICE).set(Gpr::Rax, 1).set(Gpr::Rcx, 8);
    g.run(|a| a.repe().scasb());
    assert_eq!((g.get(Gpr::Rcx), g.get(Gpr::Rdi)), (3, DEVICE + 5));
    assert_eq!(g.vcpu.rflags, Rflags::ONE | Rflags::CF | Rflags::SF | Rflags::AF | Rflags::PF, "1 - 2");
    g.run(|a| a.repne().scasb());
    assert_eq!((g.get(Gpr::Rcx), g.get(Gpr::Rdi)), (1, DEVICE + 7));
    assert!(g.vcpu.rflags.contains(Rflags::ZF));

    g.memory.poke(DATA_AT, Width::Qword, 0x0101_0302_0101_0101);
    g.set(Gpr::Rsi, DATA).set(Gpr::Rdi, DEVICE).set(Gpr::Rcx, 4);
    g.run(|a| a.repe().cmpsw());
    assert_eq!((g.get(Gpr::Rcx), g.get(Gpr::Rsi), g.get(Gpr::Rdi)), (1, DATA + 6, DEVICE + 6));
    assert!(!g.vcpu.rflags.intersects(Rflags::ZF | Rflags::CF), "0x302 - 0x202");
    g.set(Gpr::Rsi, DATA).set(Gpr::Rdi, DEVICE).set(Gpr::Rcx, 2);
    g.run(|a| a.repe().cmpsw());
    assert!(g.vcpu.rflags.contains(Rflags::ZF), "ended by the count");
}

#[test]
fn work_per_exit_is_bounded() {
    let mut g = long();
    let most = u64::from(MAX_REPETITIONS);
    g.set(Gpr::Rcx, most + 5).set(Gpr::Rdi, DEVICE);
    g.assemble(|a| a.rep().stosb());
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx), g.get(Gpr::Rdi)), (CODE, 5, DEVICE + most));
    assert_eq!(g.bus.writes.len() as u64, most);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx)), (CODE + g.len, 0));
    g.vcpu.rip = CODE;
    g.set(Gpr::Rcx, most).set(Gpr::Rdi, DEVICE).run(|a| a.rep().stosb());
}

#[test]
fn a_fault_keeps_the_repetitions_before_it() {
    let mut g = long();
    g.memory.poke(0x4000 + 8 * ((DEVICE + 0x1000) >> 12 & 511), Width::Qword, 0);
    g.set(Gpr::Rcx, 10).set(Gpr::Rdi, DEVICE + 0x1000 - 12);
    g.assemble(|a| a.rep().stosd());
    let event = Event::fault(Exception::PageFault, 0b010);
    assert_eq!(g.step(), Outcome::Fault(event, Some(DEVICE + 0x1000)));
    assert_eq!(g.vcpu.cr2, DEVICE + 0x1000);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx), g.get(Gpr::Rdi)), (CODE, 7, DEVICE + 0x1000));
    assert_eq!(g.bus.writes.len(), 3);
}

#[test]
fn single_stepping_stops_at_each_repetition() {
    let mut g = long();
    g.vcpu.rflags |= Rflags::TF;
    g.set(Gpr::Rcx, 2).set(Gpr::Rdi, DEVICE);
    g.assemble(|a| a.rep().stosb());
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx)), (CODE, 1));
    assert_eq!(g.vcpu.pending.take(), Some(Event::exception(Exception::Debug)));
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx)), (CODE + g.len, 0));
    assert!(g.vcpu.pending.is_some());
}

#[test]
fn address_size_and_segments() {
    let mut g = long();
    g.set(Gpr::Rcx, 0xffff_ffff_0000_0002).set(Gpr::Rdi, 0x5555_0000_0000_0000 | DEVICE);
    // Address-size prefix: ECX and EDI.
    g.code(&[0x67, 0xf3, 0xaa]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.get(Gpr::Rcx), g.get(Gpr::Rdi)), (0, DEVICE + 2));

    let mut g = Guest::real();
    g.vcpu.segment_mut(SegmentName::Es).base = 0xb_8000;
    g.vcpu.segment_mut(SegmentName::Fs).base = 0x2000;
    g.memory.poke(0x2010, Width::Word, 0x4321);
    g.set(Gpr::Rsi, 0xaaaa_0010).set(Gpr::Rdi, 0xbbbb_fffe).set(Gpr::Rcx, 0xcccc_0001);
    // REP MOVSW with FS.
    g.code(&[0x64, 0xf3, 0xa5]);
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!(g.bus.writes, [(0xc_7ffe, Width::Word, 0x4321)]);
    assert_eq!((g.get(Gpr::Rsi), g.get(Gpr::Rdi), g.get(Gpr::Rcx)), (0xaaaa_0012, 0xbbbb_0000, 0xcccc_0000));
}

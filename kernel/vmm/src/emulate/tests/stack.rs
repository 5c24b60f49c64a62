use super::*;
use iced_x86::code_asm::*;

const TARGET: u64 = 0xffff_8000_1234_5678;
const TOP: u64 = DATA + 0x800;

fn long() -> Guest {
    let mut guest = Guest::long();
    guest.bus.poke(DEVICE_AT, Width::Qword, TARGET);
    guest.set(Gpr::Rbx, DEVICE).set(Gpr::Rsp, TOP);
    guest
}

#[test]
fn push_from_a_device() {
    let mut g = long();
    g.run(|a| a.push(qword_ptr(rbx)));
    assert_eq!(g.get(Gpr::Rsp), TOP - 8);
    assert_eq!(g.memory.peek(DATA_AT + 0x7f8, Width::Qword), TARGET);
    g.run(|a| a.push(word_ptr(rbx)));
    assert_eq!(g.get(Gpr::Rsp), TOP - 10);
    assert_eq!(g.memory.peek(DATA_AT + 0x7f6, Width::Word), TARGET & 0xffff);
}

#[test]
fn push_to_a_stack_in_a_device() {
    let mut g = long();
    g.set(Gpr::Rsp, DEVICE + 0x100).set(Gpr::Rax, 7);
    g.run(|a| a.push(rax));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0xf8, Width::Qword, 7)]);
    g.run(|a| a.push(-1));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0xf0, Width::Qword, u64::MAX)]);
    g.run(|a| a.pop(rcx));
    assert_eq!((g.get(Gpr::Rcx), g.get(Gpr::Rsp)), (u64::MAX, DEVICE + 0xf8));
}

#[test]
fn pop_to_a_device_addresses_with_the_new_pointer() {
    let mut g = long();
    g.memory.poke(DATA_AT + 0x800, Width::Qword, 0x55);
    g.run(|a| a.pop(qword_ptr(rbx)));
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Qword, 0x55)]);
    assert_eq!(g.get(Gpr::Rsp), TOP + 8);
    g.set(Gpr::Rsp, TOP).run(|a| a.pop(qword_ptr(rsp + (DEVICE - TOP) as i32)));
    assert_eq!(g.bus.writes, [(DEVICE_AT + 8, Width::Qword, 0x55)]);
    g.set(Gpr::Rsp, TOP).set(Gpr::Rbx, READ_ONLY);
    let refused = Event::fault(Exception::PageFault, 0b011);
    assert_eq!(g.fault(|a| a.pop(qword_ptr(rbx))), (refused, Some(READ_ONLY)));
    assert_eq!(g.get(Gpr::Rsp), TOP, "a POP that faults moves nothing");
}

#[test]
fn calls_and_jumps_through_a_device() {
    let mut g = long();
    g.assemble(|a| a.call(qword_ptr(rbx)));
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rsp)), (TARGET, TOP - 8));
    assert_eq!(g.memory.peek(DATA_AT + 0x7f8, Width::Qword), CODE + g.len);
    g.vcpu.rip = CODE;
    g.assemble(|a| a.jmp(qword_ptr(rbx)));
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rsp)), (TARGET, TOP - 8));
}

#[test]
fn targets_are_checked_before_anything_is_pushed() {
    let mut g = long();
    g.bus.poke(DEVICE_AT, Width::Qword, 1 << 60);
    assert_eq!(g.fault(|a| a.call(qword_ptr(rbx))), (Event::GP0, None));
    assert_eq!(g.memory.peek(DATA_AT + 0x7f8, Width::Qword), 0);

    let mut g = Guest::protected32();
    g.vcpu.segment_mut(SegmentName::Cs).limit = 0xffff;
    g.bus.poke(DEVICE_AT, Width::Dword, 0x1_0000);
    g.set(Gpr::Rbx, DEVICE_AT).set(Gpr::Rsp, 0x4000);
    assert_eq!(g.fault(|a| a.jmp(dword_ptr(ebx))), (Event::GP0, None));
    g.bus.poke(DEVICE_AT, Width::Dword, 0xffff);
    g.assemble(|a| a.call(dword_ptr(ebx)));
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rsp)), (0xffff, 0x3ffc));
    assert_eq!(g.memory.peek(0x3ffc, Width::Dword), CODE_AT + g.len);
}

#[test]
fn far_transfers_are_not_emulated() {
    let mut g = Guest::protected32();
    g.set(Gpr::Rbx, DEVICE_AT).set(Gpr::Rsp, 0x4000);
    for code in [[0x66, 0xff, 0x1b], [0x66, 0xff, 0x2b]] {
        g.code(&code);
        assert!(matches!(g.step(), Outcome::Unsupported(_)));
        assert!(g.bus.reads.is_empty());
    }
}

#[test]
fn the_stack_segment_gives_the_width_of_the_pointer() {
    let mut g = Guest::real();
    g.vcpu.segment_mut(SegmentName::Ds).base = 0xb_8000;
    g.bus.poke(0xb_8000, Width::Word, 0xabcd);
    g.set(Gpr::Rsp, 0x5555_0000);
    g.run(|a| a.push(word_ptr(bx)));
    assert_eq!(g.get(Gpr::Rsp), 0x5555_fffe);
    assert_eq!(g.memory.peek(0xfffe, Width::Word), 0xabcd);
    // A POP that cannot finish keeps the upper half, too.
    g.vcpu.segment_mut(SegmentName::Ds).limit = 0;
    g.fault(|a| a.pop(word_ptr(bx)));
}

#[test]
fn enter_makes_sure_that_the_new_stack_can_be_written() {
    let mut g = long();
    g.set(Gpr::Rsp, DATA + 0x100).set(Gpr::Rbp, 5);
    g.run(|a| a.enter(0x40, 0));
    assert_eq!((g.get(Gpr::Rsp), g.get(Gpr::Rbp)), (DATA + 0xb8, DATA + 0xf8));
    g.set(Gpr::Rsp, DATA + 0x100).set(Gpr::Rbp, 5);
    // Below the code nothing is mapped.
    let top = DATA + 0xf8 - 0x4000;
    g.assemble(|a| a.enter(0x4000, 0));
    let before = g.vcpu.clone();
    assert!(matches!(g.step(), Outcome::Fault(_, Some(at)) if at == top));
    assert_eq!(g.vcpu.gprs, before.gprs);
}

#[test]
fn returns_through_a_stack_in_a_device() {
    let mut g = long();
    g.set(Gpr::Rsp, DEVICE).assemble(|a| a.ret_1(0x10));
    assert_eq!(g.step(), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rsp)), (TARGET, DEVICE + 0x18));
    g.vcpu.rip = CODE;
    g.bus.poke(DEVICE_AT, Width::Qword, 1 << 60);
    g.set(Gpr::Rsp, DEVICE);
    assert_eq!(g.fault(|a| a.ret()), (Event::GP0, None));
}

#[test]
fn frames_are_made_and_left() {
    let mut g = long();
    g.set(Gpr::Rsp, DEVICE + 0x100).set(Gpr::Rbp, DEVICE + 0x200);
    g.bus.poke(DEVICE_AT + 0x1f8, Width::Qword, 0x1111);
    g.run(|a| a.enter(0x20, 2));
    let frame = DEVICE + 0xf8;
    assert_eq!((g.get(Gpr::Rbp), g.get(Gpr::Rsp)), (frame, frame - 0x10 - 0x20));
    let pushed = [(0xf8, DEVICE + 0x200), (0xf0, 0x1111), (0xe8, frame)];
    assert_eq!(g.bus.writes, pushed.map(|(at, value)| (DEVICE_AT + at, Width::Qword, value)));
    g.run(|a| a.leave());
    assert_eq!((g.get(Gpr::Rbp), g.get(Gpr::Rsp)), (DEVICE + 0x200, DEVICE + 0x100));
}

#[test]
fn all_registers_and_flags_are_pushed() {
    let mut g = Guest::protected32();
    let registers = Gpr::ALL.into_iter().take(8);
    for (gpr, value) in registers.clone().zip(1..) {
        g.set(gpr, value);
    }
    g.set(Gpr::Rsp, DEVICE_AT + 0x100);
    g.run(|a| a.pushad());
    let values: Vec<u64> = g.bus.writes.iter().map(|(_, _, value)| *value).collect();
    assert_eq!(values, [1, 2, 3, 4, DEVICE_AT + 0x100, 6, 7, 8]);
    for gpr in registers.clone().filter(|gpr| *gpr != Gpr::Rsp) {
        g.set(gpr, 0);
    }
    g.run(|a| a.popad());
    let after: Vec<u64> = registers.map(|gpr| g.get(gpr)).collect();
    assert_eq!(after, values);
    g.vcpu.rflags |= Rflags::RF | Rflags::CF;
    g.run(|a| a.pushfd());
    assert_eq!(g.bus.writes, [(DEVICE_AT + 0xfc, Width::Dword, (Rflags::ONE | Rflags::CF).bits())]);
}

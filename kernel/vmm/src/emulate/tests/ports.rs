use super::*;
use crate::exit::{Io, IoForm};
use x86defs::segment::Attributes;

const PORT: u16 = 0x1f0;

/// A port that counts up when it is read.
#[derive(Default)]
struct FakePorts {
    next: u32,
    inputs: Vec<(u16, u8)>,
    outputs: Vec<(u16, u8, u32)>,
}

impl PortBus for FakePorts {
    fn input(&mut self, port: u16, width: u8) -> u32 {
        self.inputs.push((port, width));
        self.next += 1;
        0x1111_1110 + self.next
    }
    fn output(&mut self, port: u16, width: u8, value: u32) {
        self.outputs.push((port, width, value));
    }
}

fn step(g: &mut Guest, ports: &mut FakePorts, width: u8, form: IoForm) -> Outcome {
    let io = Io { port: PORT, width, form: form | IoForm::STRING };
    emulate_string_io(&mut g.vcpu, &g.memory, &mut g.bus, io, ports)
}

#[test]
fn repeated_input_fills_memory() {
    let (mut g, mut ports) = (Guest::long(), FakePorts::default());
    g.set(Gpr::Rdi, DATA + 0xffc).set(Gpr::Rcx, 4);
    g.assemble(|a| a.rep().insw());
    assert_eq!(step(&mut g, &mut ports, 2, IoForm::IN | IoForm::REP), Outcome::Done);
    assert_eq!(ports.inputs, [(PORT, 2); 4]);
    assert_eq!(g.memory.peek(DATA_AT + 0xffc, Width::Dword), 0x1112_1111);
    assert_eq!(g.memory.peek(DATA_2_AT, Width::Dword), 0x1114_1113);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx), g.get(Gpr::Rdi)), (CODE + g.len, 0, DATA + 0x1004));
}

#[test]
fn output_of_each_width_with_segment_and_direction() {
    let (mut g, mut ports) = (Guest::real(), FakePorts::default());
    g.vcpu.segment_mut(SegmentName::Ds).base = 0x1000;
    g.vcpu.segment_mut(SegmentName::Es).base = 0x2000;
    g.memory.poke(0x1010, Width::Dword, 0x4433_2211);
    g.memory.poke(0x2010, Width::Dword, 0x8877_6655);
    g.set(Gpr::Rsi, 0x10);
    let mut out = |code: &[u8], width| {
        g.vcpu.rip = CODE_AT;
        g.set(Gpr::Rsi, 0x10);
        g.code(code);
        assert_eq!(step(&mut g, &mut ports, width, IoForm::empty()), Outcome::Done);
        (ports.outputs.pop().unwrap(), g.get(Gpr::Rsi))
    };
    assert_eq!(out(&[0x6e], 1), ((PORT, 1, 0x11), 0x11), "OUTSB");
    assert_eq!(out(&[0x6f], 2), ((PORT, 2, 0x2211), 0x12), "OUTSW");
    assert_eq!(out(&[0x66, 0x6f], 4), ((PORT, 4, 0x4433_2211), 0x14), "OUTSD");
    assert_eq!(out(&[0x26, 0x6e], 1), ((PORT, 1, 0x55), 0x11), "with ES");
    assert_eq!(out(&[0x67, 0x6e], 1), ((PORT, 1, 0x11), 0x11), "with ESI");
    g.vcpu.rflags |= Rflags::DF;
    g.vcpu.rip = CODE_AT;
    g.set(Gpr::Rsi, 0x10).code(&[0x6f]);
    step(&mut g, &mut ports, 2, IoForm::empty());
    assert_eq!(g.get(Gpr::Rsi), 0xe);
}

#[test]
fn a_destination_that_faults_costs_no_input() {
    let (mut g, mut ports) = (Guest::long(), FakePorts::default());
    g.set(Gpr::Rdi, UNMAPPED).set(Gpr::Rcx, 4);
    g.assemble(|a| a.rep().insb());
    let event = Event::fault(Exception::PageFault, 0b010);
    let outcome = step(&mut g, &mut ports, 1, IoForm::IN | IoForm::REP);
    assert_eq!(outcome, Outcome::Fault(event, Some(UNMAPPED)));
    assert!(ports.inputs.is_empty());
    assert_eq!(g.get(Gpr::Rcx), 4);
}

#[test]
fn repetitions_are_bounded() {
    let (mut g, mut ports) = (Guest::long(), FakePorts::default());
    g.set(Gpr::Rsi, DATA).set(Gpr::Rcx, 5000);
    g.assemble(|a| a.rep().outsb());
    assert_eq!(step(&mut g, &mut ports, 1, IoForm::REP), Outcome::Done);
    assert_eq!((g.vcpu.rip, g.get(Gpr::Rcx)), (CODE, 904));
    assert_eq!(step(&mut g, &mut ports, 1, IoForm::REP), Outcome::Done);
    assert_eq!((g.vcpu.rip, ports.outputs.len()), (CODE + g.len, 5000));
}

#[test]
fn memory_operands_may_be_devices() {
    let (mut g, mut ports) = (Guest::long(), FakePorts::default());
    g.bus.poke(DEVICE_AT, Width::Dword, 0x1234_5678);
    g.set(Gpr::Rsi, DEVICE).set(Gpr::Rdi, MIXED + 0xffe);
    g.assemble(|a| a.outsd());
    assert_eq!(step(&mut g, &mut ports, 4, IoForm::empty()), Outcome::Done);
    assert_eq!(ports.outputs, [(PORT, 4, 0x1234_5678)]);
    g.vcpu.rip = CODE;
    g.assemble(|a| a.insd());
    assert_eq!(step(&mut g, &mut ports, 4, IoForm::IN), Outcome::Done);
    assert_eq!(g.memory.peek(MIXED_AT + 0xffe, Width::Word), 0x1111, "half of it is RAM");
    assert_eq!(g.bus.writes, [(DEVICE_AT, Width::Word, 0x1111)]);
}

#[test]
fn input_goes_to_es_whatever_the_prefix() {
    let (mut g, mut ports) = (Guest::real(), FakePorts::default());
    g.vcpu.segment_mut(SegmentName::Es).base = 0x2000;
    g.vcpu.segment_mut(SegmentName::Fs).base = 0x3000;
    for (code, width, expected) in
        [(&[0x64, 0x6c][..], 1, 0x11), (&[0x64, 0x6d], 2, 0x1112), (&[0x64, 0x66, 0x6d], 4, 0x1111_1113)]
    {
        g.vcpu.rip = CODE_AT;
        g.set(Gpr::Rdi, 0x10).code(code);
        assert_eq!(step(&mut g, &mut ports, width, IoForm::IN), Outcome::Done);
        assert_eq!(g.memory.peek(0x2010, Width::Dword) & u64::from(u32::MAX >> (32 - 8 * width)), expected);
        assert_eq!((g.memory.peek(0x3010, Width::Dword), g.get(Gpr::Rdi)), (0, 0x10 + u64::from(width)));
    }
}

#[test]
fn counts_and_indices_are_as_wide_as_addresses() {
    let (mut g, mut ports) = (Guest::protected32(), FakePorts::default());
    const HIGH: u64 = 0x5555_0000;
    g.memory.poke(0xffff, Width::Byte, 0x77);
    // REP OUTSB with 16-bit addresses, which wrap at 64 KiB.
    g.set(Gpr::Rsi, HIGH | 0xffff).set(Gpr::Rcx, HIGH | 2).code(&[0x67, 0xf3, 0x6e]);
    assert_eq!(step(&mut g, &mut ports, 1, IoForm::REP), Outcome::Done);
    assert_eq!(ports.outputs, [(PORT, 1, 0x77), (PORT, 1, 0)]);
    assert_eq!((g.get(Gpr::Rsi), g.get(Gpr::Rcx)), (HIGH | 1, HIGH));
    // With a count of zero memory is not looked at.
    g.vcpu.rip = CODE_AT;
    g.vcpu.segment_mut(SegmentName::Ds).limit = 0;
    assert_eq!(step(&mut g, &mut ports, 1, IoForm::REP), Outcome::Done);
    assert_eq!(g.vcpu.rip, CODE_AT + g.len);
}

#[test]
fn segments_are_checked_before_the_port_is_used() {
    let (mut g, mut ports) = (Guest::protected32(), FakePorts::default());
    g.vcpu.segment_mut(SegmentName::Es).attributes -= Attributes::READ_WRITE;
    g.code(&[0x6c]);
    assert_eq!(step(&mut g, &mut ports, 1, IoForm::IN), Outcome::Fault(Event::GP0, None));
    g.vcpu.pending = None;
    g.vcpu.segment_mut(SegmentName::Ss).limit = 0xff;
    g.set(Gpr::Rsi, 0x100).code(&[0x36, 0x6e]);
    let stack_fault = Event::fault(Exception::StackFault, 0);
    assert_eq!(step(&mut g, &mut ports, 1, IoForm::empty()), Outcome::Fault(stack_fault, None));
    assert!(ports.inputs.is_empty() && ports.outputs.is_empty());
}

#[test]
fn another_instruction_is_refused() {
    let (mut g, mut ports) = (Guest::long(), FakePorts::default());
    g.assemble(|a| a.movsb());
    assert!(matches!(step(&mut g, &mut ports, 1, IoForm::empty()), Outcome::Unsupported(_)));
}

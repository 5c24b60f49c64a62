//! Any bytes as the instruction of a virtual CPU in any mode. It ends, faults or is not known; what faults or is not
//! known has changed nothing, and the short way of MOV does what the long way does.

#![no_main]

use fuzz::guest::{Guest, RAM};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use vmm::emulate::{Bus, Outcome, PortBus, emulate, emulate_string_io};
use vmm::exit::{Io, IoForm};
use vmm::fake::{FakeVcpu, VecMemory};
use vmm::memory::Width;
use vmm::vcpu::{Mode, Vcpu};
use x86defs::addr::{Gpa, PAGE_SIZE};
use x86defs::gpr::Gpr;

#[derive(Arbitrary, Debug)]
struct Input {
    guest: Guest,
    code: [u8; 15],
    /// What reads from the device give.
    device: u64,
}

/// Words of RAM that one instruction changes at most, unless it is repeated: ENTER pushes 32 frame pointers, each of
/// which may cross a word, and the CPU marks the entries of the page tables.
const MOST_WORDS: usize = 2 * 33 + 16;

fuzz_target!(|input: Input| {
    let before = input.guest.vcpu();
    let instruction = decode(&input, &before);
    let long_way = Run::new(&input, &instruction, None);
    long_way.check(&before, &instruction);
    if let Some((at, _)) = long_way.bus.accesses.first() {
        let short_way = Run::new(&input, &instruction, Some(*at));
        assert_eq!(short_way.outcome, long_way.outcome);
        assert_eq!(short_way.vcpu, long_way.vcpu);
        assert_eq!(short_way.bus.accesses, long_way.bus.accesses);
        assert_eq!(short_way.memory.words(), long_way.memory.words());
    }
});

fn decode(input: &Input, vcpu: &FakeVcpu) -> Instruction {
    Decoder::with_ip(input.guest.mode.bitness(), &input.code, vcpu.rip, DecoderOptions::NONE).decode()
}

/// Everything that is not RAM, memory and ports.
struct World {
    /// The same answer to every read.
    answer: u64,
    /// Where each access was, and what it wrote.
    accesses: Vec<(Gpa, Option<u64>)>,
}

impl World {
    fn note(&mut self, at: Gpa, width: Width, value: Option<u64>) {
        assert!(at.page_offset() + width.bytes() as u64 <= PAGE_SIZE, "an access crosses a page");
        assert!(at.0 >= RAM as u64, "{at} is RAM");
        self.accesses.push((at, value));
    }
}

impl Bus for World {
    fn read(&mut self, at: Gpa, width: Width) -> u64 {
        self.note(at, width, None);
        self.answer & width.mask()
    }

    fn write(&mut self, at: Gpa, width: Width, value: u64) {
        assert_eq!(value & !width.mask(), 0, "more than the width");
        self.note(at, width, Some(value));
    }
}

/// Ports that give ones.
struct NoPorts;

impl PortBus for NoPorts {
    fn input(&mut self, _: u16, width: u8) -> u32 {
        u32::MAX >> (32 - 8 * u32::from(width))
    }

    fn output(&mut self, _: u16, width: u8, value: u32) {
        assert_eq!(u64::from(value) >> (8 * u32::from(width)), 0);
    }
}

/// An emulation and what came of it.
struct Run {
    vcpu: FakeVcpu,
    memory: VecMemory,
    untouched: Vec<u64>,
    bus: World,
    outcome: Outcome,
}

impl Run {
    fn new(input: &Input, instruction: &Instruction, fault: Option<Gpa>) -> Self {
        let (mut vcpu, memory) = (input.guest.vcpu(), input.guest.memory(&input.code));
        let untouched = memory.words();
        let mut bus = World { answer: input.device, accesses: Vec::new() };
        let outcome = match string_io(instruction, &vcpu) {
            Some(io) => emulate_string_io(&mut vcpu, &memory, &mut bus, io, &mut NoPorts),
            None => emulate(&mut vcpu, &memory, &mut bus, fault),
        };
        Self { vcpu, memory, untouched, bus, outcome }
    }

    fn check(&self, before: &FakeVcpu, instruction: &Instruction) {
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        match self.outcome {
            Outcome::Done => self.check_rip(before, instruction),
            Outcome::Fault(event, cr2) => {
                assert_eq!(self.vcpu.pending, Some(event));
                assert_eq!(self.vcpu.cr2, cr2.unwrap_or(before.cr2));
                assert_eq!(self.vcpu.rip, before.rip);
                if !repeated {
                    let expected = FakeVcpu { cr2: self.vcpu.cr2, pending: Some(event), ..before.clone() };
                    assert_eq!(self.vcpu, expected, "a fault changed something: {instruction}");
                }
            }
            Outcome::Unsupported(bytes) => {
                assert!(!bytes.to_string().is_empty());
                assert!(repeated || self.vcpu == *before, "something happened all the same: {instruction}");
                assert!(repeated || self.bus.accesses.iter().all(|(_, written)| written.is_none()));
            }
        }
        let changed =
            self.memory.words().iter().zip(&self.untouched).filter(|(now, then)| now != then).count();
        assert!(repeated || changed <= MOST_WORDS, "{changed} words changed by {instruction}");
    }

    /// The instruction is over, or to be repeated, or has jumped.
    fn check_rip(&self, before: &FakeVcpu, instruction: &Instruction) {
        let mask = match Mode::of(before).bitness() {
            64 => u64::MAX,
            32 => 0xffff_ffff,
            _ => 0xffff,
        };
        let next = instruction.next_ip() & mask;
        let same = self.vcpu.rip == before.rip && instruction.is_string_instruction();
        let jumped = instruction.flow_control() != FlowControl::Next;
        assert!(self.vcpu.rip == next || same || jumped, "RIP {:#x} after {instruction}", self.vcpu.rip);
        assert!(
            instruction.is_string_instruction() || !instruction.is_invalid(),
            "invalid code was executed: {instruction}"
        );
    }
}

/// The access of INS or OUTS.
fn string_io(instruction: &Instruction, vcpu: &FakeVcpu) -> Option<Io> {
    use Mnemonic::{Insb, Insd, Insw, Outsb, Outsd, Outsw};
    let (width, input) = match instruction.mnemonic() {
        Insb => (1, true),
        Insw => (2, true),
        Insd => (4, true),
        Outsb => (1, false),
        Outsw => (2, false),
        Outsd => (4, false),
        _ => return None,
    };
    let direction = if input { IoForm::IN } else { IoForm::empty() };
    Some(Io { port: vcpu.gpr(Gpr::Rdx) as u16, width, form: IoForm::STRING | direction })
}

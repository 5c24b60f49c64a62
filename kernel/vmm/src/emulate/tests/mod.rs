//! Instructions assembled, emulated and looked at.

mod arithmetic;
mod cases;
mod faults;
mod moves;
mod plain_mov;
mod ports;
mod stack;
mod strings;

use super::*;
use crate::fake::{FakeVcpu, VecMemory};
use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;
use std::collections::BTreeMap;
use std::vec::Vec;
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;
use x86defs::segment::SegmentName;

/// Where things are, linear in long mode and physical. Every region has two pages that follow each other in
/// linear addresses; physically the second page of RAM lies before the first.
const CODE: u64 = 0x40_0000;
const CODE_AT: u64 = 0x8000;
const DATA: u64 = 0x40_2000;
const DATA_AT: u64 = 0xb000;
const DATA_2_AT: u64 = 0xa000;
const DEVICE: u64 = 0x40_4000;
const DEVICE_AT: u64 = 0xfee0_0000;
/// A page of RAM and then one of the device.
const MIXED: u64 = 0x40_6000;
const MIXED_AT: u64 = 0xc000;
/// A page that can only be read.
const READ_ONLY: u64 = 0x40_8000;
const UNMAPPED: u64 = 0x40_a000;

/// Every access that left RAM: address, width, value if written.
#[derive(Default)]
struct FakeBus {
    bytes: BTreeMap<u64, u8>,
    reads: Vec<(u64, Width)>,
    writes: Vec<(u64, Width, u64)>,
}

impl FakeBus {
    fn peek(&self, at: u64, width: Width) -> u64 {
        (0..width.bytes() as u64)
            .map(|i| u64::from(self.bytes.get(&(at + i)).copied().unwrap_or(0)) << (8 * i))
            .sum()
    }
    fn poke(&mut self, at: u64, width: Width, value: u64) {
        for (i, byte) in value.to_le_bytes()[..width.bytes()].iter().enumerate() {
            self.bytes.insert(at + i as u64, *byte);
        }
    }
}

impl Bus for FakeBus {
    fn read(&mut self, at: Gpa, width: Width) -> u64 {
        assert!(at.page_offset() + width.bytes() as u64 <= 4096, "an access does not cross a page");
        self.reads.push((at.0, width));
        self.peek(at.0, width)
    }
    fn write(&mut self, at: Gpa, width: Width, value: u64) {
        assert!(at.page_offset() + width.bytes() as u64 <= 4096, "an access does not cross a page");
        assert_eq!(value & !width.mask(), 0);
        self.writes.push((at.0, width, value));
        self.poke(at.0, width, value);
    }
}

/// A virtual CPU with its surroundings.
struct Guest {
    vcpu: FakeVcpu,
    memory: VecMemory,
    bus: FakeBus,
    code_at: u64,
    /// Length of the last instruction.
    len: u64,
}

impl Guest {
    /// 64-bit mode with the address space above.
    fn long() -> Guest {
        const PRESENT_WRITE_USER: u64 = 7;
        let memory = VecMemory::new(0x1_0000);
        memory.poke(0x1000, Width::Qword, 0x2000 | PRESENT_WRITE_USER);
        memory.poke(0x2000, Width::Qword, 0x3000 | PRESENT_WRITE_USER);
        memory.poke(0x3000 + 8 * 2, Width::Qword, 0x4000 | PRESENT_WRITE_USER);
        let pages = [
            (CODE, CODE_AT | PRESENT_WRITE_USER),
            (CODE + 0x1000, (CODE_AT + 0x1000) | PRESENT_WRITE_USER),
            (DATA, DATA_AT | PRESENT_WRITE_USER),
            (DATA + 0x1000, DATA_2_AT | PRESENT_WRITE_USER),
            (DEVICE, DEVICE_AT | PRESENT_WRITE_USER),
            (DEVICE + 0x1000, (DEVICE_AT + 0x1000) | PRESENT_WRITE_USER),
            (MIXED, MIXED_AT | PRESENT_WRITE_USER),
            (MIXED + 0x1000, DEVICE_AT | PRESENT_WRITE_USER),
            (READ_ONLY, (DEVICE_AT + 0x2000) | (PRESENT_WRITE_USER & !2)),
        ];
        for (linear, entry) in pages {
            memory.poke(0x4000 + 8 * (linear >> 12 & 511), Width::Qword, entry);
        }
        let mut vcpu = FakeVcpu::long(0x1000);
        vcpu.rip = CODE;
        Guest { vcpu, memory, bus: FakeBus::default(), code_at: CODE_AT, len: 0 }
    }

    /// A mode without paging, code at 0x8000, 64 KiB of RAM.
    fn unpaged(mut vcpu: FakeVcpu) -> Guest {
        vcpu.rip = CODE_AT;
        Guest { vcpu, memory: VecMemory::new(0x1_0000), bus: FakeBus::default(), code_at: CODE_AT, len: 0 }
    }

    fn real() -> Guest {
        Guest::unpaged(FakeVcpu::real())
    }

    fn protected32() -> Guest {
        Guest::unpaged(FakeVcpu::protected32())
    }

    fn set(&mut self, gpr: Gpr, value: u64) -> &mut Guest {
        self.vcpu.gprs[gpr as usize] = value;
        self
    }

    fn get(&self, gpr: Gpr) -> u64 {
        self.vcpu.gprs[gpr as usize]
    }

    /// Assembles instructions where RIP points to.
    fn assemble(&mut self, build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) {
        let mut assembler = CodeAssembler::new(Mode::of(&self.vcpu).bitness()).unwrap();
        build(&mut assembler).unwrap();
        let code = assembler.assemble(self.vcpu.rip).unwrap();
        self.code(&code);
    }

    fn code(&mut self, bytes: &[u8]) {
        self.len = bytes.len() as u64;
        self.memory.write(Gpa(self.code_at), bytes).unwrap();
    }

    fn step(&mut self) -> Outcome {
        self.bus.reads.clear();
        self.bus.writes.clear();
        emulate(&mut self.vcpu, &self.memory, &mut self.bus, None)
    }

    /// Assembles one instruction and executes it to its end; RIP is put back for the next.
    fn run(&mut self, build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> &mut Guest {
        let rip = self.vcpu.rip;
        self.assemble(build);
        assert_eq!(self.step(), Outcome::Done);
        assert_eq!(self.vcpu.rip, rip + self.len, "the whole instruction was skipped");
        self.vcpu.rip = rip;
        self
    }

    /// Assembles one instruction that faults: nothing changes but CR2 and the pending event.
    fn fault(
        &mut self,
        build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
    ) -> (Event, Option<u64>) {
        self.assemble(build);
        let before = self.vcpu.clone();
        let Outcome::Fault(event, cr2) = self.step() else { panic!("the instruction did not fault") };
        assert_eq!(self.vcpu.pending.take(), Some(event));
        assert_eq!(self.vcpu, FakeVcpu { cr2: cr2.unwrap_or(before.cr2), ..before });
        assert!(self.bus.writes.is_empty());
        (event, cr2)
    }
}

const WIDTHS: [Width; 4] = [Width::Byte, Width::Word, Width::Dword, Width::Qword];
const ALL_FLAGS: Rflags = Rflags::CF
    .union(Rflags::PF)
    .union(Rflags::AF)
    .union(Rflags::ZF)
    .union(Rflags::SF)
    .union(Rflags::OF)
    .union(Rflags::ONE);

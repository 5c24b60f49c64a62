//! The guest that sees the same memory as [`crate::native`], and registers that lead an instruction there.

use crate::native::{CODE, CODE_LEN, DATA, DATA_LEN, PAGE};
use iced_x86::{Instruction, Mnemonic, OpKind, Register, RflagsBits};
use vmm::emulate::Bus;
use vmm::fake::{FakeVcpu, VecMemory};
use vmm::memory::{GuestMemory, Width};
use x86defs::addr::Gpa;
use x86defs::control::Rflags;
use x86defs::gpr::Gpr;

/// Pages of the data.
pub const PAGES: usize = DATA_LEN / PAGE;

/// Guest physical addresses.
const TABLES: u64 = 0x1000;
const CODE_AT: u64 = 0x5000;
const DATA_AT: u64 = 0x6000;
const RAM: usize = DATA_AT as usize + DATA_LEN;
const DEVICE_AT: u64 = 0xfee0_0000;

/// Bits of page-table entries.
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;

/// A device that is nothing but memory.
#[derive(Debug)]
pub struct Device([u8; DATA_LEN]);

impl Device {
    fn bytes(&mut self, at: Gpa, width: Width) -> &mut [u8] {
        assert!(at.page_offset() as usize + width.bytes() <= PAGE, "an access does not cross a page");
        let offset = at.0.checked_sub(DEVICE_AT).expect("an access leads to what is mapped") as usize;
        &mut self.0[offset..offset + width.bytes()]
    }
}

impl Bus for Device {
    fn read(&mut self, at: Gpa, width: Width) -> u64 {
        self.bytes(at, width).iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn write(&mut self, at: Gpa, width: Width, value: u64) {
        assert_eq!(value & !width.mask(), 0);
        self.bytes(at, width).copy_from_slice(&value.to_le_bytes()[..width.bytes()]);
    }
}

/// Code and data, each page of the data in RAM or on the device.
pub struct Memory {
    /// RAM.
    pub ram: VecMemory,
    /// The device.
    pub device: Device,
    on_device: [bool; PAGES],
}

impl Memory {
    /// With this content.
    pub fn new(code: &[u8; CODE_LEN], data: &[u8; DATA_LEN], on_device: [bool; PAGES]) -> Self {
        let ram = VecMemory::new(RAM);
        let index = |shift: u32| (CODE >> shift) % 512;
        let table = |level: u64| TABLES + level * PAGE as u64;
        for (level, shift) in [(0, 39), (1, 30), (2, 21)] {
            ram.poke(table(level) + 8 * index(shift), Width::Qword, table(level + 1) | PRESENT | WRITE);
        }
        ram.poke(table(3) + 8 * index(12), Width::Qword, CODE_AT | PRESENT);
        for (page, device) in on_device.into_iter().enumerate() {
            let offset = (page * PAGE) as u64;
            let at = if device { DEVICE_AT } else { DATA_AT } + offset;
            ram.poke(table(3) + 8 * ((DATA + offset) >> 12 & 511), Width::Qword, at | PRESENT | WRITE);
        }
        ram.write(Gpa(CODE_AT), code).expect("RAM");
        let words = data.as_chunks::<8>().0.iter().enumerate();
        for (n, word) in words.filter(|(_, word)| **word != [0; 8]) {
            ram.poke(DATA_AT + 8 * n as u64, Width::Qword, u64::from_le_bytes(*word));
        }
        Self { ram, device: Device(*data), on_device }
    }

    /// A virtual CPU at the instruction.
    pub fn vcpu(&self) -> FakeVcpu {
        let mut vcpu = FakeVcpu::long(TABLES);
        vcpu.rip = CODE;
        vcpu
    }

    /// The first address at which the data is not this.
    pub fn differs_at(&self, data: &[u8; DATA_LEN]) -> Option<u64> {
        let ram = self.ram.words();
        (0..DATA_LEN / 8).map(|n| 8 * n).find_map(|at| {
            let word = if self.on_device[at / PAGE] {
                u64::from_le_bytes(*self.device.0[at..].first_chunk().expect("whole words"))
            } else {
                ram[(DATA_AT as usize + at) / 8]
            };
            (word.to_le_bytes() != data[at..at + 8]).then_some(DATA + at as u64)
        })
    }
}

/// Changes registers so that the instruction's memory operands lie at `at` or near.
pub fn aim(instruction: &Instruction, gprs: &mut [u64; 16], at: u64) {
    const NEAR: u64 = 0x3f;
    let near = |value: u64| at.wrapping_add_signed(((value & NEAR) as i64) - 0x20);
    if instruction.is_string_instruction() || instruction.mnemonic() == Mnemonic::Xlatb {
        for gpr in [Gpr::Rsi, Gpr::Rdi, Gpr::Rbx] {
            gprs[gpr as usize] = near(gprs[gpr as usize]);
        }
        gprs[Gpr::Rcx as usize] &= 0xf;
    }
    if instruction.is_stack_instruction() {
        for gpr in [Gpr::Rsp, Gpr::Rbp] {
            gprs[gpr as usize] = near(gprs[gpr as usize]);
        }
    }
    if matches!(instruction.mnemonic(), Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc)
        && instruction.op1_kind() == OpKind::Register
    {
        let bit = &mut gprs[instruction.op1_register().number()];
        *bit = *bit as i8 as u64;
    }
    aim_base(instruction, gprs, at);
}

/// Moves the base register of the operand whose address it is part of.
fn aim_base(instruction: &Instruction, gprs: &mut [u64; 16], at: u64) {
    let base = instruction.memory_base();
    let Some(operand) = (0..instruction.op_count()).find(|n| instruction.op_kind(*n) == OpKind::Memory)
    else {
        return;
    };
    if !base.is_gpr() {
        return;
    }
    let value = |register: Register, _, _| match register {
        register if register.is_gpr64() => Some(gprs[register.number()]),
        register if register.is_gpr32() => Some(gprs[register.number()] & 0xffff_ffff),
        _ => Some(0),
    };
    if let Some(now) = instruction.virtual_address(operand, 0, value) {
        let moved = gprs[base.number()].wrapping_add(at.wrapping_sub(now));
        gprs[base.number()] = moved;
    }
}

/// The flags that the manuals leave undefined after an instruction.
pub fn undefined(instruction: &Instruction) -> Rflags {
    let bits = instruction.rflags_undefined();
    let flags = [
        (RflagsBits::CF, Rflags::CF),
        (RflagsBits::PF, Rflags::PF),
        (RflagsBits::AF, Rflags::AF),
        (RflagsBits::ZF, Rflags::ZF),
        (RflagsBits::SF, Rflags::SF),
        (RflagsBits::OF, Rflags::OF),
    ];
    flags.into_iter().filter(|(bit, _)| bits & bit != 0).fold(Rflags::empty(), |all, (_, flag)| all | flag)
}

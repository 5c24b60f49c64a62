//! A virtual CPU in any mode, in an address space that has a bit of everything.

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use vmm::fake::{FakeVcpu, VecMemory};
use vmm::memory::Width;
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::segment::{Attributes, SegmentName};

/// Bytes of RAM, from address 0 on.
pub const RAM: usize = 0x8000;
/// Guest physical address of the device's pages where there is paging; without, everything above the RAM is device.
const DEVICE_AT: u64 = 0xfee0_0000;
/// The page tables, from the top.
const TABLES: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];

/// Bits of page-table entries.
const PRESENT: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;

/// A mode of execution.
#[allow(missing_docs)]
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestMode {
    Real,
    Virtual8086,
    Protected16,
    Protected32,
    Paged32,
    Pae,
    Compatibility16,
    Compatibility32,
    Long,
}

/// A general register's value.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Value {
    /// Near the beginning of one of the first pages.
    Page(u8, i8),
    /// A small number.
    Small(i8),
    /// Anything.
    Any(u64),
}

impl Value {
    /// It.
    pub fn value(self) -> u64 {
        match self {
            Value::Page(page, offset) => (u64::from(page % 32) << 12).wrapping_add_signed(offset.into()),
            Value::Small(value) => value as u64,
            Value::Any(value) => value,
        }
    }
}

/// A data segment that is not flat.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Shape {
    name: u8,
    base: u16,
    limit: u32,
    attributes: u16,
}

/// Everything that decides how an instruction is executed.
#[derive(Arbitrary, Debug)]
pub struct Guest {
    /// Its mode.
    pub mode: GuestMode,
    /// Offset of the instruction in its page.
    pub rip: u16,
    registers: [Value; 16],
    flags: u32,
    user: bool,
    write_protect: bool,
    alignment_mask: bool,
    smap: bool,
    shapes: Vec<Shape>,
}

/// Where the instruction's page is.
const CODE: u64 = 0x5000;
/// Flags that a guest has as it likes.
const FLAGS: Rflags = Rflags::CF
    .union(Rflags::PF)
    .union(Rflags::AF)
    .union(Rflags::ZF)
    .union(Rflags::SF)
    .union(Rflags::TF)
    .union(Rflags::IF)
    .union(Rflags::DF)
    .union(Rflags::OF)
    .union(Rflags::IOPL)
    .union(Rflags::AC);

impl Guest {
    /// The virtual CPU, at the instruction.
    pub fn vcpu(&self) -> FakeVcpu {
        let mut vcpu = self.mode.vcpu();
        vcpu.gprs = self.registers.map(Value::value);
        vcpu.rip = CODE + u64::from(self.rip % 0x1000);
        vcpu.rflags |= Rflags::from_bits_truncate(self.flags.into()) & FLAGS;
        vcpu.cr0.set(Cr0::WP, self.write_protect);
        vcpu.cr0.set(Cr0::AM, self.alignment_mask);
        vcpu.cr4.set(Cr4::SMAP, self.smap && vcpu.cr0.contains(Cr0::PG));
        if !matches!(self.mode, GuestMode::Real | GuestMode::Virtual8086) {
            vcpu.cpl = if self.user { 3 } else { 0 };
        }
        for shape in self.shapes.iter().take(4) {
            let names = [SegmentName::Es, SegmentName::Ss, SegmentName::Ds, SegmentName::Fs, SegmentName::Gs];
            let segment = vcpu.segment_mut(names[usize::from(shape.name) % names.len()]);
            segment.base = shape.base.into();
            segment.limit = shape.limit;
            segment.attributes = Attributes::from_bits_truncate(shape.attributes.into());
        }
        vcpu
    }

    /// Its RAM, with page tables and these bytes at the instruction. Where they cross into the next page they go on
    /// there.
    pub fn memory(&self, code: &[u8]) -> VecMemory {
        let memory = VecMemory::new(RAM);
        self.mode.map(&memory);
        for (at, byte) in (CODE + u64::from(self.rip % 0x1000)..).zip(code) {
            memory.poke(at, Width::Byte, u64::from(*byte));
        }
        memory
    }
}

impl GuestMode {
    fn vcpu(self) -> FakeVcpu {
        let mut vcpu = match self {
            GuestMode::Real => FakeVcpu::real(),
            GuestMode::Virtual8086 => FakeVcpu::virtual8086(),
            GuestMode::Protected16 => FakeVcpu::protected16(),
            GuestMode::Protected32 | GuestMode::Paged32 | GuestMode::Pae => FakeVcpu::protected32(),
            GuestMode::Compatibility16 | GuestMode::Compatibility32 | GuestMode::Long => {
                FakeVcpu::long(TABLES[0])
            }
        };
        vcpu.cr3 = TABLES[0];
        let cs = &mut vcpu.segments[SegmentName::Cs as usize].attributes;
        match self {
            GuestMode::Compatibility16 => *cs -= Attributes::LONG,
            GuestMode::Compatibility32 => *cs = (*cs - Attributes::LONG) | Attributes::DEFAULT_BIG,
            GuestMode::Paged32 => vcpu.cr0 |= Cr0::PG,
            GuestMode::Pae => {
                vcpu.cr0 |= Cr0::PG;
                vcpu.cr4 |= Cr4::PAE;
                vcpu.efer |= Efer::NXE;
            }
            _ => {}
        }
        vcpu
    }

    /// How many bits code has that is decoded in this mode.
    pub fn bitness(self) -> u32 {
        match self {
            GuestMode::Real
            | GuestMode::Virtual8086
            | GuestMode::Protected16
            | GuestMode::Compatibility16 => 16,
            GuestMode::Protected32 | GuestMode::Paged32 | GuestMode::Pae | GuestMode::Compatibility32 => 32,
            GuestMode::Long => 64,
        }
    }

    /// The page tables of its paging, if it has any: RAM as it is, then pages of the device with different rights, then
    /// nothing.
    fn map(self, memory: &VecMemory) {
        let (tables, width): (&[u64], _) = match self {
            GuestMode::Paged32 => (&TABLES[..2], Width::Dword),
            GuestMode::Pae => (&TABLES[..3], Width::Qword),
            GuestMode::Compatibility16 | GuestMode::Compatibility32 | GuestMode::Long => {
                (&TABLES, Width::Qword)
            }
            _ => return,
        };
        for (level, pair) in tables.windows(2).enumerate() {
            // The pointers of PAE paging have no rights.
            let rights = if self == GuestMode::Pae && level == 0 { 0 } else { WRITE | USER | ACCESSED };
            memory.poke(pair[0], width, pair[1] | PRESENT | rights);
        }
        let [.., last] = tables else { return };
        for page in 0..24 {
            let entry = Self::page(page);
            memory.poke(last + page * width.bytes() as u64, width, entry);
        }
    }

    fn page(page: u64) -> u64 {
        let own = page << 12 | PRESENT | WRITE | USER | ACCESSED | DIRTY;
        let device = (DEVICE_AT + (page << 12)) | PRESENT | WRITE | USER | ACCESSED | DIRTY;
        match page {
            0..8 => own,
            // Read-only, the supervisor's, and not there.
            12 | 20 => device & !WRITE,
            13 | 21 => device & !USER,
            14 | 22 => device & !PRESENT,
            15 | 23 => (7 << 12) | PRESENT | WRITE | USER,
            _ => device,
        }
    }
}

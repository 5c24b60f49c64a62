//! Page walks through any tables under any controls, judged by a second walk written from the manual. A refused access
//! leaves the tables as they are; an allowed one marks them.

#![no_main]

use fuzz::reference_walk::{Access, Controls, Scheme};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use vmm::fake::{FakeVcpu, VecMemory};
use vmm::memory::{GuestMemory, Width};
use vmm::walk::{Intent, Paging};
use x86defs::addr::{Gpa, Gva};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};

#[derive(Arbitrary, Debug)]
struct Input {
    scheme: Mode,
    root: Option<u64>,
    /// What differs from entries that allow everything, and where they lead.
    entries: [u64; 4],
    linear: u64,
    access: Kind,
    physical_bits: u8,
    user: bool,
    write_protect: bool,
    no_execute: bool,
    smep: bool,
    smap: bool,
    alignment_check: bool,
    large_pages: bool,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Mode {
    Bits32,
    Pae,
    Long,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Kind {
    Read,
    Write,
    Fetch,
}

const TABLES: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];
const RAM: usize = 0x6000;
/// Present, writable, the user's.
const ALL: u64 = 7;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;

fuzz_target!(|input: Input| {
    let memory = VecMemory::new(RAM);
    let controls = controls(&input);
    fill(&input, &memory, controls.scheme);
    let linear = if controls.scheme == Scheme::Long { input.linear } else { input.linear & 0xffff_ffff };
    let (access, intent) = match input.access {
        Kind::Read => (Access::Read, Intent::Read),
        Kind::Write => (Access::Write, Intent::Write),
        Kind::Fetch => (Access::Fetch, Intent::Fetch),
    };
    let mut paging = Paging::of(&vcpu(&input, &controls));
    paging.physical_bits = controls.physical_bits;
    // Twice, since the first time marks the entries, which can be entries of two levels.
    for _ in 0..2 {
        // Where there is no RAM nothing answers.
        let visited = RefCell::new(Vec::new());
        let read = |at, width: Width| {
            visited.borrow_mut().push(at);
            memory.load(Gpa(at), width).unwrap_or(width.mask())
        };
        let expected = controls.walk(read, linear, access);
        if controls.scheme == Scheme::Pae && visited.borrow()[1..].contains(&visited.borrow()[0]) {
            // A mark would make the pointer invalid, which a CPU keeps in a register.
            return;
        }
        let before = memory.words();
        let result = paging.translate(&memory, Gva(linear), intent);
        let result = result.map(|to| to.0).map_err(|fault| {
            assert_eq!(fault.address, Gva(linear));
            fault.code.bits()
        });
        assert_eq!(result, expected, "{input:x?}\n{controls:x?}");
        check_marks(&before, &memory.words(), expected.is_ok());
    }
});

/// Nothing but marks is set, and these only if the access was allowed.
fn check_marks(before: &[u64], after: &[u64], allowed: bool) {
    // In 32-bit paging a word is two entries.
    const MARKS: u64 = (ACCESSED | DIRTY) << 32 | ACCESSED | DIRTY;
    for (then, now) in before.iter().zip(after) {
        assert_eq!((then ^ now) & !MARKS, 0, "more than marks");
        assert_eq!(then & !now, 0, "a mark was taken away");
        assert!(allowed || then == now, "marks without an access");
    }
}

fn controls(input: &Input) -> Controls {
    Controls {
        scheme: match input.scheme {
            Mode::Bits32 => Scheme::Bits32,
            Mode::Pae => Scheme::Pae,
            Mode::Long => Scheme::Long,
        },
        root: input.root.unwrap_or(TABLES[0]),
        // With 52 bits no bit of an entry that nobody answers would be reserved; no CPU has as many.
        physical_bits: 36 + input.physical_bits % 16,
        user: input.user,
        write_protect: input.write_protect,
        no_execute: input.no_execute,
        smep: input.smep,
        smap: input.smap && !input.alignment_check,
        large_pages: input.large_pages,
    }
}

/// Puts an entry into each table, where the address needs it.
fn fill(input: &Input, memory: &VecMemory, scheme: Scheme) {
    let (shifts, width): (&[u32], _) = match scheme {
        Scheme::Bits32 => (&[22, 12], Width::Dword),
        Scheme::Pae => (&[30, 21, 12], Width::Qword),
        Scheme::Long => (&[39, 30, 21, 12], Width::Qword),
    };
    for (level, shift) in shifts.iter().enumerate() {
        let linear = if scheme == Scheme::Long { input.linear } else { input.linear & 0xffff_ffff };
        let entries = 4096 / width.bytes() as u64;
        let slot = TABLES[level] + (linear >> shift) % entries * width.bytes() as u64;
        let next = TABLES.get(level + 1).copied().unwrap_or(0x5000);
        let rights = if scheme == Scheme::Pae && level == 0 { 1 } else { ALL };
        memory.poke(slot, width, (next | rights) ^ input.entries[level]);
    }
}

fn vcpu(input: &Input, controls: &Controls) -> FakeVcpu {
    let mut vcpu = match controls.scheme {
        Scheme::Long => FakeVcpu::long(controls.root),
        _ => FakeVcpu::protected32(),
    };
    vcpu.cr0 |= Cr0::PG;
    vcpu.cr0.set(Cr0::WP, input.write_protect);
    vcpu.cr3 = controls.root;
    vcpu.cr4.set(Cr4::PAE, controls.scheme != Scheme::Bits32);
    vcpu.cr4.set(Cr4::PSE, input.large_pages);
    vcpu.cr4.set(Cr4::SMEP, input.smep);
    vcpu.cr4.set(Cr4::SMAP, input.smap);
    vcpu.efer.set(Efer::NXE, input.no_execute);
    vcpu.rflags.set(Rflags::AC, input.alignment_check);
    vcpu.cpl = if input.user { 3 } else { 0 };
    vcpu
}

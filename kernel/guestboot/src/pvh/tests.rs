use super::*;
use crate::plan::Source;
use crate::size::{GIB, MIB};
use crate::testing::{CMDLINE, ElfFile, INITRD, Memory, Width, place_of, plan_full, survives_damage};
use std::string::ToString;
use std::vec::Vec;

const CODE: [u8; 32] = [0x90; 32];

/// A kernel at this address whose note names the 17th byte.
fn kernel(width: Width, at: u64) -> Vec<u8> {
    let entry = (at + 16).to_le_bytes();
    let entry = if width == Width::Elf32 { &entry[..4] } else { &entry[..] };
    ElfFile::new(width, at)
        .note("GNU", 3, &[1, 2, 3])
        .note(NOTE_NAME, PHYS32_ENTRY as u32, entry)
        .segment(at, &CODE, 0x3000)
        .build()
}

#[test]
fn starts_at_the_note_s_address_wherever_it_is_linked() {
    for at in [0x8000, MIB, 4 * MIB, 12 * MIB, GIB + MIB] {
        for width in [Width::Elf32, Width::Elf64] {
            let entry = plan_full(&kernel(width, at), 2 * GIB).unwrap().entry;
            assert_eq!(entry.rip.0, at + 16);
            assert_eq!((entry.cs, entry.data), (entry::code32(0x10), entry::data(0x18)));
            assert_eq!((entry.tr.base, entry.tr.limit, entry.tr.attributes.bits()), (0, 0x67, 0x8b));
            assert_eq!((entry.cr0.bits(), entry.cr4.bits(), entry.rflags.bits()), (0x11, 0, 2));
        }
    }
}

#[test]
fn start_info_tells_everything() {
    let file = kernel(Width::Elf64, MIB);
    let plan = plan_full(&file, 5 * GIB).unwrap();
    let memory = Memory::of(&plan, &file);
    let info = plan.entry.registers.get(Gpr::Rbx);
    assert_eq!([0, 4, 8, 12].map(|field| memory.u32(info + field)), [0x336e_c578, 1, 0, 3]);
    assert_eq!(memory.text(memory.u64(info + 24)), CMDLINE);
    assert_eq!(memory.at(memory.u64(info + 32))[..8], *b"RSD PTR ");

    let modules = memory.u64(info + 16);
    assert_eq!(memory.u64(modules), place_of(&plan, &Source::Initrd).unwrap().0);
    assert_eq!(memory.u64(modules + 8), INITRD.len);
    assert_eq!(memory.text(memory.u64(modules + 64 + 16)), "data one two");

    let ranges = crate::memory_map::MemoryMap::new(5 * GIB).unwrap().e820();
    assert_eq!(memory.u32(info + 48) as usize, ranges.len());
    for (n, range) in ranges.iter().enumerate() {
        let entry = memory.u64(info + 40) + n as u64 * 24;
        assert_eq!((memory.u64(entry), memory.u64(entry + 8)), (range.gpa.0, range.len));
        assert_eq!(memory.u32(entry + 16), range.kind as u32);
    }
}

#[test]
fn entry_outside_any_segment_is_refused() {
    let file = ElfFile::new(Width::Elf32, MIB)
        .note(NOTE_NAME, PHYS32_ENTRY as u32, &[0, 0, 0, 1])
        .segment(MIB, &CODE, 0x1000)
        .build();
    assert_eq!(
        plan_full(&file, 64 * MIB).unwrap_err().to_string(),
        "the PVH kernel cannot start: its entry point 0x1000000 is in none of its segments"
    );
}

#[test]
fn note_of_another_length_is_refused() {
    let file = ElfFile::new(Width::Elf32, MIB).note(NOTE_NAME, PHYS32_ENTRY as u32, &[1, 2]);
    let file = file.segment(MIB, &CODE, 0x1000).build();
    assert_eq!(
        plan_full(&file, 64 * MIB).unwrap_err().to_string(),
        "the PVH kernel cannot start: the note with its entry point has 2 bytes: \
         expected an address of 4 or 8 bytes"
    );
}

#[test]
fn no_damage_panics() {
    for width in [Width::Elf32, Width::Elf64] {
        let file = kernel(width, MIB);
        survives_damage(&file, 0..file.len());
    }
}

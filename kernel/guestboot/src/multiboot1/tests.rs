use super::*;
use crate::plan::Source;
use crate::size::{GIB, MIB};
use crate::testing::{CMDLINE, ElfFile, INITRD, Memory, Width, place_of, plan_full, survives_damage};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;
use x86defs::addr::Gpa;

const MAGIC: u32 = 0x1bad_b002;
const CODE: [u8; 16] = [0x90; 16];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn header(flags: u32) -> Vec<u8> {
    words(&[MAGIC, flags, 0u32.wrapping_sub(MAGIC).wrapping_sub(flags)])
}

fn content(flags: u32) -> Vec<u8> {
    [header(flags), CODE.to_vec()].concat()
}

/// A kernel at this address, entered behind its header.
fn kernel(width: Width, at: u64) -> Vec<u8> {
    ElfFile::new(width, at + 12).segment(at, &content(3), 0x3000).build()
}

fn error(kernel: &[u8]) -> String {
    plan_full(kernel, 64 * MIB).unwrap_err().to_string()
}

#[test]
fn starts_in_protected_mode_wherever_it_is_linked() {
    for at in [0, 0x8000, MIB, 4 * MIB, 12 * MIB, GIB + MIB] {
        for width in [Width::Elf32, Width::Elf64] {
            let plan = plan_full(&kernel(width, at), 2 * GIB).unwrap();
            let entry = plan.entry;
            assert_eq!(entry.rip.0, at + 12);
            assert_eq!(entry.registers.get(Gpr::Rax), 0x2bad_b002);
            assert_eq!(entry.cs, entry::code32(0x10));
            assert_eq!(entry.data, entry::data(0x18));
            assert_eq!((entry.cr0.bits(), entry.rflags.bits(), entry.efer.bits()), (0x11, 2, 0));
            let clear_of_the_kernel = |place: u64| place + 4096 <= at || place >= at + 0x3000;
            assert!(clear_of_the_kernel(entry.registers.get(Gpr::Rbx)), "bss is not used");
        }
    }
}

#[test]
fn information_is_complete_whatever_was_asked_for() {
    for flags in [0, 1, 2, 7, 0xfffe_0000] {
        let file = ElfFile::new(Width::Elf32, MIB + 12).segment(MIB, &content(flags), 0x3000).build();
        let plan = plan_full(&file, 64 * MIB).unwrap();
        let memory = Memory::of(&plan, &file);
        let info = plan.entry.registers.get(Gpr::Rbx);
        assert_eq!(memory.u32(info), 0b1_0010_0100_1101);
        assert_eq!((memory.u32(info + 4), memory.u32(info + 8)), (639, 63 * 1024));
        assert_eq!(memory.text(memory.u32(info + 16).into()), CMDLINE);
        assert_eq!(memory.text(memory.u32(info + 64).into()), "Gossamer");
        assert_eq!(memory.u64(info + 88), 0xb_8000);
        assert_eq!([100, 104].map(|field| memory.u32(info + field)), [80, 25]);
        assert_eq!(memory.at(info + 108)[..2], [16, 2]);
    }
}

#[test]
fn modules_follow_the_kernel_on_pages() {
    let file = kernel(Width::Elf32, MIB);
    let plan = plan_full(&file, 64 * MIB).unwrap();
    let memory = Memory::of(&plan, &file);
    let info = plan.entry.registers.get(Gpr::Rbx);
    assert_eq!(memory.u32(info + 20), 3);
    let first = u64::from(memory.u32(info + 24));
    let module = |n: u64| {
        let entry = first + n * 16;
        let cmdline = memory.text(memory.u32(entry + 8).into());
        (memory.u32(entry), memory.u32(entry + 4), cmdline)
    };
    assert_eq!(module(0), (0x10_3000, 0x10_3000 + INITRD.len as u32, "initrd.img"));
    assert_eq!(module(1), (0x10_5000, 0x10_5000, "empty"));
    assert_eq!(module(2), (0x10_6000, 0x10_7000, "data one two"));
    assert_eq!(place_of(&plan, &Source::Initrd), Some(Gpa(0x10_3000)));
    assert_eq!(place_of(&plan, &Source::Module(1)), Some(Gpa(0x10_6000)));
}

#[test]
fn memory_map_is_the_machine_s() {
    let file = kernel(Width::Elf32, MIB);
    let plan = plan_full(&file, 5 * GIB).unwrap();
    let memory = Memory::of(&plan, &file);
    let info = plan.entry.registers.get(Gpr::Rbx);
    let (len, at) = (memory.u32(info + 44), u64::from(memory.u32(info + 48)));
    let map = crate::memory_map::MemoryMap::new(5 * GIB).unwrap().e820();
    assert_eq!(len as usize, map.len() * 24);
    for (n, range) in map.iter().enumerate() {
        let entry = at + n as u64 * 24;
        assert_eq!(memory.u32(entry), 20);
        assert_eq!((memory.u64(entry + 4), memory.u64(entry + 12)), (range.gpa.0, range.len));
        assert_eq!(memory.u32(entry + 20), range.kind as u32);
    }
}

#[test]
fn entry_in_the_higher_half_means_its_physical_address() {
    const HIGH: u64 = 0xffff_ffff_8010_0000;
    let file = ElfFile::new(Width::Elf64, HIGH + 12).mapped(HIGH, MIB, &content(0), 0x1000).build();
    assert_eq!(plan_full(&file, 64 * MIB).unwrap().entry.rip.0, MIB + 12);
}

/// A file without ELF headers: something, the header with address fields, code.
fn flat(fields: [u32; 5]) -> Vec<u8> {
    [[0; 8].to_vec(), header(1 << 16), words(&fields), CODE.to_vec()].concat()
}

#[test]
fn address_fields_replace_elf_headers() {
    let at = 0x20_0000;
    let file = flat([at + 8, at, 0, at + 0x5000, at + 40]);
    let plan = plan_full(&file, 64 * MIB).unwrap();
    assert_eq!(plan.entry.rip.0, u64::from(at) + 40);
    assert_eq!(place_of(&plan, &Source::Kernel(0..file.len())), Some(Gpa(at.into())));
    assert_eq!(place_of(&plan, &Source::Initrd), Some(Gpa(u64::from(at) + 0x5000)), "behind the bss");

    let cut = flat([at + 8, at + 4, at + 44, 0, at + 40]);
    let plan = plan_full(&cut, 64 * MIB).unwrap();
    assert_eq!(place_of(&plan, &Source::Kernel(4..44)), Some(Gpa(u64::from(at) + 4)));
}

#[test]
fn contradicting_address_fields_are_named() {
    let at = 0x20_0000;
    let expect = |fields, what| {
        let message = format!(
            "the multiboot 1 kernel cannot start: the address fields of its header make no sense: {what}"
        );
        assert_eq!(error(&flat(fields)), message);
    };
    expect([at, at + 4, 0, 0, at + 40], "load_addr is above header_addr (0x200004)");
    expect([at + 9, at, 0, 0, at + 40], "load_addr is before the beginning of the file (0x200000)");
    expect([at + 8, at, at - 1, 0, at + 40], "load_end_addr is below load_addr (0x1fffff)");
    expect([at + 8, at, 0, at + 8, at + 40], "bss_end_addr is below the end of the data (0x200008)");
    assert!(error(&flat([at + 8, at, at + 0x1000, 0, at + 40])).contains("it is truncated"));
    assert!(error(&flat([at + 8, at, 0, 0, at + 0x1000])).contains("its entry point 0x201000 is in none"));
}

#[test]
fn what_cannot_be_loaded_is_said() {
    let elf = |entry, at, memory| {
        error(&ElfFile::new(Width::Elf64, entry).segment(at, &content(0), memory).build())
    };
    let prefix = "the multiboot 1 kernel cannot start: ";
    assert_eq!(elf(0, MIB, 0x1000), format!("{prefix}its entry point 0x0 is in none of its segments"));
    assert_eq!(
        elf(MIB, MIB, 64 * MIB),
        format!(
            "{prefix}its segment at 0x100000 of 0x4000000 bytes is not in the virtual machine's memory \
             (0 to 0x9fc00 and 0x100000 to 0x4000000); give it more memory or link it elsewhere"
        )
    );
    assert_eq!(
        elf(MIB, MIB, u64::MAX),
        format!(
            "{prefix}its segment at 0x100000 of 0xffffffffffffffff bytes reaches past the end of the address space"
        )
    );
    assert_eq!(
        elf(MIB, MIB, 4),
        format!("{prefix}its segment at 0x100000 has 28 bytes in the file, but only 4 in memory")
    );
    let two = ElfFile::new(Width::Elf32, MIB).segment(MIB, &content(0), 0x1000);
    let two = two.segment(MIB + 0xfff, &CODE, 0x1000).build();
    assert_eq!(error(&two), format!("{prefix}its segment at 0x100fff of 0x1000 bytes overlaps another one"));
    let none = ElfFile::new(Width::Elf32, MIB).note("GNU", 9, &content(0)).build();
    assert_eq!(error(&none), format!("{prefix}it has no segment to load: link it with program headers"));
    let many = (0..65)
        .fold(ElfFile::new(Width::Elf32, MIB), |file, n| file.segment(MIB + n * 0x1000, &content(0), 0x1000));
    assert_eq!(error(&many.build()), format!("{prefix}it has 65 program headers: expected at most 64"));
    assert_eq!(
        error(&[content(0), CODE.to_vec()].concat()),
        format!("{prefix}it is no ELF file and its header has no address fields")
    );
}

#[test]
fn required_flags_that_we_do_not_know_are_refused() {
    let file = ElfFile::new(Width::Elf32, MIB).segment(MIB, &content(1 << 5 | 1), 0x1000).build();
    assert_eq!(
        error(&file),
        "the multiboot 1 kernel cannot start: its header requires what we do not know (flags 0x20); \
         clear these bits"
    );
}

#[test]
fn modules_that_do_not_fit_are_named() {
    let file = ElfFile::new(Width::Elf32, MIB).segment(MIB, &content(0), 3 * MIB - 4096).build();
    assert_eq!(
        plan_full(&file, 4 * MIB).unwrap_err().to_string(),
        "the multiboot 1 kernel cannot start: module number 1 does not fit: it has 5000 bytes, \
         beside the kernel there is room for 639K; give the virtual machine more memory"
    );
}

#[test]
fn no_damage_panics() {
    for width in [Width::Elf32, Width::Elf64] {
        let file = kernel(width, MIB);
        survives_damage(&file, 0..file.len());
    }
    let file = flat([0x20_0008, 0x20_0000, 0, 0x20_5000, 0x20_0028]);
    survives_damage(&file, 0..file.len());
}

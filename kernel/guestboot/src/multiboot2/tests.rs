use super::*;
use crate::plan::Source;
use crate::size::{GIB, MIB};
use crate::testing::{CMDLINE, ElfFile, INITRD, Memory, Width, place_of, plan_full, survives_damage};
use core::ffi::CStr;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;
use x86defs::addr::Gpa;

const MAGIC: u32 = 0xe852_50d6;
const CODE: [u8; 16] = [0x90; 16];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A header tag.
fn tag(kind: u16, optional: bool, body: &[u32]) -> Vec<u8> {
    let mut tag = words(&[u32::from(kind) | u32::from(optional) << 16, 8 + body.len() as u32 * 4]);
    tag.extend(words(body));
    tag.resize(tag.len().next_multiple_of(8), 0);
    tag
}

/// A header with these tags and an end tag, then code.
fn content(tags: &[Vec<u8>]) -> Vec<u8> {
    let tags = [tags.concat(), tag(0, false, &[])].concat();
    let len = 16 + tags.len() as u32;
    let header = words(&[MAGIC, 0, len, 0u32.wrapping_sub(MAGIC).wrapping_sub(len)]);
    [header, tags, CODE.to_vec()].concat()
}

/// A kernel at this address, entered at its first byte.
fn kernel(width: Width, at: u64, tags: &[Vec<u8>]) -> Vec<u8> {
    ElfFile::new(width, at).segment(at, &content(tags), 0x3000).build()
}

fn error(tags: &[Vec<u8>]) -> String {
    let message = plan_full(&kernel(Width::Elf64, MIB, tags), 64 * MIB).unwrap_err().to_string();
    message.strip_prefix("the multiboot 2 kernel cannot start: ").unwrap().to_string()
}

/// Type and content of every tag of the information, which has to be well formed.
fn information(plan: &StartPlan) -> Vec<(u32, Vec<u8>)> {
    let bytes = Memory::of(plan, &[]).at(plan.entry.registers.get(Gpr::Rbx));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(plan.entry.registers.get(Gpr::Rbx) % 8, 0);
    assert_eq!((word(0) as usize, word(4)), (bytes.len(), 0));
    let (mut tags, mut at) = (Vec::new(), 8);
    while at < bytes.len() {
        let size = word(at + 4) as usize;
        tags.push((word(at), bytes[at + 8..at + size].to_vec()));
        at = (at + size).next_multiple_of(8);
    }
    assert_eq!(tags.pop(), Some((0, Vec::new())));
    tags
}

fn body(plan: &StartPlan, kind: u32) -> Vec<u8> {
    information(plan).into_iter().find(|tag| tag.0 == kind).expect("this tag").1
}

#[test]
fn starts_in_protected_mode_wherever_it_is_linked() {
    for at in [0x8000, MIB, 4 * MIB, 12 * MIB, GIB + MIB] {
        for width in [Width::Elf32, Width::Elf64] {
            let entry = plan_full(&kernel(width, at, &[]), 2 * GIB).unwrap().entry;
            assert_eq!((entry.rip.0, entry.registers.get(Gpr::Rax)), (at, 0x36d7_6289));
            assert_eq!((entry.cs, entry.data), (entry::code32(0x10), entry::data(0x18)));
            assert_eq!((entry.cr0.bits(), entry.rflags.bits()), (0x11, 2));
        }
    }
}

#[test]
fn information_is_complete() {
    let plan = plan_full(&kernel(Width::Elf32, MIB, &[]), 64 * MIB).unwrap();
    let text = |bytes: &[u8]| CStr::from_bytes_with_nul(bytes).unwrap().to_str().unwrap().to_string();
    assert_eq!(text(&body(&plan, 1)), CMDLINE);
    assert_eq!(text(&body(&plan, 2)), "Gossamer");
    assert_eq!(body(&plan, 4), words(&[639, 63 * 1024]));
    assert_eq!(body(&plan, 8), words(&[0xb_8000, 0, 160, 80, 25, 0x0210]));
    assert_eq!(body(&plan, 14), body(&plan, 15)[..20]);
    assert_eq!(body(&plan, 15)[..8], *b"RSD PTR ");
    assert_eq!(body(&plan, 15).len(), 36);
    assert!(information(&plan).iter().all(|tag| tag.0 != 21), "it is not relocatable");

    let modules: Vec<_> = information(&plan).into_iter().filter(|tag| tag.0 == 3).collect();
    assert_eq!(modules[0].1[..8], words(&[0x10_3000, 0x10_3000 + INITRD.len as u32]));
    assert_eq!(text(&modules[2].1[8..]), "data one two");
    assert_eq!(place_of(&plan, &Source::Initrd), Some(Gpa(0x10_3000)));
}

#[test]
fn memory_map_is_the_machine_s() {
    let plan = plan_full(&kernel(Width::Elf64, MIB, &[]), 5 * GIB).unwrap();
    let mut expected = words(&[24, 0]);
    for range in crate::memory_map::MemoryMap::new(5 * GIB).unwrap().e820() {
        expected.extend([range.gpa.0, range.len].iter().flat_map(|number| number.to_le_bytes()));
        expected.extend(words(&[range.kind as u32, 0]));
    }
    assert_eq!(body(&plan, 6), expected);
}

#[test]
fn what_we_have_can_be_required() {
    let tags = [
        tag(1, false, &[1, 2, 3, 4, 6, 8, 14, 15]),
        tag(4, false, &[3]),
        tag(6, false, &[]),
        tag(7, false, &[]),
        tag(8, false, &[0x10_0000]),
        tag(9, false, &[0x10_0000]),
    ];
    assert!(plan_full(&kernel(Width::Elf64, MIB, &tags), 64 * MIB).is_ok());
}

#[test]
fn what_we_do_not_have_is_refused_unless_optional() {
    assert_eq!(
        error(&[tag(5, false, &[1024, 768, 32])]),
        "its header requires the tag of type 5, which we do not know; mark it as optional"
    );
    assert_eq!(
        error(&[tag(1, false, &[4, 9])]),
        "its header requires information of type 9, which we do not have; mark the request as optional"
    );
    let optional = [tag(5, true, &[1024, 768, 32]), tag(1, true, &[9]), tag(77, true, &[])];
    assert!(plan_full(&kernel(Width::Elf64, MIB, &optional), 64 * MIB).is_ok());
}

#[test]
fn entry_address_tag_goes_before_the_elf_header() {
    let tags = [tag(3, false, &[0x10_0010])];
    let file = ElfFile::new(Width::Elf32, 0).segment(MIB, &content(&tags), 0x1000).build();
    assert_eq!(plan_full(&file, 64 * MIB).unwrap().entry.rip.0, 0x10_0010);
}

#[test]
fn address_tag_replaces_elf_headers() {
    let flat =
        |load: u32| content(&[tag(2, false, &[0x20_0000, load, 0, 0x20_5000]), tag(3, false, &[0x20_0040])]);
    for load in [0x20_0000, u32::MAX] {
        let plan = plan_full(&flat(load), 64 * MIB).unwrap();
        assert_eq!(plan.entry.rip.0, 0x20_0040);
        assert_eq!(place_of(&plan, &Source::Kernel(0..flat(load).len())), Some(Gpa(0x20_0000)));
    }
    assert_eq!(
        plan_full(&content(&[tag(2, false, &[0x20_0000; 4])]), 64 * MIB).unwrap_err().to_string(),
        "the multiboot 2 kernel cannot start: its header has an address tag but no entry address tag"
    );
}

#[test]
fn relocatable_kernels_go_where_they_prefer() {
    let at = |preference: u32, linked: u64| {
        let tags = [tag(10, false, &[0x30_0000, 0x7f_ffff, 0x1_0000, preference])];
        let plan = plan_full(&kernel(Width::Elf64, linked, &tags), 64 * MIB).unwrap();
        let base = u32::from_le_bytes(body(&plan, 21).try_into().unwrap());
        assert_eq!(u64::from(base), plan.entry.rip.0);
        base
    };
    assert_eq!(at(0, 5 * MIB), 5 << 20, "where it is linked");
    assert_eq!(at(0, MIB), 0x30_0000, "where it is linked is not permitted");
    assert_eq!(at(0, GIB), 0x30_0000, "where it is linked is no memory");
    assert_eq!(at(1, 5 * MIB), 0x30_0000);
    assert_eq!(at(2, 5 * MIB), 0x7f_0000);
    assert_eq!(
        error(&[tag(10, false, &[0xffff_0000, u32::MAX, 1, 0])]),
        "its 0x3000 bytes fit nowhere between the addresses that its relocatable tag permits; \
         give the virtual machine more memory"
    );
    assert_eq!(error(&[tag(10, false, &[0, u32::MAX, 3, 0])]), "the tag of type 10 in its header is damaged");
}

#[test]
fn damaged_headers_are_named() {
    assert_eq!(error(&[tag(3, false, &[])]), "the tag of type 3 in its header is damaged");
    let short = words(&[1, 4]);
    assert_eq!(error(&[short]), "the tag of type 1 in its header is damaged");
    let other = 4u32;
    let header = words(&[MAGIC, other, 16, 0u32.wrapping_sub(MAGIC).wrapping_sub(other).wrapping_sub(16)]);
    assert_eq!(
        plan_full(&header, 64 * MIB).unwrap_err().to_string(),
        "the multiboot 2 kernel cannot start: its header is for another processor (architecture 4): \
         expected 0, i386"
    );
    let file = content(&[tag(4, false, &[3])]);
    assert_eq!(
        plan_full(&file[..24], 64 * MIB).unwrap_err().to_string(),
        format!(
            "the multiboot 2 kernel cannot start: it is truncated: its headers ask for {} bytes, the file has 24",
            file.len() - CODE.len()
        )
    );
}

#[test]
fn no_damage_panics() {
    let tags = [tag(1, false, &[1, 2]), tag(10, true, &[0x30_0000, 0x7f_ffff, 0x1_0000, 2])];
    for width in [Width::Elf32, Width::Elf64] {
        let file = kernel(width, MIB, &tags);
        survives_damage(&file, 0..file.len());
    }
    let flat = content(&[tag(2, false, &[0x20_0000, 0x20_0000, 0, 0]), tag(3, false, &[0x20_0040])]);
    survives_damage(&flat, 0..flat.len());
}

//! Kernels that are ELF files, or that a multiboot header with address fields describes, with any headers: multiboot 1
//! and 2, and PVH.

#![no_main]

use fuzz::start;
use guestboot::memory_map::MemoryMap;
use guestboot::plan::{Guest, GuestModule};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    elf: Option<Elf>,
    protocol: Protocol,
    /// Bytes of the file behind everything else.
    rest: u16,
    /// A byte of the file that is changed, and how.
    damage: Option<(u16, u8)>,
    pages: u32,
    initrd: Option<u32>,
    modules: Vec<u32>,
    cmdline: u16,
    cpus: u8,
}

#[derive(Arbitrary, Debug)]
struct Elf {
    wide: bool,
    entry: Address,
    segments: Vec<Segment>,
}

#[derive(Arbitrary, Debug)]
struct Segment {
    offset: u16,
    linear: Address,
    physical: Address,
    file: u16,
    memory: u32,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Address {
    /// Kibibytes, from 0 on.
    Low(u16),
    /// Where kernels are linked that map themselves there.
    High(u32),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum Protocol {
    Multiboot1 { flags: u32, fields: [Address; 5] },
    Multiboot2 { tags: Vec<Tag> },
    Pvh { note: Vec<u8>, entry: Option<Address> },
    None,
}

#[derive(Arbitrary, Debug)]
enum Tag {
    Request(Vec<u8>),
    Addresses([Address; 4]),
    Entry(Address),
    ModuleAlignment,
    Relocatable { from: Address, to: Address, align: u8, preference: u8 },
    Any { kind: u8, flags: u16, content: Vec<u8> },
}

/// The last 2 GiB.
const HIGHER_HALF: u64 = 0xffff_ffff_8000_0000;
/// Most of whatever an input has a list of.
const MOST: usize = 16;

fuzz_target!(|input: Input| {
    let Ok(map) = MemoryMap::new(u64::from(input.pages) << 12) else { return };
    let kernel = file(&input);
    let modules: Vec<GuestModule<'_>> = input
        .modules
        .iter()
        .take(MOST)
        .map(|len| GuestModule { len: (*len).into(), cmdline: "m x" })
        .collect();
    let cmdline = "x".repeat((input.cmdline % 0x2000).into());
    let guest = Guest {
        map: &map,
        cpus: u32::from(input.cpus).max(1),
        kernel: &kernel,
        initrd: input.initrd.map(|len| GuestModule { len: len.into(), cmdline: "initrd" }),
        modules: &modules,
        cmdline: &cmdline,
    };
    // Whether it can be started is not the question.
    let _ = start::check(&guest);
});

impl Address {
    fn value(self) -> u64 {
        match self {
            Address::Low(kib) => u64::from(kib) << 10,
            Address::High(offset) => HIGHER_HALF.wrapping_add(offset.into()),
            Address::Any(value) => value,
        }
    }

    fn word(self) -> [u8; 4] {
        (self.value() as u32).to_le_bytes()
    }
}

fn file(input: &Input) -> Vec<u8> {
    let mut file = Vec::new();
    let (header, notes) = protocol(&input.protocol);
    if let Some(elf) = &input.elf {
        file = headers(elf, &header, notes);
    }
    file.resize(file.len().next_multiple_of(8), 0);
    file.extend(header);
    file.resize(file.len() + usize::from(input.rest), 0);
    if let Some((at, change)) = input.damage
        && let Some(byte) = file.get_mut(usize::from(at))
    {
        *byte ^= change;
    }
    file
}

/// What marks a kernel as one of a protocol, and whether it is notes.
fn protocol(protocol: &Protocol) -> (Vec<u8>, bool) {
    match protocol {
        Protocol::None => (Vec::new(), false),
        Protocol::Multiboot1 { flags, fields } => (multiboot1(*flags, fields), false),
        Protocol::Multiboot2 { tags } => (multiboot2(tags), false),
        Protocol::Pvh { note, entry } => match entry {
            Some(entry) => (pvh_note(*entry), true),
            None => (note.clone(), true),
        },
    }
}

fn multiboot1(flags: u32, fields: &[Address; 5]) -> Vec<u8> {
    const MAGIC: u32 = 0x1bad_b002;
    let checksum = 0u32.wrapping_sub(MAGIC).wrapping_sub(flags);
    let mut header: Vec<u8> = [MAGIC, flags, checksum].iter().flat_map(|word| word.to_le_bytes()).collect();
    header.extend(fields.iter().flat_map(|field| field.word()));
    header
}

fn multiboot2(tags: &[Tag]) -> Vec<u8> {
    const MAGIC: u32 = 0xe852_50d6;
    const FIXED: usize = 16;
    let mut list = Vec::new();
    for tag in tags.iter().take(MOST) {
        let (kind, flags, content) = tag.parts();
        list.extend(kind.to_le_bytes());
        list.extend(flags.to_le_bytes());
        list.extend((8 + content.len() as u32).to_le_bytes());
        list.extend(content);
        list.resize(list.len().next_multiple_of(8), 0);
    }
    list.extend([0, 0, 0, 0, 8, 0, 0, 0]);
    let len = (FIXED + list.len()) as u32;
    let checksum = 0u32.wrapping_sub(MAGIC).wrapping_sub(len);
    let mut header: Vec<u8> = [MAGIC, 0, len, checksum].iter().flat_map(|word| word.to_le_bytes()).collect();
    header.extend(list);
    header
}

impl Tag {
    /// Type, flags and content.
    fn parts(&self) -> (u16, u16, Vec<u8>) {
        match self {
            Tag::Request(kinds) => {
                (1, 0, kinds.iter().flat_map(|kind| u32::from(*kind).to_le_bytes()).collect())
            }
            Tag::Addresses(fields) => (2, 0, fields.iter().flat_map(|field| field.word()).collect()),
            Tag::Entry(entry) => (3, 0, entry.word().into()),
            Tag::ModuleAlignment => (6, 0, Vec::new()),
            Tag::Relocatable { from, to, align, preference } => {
                let align = 1u32 << (align % 32);
                let words =
                    [from.word(), to.word(), align.to_le_bytes(), u32::from(preference % 4).to_le_bytes()];
                (10, 0, words.concat())
            }
            Tag::Any { kind, flags, content } => ((*kind).into(), *flags, content.clone()),
        }
    }
}

/// Xen's note with the entry point.
fn pvh_note(entry: Address) -> Vec<u8> {
    const PHYS32_ENTRY: u32 = 18;
    let mut note: Vec<u8> = [4, 4, PHYS32_ENTRY].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    note.extend(b"Xen\0");
    note.extend(entry.word());
    note
}

/// ELF header and program headers; what follows lies on the next border of 8 bytes.
fn headers(elf: &Elf, follows: &[u8], notes: bool) -> Vec<u8> {
    const LOAD: u32 = 1;
    const NOTE: u32 = 4;
    let (class, machine, header, entry): (u8, u16, u16, u16) =
        if elf.wide { (2, 62, 64, 56) } else { (1, 3, 52, 32) };
    let segments = &elf.segments[..elf.segments.len().min(MOST)];
    let count = segments.len() as u16 + u16::from(notes);
    let mut file = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
    file.resize(16, 0);
    file.extend(2u16.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u64| match elf.wide {
        true => file.extend(value.to_le_bytes()),
        false => file.extend((value as u32).to_le_bytes()),
    };
    for value in [elf.entry.value(), header.into(), 0] {
        word(&mut file, value);
    }
    file.extend(0u32.to_le_bytes());
    file.extend([header, entry, count, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let end = (u64::from(header) + u64::from(count) * u64::from(entry)).next_multiple_of(8);
    let loads = segments.iter().map(|s| {
        (LOAD, [s.offset.into(), s.linear.value(), s.physical.value(), s.file.into(), s.memory.into(), 4])
    });
    let note = notes.then_some((NOTE, [end, 0, 0, follows.len() as u64, follows.len() as u64, 4]));
    for (kind, [offset, linear, physical, in_file, in_memory, align]) in loads.chain(note) {
        file.extend(kind.to_le_bytes());
        if elf.wide {
            file.extend(7u32.to_le_bytes());
        }
        for value in [offset, linear, physical, in_file, in_memory] {
            word(&mut file, value);
        }
        if !elf.wide {
            file.extend(7u32.to_le_bytes());
        }
        word(&mut file, align);
    }
    file
}

//! ELF files, made for tests.

use std::vec;
use std::vec::Vec;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// Contents begin on such a border in the file, as linkers put them.
const ALIGNMENT: usize = 16;

/// ELF32 for i386 or ELF64 for x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Elf32,
    Elf64,
}

/// One program header with its content.
#[derive(Clone, Debug)]
struct Part {
    kind: u32,
    linear: u64,
    physical: u64,
    content: Vec<u8>,
    memory: u64,
}

/// An ELF file in the making.
#[derive(Clone, Debug)]
pub(crate) struct ElfFile {
    width: Width,
    entry: u64,
    parts: Vec<Part>,
}

impl ElfFile {
    /// Without any segment.
    pub(crate) fn new(width: Width, entry: u64) -> Self {
        Self { width, entry, parts: Vec::new() }
    }

    /// With a segment at a physical address, which is also its linear one.
    pub(crate) fn segment(self, at: u64, content: &[u8], memory: u64) -> Self {
        self.mapped(at, at, content, memory)
    }

    /// With a segment whose linear address is another one.
    pub(crate) fn mapped(mut self, linear: u64, physical: u64, content: &[u8], memory: u64) -> Self {
        self.parts.push(Part { kind: PT_LOAD, linear, physical, content: content.to_vec(), memory });
        self
    }

    /// With a note.
    pub(crate) fn note(mut self, name: &str, kind: u32, content: &[u8]) -> Self {
        let mut bytes = Vec::new();
        for word in [name.len() as u32 + 1, content.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(name.as_bytes());
        bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let memory = bytes.len() as u64;
        self.parts.push(Part { kind: PT_NOTE, linear: 0, physical: 0, content: bytes, memory });
        self
    }

    /// The file: headers, program headers, and the contents in their order.
    pub(crate) fn build(&self) -> Vec<u8> {
        let (class, machine, header, entry_size) = match self.width {
            Width::Elf32 => (1, 3u16, 52u16, 32u16),
            Width::Elf64 => (2, 62, 64, 56),
        };
        let mut file = vec![0x7f, b'E', b'L', b'F', class, 1, 1];
        file.resize(16, 0);
        file.extend(2u16.to_le_bytes());
        file.extend(machine.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        self.word(&mut file, self.entry);
        self.word(&mut file, header.into());
        self.word(&mut file, 0);
        file.extend(0u32.to_le_bytes());
        for half in [header, entry_size, self.parts.len() as u16, 0, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        let contents = file.len() + self.parts.len() * usize::from(entry_size);
        let mut offset = contents.next_multiple_of(ALIGNMENT);
        for part in &self.parts {
            self.program_header(&mut file, part, offset as u64);
            offset = (offset + part.content.len()).next_multiple_of(ALIGNMENT);
        }
        for part in &self.parts {
            file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
            file.extend(&part.content);
        }
        file
    }

    fn program_header(&self, file: &mut Vec<u8>, part: &Part, offset: u64) {
        const READ_WRITE_EXECUTE: u32 = 7;
        file.extend(part.kind.to_le_bytes());
        if self.width == Width::Elf64 {
            file.extend(READ_WRITE_EXECUTE.to_le_bytes());
        }
        let numbers = [offset, part.linear, part.physical, part.content.len() as u64, part.memory];
        for number in numbers {
            self.word(file, number);
        }
        if self.width == Width::Elf32 {
            file.extend(READ_WRITE_EXECUTE.to_le_bytes());
        }
        self.word(file, 4);
    }

    fn word(&self, file: &mut Vec<u8>, value: u64) {
        match self.width {
            Width::Elf32 => file.extend((value as u32).to_le_bytes()),
            Width::Elf64 => file.extend(value.to_le_bytes()),
        }
    }
}

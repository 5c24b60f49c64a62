//! ELF files for i386 and x86-64 (System V ABI, chapter 5).

use super::{Image, ImageError, Segment};
use alloc::vec::Vec;
use core::ops::Range;
use elf::ElfBytes;
use elf::abi::{EM_386, EM_X86_64, ET_DYN, ET_EXEC, PT_LOAD, PT_NOTE};
use elf::endian::LittleEndian;
use elf::note::{Note, NoteIterator};
use elf::parse::ParseError;
use elf::segment::ProgramHeader;

/// More program headers than any kernel has.
pub const MAX_SEGMENTS: usize = 64;
/// What every ELF file begins with.
const MAGIC: &[u8; 4] = b"\x7fELF";

/// Alignment of the parts of a note, but where the program header asks for [`WIDE_NOTES`].
const NOTES: u64 = 4;
/// The other alignment that notes can have.
const WIDE_NOTES: u64 = 8;

/// Whether a file is an ELF file at all.
pub fn has_magic(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// An ELF file whose headers have been found.
pub struct Elf<'a> {
    file: &'a [u8],
    parsed: ElfBytes<'a, LittleEndian>,
}

impl<'a> Elf<'a> {
    /// Reads the file header and finds the program headers.
    pub fn parse(file: &'a [u8]) -> Result<Self, ImageError> {
        if !has_magic(file) {
            return Err(ImageError::NotElf);
        }
        let parsed = ElfBytes::minimal_parse(file).map_err(|error| from_library(error, file.len()))?;
        let header = &parsed.ehdr;
        if ![EM_386, EM_X86_64].contains(&header.e_machine) {
            return Err(ImageError::Machine { machine: header.e_machine });
        }
        if ![ET_EXEC, ET_DYN].contains(&header.e_type) {
            return Err(ImageError::NotExecutable { kind: header.e_type });
        }
        let count = parsed.segments().map_or(0, |table| table.len());
        if count > MAX_SEGMENTS {
            return Err(ImageError::TooManySegments { count });
        }
        Ok(Self { file, parsed })
    }

    /// What is to be loaded, entered at a physical address that something else in the file names, or else at
    /// the ELF header's entry point.
    pub fn image(&self, entry: Option<u64>) -> Result<Image, ImageError> {
        let loaded = self.headers().filter(|header| header.p_type == PT_LOAD && header.p_memsz > 0);
        let segments = loaded.map(|header| self.segment(&header)).collect::<Result<Vec<_>, _>>()?;
        if segments.is_empty() {
            return Err(ImageError::NoSegment);
        }
        let entry = entry.unwrap_or_else(|| self.physical_entry(&segments));
        Image { segments, entry }.with_entry_inside()
    }

    /// An entry point that is a linear address of a segment means the same byte of that segment in physical
    /// memory: kernels in the higher half carry such entry points.
    fn physical_entry(&self, segments: &[Segment]) -> u64 {
        let entry = self.parsed.ehdr.e_entry;
        let offset_in =
            |segment: &Segment| entry.checked_sub(segment.linear).filter(|offset| *offset < segment.memory);
        let physical = segments.iter().find_map(|segment| Some(segment.start + offset_in(segment)?));
        physical.unwrap_or(entry)
    }

    /// The content of the note with this name and type, if a segment of notes has one.
    pub fn note(&self, name: &str, kind: u64) -> Option<&'a [u8]> {
        self.headers().filter(|header| header.p_type == PT_NOTE).find_map(|header| {
            let bytes = &self.file[self.part(header.p_offset, header.p_filesz).ok()?];
            let align = if header.p_align == WIDE_NOTES { WIDE_NOTES } else { NOTES } as usize;
            NoteIterator::new(LittleEndian, self.parsed.ehdr.class, align, bytes).find_map(
                |note| match note {
                    Note::Unknown(note)
                        if note.n_type == kind && note.name_str().is_ok_and(|own| own == name) =>
                    {
                        Some(note.desc)
                    }
                    _ => None,
                },
            )
        })
    }

    fn headers(&self) -> impl Iterator<Item = ProgramHeader> {
        self.parsed.segments().into_iter().flatten()
    }

    fn segment(&self, header: &ProgramHeader) -> Result<Segment, ImageError> {
        let (start, memory, file) = (header.p_paddr, header.p_memsz, header.p_filesz);
        if file > memory {
            return Err(ImageError::FileExceedsMemory { start, file, memory });
        }
        if start.checked_add(memory).is_none() {
            return Err(ImageError::Wraps { start, memory });
        }
        Ok(Segment { start, memory, file: self.part(header.p_offset, file)?, linear: header.p_vaddr })
    }

    /// A part of the file that a header names.
    fn part(&self, offset: u64, len: u64) -> Result<Range<usize>, ImageError> {
        let have = self.file.len() as u64;
        let end = offset.saturating_add(len);
        if end > have {
            return Err(ImageError::Truncated { need: end, have });
        }
        Ok(offset as usize..end as usize)
    }
}

/// The library's error in our words; `have` is the length of the file.
fn from_library(error: ParseError, have: usize) -> ImageError {
    let malformed = |what| ImageError::Malformed { what };
    match error {
        ParseError::SliceReadError((_, end)) => ImageError::Truncated { need: end as u64, have: have as u64 },
        ParseError::BadOffset(need) => ImageError::Truncated { need, have: have as u64 },
        ParseError::UnsupportedElfClass(_) => malformed("it is neither of 32 nor of 64 bits"),
        ParseError::UnsupportedElfEndianness(_) => malformed("it is not little-endian"),
        ParseError::UnsupportedVersion(_) => malformed("it is not of version 1"),
        ParseError::BadEntsize(_) => malformed("its tables have entries of another size"),
        ParseError::IntegerOverflow => malformed("an offset in it exceeds 64 bits"),
        _ => malformed("it cannot be read"),
    }
}

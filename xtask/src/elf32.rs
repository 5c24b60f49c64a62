//! ELF files for boot loaders: multiboot wants a 32-bit container around the 64-bit link, and neither loader
//! nor kernel should carry their symbols into memory.

use std::fmt;

/// Where multiboot 1 loads the loader: 2 MiB, above what firmware and boot loaders use of the second megabyte,
/// and on a large page. Multiboot 2 moves it where memory is free.
pub const LOAD_ADDRESS: u32 = 0x20_0000;

/// `e_ident` up to its version: magic, class, ELFDATA2LSB, EV_CURRENT.
const IDENT_32: [u8; 7] = *b"\x7fELF\x01\x01\x01";
const IDENT_64: [u8; 7] = *b"\x7fELF\x02\x01\x01";
const IDENT_LEN: usize = 16;
const ET_EXEC: u16 = 2;
const EM_386: u16 = 3;
const EM_X86_64: u16 = 62;
const EV_CURRENT: u32 = 1;
const PT_LOAD: u32 = 1;

const HEADER_LEN_32: u16 = 52;
const PROGRAM_HEADER_LEN_32: u16 = 32;
const HEADER_LEN_64: u16 = 64;
const PROGRAM_HEADER_LEN_64: u16 = 56;
/// Segments keep their place in a page, so that a file can be mapped.
const PAGE: usize = 4096;

/// Why a file cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elf32Error {
    /// It is no ELF64 file for x86-64.
    NotElf64,
    /// It ends before the structure at this offset does.
    Truncated {
        /// Offset in the file.
        offset: u64,
    },
    /// It has nothing to load.
    NoSegments,
    /// An address does not fit into 32 bits once the load address is added.
    AddressTooHigh {
        /// The address before that.
        address: u64,
    },
}

impl fmt::Display for Elf32Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotElf64 => f.write_str("not an ELF64 file for x86-64"),
            Self::Truncated { offset } => {
                write!(f, "the file ends within the structure at offset {offset:#x}")
            }
            Self::NoSegments => f.write_str("the file has no loadable segment"),
            Self::AddressTooHigh { address } => {
                write!(f, "address {address:#x} is not below 4 GiB once loaded")
            }
        }
    }
}

impl std::error::Error for Elf32Error {}

/// A loadable segment of the 64-bit file.
struct Segment<'f> {
    flags: u32,
    vaddr: u64,
    content: &'f [u8],
    memory_len: u64,
    align: u64,
}

/// What matters of an ELF64 file.
struct Elf64<'f> {
    kind: u16,
    entry: u64,
    segments: Vec<Segment<'f>>,
}

/// Wraps the loadable segments of an ELF64 file that is linked at 0 into an ELF32 executable for the i386 that is
/// loaded and entered at `load_address`.
pub fn to_elf32(elf64: &[u8], load_address: u32) -> Result<Vec<u8>, Elf32Error> {
    let elf = Elf64::parse(elf64)?;
    let place = |address: u64| {
        address
            .checked_add(load_address.into())
            .and_then(|a| u32::try_from(a).ok())
            .ok_or(Elf32Error::AddressTooHigh { address })
    };
    let offsets = elf.offsets(HEADER_LEN_32, PROGRAM_HEADER_LEN_32);

    let mut out = Vec::new();
    put_ident(&mut out, &IDENT_32);
    put16(&mut out, &[ET_EXEC, EM_386]);
    put32(&mut out, &[EV_CURRENT, place(elf.entry)?, HEADER_LEN_32.into(), 0, 0]);
    put16(&mut out, &[HEADER_LEN_32, PROGRAM_HEADER_LEN_32, elf.segments.len() as u16, 0, 0, 0]);
    for (segment, offset) in elf.segments.iter().zip(&offsets) {
        let address = place(segment.vaddr)?;
        place(segment.vaddr.saturating_add(segment.memory_len))?;
        put32(&mut out, &[PT_LOAD, *offset as u32, address, address, segment.content.len() as u32]);
        put32(&mut out, &[segment.memory_len as u32, segment.flags, segment.align as u32]);
    }
    elf.append_contents(&mut out, &offsets);
    Ok(out)
}

/// The same ELF64 file with nothing but what is loaded: no symbols, no debug information, no sections.
pub fn only_loaded(elf64: &[u8]) -> Result<Vec<u8>, Elf32Error> {
    let elf = Elf64::parse(elf64)?;
    let offsets = elf.offsets(HEADER_LEN_64, PROGRAM_HEADER_LEN_64);

    let mut out = Vec::new();
    put_ident(&mut out, &IDENT_64);
    put16(&mut out, &[elf.kind, EM_X86_64]);
    put32(&mut out, &[EV_CURRENT]);
    put64(&mut out, &[elf.entry, HEADER_LEN_64.into(), 0]);
    put32(&mut out, &[0]);
    put16(&mut out, &[HEADER_LEN_64, PROGRAM_HEADER_LEN_64, elf.segments.len() as u16, 0, 0, 0]);
    for (segment, offset) in elf.segments.iter().zip(&offsets) {
        put32(&mut out, &[PT_LOAD, segment.flags]);
        put64(&mut out, &[*offset as u64, segment.vaddr, segment.vaddr, segment.content.len() as u64]);
        put64(&mut out, &[segment.memory_len, segment.align]);
    }
    elf.append_contents(&mut out, &offsets);
    Ok(out)
}

/// The loadable segments of an ELF64 file as they lie in memory, from the first to the end of the last content,
/// without any header.
pub fn to_flat(elf64: &[u8]) -> Result<Vec<u8>, Elf32Error> {
    let elf = Elf64::parse(elf64)?;
    let base = elf.segments.iter().map(|segment| segment.vaddr).min().unwrap_or(0);
    let mut out = Vec::new();
    for segment in &elf.segments {
        let at = (segment.vaddr - base) as usize;
        let end = at + segment.content.len();
        out.resize(out.len().max(end), 0);
        out[at..end].copy_from_slice(segment.content);
    }
    Ok(out)
}

impl<'f> Elf64<'f> {
    fn parse(file: &'f [u8]) -> Result<Self, Elf32Error> {
        if !file.starts_with(&IDENT_64) {
            return Err(Elf32Error::NotElf64);
        }
        let mut header = Reader { file, offset: IDENT_LEN as u64 };
        let (kind, machine) = (header.u16()?, header.u16()?);
        let (_version, entry, table, _sections) =
            (header.u32()?, header.u64()?, header.u64()?, header.u64()?);
        let (_flags, _header_len) = (header.u32()?, header.u16()?);
        let (entry_len, count) = (header.u16()?, header.u16()?);
        if machine != EM_X86_64 || entry_len != PROGRAM_HEADER_LEN_64 {
            return Err(Elf32Error::NotElf64);
        }
        let mut segments = Vec::new();
        for index in 0..u64::from(count) {
            let offset = table.saturating_add(index * u64::from(entry_len));
            segments.extend(Segment::parse(Reader { file, offset })?);
        }
        if segments.is_empty() {
            return Err(Elf32Error::NoSegments);
        }
        Ok(Self { kind, entry, segments })
    }

    /// File offsets for the segments behind a header and program headers of these lengths.
    fn offsets(&self, header_len: u16, program_header_len: u16) -> Vec<usize> {
        let mut end = usize::from(header_len) + usize::from(program_header_len) * self.segments.len();
        let mut offset_of = |segment: &Segment<'_>| {
            let in_page = segment.vaddr as usize % PAGE;
            let offset = (end + PAGE - 1 - in_page) / PAGE * PAGE + in_page;
            end = offset + segment.content.len();
            offset
        };
        self.segments.iter().map(&mut offset_of).collect()
    }

    fn append_contents(&self, out: &mut Vec<u8>, offsets: &[usize]) {
        for (segment, offset) in self.segments.iter().zip(offsets) {
            out.resize(*offset, 0);
            out.extend(segment.content);
        }
    }
}

impl<'f> Segment<'f> {
    /// The segment, if the program header describes one to load.
    fn parse(mut header: Reader<'f>) -> Result<Option<Self>, Elf32Error> {
        let (kind, flags) = (header.u32()?, header.u32()?);
        let (offset, vaddr, _paddr) = (header.u64()?, header.u64()?, header.u64()?);
        let (file_len, memory_len, align) = (header.u64()?, header.u64()?, header.u64()?);
        if kind != PT_LOAD || memory_len == 0 {
            return Ok(None);
        }
        let content = Reader { file: header.file, offset }.bytes(file_len)?;
        Ok(Some(Self { flags, vaddr, content, memory_len, align }))
    }
}

/// Reads little-endian numbers one after the other.
struct Reader<'f> {
    file: &'f [u8],
    offset: u64,
}

impl<'f> Reader<'f> {
    fn bytes(&mut self, len: u64) -> Result<&'f [u8], Elf32Error> {
        let truncated = Elf32Error::Truncated { offset: self.offset };
        let end = self.offset.checked_add(len).ok_or(truncated)?;
        let bytes = self.file.get(self.offset as usize..end as usize).ok_or(truncated)?;
        self.offset = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Elf32Error> {
        let bytes = self.bytes(N as u64)?;
        Ok(bytes.try_into().expect("as long as asked for"))
    }

    fn u16(&mut self) -> Result<u16, Elf32Error> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Elf32Error> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Elf32Error> {
        self.array().map(u64::from_le_bytes)
    }
}

fn put_ident(out: &mut Vec<u8>, ident: &[u8]) {
    out.extend(ident);
    out.resize(IDENT_LEN, 0);
}

fn put16(out: &mut Vec<u8>, values: &[u16]) {
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

fn put32(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

fn put64(out: &mut Vec<u8>, values: &[u64]) {
    out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: [u64; 3] = [0x1000, 3, 3];
    const DATA: [u64; 3] = [0x5010, 5, 0x9000];

    /// An ELF64 file, entered at `entry`, with a note and segments of [address, length in the file, in memory].
    fn elf64(entry: u64, segments: &[[u64; 3]]) -> Vec<u8> {
        let mut file = Vec::new();
        put_ident(&mut file, &IDENT_64);
        put16(&mut file, &[ET_EXEC, EM_X86_64]);
        put32(&mut file, &[EV_CURRENT]);
        put64(&mut file, &[entry, HEADER_LEN_64.into(), 0]);
        put32(&mut file, &[0]);
        put16(&mut file, &[HEADER_LEN_64, PROGRAM_HEADER_LEN_64, segments.len() as u16 + 1, 64, 7, 6]);
        let mut content = file.len() as u64 + 56 * (segments.len() as u64 + 1);
        put32(&mut file, &[4, 4]);
        put64(&mut file, &[content, 0, 0, 1, 1, 1]);
        for [address, in_file, in_memory] in segments {
            put32(&mut file, &[PT_LOAD, 5]);
            put64(&mut file, &[content, *address, *address, *in_file, *in_memory, 4096]);
            content += in_file;
        }
        let content: u64 = segments.iter().map(|[_, in_file, _]| in_file).sum();
        file.extend((1..=content).map(|n| n as u8));
        file.extend(b"symbols");
        file
    }

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    #[test]
    fn the_container_is_an_i386_executable_at_the_load_address() {
        let file = to_elf32(&elf64(0x1002, &[CODE, DATA]), LOAD_ADDRESS).unwrap();
        assert_eq!(file[..IDENT_LEN], *b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
        assert_eq!(words(&file[16..52]), [0x3_0002, 1, 0x20_1002, 52, 0, 0, 0x20_0034, 2, 0]);
        assert_eq!(words(&file[52..84]), [1, 0x1000, 0x20_1000, 0x20_1000, 3, 3, 5, 4096]);
        assert_eq!(words(&file[84..116]), [1, 0x1010, 0x20_5010, 0x20_5010, 5, 0x9000, 5, 4096]);
        assert_eq!(file[0x1000..0x1003], [1, 2, 3]);
        assert_eq!(file[0x1010..], [4, 5, 6, 7, 8], "nothing follows the last segment");
    }

    #[test]
    fn stripping_keeps_what_is_loaded() {
        let original = elf64(0xffff_ffff_8000_0000, &[CODE, DATA]);
        let stripped = only_loaded(&original).unwrap();
        assert!(!stripped.ends_with(b"symbols"));
        let (before, after) = (Elf64::parse(&original).unwrap(), Elf64::parse(&stripped).unwrap());
        assert_eq!((before.kind, before.entry), (after.kind, after.entry));
        let shown = |elf: &Elf64<'_>| -> Vec<_> {
            elf.segments
                .iter()
                .map(|s| (s.flags, s.vaddr, s.content.to_vec(), s.memory_len, s.align))
                .collect()
        };
        assert_eq!(shown(&before), shown(&after));
        assert_eq!(only_loaded(&stripped), Ok(stripped));
    }

    #[test]
    fn a_flat_image_has_gaps_and_no_header() {
        let file = elf64(0x1002, &[[0x1005, 2, 2], [0x1000, 3, 4]]);
        assert_eq!(to_flat(&file), Ok(vec![3, 4, 5, 0, 0, 1, 2]));
    }

    #[test]
    fn addresses_above_4_gib_are_refused() {
        let convert = |entry, address, len| to_elf32(&elf64(entry, &[[address, 1, len]]), LOAD_ADDRESS);
        let last = 0xffff_ffff - u64::from(LOAD_ADDRESS);
        assert!(convert(0, last - 1, 1).is_ok());
        assert_eq!(convert(last + 1, 0, 1), Err(Elf32Error::AddressTooHigh { address: last + 1 }));
        assert_eq!(convert(0, 0, last + 1), Err(Elf32Error::AddressTooHigh { address: last + 1 }));
        assert_eq!(convert(0, u64::MAX, 1), Err(Elf32Error::AddressTooHigh { address: u64::MAX }));
    }

    #[test]
    fn other_files_are_refused() {
        let good = elf64(0, &[CODE]);
        let cut = good.len() - b"symbols".len();
        for len in 0..cut {
            assert!(to_elf32(&good[..len], LOAD_ADDRESS).is_err(), "cut at {len}");
        }
        assert!(to_elf32(&good[..cut], LOAD_ADDRESS).is_ok());
        let container = to_elf32(&good, LOAD_ADDRESS).unwrap();
        assert_eq!(to_elf32(&container, LOAD_ADDRESS), Err(Elf32Error::NotElf64));
        assert_eq!(to_elf32(&elf64(0, &[]), LOAD_ADDRESS), Err(Elf32Error::NoSegments));
    }
}

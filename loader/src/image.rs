//! The embedded kernel: an ELF64 executable whose segments are mapped page by page (ELF-64 object file
//! format 1.5; AMD64 psABI).

use core::fmt;

use abi::boot::KERNEL_BASE;
use arrayvec::ArrayVec;
use x86defs::addr::PAGE_SIZE;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Most loadable segments of the kernel.
pub const MAX_SEGMENTS: usize = 8;
/// Most address space that the kernel spans.
pub const MAX_SPAN: u64 = 64 << 20;

/// `e_ident` up to its version: magic, ELFCLASS64, ELFDATA2LSB, EV_CURRENT.
const IDENT: [u8; 7] = *b"\x7fELF\x02\x01\x01";
const ET_EXEC: u16 = 2;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PF_X: u32 = 1 << 0;
const PF_W: u32 = 1 << 1;

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
struct Header {
    e_ident: [u8; 16],
    e_type: U16,
    e_machine: U16,
    e_version: U32,
    e_entry: U64,
    e_phoff: U64,
    e_shoff: U64,
    e_flags: U32,
    e_ehsize: U16,
    e_phentsize: U16,
    e_phnum: U16,
    e_shentsize: U16,
    e_shnum: U16,
    e_shstrndx: U16,
}

#[repr(C)]
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
struct ProgramHeader {
    p_type: U32,
    p_flags: U32,
    p_offset: U64,
    p_vaddr: U64,
    p_paddr: U64,
    p_filesz: U64,
    p_memsz: U64,
    p_align: U64,
}

/// A loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'f> {
    /// Virtual address of the first byte.
    pub start: u64,
    /// What stands at its beginning; zeros follow.
    pub content: &'f [u8],
    /// Length in memory.
    pub len: u64,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
}

impl Segment<'_> {
    /// Virtual address of its first page.
    pub const fn first_page(&self) -> u64 {
        self.start & !(PAGE_SIZE - 1)
    }

    /// Virtual address after its last page.
    pub const fn end_page(&self) -> u64 {
        (self.start + self.len).next_multiple_of(PAGE_SIZE)
    }
}

/// A kernel image whose segments are known to be sound: in order, within [`MAX_SPAN`] of
/// [`KERNEL_BASE`], no two in one page, none both writable and executable.
#[derive(Debug)]
pub struct KernelImage<'f> {
    /// Its loadable segments in order of address.
    pub segments: ArrayVec<Segment<'f>, MAX_SEGMENTS>,
    /// Virtual address of its first instruction.
    pub entry: u64,
}

/// Why the embedded kernel cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// There is none.
    Missing,
    /// It is no ELF64 executable for x86-64, or is cut off.
    NotElf,
    /// It has too many loadable segments.
    TooManySegments,
    /// A segment lies outside the kernel's address space, out of order, or in a page of another.
    Misplaced {
        /// Its virtual address.
        start: u64,
        /// Its length in memory.
        len: u64,
    },
    /// A segment is both writable and executable.
    WritableCode {
        /// Its virtual address.
        start: u64,
    },
    /// The entry point is in no executable segment.
    BadEntry {
        /// Its virtual address.
        entry: u64,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing => f.write_str("built without a kernel; build the image with `cargo xtask build`"),
            Self::NotElf => f.write_str("the embedded kernel is not a whole ELF64 executable for x86-64"),
            Self::TooManySegments => {
                write!(f, "the embedded kernel has more than {MAX_SEGMENTS} loadable segments")
            }
            Self::Misplaced { start, len } => write!(
                f,
                "the embedded kernel's segment of {len:#x} bytes at {start:#x} is out of place; segments \
                 start at {KERNEL_BASE:#x}, ascend and share no page"
            ),
            Self::WritableCode { start } => {
                write!(f, "the embedded kernel's segment at {start:#x} is both writable and executable")
            }
            Self::BadEntry { entry } => {
                write!(f, "the embedded kernel's entry point {entry:#x} is in no executable segment")
            }
        }
    }
}

impl<'f> KernelImage<'f> {
    /// Reads and checks an ELF file.
    pub fn parse(file: &'f [u8]) -> Result<Self, ImageError> {
        if file.is_empty() {
            return Err(ImageError::Missing);
        }
        let (header, _) = Header::ref_from_prefix(file).map_err(|_| ImageError::NotElf)?;
        let known = header.e_ident.starts_with(&IDENT)
            && header.e_type == ET_EXEC
            && header.e_machine == EM_X86_64
            && usize::from(header.e_phentsize) == size_of::<ProgramHeader>();
        let table = file.get(header.e_phoff.get() as usize..).filter(|_| known).ok_or(ImageError::NotElf)?;
        let (headers, _) = <[ProgramHeader]>::ref_from_prefix_with_elems(table, header.e_phnum.get().into())
            .map_err(|_| ImageError::NotElf)?;

        let mut image = Self { segments: ArrayVec::new(), entry: header.e_entry.get() };
        for header in headers.iter().filter(|h| h.p_type == PT_LOAD && h.p_memsz != 0) {
            image.add(segment(file, header)?)?;
        }
        let entry = image.entry;
        let in_code = |s: &Segment<'_>| s.executable && (s.start..s.start + s.len).contains(&entry);
        if !image.segments.iter().any(in_code) {
            return Err(ImageError::BadEntry { entry });
        }
        Ok(image)
    }

    /// Bytes from [`KERNEL_BASE`] to the end of the last segment's last page.
    pub fn span(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.end_page() - KERNEL_BASE)
    }

    fn add(&mut self, segment: Segment<'f>) -> Result<(), ImageError> {
        let Segment { start, len, .. } = segment;
        let free_from = self.segments.last().map_or(KERNEL_BASE, Segment::end_page);
        let is_first = self.segments.is_empty();
        let in_space = start.checked_add(len).is_some_and(|end| end <= KERNEL_BASE + MAX_SPAN);
        let in_order =
            start & !(PAGE_SIZE - 1) >= free_from && (!is_first || start < KERNEL_BASE + PAGE_SIZE);
        if !in_space || !in_order {
            return Err(ImageError::Misplaced { start, len });
        }
        if segment.writable && segment.executable {
            return Err(ImageError::WritableCode { start });
        }
        self.segments.try_push(segment).map_err(|_| ImageError::TooManySegments)
    }
}

fn segment<'f>(file: &'f [u8], header: &ProgramHeader) -> Result<Segment<'f>, ImageError> {
    let content = usize::try_from(header.p_offset.get())
        .ok()
        .and_then(|offset| file.get(offset..))
        .and_then(|rest| rest.get(..usize::try_from(header.p_filesz.get()).ok()?))
        .filter(|content| content.len() as u64 <= header.p_memsz.get())
        .ok_or(ImageError::NotElf)?;
    Ok(Segment {
        start: header.p_vaddr.get(),
        content,
        len: header.p_memsz.get(),
        writable: header.p_flags.get() & PF_W != 0,
        executable: header.p_flags.get() & PF_X != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const CODE: (u32, u64, u64) = (PF_X, 0, 0x1800);
    const DATA: (u32, u64, u64) = (PF_W, 0x2000, 0x5000);

    /// An executable with segments of (flags, address from `KERNEL_BASE`, length in memory), each with 16 bytes
    /// in the file, that starts at its first byte.
    fn elf(segments: &[(u32, u64, u64)]) -> Vec<u8> {
        let mut file = IDENT.to_vec();
        file.resize(16, 0);
        file.extend([ET_EXEC, EM_X86_64].map(u16::to_le_bytes).as_flattened());
        file.extend(1u32.to_le_bytes());
        file.extend([KERNEL_BASE, 64, 0].map(u64::to_le_bytes).as_flattened());
        file.extend(0u32.to_le_bytes());
        file.extend([64, 56, segments.len() as u16, 0, 0, 0].map(u16::to_le_bytes).as_flattened());
        let content = 64 + 56 * segments.len() as u64;
        for (flags, offset, len) in segments {
            let start = KERNEL_BASE.wrapping_add(*offset);
            file.extend([PT_LOAD, *flags].map(u32::to_le_bytes).as_flattened());
            file.extend([content, start, start, 16, *len, PAGE_SIZE].map(u64::to_le_bytes).as_flattened());
        }
        file.extend(0..16);
        file
    }

    fn error(segments: &[(u32, u64, u64)]) -> ImageError {
        KernelImage::parse(&elf(segments)).unwrap_err()
    }

    #[test]
    fn reads_segments() {
        let file = elf(&[CODE, DATA]);
        let image = KernelImage::parse(&file).unwrap();
        let [code, data] = &image.segments[..] else { panic!("two segments") };
        assert!(code.executable && !code.writable && data.writable && !data.executable);
        assert_eq!((code.first_page(), code.end_page()), (KERNEL_BASE, KERNEL_BASE + 0x2000));
        assert_eq!(data.content, &file[file.len() - 16..]);
        assert_eq!(data.len, 0x5000);
        assert_eq!(image.span(), 0x7000);
    }

    #[test]
    fn segments_must_not_share_pages_or_leave_their_place() {
        for misplaced in [(PF_W, 0x1900, 0x10), (PF_W, MAX_SPAN, 0x10), (PF_W, 0x2000, u64::MAX)] {
            let (_, offset, len) = misplaced;
            assert_eq!(error(&[CODE, misplaced]), ImageError::Misplaced { start: KERNEL_BASE + offset, len });
        }
        assert!(matches!(error(&[DATA, CODE]), ImageError::Misplaced { .. }), "the first starts at the base");
        let below = (PF_X, 0u64.wrapping_sub(PAGE_SIZE), 0x10);
        assert!(matches!(error(&[below]), ImageError::Misplaced { .. }));
    }

    #[test]
    fn no_segment_is_writable_and_executable() {
        assert_eq!(error(&[(PF_W | PF_X, 0, 16)]), ImageError::WritableCode { start: KERNEL_BASE });
    }

    #[test]
    fn the_entry_point_is_code() {
        assert_eq!(error(&[(PF_W, 0, 0x1000)]), ImageError::BadEntry { entry: KERNEL_BASE });
        assert_eq!(error(&[]), ImageError::BadEntry { entry: KERNEL_BASE });
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(KernelImage::parse(&[]).unwrap_err(), ImageError::Missing);
        let good = elf(&[CODE, DATA]);
        for len in 1..good.len() {
            assert_eq!(KernelImage::parse(&good[..len]).unwrap_err(), ImageError::NotElf, "cut at {len}");
        }
        for at in [0, 4, 5, 16, 18, 54] {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            assert_eq!(KernelImage::parse(&bad).unwrap_err(), ImageError::NotElf, "byte {at}");
        }
        let many: Vec<_> = (0..=MAX_SEGMENTS as u64).map(|n| (PF_X, n * PAGE_SIZE, 16)).collect();
        assert_eq!(error(&many), ImageError::TooManySegments);
    }
}

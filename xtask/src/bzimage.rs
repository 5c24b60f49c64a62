//! The bzImage container (Linux, Documentation/arch/x86/boot.rst): a guest that is linked at a fixed address, as
//! a kernel that a boot loader starts through the 64-bit boot protocol.

use std::fmt;

/// Offset of the 64-bit entry point in the protected-mode kernel; the guest's link puts code there.
const ENTRY_64: u64 = 0x200;
/// The boot sector and one sector of set-up code, of which only the header is there.
const SETUP_SECTS: u8 = 1;
const SECTOR: usize = 512;
/// Unit of `syssize`.
const PARAGRAPH: usize = 16;

/// Fields of the setup header by their offset in the file.
mod field {
    pub(super) const SETUP_SECTS: usize = 0x1f1;
    pub(super) const SYSSIZE: usize = 0x1f4;
    pub(super) const BOOT_FLAG: usize = 0x1fe;
    pub(super) const JUMP: usize = 0x200;
    pub(super) const HEADER: usize = 0x202;
    pub(super) const VERSION: usize = 0x206;
    pub(super) const LOADFLAGS: usize = 0x211;
    pub(super) const CODE32_START: usize = 0x214;
    pub(super) const INITRD_ADDR_MAX: usize = 0x22c;
    pub(super) const KERNEL_ALIGNMENT: usize = 0x230;
    pub(super) const XLOADFLAGS: usize = 0x236;
    pub(super) const CMDLINE_SIZE: usize = 0x238;
    pub(super) const PREF_ADDRESS: usize = 0x258;
    pub(super) const INIT_SIZE: usize = 0x260;
    /// One past `kernel_info_offset`, the last field of version 2.15.
    pub(super) const END: usize = 0x26c;
}

const BOOT_FLAG: u16 = 0xaa55;
const HEADER_MAGIC: &[u8; 4] = b"HdrS";
const VERSION_2_15: u16 = 0x020f;
/// `jump`: the opcode of a short jump; its operand says where the header ends.
const JMP_SHORT: u8 = 0xeb;
const LOADED_HIGH: u8 = 1 << 0;
const XLF_KERNEL_64: u16 = 1 << 0;
const INITRD_ADDR_MAX: u32 = 0x7fff_ffff;
const KERNEL_ALIGNMENT: u32 = 2 << 20;
const CMDLINE_SIZE: u32 = 511;

/// ELF64: offsets in the file header and in a program header.
mod elf {
    pub(super) const IDENT: &[u8; 6] = b"\x7fELF\x02\x01";
    pub(super) const PHOFF: u64 = 32;
    pub(super) const PHENTSIZE: u64 = 54;
    pub(super) const PHNUM: u64 = 56;
    pub(super) const P_TYPE: u64 = 0;
    pub(super) const P_OFFSET: u64 = 8;
    pub(super) const P_PADDR: u64 = 24;
    pub(super) const P_FILESZ: u64 = 32;
    pub(super) const P_MEMSZ: u64 = 40;
    pub(super) const PT_LOAD: u64 = 1;
}

/// Why a link cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BzImageError {
    /// It is no little-endian ELF64 file.
    NotElf64,
    /// It ends before the structure at this offset does.
    Truncated {
        /// Offset in the file.
        offset: u64,
    },
    /// It has nothing to load, or no code at the entry point.
    NoEntry,
    /// It takes more memory than the protocol's fields can say.
    TooLarge {
        /// Bytes from the first to the last address.
        size: u64,
    },
}

impl fmt::Display for BzImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotElf64 => f.write_str("not a little-endian ELF64 file"),
            Self::Truncated { offset } => {
                write!(f, "the file ends within the structure at offset {offset:#x}")
            }
            Self::NoEntry => {
                write!(f, "nothing is linked at the 64-bit entry point, {ENTRY_64:#x} after the start")
            }
            Self::TooLarge { size } => write!(f, "the image takes {size:#x} bytes: expected less than 1 GiB"),
        }
    }
}

impl std::error::Error for BzImageError {}

/// Packs the loadable segments of an ELF64 file as a bzImage that is not relocatable. The entry point must
/// lie 0x200 bytes after the first address.
pub fn to_bzimage(elf64: &[u8]) -> Result<Vec<u8>, BzImageError> {
    let image = Image::of(elf64)?;
    let mut file = setup(&image);
    file.extend(&image.payload);
    Ok(file)
}

/// The boot sector and the set-up code.
fn setup(image: &Image) -> Vec<u8> {
    let mut setup = vec![0; (usize::from(SETUP_SECTS) + 1) * SECTOR];
    let mut put = |offset: usize, bytes: &[u8]| setup[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(field::SETUP_SECTS, &[SETUP_SECTS]);
    put(field::SYSSIZE, &((image.payload.len() / PARAGRAPH) as u32).to_le_bytes());
    put(field::BOOT_FLAG, &BOOT_FLAG.to_le_bytes());
    put(field::JUMP, &[JMP_SHORT, (field::END - field::HEADER) as u8]);
    put(field::HEADER, HEADER_MAGIC);
    put(field::VERSION, &VERSION_2_15.to_le_bytes());
    put(field::LOADFLAGS, &[LOADED_HIGH]);
    put(field::CODE32_START, &(image.start as u32).to_le_bytes());
    put(field::INITRD_ADDR_MAX, &INITRD_ADDR_MAX.to_le_bytes());
    put(field::KERNEL_ALIGNMENT, &KERNEL_ALIGNMENT.to_le_bytes());
    put(field::XLOADFLAGS, &XLF_KERNEL_64.to_le_bytes());
    put(field::CMDLINE_SIZE, &CMDLINE_SIZE.to_le_bytes());
    put(field::PREF_ADDRESS, &image.start.to_le_bytes());
    put(field::INIT_SIZE, &(image.memory as u32).to_le_bytes());
    setup
}

/// What is loaded, as one piece.
struct Image {
    /// First address.
    start: u64,
    /// Bytes of memory, with what is zero at the end.
    memory: u64,
    /// Bytes of the file, padded to whole paragraphs.
    payload: Vec<u8>,
}

impl Image {
    /// Largest that is sensible; fits every field of the protocol.
    const LIMIT: u64 = 1 << 30;

    fn of(file: &[u8]) -> Result<Self, BzImageError> {
        if !file.starts_with(elf::IDENT) {
            return Err(BzImageError::NotElf64);
        }
        let table = number::<8>(file, elf::PHOFF)?;
        let (size, count) = (number::<2>(file, elf::PHENTSIZE)?, number::<2>(file, elf::PHNUM)?);
        let headers = (0..count).map(|index| table.saturating_add(index * size));
        let segments = headers.map(|at| Segment::at(file, at)).collect::<Result<Vec<_>, _>>()?;
        let loaded = || segments.iter().flatten();
        let start = loaded().map(|s| s.address).min().ok_or(BzImageError::NoEntry)?;
        let end = loaded().map(|s| s.address.saturating_add(s.memory)).max().unwrap_or(start);
        let memory = end - start;
        if memory >= Self::LIMIT || end > u64::from(u32::MAX) {
            return Err(BzImageError::TooLarge { size: memory });
        }
        let mut payload = Vec::new();
        for segment in loaded() {
            let from = (segment.address - start) as usize;
            let to = from + segment.content.len();
            payload.resize(payload.len().max(to.next_multiple_of(PARAGRAPH)), 0);
            payload[from..to].copy_from_slice(segment.content);
        }
        if payload.len() as u64 <= ENTRY_64 {
            return Err(BzImageError::NoEntry);
        }
        Ok(Self { start, memory: memory.max(payload.len() as u64), payload })
    }
}

/// A segment to load.
struct Segment<'f> {
    address: u64,
    memory: u64,
    content: &'f [u8],
}

impl<'f> Segment<'f> {
    /// The segment, if the program header at this offset describes one to load.
    fn at(file: &'f [u8], header: u64) -> Result<Option<Self>, BzImageError> {
        if number::<4>(file, header.saturating_add(elf::P_TYPE))? != elf::PT_LOAD {
            return Ok(None);
        }
        let field = |offset| number::<8>(file, header.saturating_add(offset));
        let (offset, length) = (field(elf::P_OFFSET)?, field(elf::P_FILESZ)?);
        let end = offset.checked_add(length);
        let content = end.and_then(|end| file.get(offset as usize..end as usize));
        let content = content.ok_or(BzImageError::Truncated { offset })?;
        let memory = field(elf::P_MEMSZ)?.max(length);
        Ok(Some(Self { address: field(elf::P_PADDR)?, memory, content }))
    }
}

/// A little-endian number of `N` bytes.
fn number<const N: usize>(file: &[u8], offset: u64) -> Result<u64, BzImageError> {
    let bytes = file.get(offset as usize..).and_then(<[u8]>::first_chunk::<N>);
    let bytes = bytes.ok_or(BzImageError::Truncated { offset })?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 16 << 20;

    /// An ELF64 file with segments of (type, address, content, bytes of memory).
    fn link(segments: &[(u32, u64, &[u8], u64)]) -> Vec<u8> {
        let table = 64;
        let mut file = vec![0; table + segments.len() * 56];
        file[..6].copy_from_slice(elf::IDENT);
        file[elf::PHOFF as usize] = table as u8;
        file[elf::PHENTSIZE as usize] = 56;
        file[elf::PHNUM as usize] = segments.len() as u8;
        for (index, (kind, address, content, memory)) in segments.iter().enumerate() {
            let header = table + index * 56;
            let offset = file.len() as u64;
            file[header..header + 4].copy_from_slice(&kind.to_le_bytes());
            let fields = [
                (elf::P_OFFSET, offset),
                (elf::P_PADDR, *address),
                (elf::P_FILESZ, content.len() as u64),
                (elf::P_MEMSZ, *memory),
            ];
            for (at, value) in fields {
                file[header + at as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
            file.extend(*content);
        }
        file
    }

    fn at<const N: usize>(file: &[u8], offset: usize) -> u64 {
        number::<N>(file, offset as u64).expect("within the file")
    }

    #[test]
    fn header_describes_the_payload() {
        let code = [0x90; 0x301];
        let data = [7; 3];
        let elf = link(&[(1, START, &code, 0x301), (6, 0, &[1], 1), (1, START + 0x1000, &data, 0x2345)]);
        let file = to_bzimage(&elf).expect("valid");
        assert_eq!(&file[field::HEADER..][..4], HEADER_MAGIC);
        assert_eq!(at::<2>(&file, field::BOOT_FLAG), 0xaa55);
        let payload = (at::<1>(&file, field::SETUP_SECTS) as usize + 1) * 512;
        assert_eq!(at::<4>(&file, field::SYSSIZE) as usize * 16, file.len() - payload);
        assert_eq!(&file[payload..][..0x301], &code);
        assert_eq!(&file[payload + 0x1000..][..4], &[7, 7, 7, 0]);
        assert_eq!(at::<8>(&file, field::PREF_ADDRESS), START);
        assert_eq!(at::<4>(&file, field::INIT_SIZE), 0x3345);
        assert_eq!(at::<1>(&file, field::JUMP + 1) as usize + field::HEADER, field::END);
    }

    #[test]
    fn damaged_links_are_refused() {
        assert_eq!(to_bzimage(b"MZ"), Err(BzImageError::NotElf64));
        assert_eq!(to_bzimage(&link(&[])), Err(BzImageError::NoEntry));
        assert_eq!(to_bzimage(&link(&[(1, START, &[0; 0x200], 0x200)])), Err(BzImageError::NoEntry));
        let whole = link(&[(1, START, &[0; 0x300], 0x300)]);
        assert_eq!(to_bzimage(&whole[..whole.len() - 1]), Err(BzImageError::Truncated { offset: 120 }));
        assert_eq!(to_bzimage(&whole[..100]), Err(BzImageError::Truncated { offset: 96 }));
        let far = link(&[(1, START, &[0; 0x300], 0x300), (1, START + (1 << 30), &[], 1)]);
        assert_eq!(to_bzimage(&far), Err(BzImageError::TooLarge { size: (1 << 30) + 1 }));
    }
}

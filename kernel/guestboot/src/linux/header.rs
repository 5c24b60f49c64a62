//! The setup header of a bzImage (boot.rst, "The Real-Mode Kernel Header").

use super::error::LinuxError;
use core::ops::Range;
use x86defs::addr::PAGE_SIZE;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Offset of the setup header in the file and in [`super::boot_params::BootParams`].
pub const SETUP_HEADER: usize = 0x1f1;
/// Offset of `header` in the file; the byte before it is the length of what follows.
const MAGIC_OFFSET: usize = 0x202;
/// `header`.
const MAGIC: [u8; 4] = *b"HdrS";
/// `boot_flag`: the signature of a boot sector.
const BOOT_FLAG: u16 = 0xaa55;
/// First protocol version with a command line anywhere in memory.
const VERSION_2_02: u16 = 0x0202;
/// First protocol version whose `syssize` counts all of a bzImage.
const VERSION_2_04: u16 = 0x0204;
/// Fields of later protocol versions: the version, where the last one ends in the file.
const LATER_FIELDS: [(u16, usize); 7] = [
    (0x0203, 0x230),
    (0x0205, 0x235),
    (0x0206, 0x23c),
    (0x0207, 0x248),
    (0x0208, 0x250),
    (0x0209, 0x258),
    (0x020a, 0x264),
];
/// Where the fields of version 2.02 end.
const FIRST_FIELDS: usize = 0x22c;
/// `loadflags`: the protected-mode kernel is loaded at 1 MiB, not at 64 KiB.
const LOADED_HIGH: u8 = 1 << 0;
/// `initrd_addr_max` before version 2.03.
const INITRD_ADDR_MAX: u32 = 0x37ff_ffff;
/// `cmdline_size` before version 2.06.
const CMDLINE_SIZE: u32 = 255;
/// Before version 2.10 a kernel does not say how much memory it needs: several times its compressed size.
const UNPACKED: u64 = 4;
/// `xloadflags`: 64-bit entry point at offset 0x200.
const XLF_KERNEL_64: u16 = 1 << 0;
/// `setup_sects` where the field is 0.
const DEFAULT_SETUP_SECTS: u8 = 4;
/// Unit of `setup_sects`.
const SECTOR: u64 = 512;
/// Unit of `syssize`.
const PARAGRAPH: u64 = 16;
/// Kernels cannot lie below the first MiB, where firmware and our own structures are.
const LOWEST: u64 = 1 << 20;

/// The setup header as it stands in the file.
#[allow(missing_docs, reason = "fields carry the names that the boot protocol defines")]
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct SetupHeader {
    pub setup_sects: u8,
    pub root_flags: U16,
    pub syssize: U32,
    pub ram_size: U16,
    pub vid_mode: U16,
    pub root_dev: U16,
    pub boot_flag: U16,
    pub jump: [u8; 2],
    pub header: [u8; 4],
    pub version: U16,
    pub realmode_swtch: U32,
    pub start_sys_seg: U16,
    pub kernel_version: U16,
    pub type_of_loader: u8,
    pub loadflags: u8,
    pub setup_move_size: U16,
    pub code32_start: U32,
    pub ramdisk_image: U32,
    pub ramdisk_size: U32,
    pub bootsect_kludge: U32,
    pub heap_end_ptr: U16,
    pub ext_loader_ver: u8,
    pub ext_loader_type: u8,
    pub cmd_line_ptr: U32,
    pub initrd_addr_max: U32,
    pub kernel_alignment: U32,
    pub relocatable_kernel: u8,
    pub min_alignment: u8,
    pub xloadflags: U16,
    pub cmdline_size: U32,
    pub hardware_subarch: U32,
    pub hardware_subarch_data: U64,
    pub payload_offset: U32,
    pub payload_length: U32,
    pub setup_data: U64,
    pub pref_address: U64,
    pub init_size: U32,
    pub handover_offset: U32,
}

impl SetupHeader {
    /// Fills in what the fields that this protocol version does not have yet would say.
    fn set_defaults(&mut self) {
        let [since_2_03, since_2_06, since_2_10, since_2_12] =
            [0x0203, 0x0206, 0x020a, 0x020c].map(|version| self.version.get() >= version);
        if !since_2_03 {
            self.initrd_addr_max = INITRD_ADDR_MAX.into();
        }
        if !since_2_06 {
            self.cmdline_size = CMDLINE_SIZE.into();
        }
        if !since_2_10 {
            self.pref_address = LOWEST.into();
            self.init_size = U32::ZERO;
            self.relocatable_kernel = 0;
        }
        if !since_2_12 {
            self.xloadflags = U16::ZERO;
        }
    }
}

/// Whether a file is a Linux kernel at all.
pub fn has_magic(file: &[u8]) -> bool {
    let at = |offset: usize, bytes: &[u8]| file.get(offset..offset + bytes.len()) == Some(bytes);
    at(MAGIC_OFFSET, &MAGIC) && at(MAGIC_OFFSET - 4, &BOOT_FLAG.to_le_bytes())
}

/// How a kernel is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// In 64-bit mode.
    Long,
    /// In 32-bit protected mode.
    Protected,
}

/// A setup header whose numbers have been checked against each other and against the file.
#[derive(Clone, Debug)]
pub struct Header<'a> {
    /// All bytes of the header, as many as the file says that it has.
    bytes: &'a [u8],
    fields: SetupHeader,
    payload: Range<usize>,
}

impl<'a> Header<'a> {
    /// Reads and checks the header of a file with [`has_magic`].
    pub fn parse(file: &'a [u8]) -> Result<Self, LinuxError> {
        let have = file.len() as u64;
        let truncated = |need: usize| LinuxError::Truncated { need: need as u64, have };
        let first = file.get(..FIRST_FIELDS).ok_or(truncated(FIRST_FIELDS))?;
        let header_end = MAGIC_OFFSET + usize::from(first[MAGIC_OFFSET - 1]);
        let bytes = file.get(SETUP_HEADER..header_end.max(FIRST_FIELDS)).ok_or(truncated(header_end))?;
        let mut fields = SetupHeader::new_zeroed();
        let known = bytes.len().min(size_of::<SetupHeader>());
        fields.as_mut_bytes()[..known].copy_from_slice(&bytes[..known]);
        let version = fields.version.get();
        if version < VERSION_2_02 {
            return Err(LinuxError::TooOld { version });
        }
        if header_end < end_of_fields(version) {
            return Err(LinuxError::BadField { field: "jump", value: fields.jump[1].into() });
        }
        if fields.loadflags & LOADED_HIGH == 0 {
            return Err(LinuxError::NotHigh);
        }
        fields.set_defaults();
        check_alignment(&fields)?;
        Ok(Self { bytes, payload: payload(&fields, have)?, fields })
    }

    /// The header's bytes, from [`SETUP_HEADER`] on.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How the kernel is entered: in 64-bit mode if it can be.
    pub fn entry(&self) -> Entry {
        match self.fields.xloadflags.get() & XLF_KERNEL_64 {
            0 => Entry::Protected,
            _ => Entry::Long,
        }
    }

    /// Where the protected-mode kernel lies in the file.
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// The first address at which the kernel can be: the preferred one, since a relocatable kernel that
    /// finds itself lower moves there anyhow.
    pub fn load_address(&self) -> Result<u64, LinuxError> {
        let preferred = self.fields.pref_address.get();
        let bad = LinuxError::BadField { field: "pref_address", value: preferred };
        if self.fields.relocatable_kernel != 0 {
            preferred
                .max(LOWEST)
                .checked_next_multiple_of(self.fields.kernel_alignment.get().into())
                .ok_or(bad)
        } else if preferred >= LOWEST {
            Ok(preferred)
        } else {
            Err(bad)
        }
    }

    /// Memory that the kernel needs from its load address on before it has looked at the memory map.
    pub fn init_size(&self) -> u64 {
        match self.fields.init_size.get() {
            0 => self.payload.len() as u64 * UNPACKED,
            size => u64::from(size).max(self.payload.len() as u64),
        }
    }

    /// Longest command line without its terminator.
    pub fn cmdline_size(&self) -> u32 {
        self.fields.cmdline_size.get()
    }

    /// One past the last address that an initrd may take.
    pub fn initrd_end(&self) -> u64 {
        u64::from(self.fields.initrd_addr_max.get()) + 1
    }
}

/// A relocatable kernel's alignment is a power of two and at least a page.
fn check_alignment(fields: &SetupHeader) -> Result<(), LinuxError> {
    let alignment = fields.kernel_alignment.get();
    if fields.relocatable_kernel != 0 && !(alignment.is_power_of_two() && u64::from(alignment) >= PAGE_SIZE) {
        return Err(LinuxError::BadField { field: "kernel_alignment", value: alignment.into() });
    }
    Ok(())
}

/// Where the fields of a protocol version end in the file.
fn end_of_fields(version: u16) -> usize {
    let present = LATER_FIELDS.iter().rev().find(|(since, _)| version >= *since);
    present.map_or(FIRST_FIELDS, |(_, end)| *end)
}

/// The protected-mode kernel follows the setup sectors; signatures may follow it. The last paragraph need not be
/// whole.
fn payload(fields: &SetupHeader, have: u64) -> Result<Range<usize>, LinuxError> {
    let sectors = if fields.setup_sects == 0 { DEFAULT_SETUP_SECTS } else { fields.setup_sects };
    let start = (u64::from(sectors) + 1) * SECTOR;
    let len = match fields.version.get() {
        ..VERSION_2_04 => have.saturating_sub(start),
        _ => u64::from(fields.syssize.get()) * PARAGRAPH,
    };
    if len <= super::ENTRY64 {
        return Err(LinuxError::BadField { field: "syssize", value: fields.syssize.get().into() });
    }
    let end = start + len;
    if end >= have + PARAGRAPH {
        return Err(LinuxError::Truncated { need: end, have });
    }
    Ok(start as usize..end.min(have) as usize)
}

//! QEMU's firmware configuration device (its specification: docs/specs/fw_cfg).

/// Selectors of items. Integers in them are little-endian.
pub(super) mod key {
    pub(in super::super) const SIGNATURE: u16 = 0x00;
    pub(in super::super) const ID: u16 = 0x01;
    pub(in super::super) const RAM_SIZE: u16 = 0x03;
    pub(in super::super) const NB_CPUS: u16 = 0x05;
    pub(in super::super) const INITRD_SIZE: u16 = 0x0b;
    pub(in super::super) const MAX_CPUS: u16 = 0x0f;
    pub(in super::super) const INITRD_DATA: u16 = 0x12;
    pub(in super::super) const CMDLINE_SIZE: u16 = 0x14;
    pub(in super::super) const CMDLINE_DATA: u16 = 0x15;
    pub(in super::super) const FILE_DIR: u16 = 0x19;
    pub(in super::super) const FILE_FIRST: u16 = 0x20;
}

/// Bit of a selector that opened an item for writing, long ago.
pub(super) const WRITE_CHANNEL: u16 = 0x4000;

pub(super) const SIGNATURE: &[u8] = b"QEMU";
/// The traditional interface by ports, and no DMA.
pub(super) const ID_TRADITIONAL: u32 = 1 << 0;

/// Bytes of a name in the file directory, the last of which is NUL.
pub(super) const NAME_SIZE: usize = 56;

//! Memory types (SDM 3, 12.3 and table 12-11; APM 2, 7.4).

/// How accesses to a range of memory are cached; the values are the encodings of PAT, MTRRs and EPT.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryType {
    /// UC
    Uncacheable = 0,
    /// WC
    WriteCombining = 1,
    /// WT
    WriteThrough = 4,
    /// WP
    WriteProtected = 5,
    /// WB
    WriteBack = 6,
}

impl MemoryType {
    /// The memory type with this encoding.
    pub const fn from_encoding(encoding: u8) -> Option<MemoryType> {
        match encoding {
            0 => Some(MemoryType::Uncacheable),
            1 => Some(MemoryType::WriteCombining),
            4 => Some(MemoryType::WriteThrough),
            5 => Some(MemoryType::WriteProtected),
            6 => Some(MemoryType::WriteBack),
            _ => None,
        }
    }
}

//! Page walks a second time, straight from the manual (SDM 3, chapter 5): one level after the other, rights last.

use vmm::memory::Width;

/// What decides besides the entries.
#[derive(Clone, Copy, Debug)]
pub struct Controls {
    /// The paging mode.
    pub scheme: Scheme,
    /// CR3.
    pub root: u64,
    /// Width of physical addresses.
    pub physical_bits: u8,
    /// CPL is 3.
    pub user: bool,
    /// CR0.WP.
    pub write_protect: bool,
    /// EFER.NXE.
    pub no_execute: bool,
    /// CR4.SMEP.
    pub smep: bool,
    /// CR4.SMAP, and EFLAGS.AC is clear.
    pub smap: bool,
    /// CR4.PSE.
    pub large_pages: bool,
}

/// A paging mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// 32-bit paging.
    Bits32,
    /// PAE paging.
    Pae,
    /// 4-level paging.
    Long,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It fetches an instruction.
    Fetch,
}

// Bits of an entry.
const P: u64 = 1 << 0;
const RW: u64 = 1 << 1;
const US: u64 = 1 << 2;
const PS: u64 = 1 << 7;
const XD: u64 = 1 << 63;

// Bits of the error code.
const PRESENT: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
const USER: u32 = 1 << 2;
const RESERVED: u32 = 1 << 3;
const FETCH: u32 = 1 << 4;

/// Bits `high` to `low` of a value, where they are.
fn field(value: u64, high: u32, low: u32) -> u64 {
    value & (u64::MAX >> (63 - high)) & (u64::MAX << low)
}

impl Controls {
    /// Where a linear address leads, or the error code of the page fault.
    pub fn walk(&self, read: impl Fn(u64, Width) -> u64, linear: u64, access: Access) -> Result<u64, u32> {
        let (width, levels): (_, &[u32]) = match self.scheme {
            Scheme::Bits32 => (Width::Dword, &[22, 12]),
            Scheme::Pae => (Width::Qword, &[30, 21, 12]),
            Scheme::Long => (Width::Qword, &[39, 30, 21, 12]),
        };
        let index_bits = if width == Width::Dword { 10 } else { 9 };
        let mut table = match self.scheme {
            Scheme::Bits32 => field(self.root, 31, 12),
            Scheme::Pae => field(self.root, 31, 5),
            Scheme::Long => field(self.root, 51, 12),
        };
        let (mut writable, mut user_page, mut execute_disable) = (true, true, false);
        for &level in levels {
            let index = (linear >> level) % (1 << index_bits);
            let entry = read(table + index * width.bytes() as u64, width);
            if entry & P == 0 {
                return Err(self.code(access, 0));
            }
            let leaf = level == 12 || entry & PS != 0 && self.can_be_large(level);
            if entry & self.reserved(level, leaf) != 0 {
                return Err(self.code(access, PRESENT | RESERVED));
            }
            if !(self.scheme == Scheme::Pae && level == 30) {
                writable &= entry & RW != 0;
                user_page &= entry & US != 0;
                execute_disable |= width == Width::Qword && entry & XD != 0;
            }
            if leaf {
                if !self.allows(access, writable, user_page, execute_disable) {
                    return Err(self.code(access, PRESENT));
                }
                return Ok(self.page(entry, level) | field(linear, level - 1, 0));
            }
            table = field(entry, 51, 12);
        }
        unreachable!("the last level is a leaf");
    }

    fn can_be_large(&self, level: u32) -> bool {
        match (self.scheme, level) {
            (Scheme::Bits32, 22) => self.large_pages,
            (Scheme::Pae, 21) | (Scheme::Long, 21 | 30) => true,
            _ => false,
        }
    }

    /// The page of a leaf.
    fn page(&self, entry: u64, level: u32) -> u64 {
        match (self.scheme, level) {
            (Scheme::Bits32, 22) => field(entry, 31, 22) | field(entry, 20, 13) << 19,
            (Scheme::Bits32, _) => field(entry, 31, 12),
            _ => field(entry, 51, level),
        }
    }

    /// Tables 5-4 to 5-20.
    fn reserved(&self, level: u32, leaf: bool) -> u64 {
        let width = u32::from(self.physical_bits);
        if self.scheme == Scheme::Bits32 {
            let used = width.min(40) - 32;
            return if level == 22 && leaf { field(u64::MAX, 21, 13 + used) } else { 0 };
        }
        let mut reserved = if self.no_execute { 0 } else { XD };
        if width < 52 {
            reserved |= field(u64::MAX, 51, width);
        }
        match (self.scheme, level) {
            (Scheme::Pae, 30) => return reserved | field(u64::MAX, 63, 52) | field(u64::MAX, 8, 5) | 0b110,
            (Scheme::Pae, _) => reserved |= field(u64::MAX, 62, 52),
            (Scheme::Long, 39) => reserved |= PS,
            _ => {}
        }
        if leaf && level > 12 {
            reserved |= field(u64::MAX, level - 1, 13);
        }
        reserved
    }

    /// SDM 3, 5.6.1.
    fn allows(&self, access: Access, writable: bool, user_page: bool, execute_disable: bool) -> bool {
        if self.user {
            return user_page
                && match access {
                    Access::Read => true,
                    Access::Write => writable,
                    Access::Fetch => !execute_disable,
                };
        }
        match access {
            Access::Read => !(user_page && self.smap),
            Access::Write => !(user_page && self.smap) && (writable || !self.write_protect),
            Access::Fetch => !(execute_disable || user_page && self.smep),
        }
    }

    fn code(&self, access: Access, cause: u32) -> u32 {
        let fetches_are_told = self.smep || self.no_execute && self.scheme != Scheme::Bits32;
        cause
            | if access == Access::Write { WRITE } else { 0 }
            | if self.user { USER } else { 0 }
            | if access == Access::Fetch && fetches_are_told { FETCH } else { 0 }
    }
}

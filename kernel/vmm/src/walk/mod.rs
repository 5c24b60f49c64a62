//! The walk of the guest's page tables: linear to guest physical, with permissions and accessed and dirty
//! flags (SDM 3, chapter 5; APM 2, chapter 5). Canonical addresses are the concern of segmentation.

mod entry;
#[cfg(test)]
mod tests;

use crate::memory::{GuestMemory, Width};
use crate::vcpu::Vcpu;
use arrayvec::ArrayVec;
use bitflags::bitflags;
use core::fmt;
use entry::{Bits, PD_SHIFT, PDPT_SHIFT, PML4_SHIFT, PT_SHIFT, Scheme};
use x86defs::addr::{Gpa, Gva};
use x86defs::control::{Cr0, Cr4, Efer, Rflags};
use x86defs::event::{Event, Exception};

/// Width of physical addresses that the architecture allows at most.
const MAX_PHYSICAL_BITS: u8 = 52;
/// How often a walk starts again because another CPU changed an entry under it.
const ATTEMPTS: usize = 8;

/// What an access wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Read data.
    Read,
    /// Write data, or read and then write it.
    Write,
    /// Fetch an instruction.
    Fetch,
}

bitflags! {
    /// The error code of #PF (SDM 3, 5.7).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PageFaultCode: u32 {
        /// The page is present and forbids the access.
        const PRESENT = 1 << 0;
        /// The access wrote.
        const WRITE = 1 << 1;
        /// The access came from user mode.
        const USER = 1 << 2;
        /// A reserved bit is set in an entry.
        const RESERVED = 1 << 3;
        /// The access fetched an instruction.
        const FETCH = 1 << 4;
    }
}

/// A page fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// Error code.
    pub code: PageFaultCode,
    /// The address for CR2.
    pub address: Gva,
}

impl PageFault {
    /// The exception that it is.
    pub const fn event(&self) -> Event {
        Event::fault(Exception::PageFault, self.code.bits())
    }
}

impl fmt::Display for PageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page fault at {} with error code {:#x}", self.address, self.code.bits())
    }
}

impl core::error::Error for PageFault {}

/// Everything that decides how addresses are translated, read once from a virtual CPU.
///
/// With PAE paging the four page-directory-pointer entries come from memory at each walk, which only a guest
/// that changes them without reloading CR3 can tell from a CPU that keeps them in registers.
#[derive(Clone, Copy, Debug)]
pub struct Paging {
    scheme: Scheme,
    root: u64,
    /// Width of guest physical addresses: bits from here on are reserved in entries.
    pub physical_bits: u8,
    user: bool,
    write_protect: bool,
    no_execute: bool,
    smep: bool,
    smap: bool,
    /// EFLAGS.AC, which lifts SMAP from explicit accesses.
    alignment_check: bool,
    /// CR0.AM, without which AC does nothing else.
    alignment_mask: bool,
    page_size_extension: bool,
}

impl Paging {
    /// The translation of explicit accesses at the current privilege level.
    pub fn of(vcpu: &(impl Vcpu + ?Sized)) -> Paging {
        let (cr0, cr4, efer) = (vcpu.cr0(), vcpu.cr4(), vcpu.efer());
        let scheme = match (cr0.contains(Cr0::PG), efer.contains(Efer::LMA), cr4.contains(Cr4::PAE)) {
            (false, ..) => Scheme::Off,
            (true, true, _) => Scheme::Long,
            (true, false, true) => Scheme::Pae,
            (true, false, false) => Scheme::Bits32,
        };
        Paging {
            scheme,
            root: vcpu.cr3() & scheme.root_mask(),
            physical_bits: MAX_PHYSICAL_BITS,
            user: vcpu.cpl() == 3,
            write_protect: cr0.contains(Cr0::WP),
            no_execute: efer.contains(Efer::NXE) && scheme.width() == Width::Qword,
            smep: cr4.contains(Cr4::SMEP),
            smap: cr4.contains(Cr4::SMAP),
            alignment_check: vcpu.rflags().contains(Rflags::AC),
            alignment_mask: cr0.contains(Cr0::AM),
            page_size_extension: cr4.contains(Cr4::PSE),
        }
    }

    /// The translation of accesses that the CPU makes by itself to descriptor tables and task states: as the
    /// supervisor at any privilege level, and never excused from SMAP.
    #[must_use]
    pub fn implicit(self) -> Paging {
        Paging { user: false, alignment_check: false, ..self }
    }

    /// Whether operands have to be aligned (SDM 3, 6.15, #AC).
    pub fn checks_alignment(&self) -> bool {
        self.user && self.alignment_check && self.alignment_mask
    }

    /// Translates a linear address. Sets accessed and dirty flags as the CPU does.
    #[inline]
    pub fn translate(&self, memory: &dyn GuestMemory, at: Gva, intent: Intent) -> Result<Gpa, PageFault> {
        match self.scheme {
            Scheme::Off => Ok(Gpa(at.0)),
            Scheme::Long => match self.translate_plainly(memory, at, intent) {
                Some(to) => Ok(to),
                None => self.translate_and_mark(memory, at, intent),
            },
            Scheme::Bits32 | Scheme::Pae => self.translate_and_mark(memory, at, intent),
        }
    }

    /// The short way in long mode, since every exit that fetches its instruction pays for it: all entries allow
    /// the access and have their flags set. Where one has anything else to say, the full walk decides.
    fn translate_plainly(&self, memory: &dyn GuestMemory, at: Gva, intent: Intent) -> Option<Gpa> {
        let (mut all, mut any) = (Bits::all(), Bits::empty());
        let mut table = self.root;
        for shift in [PML4_SHIFT, PDPT_SHIFT, PD_SHIFT, PT_SHIFT] {
            let entry = Bits::from_bits_retain(
                memory.load(Gpa(table + (at.0 >> shift) % 512 * 8), Width::Qword).ok()?,
            );
            all &= entry;
            any |= entry;
            table = Scheme::Long.frame(shift, entry);
            if shift == PT_SHIFT || entry.contains(Bits::PAGE_SIZE) {
                let reserved = |leaf| Scheme::Long.reserved(shift, leaf, self.physical_bits, self.no_execute);
                let plain = any.bits() & reserved(false) == 0
                    && entry.bits() & reserved(true) == 0
                    && all.contains(Bits::PRESENT | Bits::ACCESSED)
                    && (intent != Intent::Write || entry.contains(Bits::DIRTY))
                    && self.allows(all, any, intent);
                let page = (1 << shift) - 1;
                return plain.then_some(Gpa(table & !page | at.0 & page));
            }
        }
        None
    }

    /// Translates, and sets flags that are not set.
    #[cold]
    fn translate_and_mark(
        &self,
        memory: &dyn GuestMemory,
        at: Gva,
        intent: Intent,
    ) -> Result<Gpa, PageFault> {
        let mut attempts = 1;
        loop {
            let (to, path) = self.walk(memory, at, intent)?;
            let width = self.scheme.width();
            let (leaf, tables) = path.split_last().expect("a walk ends at a leaf");
            let dirty = if intent == Intent::Write { Bits::DIRTY } else { Bits::empty() };
            let marked = tables.iter().all(|table| mark(memory, width, table, Bits::ACCESSED))
                && mark(memory, width, leaf, Bits::ACCESSED | dirty);
            if marked || attempts == ATTEMPTS {
                return Ok(to);
            }
            attempts += 1;
        }
    }

    /// Walks the tables and checks permissions. Gives the address, and the entries on the way that have flags,
    /// from the top, with where they are.
    fn walk(&self, memory: &dyn GuestMemory, at: Gva, intent: Intent) -> Result<(Gpa, Path), PageFault> {
        let scheme = self.scheme;
        let mut path = Path::new();
        let (mut all, mut any) = (Bits::all(), Bits::empty());
        let mut table = self.root;
        let mut shift = scheme.top_shift();
        loop {
            let index = (at.0 >> shift) & scheme.index_mask();
            let entry_at = Gpa(table + index * scheme.width().bytes() as u64);
            // Where there is no RAM nothing answers, and the CPU reads all ones, of which some are reserved.
            let (raw, physical_bits) = match memory.load(entry_at, scheme.width()) {
                Ok(raw) => (raw, self.physical_bits),
                Err(_not_ram) => (scheme.width().mask(), self.physical_bits.min(MAX_PHYSICAL_BITS - 1)),
            };
            let entry = Bits::from_bits_retain(raw);
            if !entry.contains(Bits::PRESENT) {
                return Err(self.fault(at, intent, PageFaultCode::empty()));
            }
            let is_leaf = scheme.is_leaf(shift, entry, self.page_size_extension);
            if raw & scheme.reserved(shift, is_leaf, physical_bits, self.no_execute) != 0 {
                return Err(self.fault(at, intent, PageFaultCode::PRESENT | PageFaultCode::RESERVED));
            }
            if scheme.has_flags(shift) {
                all &= entry;
                any |= entry;
                path.push((entry_at, entry));
            }
            if is_leaf {
                if !self.allows(all, any, intent) {
                    return Err(self.fault(at, intent, PageFaultCode::PRESENT));
                }
                let page = (1 << shift) - 1;
                return Ok((Gpa(scheme.frame(shift, entry) & !page | at.0 & page), path));
            }
            table = scheme.frame(PT_SHIFT, entry);
            shift -= scheme.index_bits();
        }
    }

    /// Whether the flags that all entries have, and those that any has, allow the access (SDM 3, 5.6.1).
    fn allows(&self, all: Bits, any: Bits, intent: Intent) -> bool {
        let user_page = all.contains(Bits::USER);
        let supervisor_on_user_page = !self.user && user_page;
        match intent {
            _ if self.user && !user_page => false,
            Intent::Fetch => !(any.contains(Bits::NO_EXECUTE) || self.smep && supervisor_on_user_page),
            _ if self.smap && !self.alignment_check && supervisor_on_user_page => false,
            Intent::Write => all.contains(Bits::WRITE) || !(self.user || self.write_protect),
            Intent::Read => true,
        }
    }

    fn fault(&self, address: Gva, intent: Intent, mut code: PageFaultCode) -> PageFault {
        code.set(PageFaultCode::WRITE, intent == Intent::Write);
        code.set(PageFaultCode::USER, self.user);
        code.set(PageFaultCode::FETCH, intent == Intent::Fetch && (self.no_execute || self.smep));
        PageFault { code, address }
    }
}

/// Entries, and where they are.
type Path = ArrayVec<(Gpa, Bits), 4>;

/// Sets flags in an entry. False if it is no longer what it was.
fn mark(memory: &dyn GuestMemory, width: Width, &(at, entry): &(Gpa, Bits), flags: Bits) -> bool {
    if entry.contains(flags) {
        return true;
    }
    match memory.compare_exchange(at, width, entry.bits(), (entry | flags).bits()) {
        Ok(swap) => swap.is_ok(),
        // Where there is no RAM the CPU's own store of the flag is lost as well.
        Err(_not_ram) => true,
    }
}

//! A virtual machine's RAM and ROM in host memory. Never a slice: the guest writes it while we look.
#![allow(unsafe_code, reason = "guest memory through the direct map")]

use crate::mem;
use abi::boot::PhysRange;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use guestboot::memory_map::{MemoryMap, SlotKind};
use vmm::memory::{GuestMemory, NotRam, Width};
use x86defs::addr::{Gpa, Hpa};

/// Guest memory is taken in multiples of this, so that it can be mapped by large pages.
const LARGE_PAGE: u64 = 2 << 20;
/// Tried first where a guest has that much.
const HUGE_PAGE: u64 = 1 << 30;

/// Contiguous both for the guest and for the host.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// First guest physical address.
    pub gpa: Gpa,
    /// First host physical address.
    pub hpa: Hpa,
    /// Bytes.
    pub len: u64,
    /// Its kind.
    pub kind: SlotKind,
}

impl Piece {
    fn is_writable(&self) -> bool {
        self.kind != SlotKind::Rom
    }
}

/// All of it; freed when dropped.
pub struct Ram {
    pieces: Vec<Piece>,
    taken: Vec<PhysRange>,
}

/// More memory than the machine has.
#[derive(Debug)]
pub struct TooMuch {
    /// Bytes wanted.
    pub wanted: u64,
    /// Bytes free.
    pub free: u64,
}

impl core::fmt::Display for TooMuch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        write!(
            f,
            "it wants {} MiB of memory, but this machine has {} MiB free; lower `memory` in the configuration",
            mib(self.wanted),
            mib(self.free)
        )
    }
}

impl Ram {
    /// Takes and zeroes memory for this map.
    pub fn new(map: &MemoryMap) -> Result<Self, TooMuch> {
        let wanted = map.memory().next_multiple_of(LARGE_PAGE);
        let mut ram = Ram { pieces: Vec::new(), taken: Vec::new() };
        let free = mem::available();
        let mut missing = wanted;
        while missing > 0 {
            let align = if missing >= HUGE_PAGE { HUGE_PAGE } else { LARGE_PAGE };
            let part = mem::alloc_guest(missing, align).or_else(|| mem::alloc_guest(missing, LARGE_PAGE));
            // What has been taken goes back when `ram` is dropped.
            let part = part.ok_or(TooMuch { wanted, free })?;
            missing -= part.len;
            ram.taken.push(part);
        }
        for part in &ram.taken {
            // SAFETY: just taken, and the direct map covers it.
            unsafe { mem::direct(Hpa(part.start)).as_ptr().write_bytes(0, part.len as usize) };
        }
        for slot in map.slots() {
            ram.add_slot(slot.gpa, slot.backing, slot.len, slot.kind);
        }
        Ok(ram)
    }

    /// Adds the pieces of a slot that begins `backing` bytes into the memory taken.
    fn add_slot(&mut self, gpa: Gpa, backing: u64, len: u64, kind: SlotKind) {
        let mut first = 0;
        for part in &self.taken {
            let from = backing.max(first);
            let to = (backing + len).min(first + part.len);
            if from < to {
                self.pieces.push(Piece {
                    gpa: gpa.offset(from - backing),
                    hpa: Hpa(part.start + (from - first)),
                    len: to - from,
                    kind,
                });
            }
            first += part.len;
        }
    }

    /// Its pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    fn find(&self, at: Gpa) -> Option<(&Piece, u64)> {
        self.pieces.iter().find_map(|p| {
            let offset = at.0.wrapping_sub(p.gpa.0);
            (offset < p.len).then_some((p, offset))
        })
    }

    /// The host pointer behind a naturally aligned access, which never crosses a piece, and whether it may be
    /// written.
    fn word(&self, at: Gpa, width: Width) -> Result<(*mut u8, bool), NotRam> {
        let aligned = at.0.is_multiple_of(width.bytes() as u64);
        let (piece, offset) = self.find(at).filter(|_| aligned).ok_or(NotRam(at))?;
        Ok((mem::direct(piece.hpa.offset(offset)).as_ptr(), piece.is_writable()))
    }

    /// Calls `f` with host pointer, length and writability of each contiguous run of a range that is RAM or
    /// ROM throughout.
    fn runs(&self, at: Gpa, len: usize, mut f: impl FnMut(*mut u8, usize, bool)) -> Result<(), NotRam> {
        let each = |f: &mut dyn FnMut(*mut u8, usize, bool)| {
            let mut done = 0u64;
            while done < len as u64 {
                let here = at.checked_offset(done).ok_or(NotRam(at))?;
                let (piece, offset) = self.find(here).ok_or(NotRam(here))?;
                let run = (piece.len - offset).min(len as u64 - done);
                f(mem::direct(piece.hpa.offset(offset)).as_ptr(), run as usize, piece.is_writable());
                done += run;
            }
            Ok(())
        };
        each(&mut |_, _, _| {})?;
        each(&mut f)
    }

    /// Copies bytes in, ROM included: done before the guest runs.
    pub fn load(&self, at: Gpa, from: &[u8]) -> Result<(), NotRam> {
        self.copy_in(at, from, true)
    }

    fn copy_in(&self, at: Gpa, from: &[u8], rom_too: bool) -> Result<(), NotRam> {
        let mut rest = from;
        self.runs(at, from.len(), |to, len, writable| {
            let (now, later) = rest.split_at(len);
            rest = later;
            if writable || rom_too {
                // SAFETY: `runs` gives `len` bytes of this guest's memory; only the guest uses it besides, and
                // it is no Rust object.
                unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), to, len) };
            }
        })
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        for part in self.taken.drain(..) {
            // SAFETY: the virtual CPU that ran on it has been dropped before it.
            unsafe { mem::free_guest(part) };
        }
    }
}

// SAFETY: pointers are made anew for each access; guest memory has no owner that could move between threads.
unsafe impl Send for Ram {}
// SAFETY: as above; accesses are atomic or plain copies of bytes that are no Rust objects.
unsafe impl Sync for Ram {}

impl GuestMemory for Ram {
    fn read(&self, at: Gpa, into: &mut [u8]) -> Result<(), NotRam> {
        let mut done = 0;
        let target = into.as_mut_ptr();
        self.runs(at, into.len(), |from, len, _| {
            // SAFETY: `runs` gives `into.len()` bytes in total; the source is no Rust object.
            unsafe { core::ptr::copy_nonoverlapping(from, target.add(done), len) };
            done += len;
        })
    }

    fn write(&self, at: Gpa, from: &[u8]) -> Result<(), NotRam> {
        self.copy_in(at, from, false)
    }

    fn load(&self, at: Gpa, width: Width) -> Result<u64, NotRam> {
        let (p, _) = self.word(at, width)?;
        const ORDER: Ordering = Ordering::Acquire;
        // SAFETY: an aligned word of guest memory, accessed atomically.
        Ok(unsafe {
            match width {
                Width::Byte => AtomicU8::from_ptr(p).load(ORDER).into(),
                Width::Word => AtomicU16::from_ptr(p.cast()).load(ORDER).into(),
                Width::Dword => AtomicU32::from_ptr(p.cast()).load(ORDER).into(),
                Width::Qword => AtomicU64::from_ptr(p.cast()).load(ORDER),
            }
        })
    }

    fn store(&self, at: Gpa, width: Width, value: u64) -> Result<(), NotRam> {
        let (p, writable) = self.word(at, width)?;
        const ORDER: Ordering = Ordering::Release;
        if !writable {
            return Ok(());
        }
        // SAFETY: an aligned word of guest memory, accessed atomically.
        unsafe {
            match width {
                Width::Byte => AtomicU8::from_ptr(p).store(value as u8, ORDER),
                Width::Word => AtomicU16::from_ptr(p.cast()).store(value as u16, ORDER),
                Width::Dword => AtomicU32::from_ptr(p.cast()).store(value as u32, ORDER),
                Width::Qword => AtomicU64::from_ptr(p.cast()).store(value, ORDER),
            }
        }
        Ok(())
    }

    fn compare_exchange(
        &self,
        at: Gpa,
        width: Width,
        current: u64,
        new: u64,
    ) -> Result<Result<u64, u64>, NotRam> {
        let (p, writable) = self.word(at, width)?;
        if !writable {
            let seen = GuestMemory::load(self, at, width)?;
            return Ok(if seen == current { Ok(seen) } else { Err(seen) });
        }
        const ORDER: Ordering = Ordering::SeqCst;
        macro_rules! exchange {
            ($atomic:ty, $int:ty) => {
                <$atomic>::from_ptr(p.cast())
                    .compare_exchange(current as $int, new as $int, ORDER, ORDER)
                    .map(u64::from)
                    .map_err(u64::from)
            };
        }
        // SAFETY: an aligned word of guest memory, accessed atomically.
        Ok(unsafe {
            match width {
                Width::Byte => exchange!(AtomicU8, u8),
                Width::Word => exchange!(AtomicU16, u16),
                Width::Dword => exchange!(AtomicU32, u32),
                Width::Qword => exchange!(AtomicU64, u64),
            }
        })
    }
}

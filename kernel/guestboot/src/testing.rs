//! What tests of several boot protocols share: plans, kernels to plan for, and what holds for every plan.

mod elf_file;

pub(crate) use elf_file::{ElfFile, Width};

use crate::memory_map::MemoryMap;
use crate::plan::{Copy, Guest, GuestModule, PlanError, Source, StartPlan, start_plan};
use std::vec::Vec;
use x86defs::addr::Gpa;

pub(crate) const CMDLINE: &str = "console=ttyS0 quiet";
/// An initial RAM disk and two modules, one of them empty.
pub(crate) const INITRD: GuestModule<'_> = GuestModule { len: 5000, cmdline: "initrd.img" };
pub(crate) const MODULES: [GuestModule<'_>; 2] =
    [GuestModule { len: 0, cmdline: "empty" }, GuestModule { len: 4096, cmdline: "data one two" }];

/// A guest with everything.
pub(crate) fn full_guest<'a>(kernel: &'a [u8], map: &'a MemoryMap) -> Guest<'a> {
    Guest { map, cpus: 1, kernel, initrd: Some(INITRD), modules: &MODULES, cmdline: CMDLINE }
}

/// Plans a guest with everything.
pub(crate) fn plan_full(kernel: &[u8], memory: u64) -> Result<StartPlan, PlanError> {
    let map = MemoryMap::new(memory).unwrap();
    let plan = start_plan(&full_guest(kernel, &map))?;
    check(&plan, &map);
    Ok(plan)
}

/// First and one past the last address of every copy.
pub(crate) fn extents(plan: &StartPlan, initrd_len: u64) -> Vec<(u64, u64)> {
    let len = |source: &Source| match source {
        Source::Kernel(range) => range.len() as u64,
        Source::Initrd => initrd_len,
        Source::Module(number) => MODULES[*number].len,
        Source::Bytes(bytes) => bytes.len() as u64,
    };
    plan.copies.iter().map(|copy| (copy.to.0, copy.to.0 + len(&copy.source))).collect()
}

/// No two copies overlap, and all are where memory is.
pub(crate) fn check(plan: &StartPlan, map: &MemoryMap) {
    let mut extents = extents(plan, INITRD.len);
    extents.sort_unstable();
    for pair in extents.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:x?}");
    }
    for (start, end) in extents {
        assert!(map.slots().iter().any(|slot| slot.gpa.0 <= start && end <= slot.end().0), "{start:#x}");
    }
}

/// The guest's memory as the copies leave it.
pub(crate) struct Memory<'a> {
    copies: &'a [Copy],
    kernel: &'a [u8],
}

impl<'a> Memory<'a> {
    pub(crate) fn of(plan: &'a StartPlan, kernel: &'a [u8]) -> Self {
        Self { copies: &plan.copies, kernel }
    }

    /// From an address to the end of what was copied there.
    pub(crate) fn at(&self, at: u64) -> &'a [u8] {
        self.copies
            .iter()
            .find_map(|copy| {
                let bytes = match &copy.source {
                    Source::Kernel(range) => self.kernel.get(range.clone())?,
                    Source::Bytes(bytes) => bytes,
                    Source::Initrd | Source::Module(_) => return None,
                };
                bytes.get(at.checked_sub(copy.to.0)? as usize..)
            })
            .expect("a copy to this address")
    }

    pub(crate) fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(*self.at(at).first_chunk().unwrap())
    }

    pub(crate) fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(*self.at(at).first_chunk().unwrap())
    }

    /// The text at an address, which ends with a NUL.
    pub(crate) fn text(&self, at: u64) -> &'a str {
        core::ffi::CStr::from_bytes_until_nul(self.at(at)).unwrap().to_str().unwrap()
    }
}

/// Where a source was copied to.
pub(crate) fn place_of(plan: &StartPlan, source: &Source) -> Option<Gpa> {
    plan.copies.iter().find(|copy| copy.source == *source).map(|copy| copy.to)
}

/// No truncated file and no flipped bit panics or makes a plan that breaks a rule. `flipped` bytes are tried.
pub(crate) fn survives_damage(kernel: &[u8], flipped: core::ops::Range<usize>) {
    const MEMORY: u64 = 64 << 20;
    for len in 0..kernel.len() {
        let _ = plan_full(&kernel[..len], MEMORY);
    }
    for bit in flipped.start * 8..flipped.end * 8 {
        let mut damaged = kernel.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let _ = plan_full(&damaged, MEMORY);
    }
    for at in flipped {
        for value in [0x00, 0x7f, 0xff] {
            let mut damaged = kernel.to_vec();
            let end = (at + 4).min(damaged.len());
            damaged[at..end].fill(value);
            let _ = plan_full(&damaged, MEMORY);
        }
    }
}

//! Physical memory that is a few bytes of an input.

use abi::boot::PhysRange;
use loader::physical::PhysicalMemory;
use vmm::firmware::ReadPhysical;
use x86defs::addr::Hpa;

/// Memory that exists from `base` on.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Address of the first byte.
    pub base: u64,
    /// All bytes.
    pub bytes: &'a [u8],
}

impl Memory<'_> {
    /// Whether these bytes are some of the memory's.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let (all, part) = (self.bytes.as_ptr_range(), bytes.as_ptr_range());
        bytes.is_empty() || all.start <= part.start && part.end <= all.end
    }
}

impl PhysicalMemory for Memory<'_> {
    fn bytes(&self, range: PhysRange) -> Option<&[u8]> {
        let start = usize::try_from(range.start.checked_sub(self.base)?).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(range.len).ok()?)?)
    }
}

impl ReadPhysical for Memory<'_> {
    fn read(&self, at: Hpa, into: &mut [u8]) -> bool {
        let found = self.bytes(PhysRange { start: at.0, len: into.len() as u64 });
        found.map(|found| into.copy_from_slice(found)).is_some()
    }
}

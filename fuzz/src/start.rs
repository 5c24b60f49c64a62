//! What every plan of a start has to keep to.

use guestboot::memory_map::{MemoryMap, SlotKind};
use guestboot::plan::{Guest, PlanError, Source, start_plan};
use std::ops::Range;

/// Lays a guest out and checks the plan, whose error has to read as a sentence.
pub fn check(guest: &Guest<'_>) -> Result<(), PlanError> {
    let plan = start_plan(guest).inspect_err(|error| assert!(!error.to_string().is_empty()))?;
    let mut copied: Vec<Range<u64>> = Vec::new();
    for copy in &plan.copies {
        let len = match &copy.source {
            Source::Kernel(part) => guest.kernel[part.clone()].len() as u64,
            Source::Initrd => guest.initrd.expect("there is an initrd").len,
            Source::Module(number) => guest.modules[*number].len,
            Source::Bytes(bytes) => bytes.len() as u64,
        };
        let end = copy.to.0.checked_add(len).expect("an address");
        assert!(len == 0 || in_memory(guest.map, copy.to.0..end), "{copy:x?} is in no memory");
        copied.push(copy.to.0..end);
    }
    // Over the first, the BIOS data area, a kernel may be linked.
    copied.remove(0);
    copied.sort_by_key(|range| range.start);
    for pair in copied.windows(2) {
        assert!(pair[0].end <= pair[1].start, "copies overlap: {pair:x?}");
    }
    assert!(in_memory(guest.map, plan.entry.rip.0..plan.entry.rip.0 + 1), "{:x?}", plan.entry.rip);
    Ok(())
}

/// Whether all of a range is memory, of whatever kind.
fn in_memory(map: &MemoryMap, range: Range<u64>) -> bool {
    let slots = map.slots();
    let end = slots.iter().filter(|slot| matches!(slot.kind, SlotKind::Ram | SlotKind::Rom)).fold(
        range.start,
        |at, slot| if (slot.gpa.0..slot.end().0).contains(&at) { slot.end().0 } else { at },
    );
    range.start < end && range.end <= end
}

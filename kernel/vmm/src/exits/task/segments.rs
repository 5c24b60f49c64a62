//! The segment registers of a new task (SDM 3, table 8-1).

use super::{Context, Fault, Switch};
use crate::vcpu::Vcpu;
use x86defs::control::Rflags;
use x86defs::descriptor::{Descriptor, SELECTOR_RPL, SELECTOR_TI, system_type};
use x86defs::event::Exception;
use x86defs::segment::{Attributes, Segment, SegmentName};

const DATA: Attributes = Attributes::PRESENT
    .union(Attributes::NON_SYSTEM)
    .union(Attributes::READ_WRITE)
    .union(Attributes::ACCESSED);
const FLAT: Attributes = DATA.union(Attributes::DEFAULT_BIG).union(Attributes::GRANULARITY);

/// Where a privilege level stands among attributes.
const fn dpl(level: u8) -> Attributes {
    Attributes::from_bits_retain((level as u32) << 5)
}

fn rpl(selector: u16) -> u8 {
    (selector & SELECTOR_RPL) as u8
}

/// Gives the segment registers their new selectors before any descriptor has been read: a fault on one of those is
/// the new task's. It runs at its privilege level with flat code and stack, and with no data.
pub(super) fn stand_in(vcpu: &mut dyn Vcpu, context: &Context) {
    let virtual_8086 = context.eflags.contains(Rflags::VM);
    let level = dpl(rpl(context.selectors[SegmentName::Cs as usize]));
    for (name, selector) in SegmentName::ALL.into_iter().zip(context.selectors) {
        let flat = |attributes| Segment { selector, attributes, limit: u32::MAX, base: 0 };
        let segment = match name {
            _ if virtual_8086 => virtual_8086_segment(selector),
            SegmentName::Cs => flat(FLAT | Attributes::CODE | level),
            SegmentName::Ss => flat(FLAT | level),
            _ => unusable(selector),
        };
        vcpu.set_segment(name, segment);
    }
    vcpu.set_segment(SegmentName::Ldtr, unusable(context.ldt));
}

fn unusable(selector: u16) -> Segment {
    Segment { selector, attributes: Attributes::UNUSABLE, limit: 0, base: 0 }
}

/// Any selector is good there (SDM 3, 21.2.1).
fn virtual_8086_segment(selector: u16) -> Segment {
    Segment { selector, attributes: DATA | dpl(3), limit: 0xffff, base: u64::from(selector) << 4 }
}

/// Loads LDTR and the segment registers of the new task.
pub(super) fn load(switch: &mut Switch<'_>, context: &Context) -> Result<(), Fault> {
    let ldt = load_ldt(switch, context.ldt)?;
    switch.vcpu.set_segment(SegmentName::Ldtr, ldt);
    if context.eflags.contains(Rflags::VM) {
        return Ok(());
    }
    let [_, cs, ss, ..] = context.selectors;
    let level = rpl(cs);
    let code = load_code(switch, cs)?;
    let stack = load_stack(switch, ss, level)?;
    switch.vcpu.set_segment(SegmentName::Cs, code);
    switch.vcpu.set_segment(SegmentName::Ss, stack);
    for name in [SegmentName::Ds, SegmentName::Es, SegmentName::Fs, SegmentName::Gs] {
        let data = load_data(switch, context.selectors[name as usize], level)?;
        switch.vcpu.set_segment(name, data);
    }
    if context.eip > u64::from(code.limit) {
        return Err(switch.fault(Exception::GeneralProtection, 0));
    }
    Ok(())
}

fn load_ldt(switch: &Switch<'_>, selector: u16) -> Result<Segment, Fault> {
    if selector & !SELECTOR_RPL == 0 {
        return Ok(unusable(selector));
    }
    let invalid = switch.fault(Exception::InvalidTss, selector);
    if selector & SELECTOR_TI != 0 {
        return Err(invalid);
    }
    let (_, ldt) = switch.tables().descriptor(switch.vcpu, selector)?.ok_or(invalid)?;
    let present = ldt.attributes().contains(Attributes::PRESENT);
    match ldt.system_type() {
        Some(system_type::LDT) if present => Ok(ldt.segment(selector)),
        _ => Err(invalid),
    }
}

/// The descriptor of code or data.
fn descriptor(switch: &Switch<'_>, selector: u16) -> Result<(u64, Descriptor), Fault> {
    let invalid = switch.fault(Exception::InvalidTss, selector);
    match switch.tables().descriptor(switch.vcpu, selector)? {
        Some((at, found)) if found.system_type().is_none() => Ok((at, found)),
        _ => Err(invalid),
    }
}

/// Loads a descriptor that has passed its checks; only that it is present is left to check.
fn accept(
    switch: &Switch<'_>,
    selector: u16,
    (at, found): (u64, Descriptor),
    absent: Exception,
) -> Result<Segment, Fault> {
    if !found.attributes().contains(Attributes::PRESENT) {
        return Err(switch.fault(absent, selector));
    }
    switch.tables().change(at, Descriptor::ACCESSED, true)?;
    Ok(Descriptor(found.0 | Descriptor::ACCESSED).segment(selector))
}

fn load_code(switch: &Switch<'_>, selector: u16) -> Result<Segment, Fault> {
    let found = descriptor(switch, selector)?;
    let segment = found.1.segment(selector);
    let conforming = segment.attributes.contains(Attributes::EXPAND_DOWN);
    let level_fits = if conforming { segment.dpl() <= rpl(selector) } else { segment.dpl() == rpl(selector) };
    if !segment.attributes.contains(Attributes::CODE) || !level_fits {
        return Err(switch.fault(Exception::InvalidTss, selector));
    }
    accept(switch, selector, found, Exception::SegmentNotPresent)
}

fn load_stack(switch: &Switch<'_>, selector: u16, level: u8) -> Result<Segment, Fault> {
    let found = descriptor(switch, selector)?;
    let segment = found.1.segment(selector);
    let writable = segment.attributes & (Attributes::CODE | Attributes::READ_WRITE) == Attributes::READ_WRITE;
    if !writable || segment.dpl() != level || rpl(selector) != level {
        return Err(switch.fault(Exception::InvalidTss, selector));
    }
    accept(switch, selector, found, Exception::StackFault)
}

fn load_data(switch: &Switch<'_>, selector: u16, level: u8) -> Result<Segment, Fault> {
    if selector & !SELECTOR_RPL == 0 {
        return Ok(unusable(selector));
    }
    let found = descriptor(switch, selector)?;
    let segment = found.1.segment(selector);
    let code = segment.attributes.contains(Attributes::CODE);
    let readable = !code || segment.attributes.contains(Attributes::READ_WRITE);
    let conforming = code && segment.attributes.contains(Attributes::EXPAND_DOWN);
    if !readable || !conforming && segment.dpl() < level.max(rpl(selector)) {
        return Err(switch.fault(Exception::InvalidTss, selector));
    }
    accept(switch, selector, found, Exception::SegmentNotPresent)
}

//! Hardware task switches (SDM 3, 8.3), for CPUs that leave them to the hypervisor: JMP and CALL to a task, IRET out of
//! a nested one, and task gates in the IDT. They exist outside IA-32e mode only.
//!
//! A fault that comes up before the old task is saved belongs to the old task, one after that to the new one.

mod segments;
mod tables;
#[cfg(test)]
mod tests;

use super::control;
use crate::exit::{TaskSwitch, TaskSwitchSource};
use crate::memory::GuestMemory;
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use crate::walk::{Intent, PageFault};
use tables::Linear;
use x86defs::control::{Cr0, Cr4, Rflags};
use x86defs::descriptor::{Descriptor, SELECTOR_RPL, SELECTOR_TI, TssLayout, system_type};
use x86defs::event::{Event, EventKind, Exception};
use x86defs::gpr::Gpr;
use x86defs::segment::{Attributes, Segment, SegmentName};

/// DR6.BT: a task with the debug-trap flag was entered (SDM 3, 18.2.3).
const DR6_BT: u64 = 1 << 15;
/// DR7.L0 to L3 and LE, which end with the task (18.2.4).
const DR7_LOCAL: u64 = 0b1_0101_0101;
/// Bit 0 of an error code: the cause lies outside the program (6.13).
const ERROR_CODE_EXT: u16 = 1;
const GENERAL_REGISTERS: u64 = 8;

/// Why a task switch does not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Exception(Event),
    Page(PageFault),
}

impl From<PageFault> for Fault {
    fn from(fault: PageFault) -> Fault {
        Fault::Page(fault)
    }
}

/// The TSS of a task.
#[derive(Clone, Copy)]
struct Tss {
    register: Segment,
    layout: &'static TssLayout,
}

/// What a TSS holds of a task that does not run.
struct Context {
    cr3: Option<u64>,
    eip: u64,
    eflags: Rflags,
    gprs: [u64; GENERAL_REGISTERS as usize],
    /// By the numbers of the segment registers.
    selectors: [u16; 6],
    ldt: u16,
    trap: bool,
}

/// A task switch under way.
struct Switch<'a> {
    vcpu: &'a mut dyn Vcpu,
    memory: &'a dyn GuestMemory,
    request: TaskSwitch,
    /// The event whose gate led here.
    event: Option<Event>,
}

/// Carries a task switch out. An event whose delivery led to a task gate is the pending one.
#[cold]
pub(super) fn switch<V: Vcpu>(vcpu: &mut V, state: &mut VcpuState, request: TaskSwitch) {
    let event = vcpu.take_pending_event();
    let vm = state.vm.clone();
    let fault = match (Switch { vcpu, memory: vm.memory(), request, event }).run() {
        Ok(()) => return,
        Err(Fault::Exception(exception)) => exception,
        Err(Fault::Page(fault)) => {
            vcpu.set_cr2(fault.address.0);
            fault.event()
        }
    };
    super::exception::raise_during(vcpu, state, event, fault);
}

impl Switch<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        let old = self.old_task()?;
        let (at, new) = self.new_task()?;
        self.probe(&old, &new)?;
        let context = self.read(&new)?;
        self.save(&old)?;
        self.mark_busy(&old, at, &new)?;
        self.enter(&new, &context)?;
        segments::load(self, &context)?;
        self.push_error_code(new.layout)?;
        if context.trap {
            self.vcpu.set_dr6(self.vcpu.dr6() | DR6_BT);
            self.vcpu.inject(Event::exception(Exception::Debug));
        }
        Ok(())
    }

    fn tables(&self) -> Linear<'_> {
        Linear::implicit(self.vcpu, self.memory)
    }

    /// An exception with a selector as its error code.
    fn fault(&self, exception: Exception, selector: u16) -> Fault {
        let external = match self.event {
            Some(event) => {
                matches!(event.kind, EventKind::External | EventKind::Nmi | EventKind::Exception)
            }
            None => false,
        };
        let ext = if external { ERROR_CODE_EXT } else { 0 };
        Fault::Exception(Event::fault(exception, (selector & !SELECTOR_RPL | ext).into()))
    }

    /// Whether the old task waits for the new one, which returns to it.
    fn nests(&self) -> bool {
        matches!(self.request.source, TaskSwitchSource::Call | TaskSwitchSource::Gate)
    }

    fn old_task(&self) -> Result<Tss, Fault> {
        let register = self.vcpu.segment(SegmentName::Tr);
        let invalid = self.fault(Exception::InvalidTss, register.selector);
        let layout = TssLayout::of_type(register.attributes.bits() & 0xf).ok_or(invalid)?;
        if register.limit < layout.least_limit { Err(invalid) } else { Ok(Tss { register, layout }) }
    }

    /// The new TSS and where its descriptor is. The CPU has made these checks, too, but not on all models before it
    /// exits, and another CPU may have changed the descriptor since.
    fn new_task(&self) -> Result<(u64, Tss), Fault> {
        let returns = self.request.source == TaskSwitchSource::Iret;
        let selector = self.request.selector;
        let refused = if returns { Exception::InvalidTss } else { Exception::GeneralProtection };
        let refused = self.fault(refused, selector);
        if selector & SELECTOR_TI != 0 {
            return Err(refused);
        }
        let (at, descriptor) = self.tables().descriptor(self.vcpu, selector)?.ok_or(refused)?;
        let kind = descriptor.system_type().ok_or(refused)?;
        let layout = TssLayout::of_type(kind).ok_or(refused)?;
        if (kind & system_type::TSS_BUSY != 0) != returns {
            return Err(refused);
        }
        if !descriptor.attributes().contains(Attributes::PRESENT) {
            return Err(self.fault(Exception::SegmentNotPresent, selector));
        }
        if descriptor.limit() < layout.least_limit {
            return Err(self.fault(Exception::InvalidTss, selector));
        }
        let busy = Descriptor(descriptor.0 | Descriptor::BUSY);
        Ok((at, Tss { register: busy.segment(selector), layout }))
    }

    /// Page faults come before anything is changed.
    fn probe(&self, old: &Tss, new: &Tss) -> Result<(), Fault> {
        let tables = self.tables();
        let saved = old.layout.segments + old.layout.segment_count * u64::from(old.layout.width);
        tables.probe(old.register.base + old.layout.eip, saved - old.layout.eip, Intent::Write)?;
        let intent = if self.nests() { Intent::Write } else { Intent::Read };
        tables.probe(new.register.base + TssLayout::LINK, 2, intent)?;
        tables.probe(new.register.base, u64::from(new.layout.least_limit) + 1, Intent::Read)
    }

    fn read(&self, new: &Tss) -> Result<Context, Fault> {
        let (tables, layout, base) = (self.tables(), new.layout, new.register.base);
        let field = |offset: u64| tables.read(base + offset, layout.width);
        let slot = |first: u64, index: u64| {
            tables.read(base + first + index * u64::from(layout.width), layout.width)
        };
        let mut gprs = [0; GENERAL_REGISTERS as usize];
        for (value, index) in gprs.iter_mut().zip(0..) {
            *value = slot(layout.gprs, index)?;
        }
        let mut selectors = [0; 6];
        for (selector, index) in selectors.iter_mut().zip(0..layout.segment_count) {
            *selector = slot(layout.segments, index)? as u16;
        }
        Ok(Context {
            cr3: layout.cr3.map(field).transpose()?,
            eip: field(layout.eip)?,
            eflags: Rflags::from_bits_truncate(field(layout.eflags)?) | Rflags::ONE,
            gprs,
            selectors,
            ldt: field(layout.ldt)? as u16,
            trap: match layout.trap {
                Some(at) => tables.read(base + at, 2)? & 1 != 0,
                None => false,
            },
        })
    }

    /// Saves the old task. It goes on behind the instruction that has left it.
    fn save(&self, old: &Tss) -> Result<(), Fault> {
        let (tables, layout, base) = (self.tables(), old.layout, old.register.base);
        let mut eflags = self.vcpu.rflags();
        if self.request.source == TaskSwitchSource::Iret {
            eflags -= Rflags::NT;
        }
        let eip = self.vcpu.rip().wrapping_add(self.request.instruction_len.into());
        tables.write(base + layout.eip, layout.width, eip)?;
        tables.write(base + layout.eflags, layout.width, eflags.bits())?;
        let width = u64::from(layout.width);
        for index in 0..GENERAL_REGISTERS {
            let value = self.vcpu.gpr(Gpr::from_number(index as u8));
            tables.write(base + layout.gprs + index * width, layout.width, value)?;
        }
        for (index, name) in (0..layout.segment_count).zip(SegmentName::ALL) {
            let selector = self.vcpu.segment(name).selector;
            tables.write(base + layout.segments + index * width, 2, selector.into())?;
        }
        Ok(())
    }

    /// Busy flags and the link of nested tasks (SDM 3, table 8-2).
    fn mark_busy(&self, old: &Tss, new_at: u64, new: &Tss) -> Result<(), Fault> {
        let tables = self.tables();
        if self.nests() {
            tables.write(new.register.base + TssLayout::LINK, 2, old.register.selector.into())?;
        } else if let Some((old_at, _)) = tables.descriptor(self.vcpu, old.register.selector)? {
            tables.change(old_at, Descriptor::BUSY, false)?;
        }
        if self.request.source != TaskSwitchSource::Iret {
            tables.change(new_at, Descriptor::BUSY, true)?;
        }
        Ok(())
    }

    /// The registers of the new task but for its segments.
    fn enter(&mut self, new: &Tss, context: &Context) -> Result<(), Fault> {
        let nested = if self.nests() { Rflags::NT } else { Rflags::empty() };
        let vcpu = &mut *self.vcpu;
        // What STI and MOV SS block ends here, without a single step.
        vcpu.set_rflags(Rflags::ONE);
        vcpu.skip_len(0);
        match self.event {
            Some(event) if event.kind == EventKind::Nmi => vcpu.block_nmis(true),
            _ if self.request.source == TaskSwitchSource::Iret => vcpu.block_nmis(false),
            _ => {}
        }
        vcpu.set_segment(SegmentName::Tr, new.register);
        vcpu.set_rip(context.eip);
        vcpu.set_rflags(context.eflags | nested);
        for (index, value) in (0..).zip(context.gprs) {
            vcpu.set_gpr(Gpr::from_number(index), value);
        }
        vcpu.set_dr7(vcpu.dr7() & !DR7_LOCAL);
        vcpu.set_cr0(vcpu.cr0() | Cr0::TS);
        segments::stand_in(vcpu, context);
        match context.cr3 {
            Some(cr3) if self.vcpu.cr0().contains(Cr0::PG) => self.load_cr3(cr3, new.register.selector),
            _ => Ok(()),
        }
    }

    fn load_cr3(&mut self, cr3: u64, selector: u16) -> Result<(), Fault> {
        if self.vcpu.cr4().contains(Cr4::PAE) {
            let invalid = self.fault(Exception::InvalidTss, selector);
            let pdptes = control::read_pdptes(cr3, self.memory).map_err(|_| invalid)?;
            self.vcpu.set_pdptes(pdptes);
        }
        self.vcpu.set_cr3(cr3);
        Ok(())
    }

    /// The error code of an exception goes to the new task's stack.
    fn push_error_code(&mut self, layout: &TssLayout) -> Result<(), Fault> {
        let Some(error_code) = self.event.and_then(|event| event.error_code) else { return Ok(()) };
        let ss = self.vcpu.segment(SegmentName::Ss);
        let mask = if ss.attributes.contains(Attributes::DEFAULT_BIG) { 0xffff_ffff } else { 0xffff };
        let old = self.vcpu.gpr(Gpr::Rsp);
        let offset = old.wrapping_sub(layout.width.into()) & mask;
        let (limit, last) = (u64::from(ss.limit), offset + u64::from(layout.width) - 1);
        let fits = match ss.attributes.contains(Attributes::EXPAND_DOWN) {
            true => offset > limit && last <= mask,
            false => last <= limit,
        };
        if !fits {
            return Err(self.fault(Exception::StackFault, 0));
        }
        let stack = Linear::of_stack(self.vcpu, self.memory);
        stack.write(ss.base + offset, layout.width, error_code.into())?;
        self.vcpu.set_gpr(Gpr::Rsp, old & !mask | offset);
        Ok(())
    }
}

//! Task switches between two 32-bit tasks in a flat guest without paging.

use crate::exit::{Exit, TaskSwitch, TaskSwitchSource};
use crate::fake::{FakeVcpu, Machine};
use crate::memory::Width;
use crate::state::StopReason;
use crate::vcpu::Vcpu;
use x86defs::addr::Gpa;
use x86defs::control::{Cr0, Rflags};
use x86defs::event::{Event, EventKind, Exception};
use x86defs::gpr::Gpr;
use x86defs::segment::{Attributes, DescriptorTable, Segment, SegmentName};

const GDT: u64 = 0x1000;
const OLD: u64 = 0x2000;
const NEW: u64 = 0x2100;
const STACK: u64 = 0x4000;

const CODE: u16 = 0x08;
const DATA: u16 = 0x10;
const OLD_TASK: u16 = 0x18;
const NEW_TASK: u16 = 0x20;
const LDT: u16 = 0x28;
const USER_DATA: u16 = 0x30;
const ABSENT: u16 = 0x38;
const BEYOND: u16 = 0x40;

const FLAT_CODE: u64 = 0x00cf_9a00_0000_ffff;
const FLAT_DATA: u64 = 0x00cf_9200_0000_ffff;
const FLAT_USER_DATA: u64 = 0x00cf_f200_0000_ffff;
const BUSY: u64 = 1 << 41;
const PRESENT: u64 = 1 << 47;
const ACCESSED: u64 = 1 << 40;

const fn tss(base: u64) -> u64 {
    0x0000_8900_0000_0067 | base << 16
}

/// Offsets in a 32-bit TSS (SDM 3, figure 8-2).
const EIP: u64 = 0x20;
const EFLAGS: u64 = 0x24;
const EAX: u64 = 0x28;
const ESP: u64 = 0x38;
const ES: u64 = 0x48;
const CS: u64 = 0x4c;
const SS: u64 = 0x50;
const DS: u64 = 0x54;
const LDTR: u64 = 0x60;
const TRAP: u64 = 0x64;

struct Tasks(Machine);

impl Tasks {
    /// The old task runs at 0x500; the new one starts at 0x700 with ESP at STACK and EAX = 0x77.
    fn new() -> Self {
        let mut vcpu = FakeVcpu::protected32();
        vcpu.gdtr = DescriptorTable { base: GDT, limit: BEYOND - 1 };
        vcpu.rip = 0x500;
        vcpu.set_gpr(Gpr::Rax, 0x55);
        let attributes = Attributes::from_bits_retain(0x8b);
        vcpu.set_segment(SegmentName::Tr, Segment { selector: OLD_TASK, attributes, limit: 0x67, base: OLD });
        let tasks = Self(Machine::new(vcpu));
        let gdt = [0, FLAT_CODE, FLAT_DATA, tss(OLD) | BUSY, tss(NEW), 0x0000_8200_3000_000f, FLAT_USER_DATA];
        for (at, descriptor) in (GDT..).step_by(8).zip(gdt.into_iter().chain([FLAT_DATA & !PRESENT])) {
            tasks.poke(at, Width::Qword, descriptor);
        }
        for (at, value) in [(EIP, 0x700), (EFLAGS, 2), (EAX, 0x77), (ESP, STACK)] {
            tasks.poke(NEW + at, Width::Dword, value);
        }
        for (at, selector) in [(ES, DATA), (CS, CODE), (SS, DATA), (DS, DATA)] {
            tasks.poke(NEW + at, Width::Word, selector.into());
        }
        tasks
    }

    fn poke(&self, at: u64, width: Width, value: u64) {
        self.0.state.vm.memory().store(Gpa(at), width, value).expect("RAM");
    }

    fn peek(&self, at: u64, width: Width) -> u64 {
        self.0.state.vm.memory().load(Gpa(at), width).expect("RAM")
    }

    fn descriptor(&self, selector: u16) -> u64 {
        self.peek(GDT + u64::from(selector), Width::Qword)
    }

    fn switch(&mut self, source: TaskSwitchSource) {
        let instruction_len = if source == TaskSwitchSource::Gate { 0 } else { 7 };
        self.0.exit(Exit::TaskSwitch(TaskSwitch { selector: NEW_TASK, source, instruction_len }));
    }

    #[track_caller]
    fn assert_in_new_task(&self) {
        let vcpu = &self.0.vcpu;
        assert_eq!((vcpu.rip, vcpu.gpr(Gpr::Rax)), (0x700, 0x77));
        assert_eq!(vcpu.segment(SegmentName::Tr).selector, NEW_TASK);
        assert!(vcpu.cr0.contains(Cr0::TS));
    }

    /// The switch faults before the old task is left.
    #[track_caller]
    fn assert_refused(&mut self, source: TaskSwitchSource, event: Event) {
        self.switch(source);
        self.0.assert_raises(event);
        assert_eq!((self.0.vcpu.rip, self.0.vcpu.gpr(Gpr::Rax)), (0x500, 0x55));
        assert_eq!(self.peek(OLD + EIP, Width::Dword), 0, "nothing is saved");
    }

    /// The switch faults in the new task.
    #[track_caller]
    fn assert_fails_inside(&mut self, event: Event) {
        self.switch(TaskSwitchSource::Jmp);
        assert_eq!(self.0.vcpu.pending, Some(event));
        self.assert_in_new_task();
        assert_eq!(self.peek(OLD + EIP, Width::Dword), 0x507, "the old task is saved");
    }
}

const fn ts(selector: u16) -> Event {
    Event::fault(Exception::InvalidTss, selector as u32)
}

#[test]
fn a_jump_leaves_one_task_for_another() {
    let mut tasks = Tasks::new();
    tasks.0.vcpu.dr7 = 0x7ff;
    tasks.0.vcpu.shadow = true;
    tasks.switch(TaskSwitchSource::Jmp);
    tasks.assert_in_new_task();
    assert_eq!(tasks.0.vcpu.pending, None);
    assert!(!tasks.0.vcpu.shadow);
    assert_eq!((tasks.peek(OLD + EIP, Width::Dword), tasks.peek(OLD + EAX, Width::Dword)), (0x507, 0x55));
    assert_eq!(tasks.peek(OLD + CS, Width::Word), CODE.into());
    assert_eq!(tasks.descriptor(OLD_TASK) & BUSY, 0);
    assert_eq!(tasks.descriptor(NEW_TASK) & BUSY, BUSY);
    assert_eq!(tasks.descriptor(CODE) & ACCESSED, ACCESSED);
    assert_eq!(tasks.0.vcpu.rflags, Rflags::ONE);
    assert_eq!(tasks.0.vcpu.dr7, 0x7ff & !0x155, "local breakpoints end");
    assert_eq!(tasks.0.vcpu.segment(SegmentName::Ds).base, 0);
    assert!(tasks.0.vcpu.segment(SegmentName::Fs).attributes.contains(Attributes::UNUSABLE));
}

#[test]
fn a_call_nests_and_iret_returns() {
    let mut tasks = Tasks::new();
    tasks.switch(TaskSwitchSource::Call);
    tasks.assert_in_new_task();
    assert_eq!(tasks.peek(NEW, Width::Word), OLD_TASK.into(), "link");
    assert!(tasks.0.vcpu.rflags.contains(Rflags::NT));
    assert_eq!(tasks.descriptor(OLD_TASK) & BUSY, BUSY);

    tasks.0.exit(Exit::TaskSwitch(TaskSwitch {
        selector: OLD_TASK,
        source: TaskSwitchSource::Iret,
        instruction_len: 1,
    }));
    assert_eq!((tasks.0.vcpu.rip, tasks.0.vcpu.gpr(Gpr::Rax)), (0x507, 0x55));
    assert_eq!(tasks.0.vcpu.segment(SegmentName::Tr).selector, OLD_TASK);
    assert_eq!(tasks.descriptor(NEW_TASK) & BUSY, 0);
    assert_eq!(tasks.peek(NEW + EFLAGS, Width::Dword) & Rflags::NT.bits(), 0, "NT of the task that is left");
    assert_eq!(tasks.peek(NEW + EIP, Width::Dword), 0x701);
}

#[test]
fn a_double_fault_gets_a_task_with_its_error_code() {
    let mut tasks = Tasks::new();
    tasks.0.vcpu.inject(Event::DF);
    tasks.switch(TaskSwitchSource::Gate);
    tasks.assert_in_new_task();
    assert_eq!(tasks.0.vcpu.pending, None, "it has been delivered");
    assert_eq!(tasks.peek(OLD + EIP, Width::Dword), 0x500, "the instruction that faults");
    assert_eq!(tasks.0.vcpu.gpr(Gpr::Rsp), STACK - 4);
    assert_eq!(tasks.peek(STACK - 4, Width::Dword), 0);
}

#[test]
fn an_nmi_through_a_task_gate_blocks_nmis_until_iret() {
    let mut tasks = Tasks::new();
    tasks.0.vcpu.inject(Event::NMI);
    tasks.switch(TaskSwitchSource::Gate);
    assert!(tasks.0.vcpu.nmi_blocked);
    tasks.0.exit(Exit::TaskSwitch(TaskSwitch {
        selector: OLD_TASK,
        source: TaskSwitchSource::Iret,
        instruction_len: 1,
    }));
    assert!(!tasks.0.vcpu.nmi_blocked);
}

#[test]
fn software_interrupts_return_behind_themselves() {
    let mut tasks = Tasks::new();
    let int =
        Event { vector: 0x80, kind: EventKind::SoftwareInterrupt, error_code: None, instruction_len: 2 };
    tasks.0.vcpu.inject(int);
    let (selector, source) = (NEW_TASK, TaskSwitchSource::Gate);
    tasks.0.exit(Exit::TaskSwitch(TaskSwitch { selector, source, instruction_len: 2 }));
    tasks.assert_in_new_task();
    assert_eq!(tasks.peek(OLD + EIP, Width::Dword), 0x502);
}

#[test]
fn faults_on_the_new_task_belong_to_the_old_one() {
    use TaskSwitchSource::{Call, Iret, Jmp};
    let gp = Event::fault(Exception::GeneralProtection, NEW_TASK.into());
    for (change, source, event) in [
        (tss(NEW) | BUSY, Jmp, gp),
        (tss(NEW) | BUSY, Call, gp),
        (tss(NEW), Iret, ts(NEW_TASK)),
        (FLAT_DATA, Jmp, gp),
        (tss(NEW) & !PRESENT, Jmp, Event::fault(Exception::SegmentNotPresent, NEW_TASK.into())),
        (tss(NEW) - 1, Call, ts(NEW_TASK)),
    ] {
        let mut tasks = Tasks::new();
        tasks.poke(GDT + u64::from(NEW_TASK), Width::Qword, change);
        tasks.assert_refused(source, event);
    }
    let mut short = Tasks::new();
    short.0.vcpu.segment_mut(SegmentName::Tr).limit = 0x66;
    short.assert_refused(Jmp, ts(OLD_TASK));
}

#[test]
fn faults_on_segments_belong_to_the_new_task() {
    let np = Event::fault(Exception::SegmentNotPresent, ABSENT.into());
    for (field, selector, event) in [
        (CS, 0, ts(0)),
        (CS, DATA, ts(DATA)),
        (CS, BEYOND, ts(BEYOND)),
        (CS, CODE | 3, ts(CODE)),
        (SS, CODE, ts(CODE)),
        (SS, 0, ts(0)),
        (SS, USER_DATA | 3, ts(USER_DATA)),
        (SS, ABSENT, Event::fault(Exception::StackFault, ABSENT.into())),
        (DS, ABSENT, np),
        (ES, NEW_TASK, ts(NEW_TASK)),
        (DS, DATA | 3, ts(DATA)),
        (LDTR, DATA, ts(DATA)),
        (LDTR, LDT | 4, ts(LDT | 4)),
    ] {
        let mut tasks = Tasks::new();
        tasks.poke(NEW + field, Width::Word, selector.into());
        tasks.assert_fails_inside(event);
    }
    let mut beyond = Tasks::new();
    beyond.poke(GDT + u64::from(CODE), Width::Qword, 0x0040_9a00_0000_0100);
    beyond.assert_fails_inside(Event::GP0);
}

#[test]
fn data_of_a_local_descriptor_table() {
    let mut tasks = Tasks::new();
    tasks.poke(NEW + LDTR, Width::Word, LDT.into());
    tasks.poke(NEW + DS, Width::Word, 0xc);
    tasks.poke(0x3000 + 8, Width::Qword, FLAT_DATA | 0x1234 << 16);
    tasks.switch(TaskSwitchSource::Jmp);
    tasks.assert_in_new_task();
    assert_eq!((tasks.0.vcpu.pending, tasks.0.vcpu.segment(SegmentName::Ds).base), (None, 0x1234));
}

#[test]
fn a_virtual_8086_task_takes_any_selector() {
    let mut tasks = Tasks::new();
    tasks.poke(NEW + EFLAGS, Width::Dword, (Rflags::ONE | Rflags::VM).bits());
    tasks.poke(NEW + CS, Width::Word, 0x1234);
    tasks.switch(TaskSwitchSource::Jmp);
    let cs = tasks.0.vcpu.segment(SegmentName::Cs);
    assert_eq!((cs.base, cs.limit, cs.dpl(), tasks.0.vcpu.cpl), (0x12340, 0xffff, 3, 3));
}

#[test]
fn the_trap_flag_of_a_task_is_a_debug_exception() {
    let mut tasks = Tasks::new();
    tasks.poke(NEW + TRAP, Width::Word, 1);
    tasks.switch(TaskSwitchSource::Jmp);
    assert_eq!(tasks.0.vcpu.pending, Some(Event::exception(Exception::Debug)));
    assert_eq!(tasks.0.vcpu.dr6 & 1 << 15, 1 << 15);
}

#[test]
fn faults_of_a_gate_nest() {
    let mut external = Tasks::new();
    external.poke(NEW + SS, Width::Word, CODE.into());
    external.0.vcpu.inject(Event::interrupt(0x40));
    external.switch(TaskSwitchSource::Gate);
    assert_eq!(external.0.vcpu.pending, Some(ts(CODE | 1)), "EXT");

    let mut page_fault = Tasks::new();
    page_fault.poke(NEW + SS, Width::Word, CODE.into());
    page_fault.0.vcpu.inject(Event::fault(Exception::PageFault, 2));
    page_fault.switch(TaskSwitchSource::Gate);
    assert_eq!(page_fault.0.vcpu.pending, Some(Event::DF));

    let mut double_fault = Tasks::new();
    double_fault.poke(NEW + SS, Width::Word, CODE.into());
    double_fault.0.vcpu.inject(Event::DF);
    double_fault.switch(TaskSwitchSource::Gate);
    assert_eq!(double_fault.0.state.stop, Some(StopReason::TripleFault));
}

#[test]
fn sixteen_bit_tasks_have_half_the_registers() {
    let mut tasks = Tasks::new();
    tasks.poke(GDT + u64::from(NEW_TASK), Width::Qword, 0x0000_8100_2100_002b);
    for at in (0..0x68).step_by(8) {
        tasks.poke(NEW + at, Width::Qword, 0);
    }
    for (at, value) in
        [(0x0e, 0x700), (0x10, 2), (0x12, 0x77), (0x22, DATA), (0x24, CODE), (0x26, DATA), (0x28, DATA)]
    {
        tasks.poke(NEW + at, Width::Word, value.into());
    }
    tasks.switch(TaskSwitchSource::Call);
    tasks.assert_in_new_task();
    assert_eq!(tasks.0.vcpu.pending, None);
    assert_eq!(tasks.peek(NEW, Width::Word), OLD_TASK.into());
}

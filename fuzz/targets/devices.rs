//! Any sequence of accesses to the devices of a board, of time, typed bytes and interrupts. Values are no wider than
//! their access, time always gets on, and what a guest is given is what it could take.

#![no_main]

use devices::fw_cfg::{Facts, File, FwCfg};
use guestboot::config::Compat;
use guestboot::memory_map::{ROM, TEXT_PAGE};
use guestboot::platform::{HPET_BASE, IOAPIC_BASE};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use vmm::Exit;
use vmm::board::{Board, BoardSetup, MemoryBus, NEVER};
use vmm::emulate::Bus;
use vmm::events::{Next, next_deadline};
use vmm::exit::{Access, Io, IoForm};
use vmm::fake::{FakeVcpu, Machine, RAM, board_setup};
use vmm::memory::Width;
use vmm::vcpu::Vcpu;
use x86defs::addr::Gpa;
use x86defs::control::Rflags;
use x86defs::event::EventKind;
use x86defs::gpr::Gpr;

#[derive(Arbitrary, Debug)]
enum Step {
    In {
        port: Port,
        width: IoWidth,
    },
    Out {
        port: Port,
        width: IoWidth,
        value: u32,
    },
    Read {
        at: At,
        width: MemoryWidth,
    },
    Write {
        at: At,
        width: MemoryWidth,
        value: u64,
    },
    Advance(Time),
    ToTheDeadline,
    Type(u8),
    NmiButton,
    /// Writes a cell of the text page.
    Draw {
        cell: u16,
        value: u16,
    },
    Halt,
    /// The guest has handled what it was given.
    Handled,
    Interrupts(bool),
    Priority(u8),
}

#[derive(Arbitrary, Debug)]
enum Port {
    Device(u8),
    Any(u16),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum IoWidth {
    Byte = 1,
    Word = 2,
    Dword = 4,
}

#[derive(Arbitrary, Debug)]
enum At {
    /// A register of the local APIC, or a byte near it.
    Lapic(u8, u8),
    IoApic(u8),
    Hpet(u16),
    Page(u8, u16),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum MemoryWidth {
    Byte,
    Word,
    Dword,
    Qword,
}

#[derive(Arbitrary, Debug)]
enum Time {
    Nanos(u16),
    Micros(u16),
    Seconds(u16),
}

/// Every port that a device answers, and some beside them.
const PORTS: [(u16, u16); 17] = [
    (0x20, 2),
    (0x40, 4),
    (0x60, 5),
    (0x61, 1),
    (0x70, 4),
    (0x92, 1),
    (0xa0, 2),
    (0xe9, 1),
    (0x3b0, 48),
    (0x3f8, 8),
    (0x4d0, 2),
    (DEBUG_EXIT, 4),
    (0x510, 12),
    (0x600, 12),
    (0xcf8, 8),
    (0x8900, 1),
    (0x80, 1),
];

/// Most times that a deadline may be due at once.
const ROUNDS: usize = 64;
/// Where the board's debug exit is.
const DEBUG_EXIT: u16 = 0x501;
const LAPIC: u64 = 0xfee0_0000;
/// Longest sequence; what a machine can do it does in fewer steps.
const STEPS: usize = 512;

#[derive(Arbitrary, Debug)]
struct Input {
    compat: bool,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let mut machine = machine(&input);
    for step in input.steps.iter().take(STEPS) {
        if !take(&mut machine, step) {
            return;
        }
    }
});

/// A machine with every device, and a text page if it is used: it takes a while to make.
fn machine(input: &Input) -> Machine {
    let draws = input.steps.iter().any(|step| matches!(step, Step::Draw { .. }));
    let ram = if draws { ROM.0 as usize } else { RAM };
    let mut machine = Machine::with_ram(FakeVcpu::protected32(), ram);
    machine.vcpu.rflags |= Rflags::IF;
    let vcpus = [machine.state.port.clone()];
    let vm = Arc::get_mut(&mut machine.state.vm).expect("nobody else has it");
    vm.board = Board::new(BoardSetup {
        debug_exit: Some(DEBUG_EXIT),
        compat: if input.compat { Compat::Qemu } else { Compat::None },
        fw_cfg: FwCfg::new(Facts {
            cpus: 1,
            memory: RAM as u64,
            cmdline: "console=ttyS0",
            initrd: b"disk".as_slice().into(),
            files: vec![File { name: "opt/file", bytes: b"content".as_slice().into() }],
        }),
        ..board_setup(&vcpus, &machine.output)
    });
    machine
}

/// Makes a step. False when the machine has stopped.
fn take(machine: &mut Machine, step: &Step) -> bool {
    match *step {
        Step::In { ref port, width } => input(machine, port.number(), width as u8),
        Step::Out { ref port, width, value } => {
            machine.vcpu.gprs[Gpr::Rax as usize] = value.into();
            machine.exit(Exit::Io(Io { port: port.number(), width: width as u8, form: IoForm::empty() }));
        }
        Step::Read { ref at, width } => {
            let width = width.width();
            let Some(at) = at.address(width) else { return true };
            let value = on_bus(machine, |bus| bus.read(at, width));
            assert_eq!(value & !width.mask(), 0, "{at:?} gives {value:#x}");
        }
        Step::Write { ref at, width, value } => {
            let width = width.width();
            let Some(at) = at.address(width) else { return true };
            on_bus(machine, |bus| bus.write(at, width, value & width.mask()));
        }
        Step::Advance(ref time) => machine.vcpu.host_tsc += time.ticks(),
        Step::ToTheDeadline => match next_deadline(&machine.vcpu, &machine.state) {
            NEVER => {}
            at => machine.vcpu.host_tsc = machine.vcpu.host_tsc.max(at.min(1 << 62)),
        },
        Step::Type(byte) => {
            let now = machine.state.now(&machine.vcpu);
            let board = &machine.state.vm.board;
            if board.serial_wants_input() {
                board.type_to_serial(byte, now);
            } else {
                board.type_to_keyboard(byte, now);
            }
        }
        Step::NmiButton => machine.state.vm.board.press_nmi_button(),
        Step::Draw { cell, value } => {
            let at = TEXT_PAGE.offset(2 * u64::from(cell % 0x4000));
            if !machine.text_page.is_writable() {
                machine.exit(Exit::NestedFault(at, Access::WRITE));
            }
            machine.state.vm.memory().store(at, Width::Word, value.into()).expect("the text page is there");
        }
        Step::Halt => machine.exit(Exit::Hlt),
        Step::Handled => machine.vcpu.pending = None,
        Step::Interrupts(on) => machine.vcpu.rflags.set(Rflags::IF, on),
        Step::Priority(class) => machine.vcpu.cr8 = class & 0xf,
    }
    slow_path(machine)
}

fn input(machine: &mut Machine, port: u16, width: u8) {
    machine.vcpu.gprs[Gpr::Rax as usize] = 0;
    machine.exit(Exit::Io(Io { port, width, form: IoForm::IN }));
    let value = machine.vcpu.gpr(Gpr::Rax);
    assert_eq!(value >> (8 * u32::from(width)), 0, "port {port:#x} gives {value:#x}");
}

fn on_bus<R>(machine: &mut Machine, access: impl FnOnce(&mut MemoryBus<'_>) -> R) -> R {
    let tsc = machine.vcpu.tsc();
    let now = machine.state.now(&machine.vcpu);
    let state = &mut machine.state;
    let mut bus = MemoryBus { board: &state.vm.board, lapic: &mut state.lapic, tsc, now, port: &state.port };
    let result = access(&mut bus);
    machine.vcpu.cr8 = machine.state.lapic.cr8();
    result
}

/// What happens between an exit and the entry that follows it, time included. False when the machine has stopped.
fn slow_path(machine: &mut Machine) -> bool {
    for _ in 0..ROUNDS {
        let before = machine.vcpu.pending;
        let takes = machine.vcpu.can_take_interrupt();
        let next = machine.prepare();
        if let (None, Some(event)) = (before, machine.vcpu.pending)
            && event.kind == EventKind::External
        {
            assert!(takes, "{event:?} for a CPU that could not take it");
        }
        if next == Next::Stop {
            assert!(machine.state.stop.is_some(), "a stop without a reason");
            return false;
        }
        let deadline = next_deadline(&machine.vcpu, &machine.state);
        if machine.state.hazard() {
            continue;
        }
        if deadline > machine.vcpu.host_tsc {
            return true;
        }
        machine.state.port.alert(vmm::hazard::TIMER);
    }
    panic!("deadlines keep lying in the past: {}", next_deadline(&machine.vcpu, &machine.state));
}

impl Port {
    fn number(&self) -> u16 {
        match *self {
            Port::Any(port) => port,
            Port::Device(number) => {
                let (first, len) = PORTS[usize::from(number) % PORTS.len()];
                first + u16::from(number) / PORTS.len() as u16 % len
            }
        }
    }
}

impl MemoryWidth {
    fn width(self) -> Width {
        match self {
            MemoryWidth::Byte => Width::Byte,
            MemoryWidth::Word => Width::Word,
            MemoryWidth::Dword => Width::Dword,
            MemoryWidth::Qword => Width::Qword,
        }
    }
}

impl At {
    /// The address, unless the access would cross a page.
    fn address(&self, width: Width) -> Option<Gpa> {
        let at = match *self {
            At::Lapic(register, byte) => Gpa(LAPIC + 16 * u64::from(register & 0x3f) + u64::from(byte & 0xf)),
            At::IoApic(register) => IOAPIC_BASE.offset(register.into()),
            At::Hpet(register) => HPET_BASE.offset(u64::from(register) % 0x400),
            At::Page(page, offset) => Gpa(0xfec0_0000 + (u64::from(page) << 12) + u64::from(offset & 0xfff)),
        };
        (at.page_offset() + width.bytes() as u64 <= 4096).then_some(at)
    }
}

impl Time {
    /// In ticks of a TSC of 1 GHz or so.
    fn ticks(&self) -> u64 {
        match *self {
            Time::Nanos(n) => n.into(),
            Time::Micros(n) => u64::from(n) * 1_000,
            Time::Seconds(n) => u64::from(n) * 1_000_000_000,
        }
    }
}

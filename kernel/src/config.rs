//! From the boot modules to running virtual machines.
#![allow(unsafe_code, reason = "reads boot modules")]

use crate::hw::Backend;
use crate::mem::stack::{Stack, this_cpu};
use crate::vm::{self, Machine};
use crate::{apic, console, machine, mem, println, run, time};
use abi::boot::{BootInfo, PhysRange};
use alloc::vec::Vec;
use guestboot::config::{self, Config, Console, OnExit, Restart, VmConfig, VmModules};
use guestboot::modules::{CONFIG_NAME, Modules};
use vmm::Vcpu as _;
use vmm::board::NEVER;
use vmm::state::StopReason;

/// Kept back from a guest that gets "all" memory: nested page tables and the like.
const RESERVE: u64 = 16 << 20;
/// Without a configuration a guest gets at most this much.
const DEFAULT_MEMORY: u64 = 1 << 30;
/// Large pages need memory in multiples of this.
const LARGE_PAGE: u64 = 2 << 20;

/// What the boot loader brought.
struct Files<'a> {
    boot: &'a BootInfo,
    modules: Modules<'a>,
}

impl<'a> Files<'a> {
    fn new(boot: &'a BootInfo) -> Self {
        let cmdlines = boot.modules().iter().map(|m| core::str::from_utf8(bytes(m.cmdline)).unwrap_or(""));
        Self { boot, modules: Modules::new(cmdlines) }
    }

    /// What the modules of one virtual machine hold.
    fn of(&self, modules: &VmModules) -> vm::Files {
        vm::Files {
            kernel: self.data(modules.kernel),
            initrd: modules.initrd.map(|index| self.data(index)),
            modules: modules.modules.iter().map(|index| self.data(*index)).collect(),
        }
    }

    fn data(&self, index: usize) -> &'static [u8] {
        bytes(self.boot.modules()[index].data)
    }
}

fn bytes(range: PhysRange) -> &'static [u8] {
    match range.len {
        0 => &[],
        // SAFETY: the loader has reserved modules and their command lines, and nobody writes them.
        _ => unsafe { mem::bytes(range) },
    }
}

/// Runs what the configuration says, and returns what to do afterwards.
pub fn run_all<B: Backend>(boot: &BootInfo) -> OnExit {
    let files = Files::new(boot);
    let (config, machines) = read(&files);
    console::choose(&config.consoles);
    listen(&config.consoles);
    let stack = Stack::new(this_cpu());
    println!("own memory {} KiB, {} MiB free", mem::own() >> 10, mem::available() >> 20);
    for (vm, modules) in &machines {
        run_one::<B>(vm, &files.of(modules), &stack);
    }
    config.on_exit
}

/// Arranges for typed input: by interrupt where a console has its usual ISA line, else by polling.
fn listen(consoles: &[Console]) {
    const LINES: [(Console, u8); 4] =
        [(Console::COM1, 4), (Console::COM2, 3), (Console::COM3, 4), (Console::COM4, 3)];
    for console in consoles {
        let line = LINES.iter().find(|(usual, _)| usual == console).map(|(_, irq)| *irq);
        if !line.is_some_and(|irq| apic::route_console(machine::firmware(), irq)) {
            run::poll_input();
        }
    }
    console::enable_receive_interrupt();
}

/// The configuration, and of its virtual machines those whose modules are there. Errors go to the console.
fn read(files: &Files<'_>) -> (Config, Vec<(VmConfig, VmModules)>) {
    let Some(index) = files.modules.config() else { return without_file(files) };
    let parsed = config::parse(CONFIG_NAME, files.data(index));
    for error in &parsed.errors {
        println!("{error}");
    }
    let mut machines = Vec::new();
    for vm in &parsed.config.vms {
        match vm.modules(CONFIG_NAME, &files.modules) {
            Ok(modules) => machines.push((vm.clone(), modules)),
            Err(error) => println!("{error}"),
        }
    }
    if machines.len() > 1 {
        println!("one virtual machine runs at a time: each starts when the one before it has ended");
    }
    (parsed.config, machines)
}

fn without_file(files: &Files<'_>) -> (Config, Vec<(VmConfig, VmModules)>) {
    let memory = mem::available().saturating_sub(RESERVE).min(DEFAULT_MEMORY) & !(LARGE_PAGE - 1);
    match config::without_file(&files.modules, memory) {
        Ok((config, modules)) => {
            let machines = config.vms.iter().map(|vm| (vm.clone(), modules.clone())).collect();
            (config, machines)
        }
        Err(error) => {
            println!("{error}");
            (Config::default(), Vec::new())
        }
    }
}

/// Runs one virtual machine until it ends for good.
fn run_one<B: Backend>(config: &VmConfig, files: &vm::Files, stack: &Stack) {
    let name = &config.name;
    // Counted once: a guest that resets itself for ever ends, too.
    let expires = config.time_limit.map_or(NEVER, time::tsc_after);
    loop {
        let machine = match vm::build::<B>(config, files) {
            Ok(machine) => machine,
            Err(error) => return println!("vm {name}: not started: {error}"),
        };
        println!("vm {name}: started on {} with {} MiB, {}", B::NAME, config.memory >> 20, own_memory());
        let (machine, reason) = machine.run(stack, config.profile, expires);
        report(&machine, name, &reason, config.profile);
        machine.free();
        let restart = match reason {
            StopReason::Reset(_) => config.on_reset,
            StopReason::TripleFault => config.on_triple_fault,
            _ => Restart::Stop,
        };
        match restart {
            Restart::Restart => println!("vm {name}: restarting"),
            Restart::Stop => return,
        }
    }
}

fn own_memory() -> alloc::string::String {
    let (own, heap, free) = (mem::own() >> 10, mem::heap_used(), mem::available() >> 10);
    alloc::format!("{free} KiB free, heap {heap} bytes, hypervisor {own} KiB")
}

/// The end of a virtual machine, in lines for a person.
fn report<B: Backend>(machine: &Machine<B>, name: &str, reason: &StopReason, profile: bool) {
    let (hw, state) = (&machine.guest.hw, &machine.guest.state);
    if matches!(reason, StopReason::TripleFault | StopReason::Unsupported(_)) {
        println!("vm {name}: last state:");
        B::dump(hw);
    }
    println!("vm {name}: {}", state.counters);
    if profile {
        let total = hw.tsc().saturating_sub(state.counters.idle).max(1);
        let part = state.counters.in_hypervisor;
        let hundredths = part.saturating_mul(10_000) / total;
        println!(
            "vm {name}: profile: hypervisor TSC {part} of {total} total ({}.{:02} %)",
            hundredths / 100,
            hundredths % 100
        );
    }
    println!("vm {name}: ended: {reason}");
}

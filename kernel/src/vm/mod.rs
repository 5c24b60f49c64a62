//! Building a virtual machine from its configuration, and taking it down.

mod ram;
mod tables;

use crate::hw::{Backend, Guest, VcpuSetup};
use crate::mem::stack::Stack;
use crate::{console, cpu, run, time};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use devices::rtc::MemorySize;
use guestboot::config::{UnknownMsrs, VmConfig};
use guestboot::entry::EntryState;
use guestboot::memory_map::{BadMemorySize, HIGH_RAM, MemoryMap, SlotKind};
use guestboot::plan::{self, GuestModule, PlanError, Source, StartPlan};
use ram::{Ram, TooMuch};
use spin::Mutex;
use tables::{HostTables, SharedTables, TEXT_PAGE_PROTECTED, TextPageProtection};
use vmm::board::{Board, BoardSetup, ConsoleSink, NEVER, VcpuPort};
use vmm::clock::VmClock;
use vmm::counters::Counters;
use vmm::cpuid::{self, CpuidTable};
use vmm::fw_cfg;
use vmm::kvmclock::{KvmClock, UnixTime};
use vmm::lapic::{Lapic, TimerClock};
use vmm::msr::{MsrSetup, MsrState};
use vmm::nested::{Leaf, NestedError, NestedTables, Permissions};
use vmm::screen::{self, Screen, WriteProtection};
use vmm::state::{StopReason, VcpuState, Vm};
use vmm::vcpu::StateMsr;
use x86defs::control::Cr0;
use x86defs::cpuid::CpuidResult;
use x86defs::gpr::Gpr;
use x86defs::memory_type::MemoryType;
use x86defs::msr::PAT_RESET;
use x86defs::reset::{ResetKind, ResetState, XCR0_RESET};
use x86defs::segment::SegmentName;

/// Why a virtual machine cannot be built.
#[derive(Debug)]
pub enum BuildError {
    /// Its memory size.
    MemorySize(BadMemorySize),
    /// More memory than there is.
    Memory(TooMuch),
    /// Its kernel or initrd.
    Plan(PlanError),
    /// Its nested page tables.
    Nested(NestedError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::MemorySize(e) => e.fmt(f),
            BuildError::Memory(e) => e.fmt(f),
            BuildError::Plan(e) => e.fmt(f),
            BuildError::Nested(e) => e.fmt(f),
        }
    }
}

/// The guest's serial output goes to the host's console as it is.
struct HostConsole;

impl ConsoleSink for HostConsole {
    fn put(&self, byte: u8) {
        console::write(&[byte]);
    }
    fn line(&self, text: &str) {
        console::write_line(text);
    }
}

/// A virtual machine that is ready to run.
pub struct Machine<B: Backend> {
    /// Its one virtual CPU.
    pub guest: Guest<B>,
    nested: SharedTables<B::Format>,
}

/// The content of the files that a virtual machine starts from.
pub struct Files {
    /// The kernel.
    pub kernel: &'static [u8],
    /// The initial RAM disk.
    pub initrd: Option<&'static [u8]>,
    /// The modules, in the order of the configuration.
    pub modules: Vec<&'static [u8]>,
}

/// Lays a virtual machine's memory out.
fn plan(config: &VmConfig, map: &MemoryMap, files: &Files) -> Result<StartPlan, PlanError> {
    fn module<'a>(bytes: &[u8], cmdline: &'a str) -> GuestModule<'a> {
        GuestModule { len: bytes.len() as u64, cmdline }
    }
    let lines = config.modules.iter().map(|line| line.cmdline.as_str());
    let modules: Vec<_> = files.modules.iter().zip(lines).map(|(bytes, line)| module(bytes, line)).collect();
    let initrd_name = config.initrd.as_ref().map_or("", |initrd| initrd.name.as_str());
    plan::start_plan(&plan::Guest {
        map,
        cpus: config.cpus,
        kernel: files.kernel,
        initrd: files.initrd.map(|bytes| module(bytes, initrd_name)),
        modules: &modules,
        cmdline: &config.cmdline,
    })
}

/// Builds a virtual machine.
pub fn build<B: Backend>(config: &VmConfig, files: &Files) -> Result<Machine<B>, BuildError> {
    let map = MemoryMap::new(config.memory).map_err(BuildError::MemorySize)?;
    let plan = plan(config, &map, files).map_err(BuildError::Plan)?;
    let ram = Ram::new(&map).map_err(BuildError::Memory)?;
    copy_in(&ram, &plan, files);
    let nested = map_nested::<B>(&ram)?;
    let nested_root = nested.root();
    let nested = Arc::new(Mutex::new(nested));
    let text_page = Box::new(TextPageProtection(nested.clone()));
    let tsc_origin = cpu::rdtsc();
    let cpuid = CpuidTable::new(
        host_cpuid,
        &cpuid::Setup {
            offered: B::offered(),
            apic_id: 0,
            cpus: 1,
            physical_bits: cpu::physical_bits(),
            clock: TimerClock::for_tsc(time::tsc_khz()),
        },
    );
    let mut hw = B::new_vcpu(&VcpuSetup {
        // One runs at a time.
        id: 0,
        nested_root,
        tsc_origin,
        allowed_cr4: cpuid.allowed_cr4().bits(),
    });
    start_state(&mut hw, &plan.entry, cpuid.signature());
    let state = vcpu_state(config, &map, files, ram, cpuid, tsc_origin, text_page);
    Ok(Machine { guest: Guest { hw, state }, nested })
}

impl<B: Backend> Machine<B> {
    /// Runs it on `stack` until it stops, at the latest when the TSC is at `expires`.
    pub fn run(mut self, stack: &Stack, profile: bool, expires: u64) -> (Self, StopReason) {
        self.guest.state.expires = expires;
        let (guest, reason) = run::run(self.guest, stack, profile);
        screen::finish(&guest.state, guest.state.now(&guest.hw));
        (Self { guest, nested: self.nested }, reason)
    }

    /// Takes the virtual machine down and frees everything.
    pub fn free(self) {
        drop(self.guest);
        // No virtual CPU is left that could use the tables, and nobody who could change them.
        if let Some(tables) = Arc::into_inner(self.nested) {
            tables.into_inner().free(&mut HostTables);
        }
    }
}

fn host_cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    let r = cpu::cpuid(leaf, subleaf);
    CpuidResult { eax: r.eax, ebx: r.ebx, ecx: r.ecx, edx: r.edx }
}

#[inline(never)]
fn copy_in(ram: &Ram, plan: &StartPlan, files: &Files) {
    for copy in &plan.copies {
        let bytes = match &copy.source {
            Source::Kernel(range) => &files.kernel[range.clone()],
            Source::Initrd => files.initrd.unwrap_or(&[]),
            Source::Module(number) => files.modules[*number],
            Source::Bytes(bytes) => bytes,
        };
        ram.load(copy.to, bytes).expect("a start plan stays within the memory map");
    }
}

fn map_nested<B: Backend>(ram: &Ram) -> Result<NestedTables<B::Format>, BuildError> {
    let mut nested = NestedTables::new(B::format(), &mut HostTables).map_err(BuildError::Nested)?;
    for piece in ram.pieces() {
        let permissions = match piece.kind {
            SlotKind::Ram => Permissions::EXECUTE | Permissions::WRITE,
            SlotKind::Rom => Permissions::EXECUTE,
            SlotKind::TextPage => TEXT_PAGE_PROTECTED,
        };
        let leaf = Leaf { to: piece.hpa, permissions, memory_type: MemoryType::WriteBack };
        nested.map(&mut HostTables, piece.gpa, piece.len, leaf).map_err(BuildError::Nested)?;
    }
    Ok(nested)
}

/// MSRs in hardware that a reset clears; FS and GS base are the segments'.
const ZERO_AFTER_RESET: [StateMsr; 10] = [
    StateMsr::KernelGsBase,
    StateMsr::Star,
    StateMsr::Lstar,
    StateMsr::Cstar,
    StateMsr::Fmask,
    StateMsr::SysenterCs,
    StateMsr::SysenterEsp,
    StateMsr::SysenterEip,
    StateMsr::TscAux,
    StateMsr::DebugCtl,
];

/// The architectural reset state, then what the boot protocol says.
fn start_state(hw: &mut dyn vmm::Vcpu, entry: &EntryState, signature: u32) {
    let reset = ResetState::new(ResetKind::Reset, signature, Cr0::empty());
    for (name, segment) in SegmentName::ALL.into_iter().zip(reset.segments) {
        hw.set_segment(name, segment);
    }
    hw.set_idtr(reset.tables);
    hw.set_dr6(reset.dr6);
    hw.set_dr7(reset.dr7);
    hw.set_xcr0(XCR0_RESET);
    hw.set_state_msr(StateMsr::Pat, PAT_RESET);
    for msr in ZERO_AFTER_RESET {
        hw.set_state_msr(msr, 0);
    }
    hw.set_cr2(0);
    hw.set_cr4(entry.cr4);
    hw.set_cr3(entry.cr3.0);
    hw.set_efer(entry.efer);
    hw.set_cr0(entry.cr0);
    hw.set_segment(SegmentName::Cs, entry.cs);
    for name in [SegmentName::Ds, SegmentName::Es, SegmentName::Fs, SegmentName::Gs, SegmentName::Ss] {
        hw.set_segment(name, entry.data);
    }
    hw.set_segment(SegmentName::Tr, entry.tr);
    hw.set_gdtr(entry.gdtr);
    for register in Gpr::ALL {
        hw.set_gpr(register, entry.registers.get(register));
    }
    hw.set_rip(entry.rip.0);
    hw.set_rflags(entry.rflags);
    cpu::reset_extended_state();
}

fn memory_size(map: &MemoryMap) -> MemorySize {
    MemorySize { below_4g: map.low_end().0, above_4g: map.high_end().0 - HIGH_RAM.0 }
}

fn vcpu_state(
    config: &VmConfig,
    map: &MemoryMap,
    files: &Files,
    ram: Ram,
    cpuid: CpuidTable,
    tsc_origin: u64,
    text_page: Box<dyn WriteProtection>,
) -> VcpuState {
    let port = Arc::new(VcpuPort::default());
    let board = Board::new(BoardSetup {
        start_time: time::wall_clock(),
        memory: memory_size(map),
        console: Box::new(HostConsole),
        debug_exit: config.debug_exit,
        compat: config.compat,
        fw_cfg: fw_cfg::device(config, map, files.initrd, &files.modules),
        vcpus: vec![port.clone()],
    });
    let vm = Arc::new(Vm {
        name: config.name.to_string(),
        memory: Box::new(ram),
        board,
        screen: Screen::new(text_page),
        input: config.input,
        clock: VmClock::new(tsc_origin, time::tsc_khz()),
    });
    let lapic =
        Lapic::new(0, true, cpu::physical_bits(), TimerClock::for_tsc(time::tsc_khz())).after_firmware();
    port.mailbox.publish(lapic.address());
    let msrs = MsrState::new(MsrSetup {
        vendor: cpuid.vendor(),
        physical_bits: cpu::physical_bits(),
        tsc_khz: time::tsc_khz(),
        allowed_efer: cpuid.allowed_efer(),
        microcode: cpu::microcode_revision(),
        low_ram_end: map.low_end().0,
        high_ram_end: map.high_end().0,
        ignore_unknown: config.unknown_msrs == UnknownMsrs::Ignore,
    });
    VcpuState {
        port,
        vm,
        lapic,
        cpuid,
        msrs,
        kvmclock: KvmClock::new(
            time::tsc_khz(),
            UnixTime { seconds: time::wall_clock() as u32, nanoseconds: 0 },
        ),
        not_emulated: None,
        halted: false,
        stop: None,
        expires: NEVER,
        counters: Counters::default(),
    }
}

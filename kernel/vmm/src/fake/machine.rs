//! Doubles of what surrounds a virtual CPU: its virtual machine, and a board alone.

use super::{FakeVcpu, INTEL, VecMemory, cpuid_setup, host, msr_setup};
use crate::board::{Board, BoardSetup, ConsoleSink, NEVER, VcpuPort};
use crate::clock::VmClock;
use crate::counters::Counters;
use crate::cpuid::CpuidTable;
use crate::events::{self, Next};
use crate::exit::Exit;
use crate::exits;
use crate::kvmclock::{KvmClock, UnixTime};
use crate::lapic::{Lapic, TimerClock};
use crate::msr::MsrState;
use crate::screen::{Screen, WriteProtection};
use crate::state::{VcpuState, Vm};
use core::sync::atomic::{AtomicBool, Ordering};
use devices::fw_cfg::FwCfg;
use devices::rtc::MemorySize;
use guestboot::config::{Compat, Input};
use spin::Mutex;
use std::boxed::Box;
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;
use x86defs::cpuid::Vendor;

/// Frequency of the TSC of both host and guest.
pub const TSC_KHZ: u64 = 2_900_000;
/// Bytes of a machine's RAM, from address 0 on.
pub const RAM: usize = 0x8000;

/// What a guest has sent through its serial port.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    /// All bytes so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }

    /// As text, and forgets it.
    pub fn take(&self) -> String {
        String::from_utf8(core::mem::take(&mut self.0.lock())).expect("text")
    }
}

impl ConsoleSink for Output {
    fn put(&self, byte: u8) {
        self.0.lock().push(byte);
    }
    fn line(&self, text: &str) {
        self.0.lock().extend(text.bytes().chain([b'\n']));
    }
}

/// A board for these virtual CPUs.
pub fn board(vcpus: &[Arc<VcpuPort>], output: &Output) -> Board {
    Board::new(board_setup(vcpus, output))
}

/// What a board for these virtual CPUs is built from.
pub fn board_setup(vcpus: &[Arc<VcpuPort>], output: &Output) -> BoardSetup {
    BoardSetup {
        start_time: 0,
        memory: MemorySize { below_4g: RAM as u64, above_4g: 0 },
        console: Box::new(output.clone()),
        debug_exit: None,
        compat: Compat::None,
        fw_cfg: FwCfg::default(),
        vcpus: vcpus.to_vec(),
    }
}

/// Whether the text page can be written.
#[derive(Clone, Default)]
pub struct TextPage(Arc<AtomicBool>);

impl TextPage {
    /// It can.
    pub fn is_writable(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl WriteProtection for TextPage {
    fn protect_text_page(&self, on: bool) {
        self.0.store(!on, Ordering::Relaxed);
    }
}

/// A virtual machine with one virtual CPU, on a host with every feature, as firmware leaves it.
pub struct Machine {
    /// Its virtual CPU.
    pub vcpu: FakeVcpu,
    /// The rest of it.
    pub state: VcpuState,
    /// What it has sent.
    pub output: Output,
    /// Its text page.
    pub text_page: TextPage,
}

impl Machine {
    /// Around this virtual CPU.
    pub fn new(vcpu: FakeVcpu) -> Self {
        Self::with_ram(vcpu, RAM)
    }

    /// With so many bytes of RAM.
    pub fn with_ram(vcpu: FakeVcpu, bytes: usize) -> Self {
        let port = Arc::new(VcpuPort::default());
        let (output, text_page) = (Output::default(), TextPage::default());
        let vm = Vm {
            name: String::from("test"),
            memory: Box::new(VecMemory::new(bytes)),
            board: board(core::slice::from_ref(&port), &output),
            screen: Screen::new(Box::new(text_page.clone())),
            input: Input::Auto,
            clock: VmClock::new(0, TSC_KHZ),
        };
        let lapic = Lapic::new(0, true, 40, TimerClock::for_tsc(TSC_KHZ)).after_firmware();
        port.mailbox.publish(lapic.address());
        // What the devices asked for when they were made.
        port.hazard.take();
        let state = VcpuState {
            port,
            vm: Arc::new(vm),
            lapic,
            cpuid: CpuidTable::new(host(INTEL), &cpuid_setup()),
            msrs: MsrState::new(msr_setup(Vendor::Intel)),
            kvmclock: KvmClock::new(TSC_KHZ, UnixTime::default()),
            not_emulated: None,
            halted: false,
            stop: None,
            expires: NEVER,
            counters: Counters::default(),
        };
        Self { vcpu, state, output, text_page }
    }

    /// Handles an exit.
    pub fn exit(&mut self, exit: Exit) {
        exits::handle(&mut self.vcpu, &mut self.state, exit);
    }

    /// Takes the slow path with what the hazard word holds.
    pub fn prepare(&mut self) -> Next {
        let taken = self.state.port.hazard.take();
        events::prepare(&mut self.vcpu, &mut self.state, taken)
    }
}

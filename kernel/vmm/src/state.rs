//! A virtual machine, and the vendor-neutral state of one of its virtual CPUs.

use crate::board::{Board, VcpuPort};
use crate::clock::VmClock;
use crate::counters::Counters;
use crate::cpuid::CpuidTable;
use crate::hazard;
use crate::kvmclock::KvmClock;
use crate::lapic::{Lapic, LapicEffect};
use crate::memory::GuestMemory;
use crate::msr::MsrState;
use crate::screen::Screen;
use crate::vcpu::Vcpu;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use devices::effects::Nanos;
use guestboot::config::Input;

/// Why a virtual machine stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The guest switched itself off, in this way.
    PowerOff(&'static str),
    /// The guest asked for a reset, in this way.
    Reset(&'static str),
    /// The guest ended with this status, through its debug exit.
    Exit(u32),
    /// A triple fault.
    TripleFault,
    /// The guest halted with interrupts off: nothing can wake it.
    Halted,
    /// It has run for as long as its configuration allows.
    TimeLimit,
    /// The guest did something that is not supported.
    Unsupported(String),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::PowerOff(how) => write!(f, "the guest powered off ({how})"),
            StopReason::Reset(how) => write!(f, "the guest asked for a reset ({how})"),
            StopReason::Exit(status) => {
                let qemu = qemu_exit_code(*status);
                write!(
                    f,
                    "the guest exited with status {status} (debug exit; QEMU's exit code would be {qemu})"
                )
            }
            StopReason::TripleFault => {
                f.write_str("triple fault: an exception while delivering a double fault")
            }
            StopReason::Halted => f.write_str("the guest halted with interrupts off, so nothing can wake it"),
            StopReason::TimeLimit => f.write_str("its time limit is over"),
            StopReason::Unsupported(what) => f.write_str(what),
        }
    }
}

/// QEMU's process ends with this code where a guest writes `status` to isa-debug-exit: a POSIX exit code has eight
/// bits, and 0 is left to a proper power-off.
fn qemu_exit_code(status: u32) -> u8 {
    (status << 1 | 1) as u8
}

/// What all virtual CPUs of a virtual machine share.
pub struct Vm {
    /// Its name.
    pub name: String,
    /// RAM and ROM.
    pub memory: Box<dyn GuestMemory + Send>,
    /// Its devices.
    pub board: Board,
    /// Its text page on the console.
    pub screen: Screen,
    /// Where what is typed goes.
    pub input: Input,
    /// Its clock.
    pub clock: VmClock,
}

impl Vm {
    /// RAM and ROM.
    pub fn memory(&self) -> &dyn GuestMemory {
        &*self.memory
    }

    /// Offers a typed byte to whoever it is for; `false` if there is no room now.
    pub fn type_byte(&self, byte: u8, now: Nanos) -> bool {
        let to_keyboard = match self.input {
            Input::Serial => false,
            Input::Keyboard => true,
            Input::Auto => self.screen.has_shown() && !self.board.serial_wants_input(),
        };
        match to_keyboard {
            true => self.board.type_to_keyboard(byte, now),
            false => self.board.type_to_serial(byte, now),
        }
    }
}

/// An instruction that is not emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEmulated {
    /// Where it is.
    pub rip: u64,
    /// How many exits there had been.
    pub exits: u64,
}

/// A virtual CPU apart from what the backend holds.
pub struct VcpuState {
    /// What others may touch of it.
    pub port: Arc<VcpuPort>,
    /// Its virtual machine.
    pub vm: Arc<Vm>,
    /// Its local APIC.
    pub lapic: Lapic,
    /// What CPUID says.
    pub cpuid: CpuidTable,
    /// MSRs that live in no hardware.
    pub msrs: MsrState,
    /// The paravirtual clock.
    pub kvmclock: KvmClock,
    /// The last instruction that could not be emulated.
    pub not_emulated: Option<NotEmulated>,
    /// It waits in HLT.
    pub halted: bool,
    /// Why it stops.
    pub stop: Option<StopReason>,
    /// The host TSC at which it has to stop, or [`NEVER`](crate::board::NEVER).
    pub expires: u64,
    /// What has happened so far.
    pub counters: Counters,
}

impl VcpuState {
    /// Whether anything keeps the fast path from going straight back.
    #[inline(always)]
    pub fn hazard(&self) -> bool {
        self.port.hazard.any()
    }

    /// Ends the virtual machine.
    #[cold]
    pub fn stop(&mut self, reason: StopReason) {
        self.stop.get_or_insert(reason);
        self.port.alert(hazard::STOP);
    }

    /// The virtual machine's time.
    #[inline(always)]
    pub fn now(&self, vcpu: &impl Vcpu) -> Nanos {
        self.vm.clock.nanos(host_tsc(vcpu))
    }

    /// Runs `access` on the local APIC with CR8 and TPR in step, and carries out what it causes.
    #[inline(always)]
    pub fn with_lapic<V: Vcpu, R>(
        &mut self,
        vcpu: &mut V,
        access: impl FnOnce(&mut Lapic, u64) -> (R, LapicEffect),
    ) -> R {
        let cr8 = vcpu.cr8();
        if cr8 != self.lapic.cr8() {
            self.lapic.set_cr8(cr8);
        }
        let (result, effect) = access(&mut self.lapic, vcpu.tsc());
        if self.lapic.cr8() != cr8 {
            vcpu.set_cr8(self.lapic.cr8());
        }
        self.apply(effect);
        result
    }

    /// Carries out what a write to the local APIC has caused.
    #[inline(always)]
    pub fn apply(&mut self, effect: LapicEffect) {
        self.vm.board.apply_lapic(&self.lapic, &self.port, effect);
    }

    /// Reports a guest's mistake or an unusual event on the console, naming the virtual machine.
    #[cold]
    pub fn report(&self, message: fmt::Arguments<'_>) {
        log::info!("vm {}: {message}", self.vm.name);
    }
}

/// The host's TSC, now.
#[inline(always)]
pub fn host_tsc(vcpu: &impl Vcpu) -> u64 {
    vcpu.tsc().wrapping_add(vcpu.tsc_offset())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeVcpu, Machine, TSC_KHZ};
    use std::string::ToString;

    #[test]
    fn a_machines_time_is_the_hosts_whatever_the_guest_makes_of_its_tsc() {
        let mut machine = Machine::new(FakeVcpu::real());
        machine.vcpu.host_tsc = TSC_KHZ;
        machine.vcpu.set_tsc(5);
        assert_eq!(host_tsc(&machine.vcpu), TSC_KHZ);
        assert!(machine.state.now(&machine.vcpu).0.abs_diff(1_000_000) <= 1, "a millisecond");
    }

    #[test]
    fn cr8_and_the_local_apic_agree_before_and_after_an_access() {
        let mut machine = Machine::new(FakeVcpu::real());
        machine.vcpu.cr8 = 6;
        machine.vcpu.host_tsc = 77;
        let seen = machine.state.with_lapic(&mut machine.vcpu, |lapic, now| {
            let seen = (lapic.cr8(), now);
            lapic.set_cr8(9);
            (seen, LapicEffect::Nothing)
        });
        assert_eq!((seen, machine.vcpu.cr8), ((6, 77), 9));
    }

    #[test]
    fn a_deadline_of_the_local_apic_is_a_hazard() {
        let mut machine = Machine::new(FakeVcpu::real());
        assert!(!machine.state.hazard());
        machine.state.apply(LapicEffect::Deadline);
        assert_eq!(machine.state.port.hazard.take(), hazard::TIMER);
    }

    #[test]
    fn reasons_to_stop_read_as_sentences() {
        for (reason, text) in [
            (StopReason::PowerOff("ACPI S5"), "the guest powered off (ACPI S5)"),
            (
                StopReason::Exit(0x110),
                "the guest exited with status 272 (debug exit; QEMU's exit code would be 33)",
            ),
            (StopReason::Reset("port 0xCF9"), "the guest asked for a reset (port 0xCF9)"),
            (StopReason::Unsupported("no such thing".to_string()), "no such thing"),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }
}

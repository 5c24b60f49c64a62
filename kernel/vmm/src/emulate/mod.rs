//! Emulation of the instruction at CS:RIP, for accesses to guest physical addresses behind which there is no
//! RAM. Decoding, addressing and operations are apart: `fetch` gives an instruction, `segmentation` and
//! `location` give its memory operands, `execute` names the operation, `moves`, `arithmetic`, `exchange`, `stack` and
//! `string` apply it, and `alu`, `shift`, `wide` and `scan` compute.

mod alu;
mod arithmetic;
mod exchange;
mod execute;
mod fetch;
mod location;
mod moves;
mod operand;
mod plain_mov;
mod port;
mod scan;
mod segmentation;
mod shift;
mod stack;
mod string;
#[cfg(test)]
mod tests;
mod wide;

pub use fetch::{fetch, fetch_fault, prepare};
pub use port::{PortBus, emulate_string_io};

use crate::memory::{GuestMemory, Width};
use crate::vcpu::{Mode, Vcpu};
use crate::walk::{PageFault, Paging};
use core::fmt;
use fetch::Code;
use x86defs::addr::Gpa;
use x86defs::event::{Event, Exception};

/// Everything at guest physical addresses that is not RAM. An access does not cross a page, but need not be
/// aligned.
pub trait Bus {
    /// Reads; where nothing answers, all ones.
    fn read(&mut self, at: Gpa, width: Width) -> u64;
    /// Writes the low bits of `value`.
    fn write(&mut self, at: Gpa, width: Width, value: u64);
}

/// What became of an instruction. The virtual CPU has been changed accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is finished, or a part of its repetitions is and RIP still points to it.
    Done,
    /// It faulted; the event has been injected. For a page fault, with the new CR2.
    Fault(Event, Option<u64>),
    /// It is not one that can be emulated; nothing but complete repetitions of it has happened.
    Unsupported(InstructionBytes),
}

/// The bytes at RIP, as far as they could be fetched, for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionBytes {
    bytes: [u8; fetch::MAX_LEN],
    len: u8,
}

impl fmt::Display for InstructionBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.bytes[..usize::from(self.len)].iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Executes the instruction at CS:RIP, of which an access has been refused by the nested page tables.
///
/// `fault` is the guest physical address of that access, unless the access was of the walk of the guest's page
/// tables: it spares plain MOVs a translation. An exit in the middle of the delivery of an event is not the
/// doing of the instruction at RIP and does not belong here.
pub fn emulate(
    vcpu: &mut impl Vcpu,
    memory: &dyn GuestMemory,
    bus: &mut dyn Bus,
    fault: Option<Gpa>,
) -> Outcome {
    let mut machine = Machine::new(vcpu, memory, bus);
    machine.run(|machine, code| match fault.and_then(|at| machine.plain_mov(code, at)) {
        Some(len) => Ok((Next::Following, len)),
        None => machine.erased().decode_and_execute(code),
    })
}

/// Why an instruction does not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// It faults.
    Fault(Event),
    /// It faults on a page.
    PageFault(PageFault),
    /// It cannot be emulated.
    Unsupported,
    /// Another CPU was faster: it has to be executed again.
    Again,
}

impl Stop {
    /// An exception with error code 0, which real mode does not push.
    fn exception(mode: Mode, exception: Exception) -> Stop {
        Stop::Fault(match mode {
            Mode::Real => Event::exception(exception),
            _ => Event::fault(exception, 0),
        })
    }
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Stop {
        Stop::PageFault(fault)
    }
}

/// Where execution goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// At the following instruction.
    Following,
    /// At the same one, after some of its repetitions.
    Same,
    /// At the target of a jump.
    At(u64),
}

/// A virtual CPU and its surroundings while one instruction is executed.
///
/// Plain MOVs are executed for the backend's own type of virtual CPU. What has to be decoded is executed through
/// `dyn Vcpu`: next to the decoder an indirect call costs little, and one copy of all that code serves both backends.
struct Machine<'a, V: ?Sized> {
    vcpu: &'a mut V,
    memory: &'a dyn GuestMemory,
    bus: &'a mut dyn Bus,
    mode: Mode,
    paging: Paging,
}

impl<V: Vcpu> Machine<'_, V> {
    /// The same, whichever the backend.
    fn erased(&mut self) -> Machine<'_, dyn Vcpu + '_> {
        let Self { vcpu, memory, bus, mode, paging } = self;
        Machine { vcpu: *vcpu, memory: *memory, bus: *bus, mode: *mode, paging: *paging }
    }
}

impl<'a, V: Vcpu + ?Sized> Machine<'a, V> {
    fn new(vcpu: &'a mut V, memory: &'a dyn GuestMemory, bus: &'a mut dyn Bus) -> Self {
        let (mode, paging) = (Mode::of(vcpu), Paging::of(vcpu));
        Machine { vcpu, memory, bus, mode, paging }
    }

    /// Fetches an instruction, executes it, and applies what comes of it. `execute` returns the length of the
    /// instruction, too.
    fn run(&mut self, execute: impl FnOnce(&mut Self, &mut Code) -> Result<(Next, u8), Stop>) -> Outcome {
        let mut code = Code::EMPTY;
        let result = self.fetch(&mut code).and_then(|()| execute(self, &mut code));
        match result {
            Ok((Next::Following, len)) => self.vcpu.skip_len(len),
            Ok((Next::Same, _)) => self.vcpu.skip_len(0),
            Ok((Next::At(target), len)) => {
                self.vcpu.skip_len(len);
                self.vcpu.set_rip(target);
            }
            Err(Stop::Again) => {}
            Err(Stop::Fault(event)) => {
                self.vcpu.inject(event);
                return Outcome::Fault(event, None);
            }
            Err(Stop::PageFault(fault)) => {
                self.vcpu.set_cr2(fault.address.0);
                self.vcpu.inject(fault.event());
                return Outcome::Fault(fault.event(), Some(fault.address.0));
            }
            Err(Stop::Unsupported) => return Outcome::Unsupported(code.for_message()),
        }
        Outcome::Done
    }

    fn decode_and_execute(&mut self, code: &mut Code) -> Result<(Next, u8), Stop> {
        let instruction = self.decode(code)?;
        Ok((self.execute(&instruction)?, instruction.len() as u8))
    }

    fn general_protection(&self) -> Stop {
        Stop::exception(self.mode, Exception::GeneralProtection)
    }
}

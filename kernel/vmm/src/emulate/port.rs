//! INS and OUTS.

use super::operand::memory_segment;
use super::string::Widths;
use super::{Bus, Machine, Next, Outcome, Stop};
use crate::exit::Io;
use crate::memory::GuestMemory;
use crate::vcpu::Vcpu;
use crate::walk::Intent;
use iced_x86::{Instruction, Mnemonic};
use x86defs::gpr::Gpr;
use x86defs::segment::SegmentName;

/// The I/O ports.
pub trait PortBus {
    /// Reads `width` bytes (1, 2 or 4) from a port.
    fn input(&mut self, port: u16, width: u8) -> u32;
    /// Writes `width` bytes (1, 2 or 4) to a port.
    fn output(&mut self, port: u16, width: u8, value: u32);
}

/// Executes the INS or OUTS at CS:RIP, with some or all of its repetitions. The CPU has checked the permission to
/// use the port before the exit; what memory has to say is checked here.
pub fn emulate_string_io(
    vcpu: &mut dyn Vcpu,
    memory: &dyn GuestMemory,
    bus: &mut dyn Bus,
    io: Io,
    ports: &mut dyn PortBus,
) -> Outcome {
    let mut machine = Machine::new(vcpu, memory, bus);
    machine.run(|machine, code| {
        let instruction = machine.decode(code)?;
        Ok((machine.string_io(&instruction, io.port, ports)?, instruction.len() as u8))
    })
}

impl<V: Vcpu + ?Sized> Machine<'_, V> {
    fn string_io(
        &mut self,
        instruction: &Instruction,
        port: u16,
        ports: &mut dyn PortBus,
    ) -> Result<Next, Stop> {
        let widths = Widths::of(instruction)?;
        match instruction.mnemonic() {
            Mnemonic::Insb | Mnemonic::Insw | Mnemonic::Insd => {
                self.repeat(instruction, widths, None, |machine| machine.ins(widths, port, ports))
            }
            Mnemonic::Outsb | Mnemonic::Outsw | Mnemonic::Outsd => {
                let segment = memory_segment(instruction);
                self.repeat(instruction, widths, None, |machine| machine.outs(widths, segment, port, ports))
            }
            _ => Err(Stop::Unsupported),
        }
    }

    fn ins(&mut self, widths: Widths, port: u16, ports: &mut dyn PortBus) -> Result<(), Stop> {
        let to = self.locate(SegmentName::Es, self.index(Gpr::Rdi, widths), widths.element, Intent::Write)?;
        let value = ports.input(port, widths.element as u8);
        self.store(&to, u64::from(value));
        self.advance(Gpr::Rdi, widths);
        Ok(())
    }

    fn outs(
        &mut self,
        widths: Widths,
        segment: SegmentName,
        port: u16,
        ports: &mut dyn PortBus,
    ) -> Result<(), Stop> {
        let from = self.locate(segment, self.index(Gpr::Rsi, widths), widths.element, Intent::Read)?;
        let value = self.load(&from);
        ports.output(port, widths.element as u8, value as u32);
        self.advance(Gpr::Rsi, widths);
        Ok(())
    }
}

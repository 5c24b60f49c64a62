//! The board's wiring: ports to devices, lines to controllers, messages to CPUs.

mod bus;
mod interrupts;
mod ports;

use super::*;
use crate::fake::{Output, board_setup};
use crate::lapic::Address;

/// A board for several CPUs, whose APIC ids count from 0 and whose logical ids are one bit each.
struct Bench {
    board: Board,
    cpus: Vec<Arc<VcpuPort>>,
    output: Output,
}

impl Bench {
    fn new(cpus: u32) -> Self {
        Self::with(cpus, |_| ())
    }

    /// As [`Bench::new`], with a board of other parts.
    fn with(cpus: u32, change: impl FnOnce(&mut BoardSetup)) -> Self {
        let output = Output::default();
        let cpus: Vec<Arc<VcpuPort>> = (0..cpus).map(|_| Arc::default()).collect();
        let mut setup = board_setup(&cpus, &output);
        change(&mut setup);
        let board = Board::new(setup);
        for (id, cpu) in (0..).zip(&cpus) {
            let address = Address { id, logical: 1 << id, enabled: true, ..Address::default() };
            cpu.mailbox.publish(address);
            cpu.hazard.take();
        }
        Self { board, cpus, output }
    }

    fn input(&self, port: u16, width: u8) -> u32 {
        self.board.input(port, width, Nanos(0))
    }

    fn output(&self, port: u16, width: u8, value: u32) {
        self.board.output(port, width, value, Nanos(0));
    }

    /// Writes bytes to ports, in this order.
    fn program(&self, writes: &[(u16, u8)]) {
        for &(port, value) in writes {
            self.output(port, 1, value.into());
        }
    }
}

//! Each exit's contract, on a virtual CPU that is nothing but its registers.

mod control;
mod debug;
mod instructions;
mod io;
mod memory;
mod msr;

use crate::fake::Machine;
use x86defs::event::Event;

impl Machine {
    /// The instruction is over: RIP is past it, and nothing is to be delivered.
    #[track_caller]
    fn assert_skipped(&self) {
        assert_eq!((self.vcpu.skips, self.vcpu.pending), (1, None));
    }

    /// The instruction faults: RIP is at it.
    #[track_caller]
    pub(super) fn assert_raises(&self, event: Event) {
        assert_eq!((self.vcpu.skips, self.vcpu.pending), (0, Some(event)));
    }
}

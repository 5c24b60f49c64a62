//! What a guest shows on its VGA text page, as lines on its console.
//!
//! The page is memory that the guest cannot write at first. Its first write exits, and makes the page writable for a
//! while: it is looked at after [`vga::SETTLING`], and again as long as it changes. So a guest that shows nothing pays
//! nothing, and a burst of output costs one exit.

use crate::memory::GuestMemory;
use crate::state::VcpuState;
use crate::vcpu::Vcpu;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, Ordering};
use devices::effects::Nanos;
use devices::vga::{self, Printer, View};
use guestboot::memory_map::{ROM, TEXT_PAGE};
use spin::Mutex;
use x86defs::addr::Gpa;

const _: () = assert!(vga::PAGE_BYTES as u64 == ROM.0 - TEXT_PAGE.0);

/// Who can change whether the guest may write its text page.
pub trait WriteProtection: Send + Sync {
    /// Refuses or allows writes. Cached translations stay.
    fn protect_text_page(&self, on: bool);
}

/// A virtual machine's screen.
pub struct Screen {
    protection: Box<dyn WriteProtection>,
    printer: Mutex<Printer>,
    has_shown: AtomicBool,
    has_said_graphics: AtomicBool,
}

impl Screen {
    /// Nothing is shown. The text page must be protected.
    pub fn new(protection: Box<dyn WriteProtection>) -> Self {
        Self {
            protection,
            printer: Mutex::default(),
            has_shown: AtomicBool::new(false),
            has_said_graphics: AtomicBool::new(false),
        }
    }

    /// Whether any text has been shown so far.
    pub fn has_shown(&self) -> bool {
        self.has_shown.load(Ordering::Relaxed)
    }
}

/// Whether an address lies on the text page.
#[inline(always)]
pub fn is_text_page(at: Gpa) -> bool {
    (TEXT_PAGE..ROM).contains(&at)
}

/// The guest was about to write its text page, and may do so now.
#[cold]
pub fn written<V: Vcpu>(vcpu: &mut V, state: &VcpuState) {
    state.vm.screen.protection.protect_text_page(false);
    vcpu.flush_nested();
    state.vm.board.look_at_screen(after(state.now(vcpu), vga::SETTLING));
}

/// It is time to look at the page.
pub fn look<V: Vcpu>(vcpu: &mut V, state: &VcpuState, now: Nanos) {
    let vm = &*state.vm;
    let Some(view) = view(state) else { return protect(vcpu, state) };
    let progress = vm.screen.printer.lock().look(view, now, read(vm.memory()), |line| show(state, line));
    let next = match progress.changed {
        true => Some(after(now, vga::SETTLING)),
        false => {
            protect(vcpu, state);
            progress.next
        }
    };
    if let Some(next) = next {
        vm.board.look_at_screen(next);
    }
}

/// The virtual machine ends: shows what has not been shown.
pub fn finish(state: &VcpuState, now: Nanos) {
    if let Some(view) = view(state) {
        let vm = &*state.vm;
        vm.screen.printer.lock().finish(view, now, read(vm.memory()), |line| show(state, line));
    }
}

fn protect(vcpu: &mut impl Vcpu, state: &VcpuState) {
    state.vm.screen.protection.protect_text_page(true);
    vcpu.flush_nested();
}

fn show(state: &VcpuState, line: &str) {
    state.vm.screen.has_shown.store(true, Ordering::Relaxed);
    state.vm.board.print_line(line);
}

fn view(state: &VcpuState) -> Option<View> {
    let view = state.vm.board.view();
    if view.is_none() && !state.vm.screen.has_said_graphics.swap(true, Ordering::Relaxed) {
        state.report(format_args!(
            "the guest has switched its display to a graphics mode, which is not shown"
        ));
    }
    view
}

fn read(memory: &dyn GuestMemory) -> impl FnMut(usize, &mut [u8]) {
    |position, into| {
        // The page is RAM; where a test has none, it is blank.
        let _ = memory.read(TEXT_PAGE.offset(position as u64), into);
    }
}

fn after(now: Nanos, delay: u64) -> Nanos {
    Nanos(now.0.saturating_add(delay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Access, Exit};
    use crate::fake::{FakeVcpu, Machine, TSC_KHZ};
    use std::string::String;

    const MILLISECOND: u64 = TSC_KHZ;

    fn machine() -> Machine {
        let mut machine = Machine::with_ram(FakeVcpu::real(), ROM.0 as usize);
        machine.vcpu.rflags |= x86defs::control::Rflags::IF;
        machine
    }

    fn show(machine: &Machine, row: u64, text: &str) {
        for (column, byte) in (0..).zip(text.bytes()) {
            let cell = TEXT_PAGE.offset(row * 160 + column * 2);
            machine.state.vm.memory().write(cell, &[byte, 7]).expect("RAM");
        }
    }

    /// What is printed when the virtual CPU goes on after so many milliseconds.
    fn after(machine: &mut Machine, milliseconds: u64) -> String {
        machine.vcpu.host_tsc += milliseconds * MILLISECOND;
        machine.state.port.hazard.raise(crate::hazard::TIMER);
        machine.prepare();
        machine.output.take()
    }

    #[test]
    fn a_write_opens_the_page_until_it_stands_still() {
        let mut machine = machine();
        assert_eq!(after(&mut machine, 1000), "");
        machine.exit(Exit::NestedFault(TEXT_PAGE.offset(0x123), Access::WRITE));
        assert_eq!(machine.vcpu.skips, 0);
        assert!(machine.text_page.is_writable());
        assert_eq!(machine.vcpu.nested_flushes, 1);
        show(&machine, 0, "Hello");
        assert_eq!(after(&mut machine, 60), "", "it may go on");
        assert!(machine.text_page.is_writable());
        assert_eq!(after(&mut machine, 60), "Hello\n");
        assert!(!machine.text_page.is_writable());
        assert_eq!(machine.vcpu.nested_flushes, 2);
        assert!(!machine.state.vm.board.screen_due(Nanos(crate::board::NEVER - 1)));
        assert!(machine.state.vm.screen.has_shown());
    }

    #[test]
    fn a_page_table_on_the_page_is_no_reason_to_emulate() {
        let mut machine = machine();
        machine.exit(Exit::NestedFault(TEXT_PAGE, Access::WRITE | Access::PAGE_WALK));
        assert_eq!(machine.vcpu.skips, 0);
        assert!(machine.text_page.is_writable());
    }

    #[test]
    fn an_event_whose_delivery_writes_the_page_is_delivered() {
        let mut machine = machine();
        let event = x86defs::event::Event::exception(x86defs::event::Exception::Breakpoint);
        machine.vcpu.inject(event);
        machine.exit(Exit::NestedFault(TEXT_PAGE, Access::WRITE));
        assert_eq!((machine.vcpu.pending_event(), &machine.state.stop), (Some(event), &None));
    }

    #[test]
    fn typing_goes_to_the_keyboard_of_a_guest_that_shows_text() {
        const DATA: u16 = 0x60;
        const COM1: u16 = 0x3f8;
        let mut machine = machine();
        let typed = |machine: &Machine, byte| {
            assert!(machine.state.vm.type_byte(byte, Nanos(0)));
            let board = &machine.state.vm.board;
            [COM1, DATA].map(|port| board.input(port, 1, Nanos(0)) as u8)
        };
        assert_eq!(typed(&machine, b'a'), [b'a', 0]);
        machine.exit(Exit::NestedFault(TEXT_PAGE, Access::WRITE));
        show(&machine, 0, "login:");
        after(&mut machine, 60);
        assert_eq!(after(&mut machine, 60), "login:\n");
        let set_1_b = 0x30;
        assert_eq!(typed(&machine, b'b'), [b'a', set_1_b], "the serial port repeats its last byte");
        let receive_interrupt = 1;
        machine.state.vm.board.output(COM1 + 1, 1, receive_interrupt, Nanos(0));
        assert_eq!(typed(&machine, b'c'), [b'c', set_1_b]);
    }

    #[test]
    fn what_has_not_been_shown_is_shown_at_the_end() {
        let machine = machine();
        show(&machine, 24, "panic");
        finish(&machine.state, Nanos(0));
        assert_eq!(machine.output.take(), "panic\n");
    }
}

//! What is typed on the host's console, on its way to the guest's serial port or keyboard. Ctrl-^ n is the NMI
//! button; Ctrl-^ twice is Ctrl-^.

use crate::{console, time};
use arrayvec::ArrayVec;
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;
use vmm::Vcpu;
use vmm::state::VcpuState;

/// How often to look again while the guest has no room, or no interrupt tells of new input.
const POLL_MS: u64 = 10;
/// Bytes that wait for room in the guest. A keyboard takes some hundred a second, a serial line brings more.
const QUEUE: usize = 16 << 10;

static WAITING: Mutex<ArrayVec<u8, QUEUE>> = Mutex::new(ArrayVec::new_const());
static POLLED: AtomicBool = AtomicBool::new(false);

/// The last byte was [`ESCAPE`].
static ESCAPED: AtomicBool = AtomicBool::new(false);

/// Ctrl-^: what follows is for the hypervisor.
const ESCAPE: u8 = 0x1e;

enum Typed {
    Byte(u8),
    Escape,
    Nmi,
}

/// What a byte means. One that means nothing after [`ESCAPE`] is the guest's.
fn typed(escaped: bool, byte: u8) -> Typed {
    match byte {
        ESCAPE if !escaped => Typed::Escape,
        b'n' if escaped => Typed::Nmi,
        _ => Typed::Byte(byte),
    }
}

/// No interrupt tells of input: look for it now and then.
pub fn poll() {
    POLLED.store(true, Ordering::Relaxed);
}

/// [`POLL_MS`] in TSC ticks.
pub(super) fn poll_ticks() -> u64 {
    time::tsc_khz() * POLL_MS
}

/// Moves bytes from the host's console to the guest. Returns whether to call again after a while.
pub(super) fn feed(state: &VcpuState, vcpu: &impl Vcpu, arrived: bool) -> bool {
    let polled = POLLED.load(Ordering::Relaxed);
    let mut waiting = WAITING.lock();
    if arrived || polled || !waiting.is_empty() {
        while !waiting.is_full()
            && let Some(byte) = console::read()
        {
            match typed(ESCAPED.swap(false, Ordering::Relaxed), byte) {
                Typed::Byte(byte) => waiting.push(byte),
                Typed::Escape => ESCAPED.store(true, Ordering::Relaxed),
                Typed::Nmi => state.vm.board.press_nmi_button(),
            }
        }
        let now = state.now(vcpu);
        let taken = waiting.iter().take_while(|byte| state.vm.type_byte(**byte, now)).count();
        waiting.drain(..taken);
    }
    polled || !waiting.is_empty()
}

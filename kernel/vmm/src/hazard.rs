//! The hazard word: one test decides whether an exit may go straight back into the guest.

use core::sync::atomic::{AtomicU32, Ordering};

/// Mail is in the local APIC's mailbox, or the local APIC may have something to deliver.
pub const EVENT: u32 = 1 << 0;
/// A deadline has changed or is due.
pub const TIMER: u32 = 1 << 1;
/// The virtual CPU waits in HLT.
pub const HALT: u32 = 1 << 2;
/// The virtual machine stops.
pub const STOP: u32 = 1 << 3;
/// Something was typed on the host's console.
pub const CONSOLE: u32 = 1 << 4;
/// A host interrupt ended the guest's turn.
pub const HOST_INTERRUPT: u32 = 1 << 5;

/// The hazard word of one virtual CPU.
#[derive(Debug, Default)]
pub struct Hazard(AtomicU32);

impl Hazard {
    /// Whether anything keeps the fast path from going straight back.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Raises bits from anywhere.
    pub fn raise(&self, bits: u32) {
        self.0.fetch_or(bits, Ordering::Release);
    }

    /// Takes all bits down and returns what they were.
    pub fn take(&self) -> u32 {
        self.0.swap(0, Ordering::AcqRel)
    }

    /// The word itself, for an interrupt handler that knows nothing else.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_bit_of_its_own() {
        let all = [EVENT, TIMER, HALT, STOP, CONSOLE, HOST_INTERRUPT];
        assert!(all.iter().all(|bit| bit.is_power_of_two()));
        assert_eq!(all.iter().fold(0, |sum, bit| sum | bit).count_ones() as usize, all.len());
    }

    #[test]
    fn bits_add_up_until_they_are_taken() {
        let hazard = Hazard::default();
        assert!(!hazard.any());
        hazard.raise(EVENT);
        hazard.raise(STOP);
        hazard.word().fetch_or(TIMER, Ordering::Release);
        assert!(hazard.any());
        assert_eq!(hazard.take(), EVENT | STOP | TIMER);
        assert!(!hazard.any());
        assert_eq!(hazard.take(), 0);
    }
}

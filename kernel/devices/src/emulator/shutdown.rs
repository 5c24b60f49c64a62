//! Shutdown ports of emulators: Bochs's, which takes a word, and the ACPI control register of machines whose
//! firmware put it elsewhere.

use super::spec::{SHUTDOWN_WORD, SLP_EN, SLP_TYP};
use super::{BOCHS, PM1_CONTROL, PM1_CONTROL_WIDTH};
use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos, PowerEvent};

/// Both ports. They are write-only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shutdown {
    /// Letters of the word so far.
    letters: usize,
}

impl Shutdown {
    /// Whether this letter completes the word. A wrong one may begin a new word.
    fn spell(&mut self, letter: u8) -> bool {
        self.letters = match letter {
            _ if letter == SHUTDOWN_WORD[self.letters] => self.letters + 1,
            _ => usize::from(letter == SHUTDOWN_WORD[0]),
        };
        let complete = self.letters == SHUTDOWN_WORD.len();
        if complete {
            self.letters = 0;
        }
        complete
    }
}

impl Device for Shutdown {
    fn read(&mut self, _offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        (FLOATING, Effects::NONE)
    }

    fn write(&mut self, offset: u16, width: u8, value: u32, _now: Nanos) -> Effects {
        let power = match offset {
            BOCHS if self.spell(value as u8) => Some(PowerEvent::PowerOff("port 0x8900")),
            PM1_CONTROL if width == PM1_CONTROL_WIDTH && value & (SLP_EN | SLP_TYP) == SLP_EN => {
                Some(PowerEvent::PowerOff("port 0xB004"))
            }
            _ => None,
        };
        Effects { power, ..Effects::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_nothing_beyond, hammer};

    /// What the last letter of a text causes; the others cause nothing.
    fn spell(shutdown: &mut Shutdown, text: &[u8]) -> Option<PowerEvent> {
        let (last, before) = text.split_last().expect("a letter");
        for letter in before {
            assert_eq!(shutdown.write(BOCHS, 1, (*letter).into(), Nanos(0)), Effects::NONE);
        }
        shutdown.write(BOCHS, 1, (*last).into(), Nanos(0)).power
    }

    #[test]
    fn the_word_has_to_be_spelt_in_order() {
        let off = Some(PowerEvent::PowerOff("port 0x8900"));
        for (text, event) in [
            ("Shutdown", off),
            ("ShutShutdown", off),
            ("SShutdown", off),
            ("Shutdow", None),
            ("shutdown", None),
            ("Shut down", None),
        ] {
            assert_eq!(spell(&mut Shutdown::default(), text.as_bytes()), event, "{text}");
        }
        let mut twice = Shutdown::default();
        assert_eq!((spell(&mut twice, b"Shutdown"), spell(&mut twice, b"Shutdown")), (off, off));
    }

    #[test]
    fn a_word_with_slp_en_and_type_0_switches_off() {
        let write = |width, value| Shutdown::default().write(PM1_CONTROL, width, value, Nanos(0)).power;
        assert_eq!(write(2, 0x2000), Some(PowerEvent::PowerOff("port 0xB004")));
        assert_eq!((write(2, 0x3400), write(2, 0), write(1, 0x20)), (None, None, None));
    }

    #[test]
    fn survives_anything() {
        assert_nothing_beyond(&mut Shutdown::default(), PM1_CONTROL + PM1_CONTROL_WIDTH as u16);
        hammer(&mut Shutdown::default(), 4, |shutdown, _, _| assert!(shutdown.letters < SHUTDOWN_WORD.len()));
    }
}

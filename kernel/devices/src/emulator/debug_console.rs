//! Port 0xE9: every byte that is written goes to the console.

use super::spec::DEBUG_CONSOLE_PRESENT;
use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos};

/// The debug console.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugConsole;

impl Device for DebugConsole {
    fn read(&mut self, offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        (if offset == 0 { DEBUG_CONSOLE_PRESENT.into() } else { FLOATING }, Effects::NONE)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, _now: Nanos) -> Effects {
        Effects { byte: (offset == 0).then_some(value as u8), ..Effects::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_nothing_beyond, hammer};

    #[test]
    fn bytes_go_out_and_a_read_tells_that_it_is_there() {
        let mut console = DebugConsole;
        assert_eq!(console.read(0, 1, Nanos(0)), (0xe9, Effects::NONE));
        let wrote = Effects { byte: Some(b'x'), ..Effects::NONE };
        assert_eq!(console.write(0, 1, b'x'.into(), Nanos(0)), wrote);
    }

    #[test]
    fn survives_anything() {
        assert_nothing_beyond(&mut DebugConsole, 1);
        hammer(&mut DebugConsole, 1, |console, _, now| assert_eq!(console.read(0, 1, now).0, 0xe9));
    }
}

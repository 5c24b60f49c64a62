//! QEMU's isa-debug-exit: the number that is written ends the virtual machine.

use crate::effects::{Device, Effects, Nanos, PowerEvent};

/// The debug exit. It answers alike at all its ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugExit;

impl Device for DebugExit {
    fn read(&mut self, _offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        (0, Effects::NONE)
    }

    fn write(&mut self, _offset: u16, _width: u8, value: u32, _now: Nanos) -> Effects {
        Effects { power: Some(PowerEvent::Exit(value)), ..Effects::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hammer;

    #[test]
    fn what_is_written_is_the_status() {
        assert_eq!(DebugExit.read(0, 4, Nanos(0)), (0, Effects::NONE));
        assert_eq!(DebugExit.write(2, 1, 0x11, Nanos(0)).power, Some(PowerEvent::Exit(0x11)));
    }

    #[test]
    fn survives_anything() {
        hammer(&mut DebugExit, 4, |exit, _, now| assert_eq!(exit.read(0, 4, now).0, 0));
    }
}

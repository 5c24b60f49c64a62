//! Port 0x92: fast A20 and fast reset.

use super::spec::Port92Bits;
use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos, PowerEvent};

/// Port 0x92. Address line 20 is always open in this machine; its bit is only remembered.
#[derive(Clone, Debug)]
pub struct Port92(Port92Bits);

impl Port92 {
    /// As firmware leaves it: A20 open.
    pub fn new() -> Port92 {
        Port92(Port92Bits::FAST_A20)
    }
}

impl Default for Port92 {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for Port92 {
    fn read(&mut self, offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        let value = if offset == 0 { self.0.bits().into() } else { FLOATING };
        (value, Effects::NONE)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, _now: Nanos) -> Effects {
        if offset != 0 {
            return Effects::NONE;
        }
        let before = core::mem::replace(&mut self.0, Port92Bits::from_bits_truncate(value as u8));
        let resets = (self.0 - before).contains(Port92Bits::FAST_INIT);
        Effects { power: resets.then_some(PowerEvent::Reset("port 0x92")), ..Effects::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PORTS;
    use super::*;
    use crate::testing::{assert_nothing_beyond, hammer};

    #[test]
    fn a20_is_remembered_and_bit_0_resets() {
        let mut port = Port92::new();
        assert_eq!(port.read(0, 1, Nanos(0)).0, 2);
        assert_eq!(port.write(0, 1, 0, Nanos(0)), Effects::NONE);
        assert_eq!(port.read(0, 1, Nanos(0)).0, 0);
        assert_eq!(port.write(0, 1, 3, Nanos(0)).power, Some(PowerEvent::Reset("port 0x92")));
    }

    #[test]
    fn survives_anything() {
        let mut port = Port92::new();
        assert_nothing_beyond(&mut port, PORTS);
        hammer(&mut port, PORTS, |port, _, now| assert!(port.read(0, 1, now).0 <= 3));
    }
}

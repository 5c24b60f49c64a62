//! The reset control register at port 0xCF9. It lies inside the PCI address register's dword: the bus finds the
//! device by the first port of an access, so that bytes at 0xCF9 come here and dwords at 0xCF8 go there.

use super::spec::Rc;
use crate::FLOATING;
use crate::effects::{Device, Effects, Nanos, PowerEvent};

/// The reset control register. Hard and soft resets are the same to a virtual machine.
#[derive(Clone, Debug)]
pub struct ResetControl(Rc);

impl ResetControl {
    /// After a reset: zero.
    pub fn new() -> ResetControl {
        ResetControl(Rc::empty())
    }
}

impl Default for ResetControl {
    fn default() -> Self {
        Self::new()
    }
}

impl Device for ResetControl {
    fn read(&mut self, offset: u16, _width: u8, _now: Nanos) -> (u32, Effects) {
        let value = if offset == 0 { self.0.bits().into() } else { FLOATING };
        (value, Effects::NONE)
    }

    fn write(&mut self, offset: u16, _width: u8, value: u32, _now: Nanos) -> Effects {
        if offset != 0 {
            return Effects::NONE;
        }
        let before = core::mem::replace(&mut self.0, Rc::from_bits_truncate(value as u8));
        let resets = (self.0 - before).contains(Rc::RST_CPU);
        Effects { power: resets.then_some(PowerEvent::Reset("port 0xCF9")), ..Effects::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PORTS;
    use super::*;
    use crate::testing::{assert_nothing_beyond, hammer};

    const NOW: Nanos = Nanos(0);

    #[test]
    fn resets_on_the_rising_edge_only() {
        let mut register = ResetControl::new();
        assert_eq!(register.write(0, 1, 0x02, NOW).power, None);
        assert_eq!(register.write(0, 1, 0x06, NOW).power, Some(PowerEvent::Reset("port 0xCF9")));
        assert_eq!(register.write(0, 1, 0x0e, NOW).power, None);
        assert_eq!(register.read(0, 1, NOW).0, 0x0e);
    }

    #[test]
    fn survives_anything() {
        let mut register = ResetControl::new();
        assert_nothing_beyond(&mut register, PORTS);
        hammer(&mut register, PORTS, |register, _, now| {
            register.write(0, 1, 0, now);
            assert_eq!(register.read(0, 1, now).0, 0);
        });
    }
}

//! The two small reset registers of a PC: the chip set's reset control register and port 0x92.

mod port_92;
mod reset_control;
mod spec;

pub use port_92::Port92;
pub use reset_control::ResetControl;

/// Each register is one port.
pub const PORTS: u16 = 1;
/// And one byte.
pub const MAX_WIDTH: u8 = 1;

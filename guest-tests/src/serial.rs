//! The report channel: COM1, polled.

use crate::hw::uart::{COM1, Fcr, Lcr, Lsr, Mcr};
use core::fmt::{self, Write};

/// Divisor for 115200 baud: 1.8432 MHz / 16 / 115200.
const DIVISOR_115200: u16 = 1;

/// How often to look for an empty transmitter before giving up on a broken one.
const PATIENCE: u32 = 1_000_000;

/// Puts COM1 into the state in which reports are written: 115200 baud, 8n1, no interrupts.
pub fn init() {
    drain();
    COM1.set_ier(0);
    COM1.set_lcr(Lcr::EIGHT_BITS);
    COM1.set_divisor(DIVISOR_115200);
    COM1.set_fcr(Fcr::ENABLE | Fcr::CLEAR_RX | Fcr::CLEAR_TX);
    COM1.set_mcr(Mcr::DTR | Mcr::RTS);
}

/// Waits until the last byte has left the shift register, so that COM1 can be used for something else.
pub fn drain() {
    for _ in 0..PATIENCE {
        if COM1.lsr().contains(Lsr::TEMT) {
            return;
        }
    }
}

/// What [`print!`](crate::print) writes to.
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while !COM1.lsr().contains(Lsr::THRE) {}
            COM1.set_thr(byte);
        }
        Ok(())
    }
}

/// Writes to COM1.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => {{
        use core::fmt::Write;
        let _ = write!($crate::serial::Serial, $($arg)*);
    }};
}

/// Writes a line to COM1.
#[macro_export]
macro_rules! println {
    ($($arg:tt)*) => { $crate::print!("{}\n", format_args!($($arg)*)) };
}

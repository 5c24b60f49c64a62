//! The loader's voice: COM1, which the entry code has set up.

use core::fmt;

use uart_16550::Uart16550;
use uart_16550::backend::PioBackend;

/// I/O base of the first serial port.
pub(crate) const COM1: u16 = 0x3f8;
/// How often a byte is offered before it is given up: a dead port must not stop the boot.
const PATIENCE: u32 = 1_000_000;

pub(crate) struct Serial(Uart16550<PioBackend>);

impl Serial {
    pub(crate) fn com1() -> Self {
        // SAFETY: COM1 is at its architectural address, and the loader, on its one CPU, is its only user.
        let port = unsafe { Uart16550::new_port(COM1) };
        Self(port.expect("COM1 is a valid I/O base"))
    }

    fn send(&mut self, byte: u8) {
        for _ in 0..PATIENCE {
            if self.0.try_send_byte(byte).is_ok() {
                return;
            }
        }
    }
}

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.send(b'\r');
            }
            self.send(byte);
        }
        Ok(())
    }
}

/// Prints a line on COM1.
macro_rules! say {
    ($($arg:tt)*) => {{
        use core::fmt::Write as _;
        // The port never reports an error.
        let _ = writeln!($crate::serial::Serial::com1(), $($arg)*);
    }};
}
pub(crate) use say;

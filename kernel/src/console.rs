//! The host's console: a 16550 on COM1, from the first instruction on.
#![allow(unsafe_code, reason = "port I/O")]

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;
use uart_16550::backend::PioBackend;
use uart_16550::{BaudRate, Config, Uart16550, spec::registers::IER};

/// I/O port of COM1.
const COM1: u16 = 0x3f8;

static UART: Mutex<Option<Uart16550<PioBackend>>> = Mutex::new(None);
/// The last byte ended a line: a message of our own begins on a fresh one.
static AT_LINE_START: AtomicBool = AtomicBool::new(true);

/// Opens the port. A machine without one runs silently.
pub fn init() {
    let config = Config { baud_rate: BaudRate::Baud115200, ..Config::DEFAULT };
    // SAFETY: COM1 is at its place in every PC, and nobody else uses it.
    let uart = unsafe { Uart16550::new_port(COM1) };
    *UART.lock() = uart.ok().filter_map_init(config);
    log::set_logger(&LOGGER).ok();
    log::set_max_level(log::LevelFilter::Info);
}

trait FilterMapInit {
    fn filter_map_init(self, config: Config) -> Option<Uart16550<PioBackend>>;
}

impl FilterMapInit for Option<Uart16550<PioBackend>> {
    fn filter_map_init(self, config: Config) -> Option<Uart16550<PioBackend>> {
        let mut uart = self?;
        uart.init(config).ok()?;
        Some(uart)
    }
}

/// Writes bytes as they are: a guest's output.
pub fn write(bytes: &[u8]) {
    if let Some(uart) = UART.lock().as_mut() {
        uart.send_bytes_exact(bytes);
    }
    if let Some(last) = bytes.last() {
        AT_LINE_START.store(*last == b'\n', Ordering::Relaxed);
    }
}

/// A byte that was typed, if there is one.
pub fn read() -> Option<u8> {
    UART.lock().as_mut()?.try_receive_byte().ok()
}

/// Lets the port raise interrupts for what is typed.
pub fn enable_receive_interrupt() {
    if let Some(uart) = UART.lock().as_mut() {
        uart.enable_interrupts(IER::DATA_READY);
    }
}

/// After a panic: whoever held the lock will not come back.
pub fn break_lock() {
    // SAFETY: this CPU is about to stop and the message matters more than a torn line.
    unsafe { UART.force_unlock() };
}

struct Lines;

impl Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    write(line.as_bytes());
                    write(b"\r\n");
                }
                None => write(line.as_bytes()),
            }
        }
        Ok(())
    }
}

/// Prints a message of the hypervisor's own; use [`crate::println`].
pub fn print(message: fmt::Arguments<'_>) {
    if !AT_LINE_START.load(Ordering::Relaxed) {
        write(b"\r\n");
    }
    // Writing to the port cannot fail.
    let _ = Lines.write_fmt(format_args!("gossamer: {message}\n"));
}

/// Prints a line on the host's console, beginning with "gossamer: ".
#[macro_export]
macro_rules! println {
    ($($arg:tt)*) => { $crate::console::print(format_args!($($arg)*)) };
}

struct Logger;
static LOGGER: Logger = Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        print(*record.args());
    }
    fn flush(&self) {}
}

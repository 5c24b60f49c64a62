//! The host's consoles: 16550 serial ports. COM1 from the first instruction on, then what the configuration
//! says.
#![allow(unsafe_code, reason = "port I/O")]

use arrayvec::ArrayVec;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};
use guestboot::config::Console;
use spin::Mutex;
use uart_16550::backend::PioBackend;
use uart_16550::{BaudRate, Config, Uart16550, spec::registers::IER};

/// Most consoles at once.
const MAX_CONSOLES: usize = 4;

type Port = Uart16550<PioBackend>;

static PORTS: Mutex<ArrayVec<Port, MAX_CONSOLES>> = Mutex::new(ArrayVec::new_const());
/// The last byte ended a line: a message of our own begins on a fresh one.
static AT_LINE_START: AtomicBool = AtomicBool::new(true);

/// Opens COM1. A machine without it is silent until the configuration names another console.
pub fn init() {
    if let Console::Serial { port } = Console::COM1 {
        PORTS.lock().extend(open(port));
    }
    log::set_logger(&LOGGER).ok();
    log::set_max_level(log::LevelFilter::Info);
}

fn open(port: u16) -> Option<Port> {
    let config = Config { baud_rate: BaudRate::Baud115200, ..Config::DEFAULT };
    // SAFETY: a serial port by convention or by the configuration's word, and nobody else uses it.
    let mut uart = unsafe { Uart16550::new_port(port) }.ok()?;
    uart.init(config).ok()?;
    Some(uart)
}

/// Goes over to these consoles; an empty list is silence. What cannot be used is named on the consoles so far.
pub fn choose(consoles: &[Console]) {
    if consoles == [Console::COM1] {
        return;
    }
    let mut ports = ArrayVec::new();
    for console in consoles {
        match console {
            Console::Serial { port } => match open(*port) {
                Some(uart) if !ports.is_full() => ports.push(uart),
                _ => print(format_args!("console: no working 16550 at I/O port {port:#x}; left out")),
            },
            Console::Vga | Console::PciSerial => print(format_args!(
                "console: VGA text and PCI serial cards are not supported yet; use \"com1\" to \"com4\" or an I/O port"
            )),
        }
    }
    if ports.is_empty() && !consoles.is_empty() {
        return print(format_args!("console: none of those configured works; staying here"));
    }
    *PORTS.lock() = ports;
}

/// Writes bytes as they are: a guest's output.
pub fn write(bytes: &[u8]) {
    for port in PORTS.lock().iter_mut() {
        port.send_bytes_exact(bytes);
    }
    if let Some(last) = bytes.last() {
        AT_LINE_START.store(*last == b'\n', Ordering::Relaxed);
    }
}

/// Writes a line that begins on a fresh one.
pub fn write_line(text: &str) {
    if !AT_LINE_START.load(Ordering::Relaxed) {
        write(b"\r\n");
    }
    write(text.as_bytes());
    write(b"\r\n");
}

/// A byte that was typed, if there is one.
pub fn read() -> Option<u8> {
    PORTS.lock().iter_mut().find_map(|port| port.try_receive_byte().ok())
}

/// Lets the ports raise interrupts for what is typed.
pub fn enable_receive_interrupt() {
    for port in PORTS.lock().iter_mut() {
        port.enable_interrupts(IER::DATA_READY);
    }
}

/// After a panic: whoever held the lock will not come back.
pub fn break_lock() {
    // SAFETY: this CPU is about to stop and the message matters more than a torn line.
    unsafe { PORTS.force_unlock() };
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

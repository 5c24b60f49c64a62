//! What the demonstration kernels do: they say how they were started, use the devices that every kernel begins
//! with, and end. The text is the same on every machine, so that two of them can be compared; what may differ,
//! such as the boot loader's name, is said to be sane and not what it is.

mod channels;
mod devices;
mod started;

pub use channels::{DEBUG_CONSOLE, TEXT_PAGE, line, reserve};

use crate::boot::Boot;
use crate::power;

/// Writes a line to all channels.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => { $crate::demo::line(format_args!($($arg)*)) };
}

/// All of it, with `own` in the middle: what the kernel shows beyond that.
pub fn run(boot: &Boot, own: fn()) -> ! {
    channels::init();
    started::report(boot);
    devices::report();
    own();
    say!("text page: {}", if channels::holds() { "holds what was written" } else { "lost what was written" });
    say!("end: {}", boot.value("off").unwrap_or("acpi"));
    power::off()
}

//! Ports that no PC has, but emulators: small kernels print, report a result and switch off through them.

mod debug_console;
mod debug_exit;
mod shutdown;
mod spec;

pub use debug_console::DebugConsole;
pub use debug_exit::DebugExit;
pub use shutdown::Shutdown;

/// The debug console is one port of a byte.
pub const DEBUG_CONSOLE_WIDTH: u8 = 1;
/// The debug exit takes a number of up to 32 bits.
pub const DEBUG_EXIT_WIDTH: u8 = 4;
/// Offset of Bochs's shutdown port.
pub const BOCHS: u16 = 0;
/// Bochs's shutdown port takes letters.
pub const BOCHS_WIDTH: u8 = 1;
/// Offset of the PM1 control register where old firmware for emulators has it.
pub const PM1_CONTROL: u16 = 2;
/// That register is a word.
pub const PM1_CONTROL_WIDTH: u8 = 2;

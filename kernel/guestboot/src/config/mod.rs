//! `gossamer.toml`: which virtual machines there are.
//!
//! A mistake in one `[[vm]]` costs that virtual machine only: [`parse`] returns the good ones and an error
//! for everything that it did not understand.

#[cfg(test)]
mod bad_values;
mod error;
mod host;
mod table;
#[cfg(test)]
mod tests;
mod vm;

pub use error::{ConfigError, Position, Problem, VmLabel};

use crate::memory_map::{self, BadMemorySize};
use crate::modules::Modules;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use table::{Errors, Table};
use toml::de::DeTable;
use x86defs::addr::PAGE_SIZE;

/// Longest configuration.
pub const MAX_BYTES: usize = 16 << 10;

/// Most dots and opening brackets in a configuration, whatever they mean: each can begin a table, for which the
/// parser takes more than a KiB.
pub const MAX_TABLES: usize = 1024;

/// Most memory that reading takes.
pub const MAX_HEAP: usize = 4 << 20;

/// A host console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// A 16550 whose registers begin at this I/O port; `com1` to `com4` are names for the usual ones.
    Serial {
        /// First I/O port.
        port: u16,
    },
    /// VGA text mode.
    Vga,
    /// The first serial controller on the PCI bus.
    PciSerial,
}

/// What to do when the last virtual machine has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExit {
    /// Power the machine off.
    #[default]
    Poweroff,
    /// Stop with interrupts off.
    Halt,
    /// Reset the machine.
    Reboot,
}

/// What an access to an MSR that we do not know does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownMsrs {
    /// #GP(0).
    #[default]
    Fault,
    /// Reads give zero, writes do nothing.
    Ignore,
}

/// Where what is typed on the console goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// To the keyboard once the guest has shown text on its VGA page, unless it has enabled the receive interrupt of
    /// its serial port; else to the serial port.
    #[default]
    Auto,
    /// To the serial port.
    Serial,
    /// To the keyboard.
    Keyboard,
}

/// Whose ports there are beside a PC's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compat {
    /// Nobody's.
    #[default]
    None,
    /// Those that kernels written for QEMU and Bochs use.
    Qemu,
}

/// What follows a reset or a triple fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The virtual machine starts again from its kernel.
    Restart,
    /// The virtual machine ends.
    Stop,
}

impl Restart {
    /// After a reset, where the file says nothing.
    pub const AFTER_RESET: Self = Self::Restart;
    /// After a triple fault, where the file says nothing: a fault in the kernel would only come back.
    pub const AFTER_TRIPLE_FAULT: Self = Self::Stop;
}

/// One virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmConfig {
    /// Its name, unique.
    pub name: String,
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Module that holds the kernel.
    pub kernel: ModuleName,
    /// Module that holds the initial RAM disk.
    pub initrd: Option<ModuleName>,
    /// Further files that the kernel gets.
    pub modules: Vec<ModuleLine>,
    /// The kernel's command line.
    pub cmdline: String,
    /// MSRs that we do not know.
    pub unknown_msrs: UnknownMsrs,
    /// After a reset.
    pub on_reset: Restart,
    /// After a triple fault.
    pub on_triple_fault: Restart,
    /// Where what is typed goes.
    pub input: Input,
    /// Whose ports there are beside a PC's.
    pub compat: Compat,
    /// First port of the debug exit.
    pub debug_exit: Option<u16>,
    /// How long it may run, restarts included; without end if nothing is said.
    pub time_limit: Option<Duration>,
    /// Whether time spent in the hypervisor is counted.
    pub profile: bool,
}

/// A module as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleName {
    /// The name.
    pub name: String,
    position: Position,
}

/// A module that a guest gets with a command line: the name of a boot module, then arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleLine {
    /// The boot module.
    pub module: ModuleName,
    /// The whole text, name included.
    pub cmdline: String,
}

/// The modules of one virtual machine, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmModules {
    /// The kernel.
    pub kernel: usize,
    /// The initial RAM disk.
    pub initrd: Option<usize>,
    /// The further files.
    pub modules: Vec<usize>,
}

impl VmConfig {
    /// The boot modules that this virtual machine names.
    pub fn module_names(&self) -> impl Iterator<Item = &str> {
        let further = self.modules.iter().map(|line| &line.module);
        core::iter::once(&self.kernel).chain(&self.initrd).chain(further).map(|module| module.name.as_str())
    }

    /// Looks up the modules that this virtual machine names. `file` is the configuration's name.
    pub fn modules(&self, file: &str, modules: &Modules<'_>) -> Result<VmModules, Box<ConfigError>> {
        let find = |key: &str, wanted: &ModuleName| {
            modules.find(&wanted.name).map_err(|error| {
                Box::new(ConfigError {
                    file: file.into(),
                    position: wanted.position,
                    vm: Some(VmLabel::Name(self.name.clone())),
                    key: Some(key.into()),
                    problem: Problem::Module(error),
                })
            })
        };
        let kernel = find("kernel", &self.kernel)?;
        let initrd = self.initrd.as_ref().map(|initrd| find("initrd", initrd)).transpose()?;
        let further = self.modules.iter().map(|line| find("modules", &line.module));
        Ok(VmModules { kernel, initrd, modules: further.collect::<Result<_, _>>()? })
    }
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Host consoles; none at all is possible.
    pub consoles: Vec<Console>,
    /// When the last virtual machine has ended.
    pub on_exit: OnExit,
    /// The virtual machines, in the order of the file.
    pub vms: Vec<VmConfig>,
}

impl Default for Config {
    /// What holds where the file says nothing: COM1, power off, no virtual machine.
    fn default() -> Self {
        Self { consoles: alloc::vec![Console::COM1], on_exit: OnExit::default(), vms: Vec::new() }
    }
}

/// What could be made of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// All that is right.
    pub config: Config,
    /// All that is wrong, in the order of the file.
    pub errors: Vec<ConfigError>,
}

/// Reads a configuration. `file` is its name, for messages.
pub fn parse(file: &str, text: &[u8]) -> Parsed {
    match document(file, text) {
        Err(error) => Parsed { config: Config::default(), errors: alloc::vec![*error] },
        Ok((text, root)) => {
            let errors = Errors::new(file, text);
            let config = host::config(&mut Table::root(&root, &errors));
            Parsed { config, errors: errors.into_sorted() }
        }
    }
}

/// The file as text and as TOML.
fn document<'a>(file: &str, text: &'a [u8]) -> Result<(&'a str, DeTable<'a>), Box<ConfigError>> {
    if text.len() > MAX_BYTES {
        return Err(ConfigError::too_long(file, text.len()).into());
    }
    let mut tables = text.iter().enumerate().filter(|(_, byte)| b".[{".contains(byte));
    if let Some((offset, _)) = tables.nth(MAX_TABLES) {
        return Err(ConfigError::too_many_tables(file, text, offset).into());
    }
    let text = core::str::from_utf8(text).map_err(|error| ConfigError::not_utf8(file, text, error))?;
    let root = DeTable::parse(text).map_err(|error| ConfigError::syntax(file, text, &error))?;
    Ok((text, root.into_inner()))
}

/// There is no module that could be a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultError {
    /// The boot loader gave no module.
    NoModule,
    /// The machine has too little memory for a virtual machine.
    Memory(BadMemorySize),
}

impl fmt::Display for DefaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoModule => f.write_str(
                "there is nothing to start: expected boot modules, either gossamer.toml and what it names, \
                 or a kernel and optionally its initrd",
            ),
            Self::Memory(error) => write!(f, "memory for the virtual machine: {error}"),
        }
    }
}

impl core::error::Error for DefaultError {}

/// The configuration without a file: the first module is the kernel and its arguments the command line, the
/// second is the initial RAM disk. The virtual machine gets all whole pages of `memory`.
pub fn without_file(modules: &Modules<'_>, memory: u64) -> Result<(Config, VmModules), DefaultError> {
    let kernel = modules.get(0).ok_or(DefaultError::NoModule)?;
    let initrd = modules.get(1);
    let whole_pages = (memory - memory % PAGE_SIZE).min(memory_map::MAX_MEMORY);
    let module = |path: &str| ModuleName { name: path.into(), position: Position::START };
    let vm = VmConfig {
        name: "guest".into(),
        cpus: 1,
        memory: memory_map::check_size(whole_pages).map_err(DefaultError::Memory)?,
        kernel: module(kernel.path),
        initrd: initrd.map(|initrd| module(initrd.path)),
        modules: Vec::new(),
        cmdline: kernel.args.into(),
        unknown_msrs: UnknownMsrs::default(),
        on_reset: Restart::AFTER_RESET,
        on_triple_fault: Restart::AFTER_TRIPLE_FAULT,
        input: Input::Auto,
        compat: Compat::None,
        debug_exit: None,
        time_limit: None,
        profile: false,
    };
    let config = Config { vms: alloc::vec![vm], ..Config::default() };
    Ok((config, VmModules { kernel: 0, initrd: initrd.map(|_| 1), modules: Vec::new() }))
}

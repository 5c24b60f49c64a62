//! `cargo xtask run`: a machine in the terminal.

use crate::guest::{self, Guest, GuestModule};
use crate::machine::{self, Boot, Content, Ending, Limits, Module};
use crate::setup::{self, Distribution};
use crate::{files, image, initramfs, terminal};
use anyhow::{Result, ensure};
use guestboot::modules::CONFIG_NAME;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Most bytes that the console may print.
const OUTPUT_LIMIT: usize = 1 << 30;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: everything goes to the machine except Ctrl-A x, which ends it (Ctrl-A Ctrl-A types Ctrl-A).

Examples:
  cargo xtask run                                 Debian's kernel and a busybox shell
  cargo xtask run --machine bochs-vmx             the same on an emulated Intel CPU
  cargo xtask run --kernel bzImage --initrd i.gz --cmdline 'console=ttyS0 debug'
  cargo xtask run --kernel my-kernel.elf --module 'data.bin first' --cmdline verbose
  cargo xtask run --config my/gossamer.toml       modules are looked for beside the file
  echo 'uname -a; poweroff -f' | cargo xtask run  without a terminal")]
pub struct Arguments {
    /// What to boot on: qemu-kvm, qemu-svm, bochs-vmx or bochs-svm, with an optional :CPU-MODEL
    #[arg(long, short, value_name = "MACHINE")]
    machine: Option<String>,
    /// A configuration of the hypervisor; the modules that it names are looked for beside it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "initrd", "modules", "cmdline", "reference"])]
    config: Option<PathBuf>,
    /// A kernel: Linux bzImage, multiboot 1, multiboot 2 or PVH [default: Debian's kernel for virtual machines]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Its initial RAM disk [default: a busybox shell, with the default kernel]
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// A module for a kernel that is not Linux, with its arguments; may be given several times
    #[arg(long = "module", value_name = "FILE ARGUMENTS", value_parser = guest_module, conflicts_with = "reference")]
    modules: Vec<GuestModule>,
    /// Its command line
    #[arg(long, value_name = "WORDS", default_value = guest::CMDLINE)]
    cmdline: String,
    /// Memory of the guest (of the whole machine with --config), such as 512M or 1G
    #[arg(long, value_name = "SIZE", value_parser = mebibytes)]
    memory: Option<u64>,
    /// Boot the kernel on the bare machine, without the hypervisor, for comparison
    #[arg(long)]
    reference: bool,
    /// End the machine after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
}

impl Arguments {
    fn uses_our_shell(&self) -> bool {
        self.config.is_none() && self.kernel.is_none() && self.initrd.is_none()
    }
}

/// Boots and stays until the machine ends.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let machine = machine::by_name(arguments.machine.as_deref().unwrap_or(machine::default_name()))?;
    setup::require(machine.needs())?;
    let boot = boot(arguments)?;
    let limits = Limits { time: arguments.timeout.map(Duration::from_secs), output: OUTPUT_LIMIT };
    // Without a terminal somebody types blindly, and our shell would miss what comes before its prompt.
    let ready = arguments.uses_our_shell().then_some(initramfs::PROMPT);
    let mut running = machine.start(&boot, limits)?;
    if std::io::stdin().is_terminal() {
        eprintln!("{}: Ctrl-A x ends it", machine.name());
    }
    let problem = match terminal::converse(&mut running, ready)? {
        Ending::PowerOff | Ending::ByUs => return Ok(ExitCode::SUCCESS),
        Ending::Reset => format!("was reset:\n{}", running.last_words()),
        Ending::Failed => format!("failed:\n{}", running.last_words()),
    };
    eprintln!("{} {problem}", machine.name());
    Ok(ExitCode::FAILURE)
}

/// What the arguments ask to boot.
fn boot(arguments: &Arguments) -> Result<Boot> {
    let (payload, memory) = match &arguments.config {
        Some(config) => {
            let payload = guest::hypervisor(&image::build()?, configured_modules(config)?);
            (payload, arguments.memory.unwrap_or(guest::LEAST_MACHINE_MEMORY))
        }
        None => {
            let guest = linux(arguments)?;
            let payload = if arguments.reference { guest.bare() } else { guest.hosted(&image::build()?) };
            (payload, guest.machine_memory())
        }
    };
    Ok(Boot { payload, memory, counting: false })
}

fn linux(arguments: &Arguments) -> Result<Guest> {
    let mut guest = match &arguments.kernel {
        Some(kernel) => Guest::with_kernel(kernel),
        None => Guest::debian(Distribution::Cloud)?,
    };
    if let Some(initrd) = &arguments.initrd {
        guest.initrd = Some(initrd.clone());
    }
    guest.modules.clone_from(&arguments.modules);
    guest.check_module_names()?;
    let modules = guest.modules.iter().map(|module| &module.file);
    for file in [Some(&guest.kernel), guest.initrd.as_ref()].into_iter().flatten().chain(modules) {
        ensure!(file.is_file(), "there is no file {}", file.display());
    }
    guest.cmdline.clone_from(&arguments.cmdline);
    guest.memory = arguments.memory.unwrap_or(guest.memory);
    Ok(guest)
}

/// The configuration and every module that it names. What is wrong with it is said here already, in the words of
/// the hypervisor, which starts the other virtual machines all the same.
fn configured_modules(config: &Path) -> Result<Vec<Module>> {
    let text = files::read(config)?;
    let folder = config.parent().unwrap_or(Path::new("."));
    let parsed = guestboot::config::parse(&config.display().to_string(), &text);
    for error in &parsed.errors {
        eprintln!("{error}");
    }
    ensure!(
        !parsed.config.vms.is_empty(),
        "{} describes no virtual machine that can start",
        config.display()
    );
    let mut modules = vec![guest::module(CONFIG_NAME, Content::Bytes(text))];
    for vm in &parsed.config.vms {
        for name in vm.module_names() {
            let file = folder.join(name);
            ensure!(file.is_file(), "vm {}: there is no file {}", vm.name, file.display());
            if modules.iter().all(|other| other.name != name) {
                modules.push(guest::module(name, Content::File(file)));
            }
        }
    }
    Ok(modules)
}

/// Splits a module into its file and its arguments.
fn guest_module(text: &str) -> Result<GuestModule, String> {
    let (file, arguments) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    match Path::new(file).file_name().and_then(|name| name.to_str()) {
        Some(_) => Ok(GuestModule { file: file.into(), arguments: arguments.trim().to_owned() }),
        None => Err("expected a file and then its arguments".to_owned()),
    }
}

/// Reads a size into MiB.
fn mebibytes(text: &str) -> Result<u64, String> {
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1024),
        _ => return Err("expected a size such as 512M or 1G".to_owned()),
    };
    let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(scale)).filter(|size| *size > 0);
    size.ok_or_else(|| "expected a size such as 512M or 1G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_a_file_and_arguments() {
        let module = guest_module(" a/data.bin  one two ").expect("valid");
        assert_eq!((module.name(), module.line().as_str()), ("data.bin", "data.bin one two"));
        assert_eq!(guest_module("data.bin").expect("valid").line(), "data.bin");
        assert!(guest_module("").is_err() && guest_module("..").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(mebibytes("512M"), Ok(512));
        assert_eq!(mebibytes("2g"), Ok(2048));
        for text in ["", "M", "512", "1.5G", "0M", "-1M", "99999999999999999999G", "99999999999999999G"] {
            assert!(mebibytes(text).is_err(), "{text}");
        }
    }
}

//! Machines: things that can boot the image, or what else is a guest without it for comparison.

mod bochs;
mod console;
mod medium;
mod qemu;
mod running;

pub use running::{Ending, Limits, Running};

use crate::setup::Need;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// A file that the boot loader places in memory.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its name for the hypervisor: no spaces or folders.
    pub name: String,
    /// Its content.
    pub content: Content,
    /// Its command line, without the name.
    pub arguments: String,
}

/// Where a module's bytes come from.
#[derive(Clone, Debug)]
pub enum Content {
    /// A file.
    File(PathBuf),
    /// These.
    Bytes(Vec<u8>),
}

/// What boots.
#[derive(Clone, Debug)]
pub enum Payload {
    /// A multiboot image.
    Multiboot {
        /// The ELF32 file.
        image: PathBuf,
        /// Which of the protocols is used where the machine's boot loader knows both.
        protocol: Protocol,
        /// The image's command line.
        cmdline: String,
        /// Its modules, in order.
        modules: Vec<Module>,
    },
    /// Somebody's own kernel on the bare machine, which has the devices that such kernels like.
    Kernel {
        /// In a format that the loader knows.
        image: PathBuf,
        /// Who loads it.
        loader: Loader,
        /// Its command line.
        cmdline: String,
        /// Its modules, in order.
        modules: Vec<Module>,
    },
    /// Linux on the bare machine.
    Linux {
        /// A bzImage.
        kernel: PathBuf,
        /// Its initrd.
        initrd: Option<PathBuf>,
        /// Its command line.
        cmdline: String,
    },
}

/// Who loads a kernel on a bare machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// The emulator, if it can: multiboot 1 and PVH.
    Emulator,
    /// GRUB on a CD.
    Grub(Protocol),
}

/// Multiboot protocol between boot loader and image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Multiboot 0.6.96.
    Multiboot1,
    /// Multiboot 2.
    Multiboot2,
}

/// What a machine boots, and how.
#[derive(Clone, Debug)]
pub struct Boot {
    /// What boots.
    pub payload: Payload,
    /// The machine's memory in MiB.
    pub memory: u64,
    /// One TSC tick is one instruction, and runs repeat exactly, on machines that can do so.
    pub counting: bool,
}

/// Something that boots.
pub trait Machine: Send + Sync {
    /// As the user names it, with the CPU model if that is not the default.
    fn name(&self) -> &str;
    /// What has to be installed for it.
    fn needs(&self) -> &'static [Need];
    /// How many times the wall time of `qemu-svm` it may take.
    fn patience(&self) -> u32;
    /// Switches it on.
    fn start(&self, boot: &Boot, limits: Limits) -> Result<Running>;
}

/// The machines that every host can emulate.
pub const EMULATED: [&str; 3] = ["qemu-svm", "bochs-vmx", "bochs-svm"];

/// Finds a machine by name; a CPU model may follow after a colon.
pub fn by_name(name: &str) -> Result<Box<dyn Machine>> {
    let (family, model) = match name.split_once(':') {
        Some((family, model)) => (family, Some(model)),
        None => (name, None),
    };
    Ok(match family {
        "qemu-kvm" => Box::new(qemu::Qemu::kvm(model)),
        "qemu-svm" => Box::new(qemu::Qemu::svm(model)),
        "bochs-vmx" => Box::new(bochs::Bochs::vmx(model)),
        "bochs-svm" => Box::new(bochs::Bochs::svm(model)),
        _ => bail!(
            "there is no machine '{name}'; known are qemu-kvm, qemu-svm, bochs-vmx and bochs-svm, each with an optional :CPU-MODEL"
        ),
    })
}

/// The fastest machine that this host has.
pub fn default_name() -> &'static str {
    match nested_virtualization() {
        Some(_) => "qemu-kvm",
        None => "qemu-svm",
    }
}

/// Which of VMX and SVM a guest of this host's KVM can use. `/dev/kvm` alone proves nothing.
pub fn nested_virtualization() -> Option<&'static str> {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = flags.lines().find(|line| line.starts_with("flags"))?;
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let nested = |module: &str| {
        let parameter = format!("/sys/module/{module}/parameters/nested");
        std::fs::read_to_string(parameter).is_ok_and(|value| matches!(value.trim(), "1" | "Y"))
    };
    let accessible = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    if !accessible {
        return None;
    }
    [("vmx", "kvm_intel", "VMX"), ("svm", "kvm_amd", "SVM")]
        .into_iter()
        .find(|(flag, module, _)| has(flag) && nested(module))
        .map(|(_, _, name)| name)
}

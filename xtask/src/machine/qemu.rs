//! QEMU: nested under KVM, or with AMD SVM emulated by TCG.

use super::console::Socket;
use super::running::{Logs, Verdict, spawn};
use super::{Boot, Content, Ending, Limits, Loader, Machine, Module, Payload, Running, medium};
use crate::setup::Need;
use crate::{files, paths};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Address space that QEMU needs besides the machine's memory: translated code, libraries, stacks.
const OVERHEAD: u64 = 4 << 30;
/// One tick is one instruction. Chance and the time of day would make runs differ: RDRAND decides where Linux
/// lies.
const COUNTING: [&str; 6] =
    ["-icount", "shift=0,sleep=off", "-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"];
/// What kernels under development like: a VGA, port 0xE9 on the console, and an exit by a port.
const DEVELOPERS_DEVICES: [&str; 6] = [
    "-vga",
    "std",
    "-device",
    "isa-debugcon,iobase=0xe9,chardev=console",
    "-device",
    "isa-debug-exit,iobase=0xf4,iosize=4",
];
/// Port 0xE9 for everything else.
const UNSEEN_DEVICES: [&str; 2] = ["-debugcon", "null"];
/// Asks QEMU's machine protocol (QMP) for events.
const PROTOCOL_START: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n";
/// Reasons in its SHUTDOWN event (QEMU, qapi/run-state.json).
const GUEST_SHUTDOWN: &str = "\"guest-shutdown\"";
const GUEST_RESET: &str = "\"guest-reset\"";

/// The image in the scratch folder. QEMU puts this in front of its command line; a folder marks it as a file.
const IMAGE: &str = "./image";

/// A CD in the scratch folder.
const MEDIUM: &str = "boot.iso";

/// A machine of QEMU.
pub struct Qemu {
    name: String,
    accelerator: &'static str,
    cpu: String,
}

impl Qemu {
    /// Nested virtualization by the host's KVM.
    pub fn kvm(model: Option<&str>) -> Self {
        let cpu = model.unwrap_or("host").to_owned();
        Self { name: named("qemu-kvm", model), accelerator: "kvm", cpu }
    }

    /// AMD SVM in software.
    pub fn svm(model: Option<&str>) -> Self {
        let cpu = format!("{},+svm,+npt", model.unwrap_or("EPYC"));
        Self { name: named("qemu-svm", model), accelerator: "tcg", cpu }
    }

    fn arguments(&self, boot: &Boot, scratch: &Path, console_port: u16) -> Result<Vec<String>> {
        let memory = boot.memory.to_string();
        let mut arguments: Vec<String> = [
            "qemu-system-x86_64",
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-accel",
            self.accelerator,
            "-cpu",
            &self.cpu,
            "-m",
            &memory,
            "-chardev",
            &format!("socket,id=console,host=127.0.0.1,port={console_port},mux=on"),
            "-serial",
            "chardev:console",
            "-qmp",
            "stdio",
        ]
        .map(str::to_owned)
        .into();
        let devices = match boot.payload {
            Payload::Kernel { .. } => DEVELOPERS_DEVICES.as_slice(),
            _ => &UNSEEN_DEVICES,
        };
        arguments.extend(devices.iter().map(|&word| word.to_owned()));
        if boot.counting {
            arguments.extend(COUNTING.map(str::to_owned));
        }
        arguments.extend(payload(&boot.payload, scratch)?);
        Ok(arguments)
    }
}

fn named(family: &str, model: Option<&str>) -> String {
    model.map_or_else(|| family.to_owned(), |model| format!("{family}:{model}"))
}

impl Machine for Qemu {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Qemu, Need::Grub]
    }

    fn patience(&self) -> u32 {
        1
    }

    fn start(&self, boot: &Boot, limits: Limits) -> Result<Running> {
        let scratch = paths::scratch("qemu")?;
        let folder = scratch.path();
        let socket = Socket::new()?;
        let arguments = self.arguments(boot, folder, socket.port()?)?;
        let logs = Logs { messages: folder.join("qemu.log"), events: folder.join("events") };
        let protocol = folder.join("protocol");
        files::write(&protocol, PROTOCOL_START)?;
        let stdio = [
            files::open(&protocol)?.into(),
            files::create(&logs.events)?.into(),
            files::create(&logs.messages)?.into(),
        ];
        let (mut child, group) = spawn(&arguments, (boot.memory << 20) + OVERHEAD, &scratch, stdio)?;
        let console = socket.accept(&mut child).with_context(|| {
            format!("QEMU does not start:\n{}", std::fs::read_to_string(&logs.messages).unwrap_or_default())
        })?;
        Ok(Running::new((child, group), scratch, console, limits, logs, VERDICT))
    }
}

/// Puts the files into the scratch folder, so that neither their folders nor odd characters reach QEMU's option
/// parser, and names them.
fn payload(payload: &Payload, scratch: &Path) -> Result<Vec<String>> {
    match payload {
        Payload::Kernel { loader: Loader::Grub(_), .. } => {
            medium::write_iso(payload, scratch, &scratch.join(MEDIUM))?;
            Ok(vec!["-cdrom".into(), MEDIUM.into()])
        }
        Payload::Multiboot { image, cmdline, modules, .. }
        | Payload::Kernel { image, loader: Loader::Emulator, cmdline, modules } => {
            link(image, &scratch.join(IMAGE))?;
            let mut arguments = vec!["-kernel".into(), IMAGE.into(), "-append".into(), cmdline.clone()];
            if !modules.is_empty() {
                let list: Result<Vec<_>> = modules.iter().map(|module| place(module, scratch)).collect();
                arguments.extend(["-initrd".into(), list?.join(",")]);
            }
            Ok(arguments)
        }
        Payload::Linux { kernel, initrd, cmdline } => {
            link(kernel, &scratch.join(IMAGE))?;
            let mut arguments = vec!["-kernel".into(), IMAGE.into(), "-append".into(), cmdline.clone()];
            if let Some(initrd) = initrd {
                link(initrd, &scratch.join("initrd"))?;
                arguments.extend(["-initrd".into(), "initrd".into()]);
            }
            Ok(arguments)
        }
    }
}

/// One module of `-initrd FILE ARGUMENTS,...`, in which a comma is written twice.
fn place(module: &Module, scratch: &Path) -> Result<String> {
    ensure!(
        !module.name.contains([',', ' ', '/']) && !module.name.is_empty(),
        "a module cannot be called '{}': spaces, commas and folders are not possible in its name",
        module.name
    );
    let path = scratch.join(&module.name);
    match &module.content {
        Content::File(file) => link(file, &path)?,
        Content::Bytes(bytes) => files::write(&path, bytes)?,
    }
    let arguments = module.arguments.replace(',', ",,");
    Ok(format!("{} {arguments}", module.name).trim_end().to_owned())
}

fn link(file: &Path, path: &Path) -> Result<()> {
    let file = std::fs::canonicalize(file).with_context(|| format!("cannot find {}", file.display()))?;
    std::os::unix::fs::symlink(&file, path)
        .with_context(|| format!("cannot make the link {}", path.display()))
}

/// With `-no-reboot` QEMU ends after a reset as it does after power-off; an event tells which it was.
const VERDICT: Verdict = |status, events| match status.success() {
    true if events.contains(GUEST_SHUTDOWN) => Ending::PowerOff,
    true if events.contains(GUEST_RESET) => Ending::Reset,
    _ => Ending::Failed,
};

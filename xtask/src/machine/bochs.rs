//! Bochs: Intel VMX and AMD SVM in software, instruction by instruction.

use super::console::Socket;
use super::running::{Logs, Verdict, spawn};
use super::{Boot, Ending, Limits, Machine, Payload, Running, medium};
use crate::setup::Need;
use crate::{files, paths};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Stdio;

/// Address space that Bochs needs besides the machine's memory.
const OVERHEAD: u64 = 2 << 30;
/// Most memory of a machine, in MiB.
const MOST_MEMORY: u64 = 2048;
/// File in the scratch folder with Bochs's own messages.
const LOG: &str = "bochs.log";
/// What the messages say when the software switches the machine off through ACPI.
const SOFT_POWER_OFF: &str = "ACPI control: soft power off";
/// What they say when a CPU shuts down after a triple fault.
const TRIPLE_FAULT: &str = "3rd (";

/// A machine of Bochs.
pub struct Bochs {
    name: String,
    model: String,
}

impl Bochs {
    /// Intel VMX.
    pub fn vmx(model: Option<&str>) -> Self {
        Self::new("bochs-vmx", model, "corei7_skylake_x")
    }

    /// AMD SVM.
    pub fn svm(model: Option<&str>) -> Self {
        Self::new("bochs-svm", model, "zambezi")
    }

    fn new(family: &str, model: Option<&str>, default: &str) -> Self {
        let name = model.map_or_else(|| family.to_owned(), |model| format!("{family}:{model}"));
        Self { name, model: model.unwrap_or(default).to_owned() }
    }

    fn configuration(&self, boot: &Boot, console_port: u16) -> String {
        let (model, memory) = (&self.model, boot.memory);
        // Bochs lacks MSRs that Linux reads without asking; anything else gets the #GP of real hardware.
        let ignore_bad_msrs = u8::from(matches!(boot.payload, Payload::Linux { .. }));
        format!(
            "plugin_ctrl: unmapped=1, biosdev=1, speaker=0, extfpuirq=1, parallel=0, serial=1, e1000=0
display_library: rfb, options=\"timeout=0\"
config_interface: textconfig
cpu: model={model}, count=1, ips=100000000, reset_on_triple_fault=0, ignore_bad_msrs={ignore_bad_msrs}
memory: guest={memory}, host={memory}
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=socket-client, dev=localhost:{console_port}
port_e9_hack: enabled=1
clock: sync=none, time0=local
log: {LOG}
panic: action=fatal
error: action=report
info: action=report
debug: action=ignore
"
        )
    }
}

impl Machine for Bochs {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs(&self) -> &'static [Need] {
        &[Need::Bochs, Need::Grub]
    }

    fn patience(&self) -> u32 {
        20
    }

    fn start(&self, boot: &Boot, limits: Limits) -> Result<Running> {
        ensure!(
            boot.memory <= MOST_MEMORY,
            "Bochs machines have at most {MOST_MEMORY} MiB of memory, not {}",
            boot.memory
        );
        let scratch = paths::scratch("bochs")?;
        let folder = scratch.path();
        medium::write_iso(&boot.payload, folder, &folder.join("boot.iso"))?;
        let socket = Socket::new()?;
        files::write(&folder.join("bochsrc"), self.configuration(boot, socket.port()?).as_bytes())?;
        // Debian's Bochs always starts in its debugger.
        files::write(&folder.join("commands"), b"c\n")?;
        let emulator = ["bochs", "-q", "-f", "bochsrc", "-rc", "commands"].map(str::to_owned);
        let messages = files::create(&folder.join("bochs.out"))?;
        let stdio = [Stdio::null(), messages.try_clone().context("Bochs's log")?.into(), messages.into()];
        let (mut child, group) = spawn(&emulator, (boot.memory << 20) + OVERHEAD, &scratch, stdio)?;
        let log = folder.join(LOG);
        let console = socket.accept(&mut child).with_context(|| words(folder))?;
        Ok(Running::new(
            (child, group),
            scratch,
            console,
            limits,
            Logs { messages: log.clone(), events: log },
            VERDICT,
        ))
    }
}

/// What Bochs has written, for an error message.
fn words(folder: &Path) -> String {
    let messages = std::fs::read(folder.join("bochs.out")).unwrap_or_default();
    format!("Bochs does not start:\n{}", String::from_utf8_lossy(&messages))
}

/// Bochs ends in the same way for every cause, but says which it was.
const VERDICT: Verdict = |_, log| {
    if log.contains(SOFT_POWER_OFF) {
        Ending::PowerOff
    } else if log.contains(TRIPLE_FAULT) {
        Ending::Reset
    } else {
        Ending::Failed
    }
};

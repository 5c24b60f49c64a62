//! Which machine this is, and the state in which every test finds it.

use crate::acpi::{self, Acpi};
use crate::boot::Boot;
use crate::hw::{hpet, ioapic, lapic, pic, pit};
use crate::single::Single;
use crate::{cpu, interrupt, memory, serial};
use x86defs::control::{Cr0, Cr4, Efer};
use x86defs::cpuid::{Leaf1Ecx, leaf};
use x86defs::{msr, reset};

/// CR0 outside of tests, paging aside.
pub const CR0: Cr0 = Cr0::PE.union(Cr0::ET).union(Cr0::NE).union(Cr0::WP);
/// CR4 outside of tests, PAE aside.
pub const CR4: Cr4 = Cr4::empty();
/// EFER outside of tests.
pub const EFER: Efer = Efer::LME.union(Efer::LMA).union(Efer::NXE);

/// Something that executes instructions or models devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// The hypervisor under test.
    Gossamer,
    /// QEMU without KVM.
    QemuTcg,
    /// Bochs.
    Bochs,
    /// Anything else, real hardware included.
    Other,
}

/// The machine as the guest finds it.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whose devices, CPUID and intercepted instructions the guest sees.
    pub platform: Maker,
    /// Who executes the other instructions. Under the hypervisor the command line says it: `on=qemu-...` or
    /// `on=bochs-...`, the name of the machine.
    pub cpu: Maker,
    /// Whether this run checks the tests (command line word `reference`) and not the hypervisor.
    pub reference: bool,
    /// Whether tests run where somebody is known to be wrong, too (command line word `no-excuses`).
    pub no_excuses: bool,
    /// From the ACPI tables.
    pub acpi: Option<Acpi>,
}

static MACHINE: Single<Machine> = Single::new(Machine {
    platform: Maker::Other,
    cpu: Maker::Other,
    reference: false,
    no_excuses: false,
    acpi: None,
});

/// Its signature in the hypervisor leaf.
pub const GOSSAMER_SIGNATURE: &[u8; 12] = b"GossamerGoss";
const TCG_SIGNATURE: &[u8; 12] = b"TCGTCGTCGTCG";
/// Manufacturer in the ACPI tables of Bochs, and of QEMU, which however shows a hypervisor leaf.
const BOCHS_OEM: &[u8; 6] = b"BOCHS ";

/// The machine.
pub fn get() -> Machine {
    MACHINE.load()
}

/// Finds out.
pub(crate) fn init(boot: &Boot) {
    let acpi = acpi::find(boot.rsdp);
    let platform = match hypervisor_signature() {
        Some(signature) if &signature == GOSSAMER_SIGNATURE => Maker::Gossamer,
        Some(signature) if &signature == TCG_SIGNATURE => Maker::QemuTcg,
        None if acpi.is_some_and(|a| &a.oem == BOCHS_OEM) => Maker::Bochs,
        _ => Maker::Other,
    };
    let cpu = match boot.value("on") {
        Some(name) if name.starts_with("qemu-svm") => Maker::QemuTcg,
        Some(name) if name.starts_with("bochs") => Maker::Bochs,
        _ => platform,
    };
    let (reference, no_excuses) = (boot.has_word("reference"), boot.has_word("no-excuses"));
    MACHINE.store(Machine { platform, cpu, reference, no_excuses, acpi });
}

/// The signature in the hypervisor leaf, if CPUID says that there is one.
pub fn hypervisor_signature() -> Option<[u8; 12]> {
    if !Leaf1Ecx::from_bits_retain(cpu::cpuid(leaf::FEATURES, 0).ecx).contains(Leaf1Ecx::HYPERVISOR) {
        return None;
    }
    let leaf = cpu::cpuid(leaf::HYPERVISOR, 0);
    let mut text = [0; 12];
    for (bytes, register) in text.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
        bytes.copy_from_slice(&register.to_le_bytes());
    }
    Some(text)
}

/// Puts the machine into the state that every test may rely on: boot page tables and control registers,
/// interrupts disabled and masked everywhere, no handlers, timers stopped.
pub fn restore() {
    interrupt::reset();
    // Every value is valid, so that a fault here is worth a line. CR8 follows the TPR below: QEMU may fail on MOV
    // to CR8 in an SVM guest.
    let restored = cpu::set_cr0(CR0 | Cr0::PG)
        .and_then(|()| cpu::set_cr4(CR4 | Cr4::PAE))
        .and_then(|()| cpu::wrmsr(msr::EFER, (EFER - Efer::LMA).bits()))
        .and_then(|()| cpu::wrmsr(msr::IA32_PAT, msr::PAT_RESET))
        .and_then(|()| cpu::set_dr7(reset::DR7_RESET));
    if let Err(fault) = restored {
        println!("cannot restore control registers: {fault}");
    }
    memory::reset();
    pic::init();
    pit::reset();
    ioapic::mask_all();
    hpet::reset();
    lapic::reset();
    serial::init();
}

/// Skips the test if `maker` is the one who is known to be wrong.
pub fn excuse(maker: Maker, wrong: Maker, why: &str) {
    if maker == wrong && !get().no_excuses {
        crate::skip!("{wrong:?} is wrong: {why}");
    }
}

/// Skips the test where the platform's devices, CPUID or intercepted instructions are known to be wrong.
#[macro_export]
macro_rules! platform_wrong {
    ($maker:ident, $why:literal) => {
        $crate::machine::excuse($crate::machine::get().platform, $crate::machine::Maker::$maker, $why)
    };
}

/// Skips the test where the CPU that executes the guest's instructions, below a hypervisor too, is known to be
/// wrong.
#[macro_export]
macro_rules! cpu_wrong {
    ($maker:ident, $why:literal) => {
        $crate::machine::excuse($crate::machine::get().cpu, $crate::machine::Maker::$maker, $why)
    };
}

/// Skips the test where the CPU that executes the guest's instructions is known to be wrong in guest mode (VMX
/// non-root operation or an SVM guest) though it is right on the bare machine. With a vendor it is wrong there
/// for CPUs of that vendor.
#[macro_export]
macro_rules! guest_mode_wrong {
    ($maker:ident, $why:literal) => {
        if !$crate::machine::get().reference {
            $crate::cpu_wrong!($maker, $why)
        }
    };
    ($maker:ident, $vendor:ident, $why:literal) => {
        if $crate::cpu::vendor() == $crate::cpu::Vendor::$vendor {
            $crate::guest_mode_wrong!($maker, $why)
        }
    };
}

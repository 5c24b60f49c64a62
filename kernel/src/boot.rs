//! Boot order: from the loader's hand-over to the virtual machines.
#![allow(unsafe_code, reason = "the hand-over")]

use crate::cpu::PerCpu;
use crate::hw::svm::Svm;
use crate::hw::vmx::Vmx;
use crate::hw::{Backend, Missing};
use crate::mem::stack::Stack;
use crate::mem::{self, paging};
use crate::{apic, config, console, cpu, machine, println, time, trap};
use abi::boot::{BOOT_STACK_SIZE, BOOT_STACK_TOP, BootInfo, MAGIC, VERSION};
use guestboot::config::OnExit;
use spin::Once;
use x86defs::addr::{Hpa, Hva};

static BOOTSTRAP_CPU: PerCpu = PerCpu::new();
static BOOT: Once<&'static BootInfo> = Once::new();

/// The loader jumps here with the physical address of its [`BootInfo`], on its own stack and page tables.
#[unsafe(no_mangle)]
extern "C" fn kernel_entry(boot_info: u64) -> ! {
    console::init();
    // Trap handlers look at the base of the current stack.
    Stack::at(Hva(BOOT_STACK_TOP - BOOT_STACK_SIZE)).bind(&BOOTSTRAP_CPU);
    trap::init();
    println!("Gossamer {}", env!("CARGO_PKG_VERSION"));
    // SAFETY: the loader's promise: the structure lies in memory that it has reserved.
    let boot = unsafe { mem::direct(Hpa(boot_info)).cast::<BootInfo>().as_ref() };
    assert!(
        boot.magic == MAGIC && boot.version == VERSION && boot.size as usize == size_of::<BootInfo>(),
        "loader and kernel are not of the same build (boot information version {}, expected {VERSION})",
        boot.version
    );
    BOOT.call_once(|| boot);
    mem::init(boot);
    paging::init(boot);
    let stack = Stack::unbound();
    // SAFETY: the loader has set EFER.NXE and CR0.WP; the new tables map the kernel's image and the new stack,
    // to which RSP moves in the same breath, since they do not map the loader's.
    unsafe {
        core::arch::asm!(
            "mov cr3, {root}",
            "mov rsp, {top}",
            "xor ebp, ebp",
            "call {main}",
            "ud2",
            root = in(reg) paging::root().0,
            top = in(reg) stack.top().0,
            main = sym on_own_stack,
            in("rdi") stack.base().0,
            options(noreturn)
        )
    }
}

/// Goes on with the kernel's own tables and stack.
extern "C" fn on_own_stack(stack: Hva) -> ! {
    Stack::at(stack).bind(&BOOTSTRAP_CPU);
    let boot = BOOT.get().expect("kernel_entry has set it");
    // SAFETY: once, and before any guest.
    unsafe { cpu::init() };
    vmm::emulate::prepare();
    let firmware = machine::init(boot);
    apic::init();
    let source = time::calibrate(firmware);
    let (mhz, khz) = (time::tsc_khz() / 1000, time::tsc_khz() % 1000);
    println!(
        "{} CPU(s), TSC {mhz}.{khz:03} MHz by {source}, {} MiB free",
        firmware.cpus.max(1),
        mem::available() >> 20
    );
    match choose() {
        Ok(run) => run(boot),
        Err(missing) => {
            println!("cannot run guests: {missing}");
            machine::power_off()
        }
    }
}

/// The backend for this CPU.
fn choose() -> Result<fn(&BootInfo) -> !, Missing> {
    let vendor = cpu::cpuid(0, 0);
    match (vendor.ebx, vendor.edx, vendor.ecx) {
        GENUINE_INTEL => Vmx::check().map(|()| start::<Vmx> as fn(&BootInfo) -> !),
        AUTHENTIC_AMD | HYGON_GENUINE => Svm::check().map(|()| start::<Svm> as fn(&BootInfo) -> !),
        _ => Err(Missing {
            what: "this CPU is neither Intel's nor AMD's (CPUID leaf 0)",
            advice: "use a CPU with VT-x or AMD-V",
        }),
    }
}

const fn word(text: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*text)
}

// Vendor strings in EBX, EDX, ECX.
const GENUINE_INTEL: (u32, u32, u32) = (word(b"Genu"), word(b"ineI"), word(b"ntel"));
const AUTHENTIC_AMD: (u32, u32, u32) = (word(b"Auth"), word(b"enti"), word(b"cAMD"));
const HYGON_GENUINE: (u32, u32, u32) = (word(b"Hygo"), word(b"nGen"), word(b"uine"));

fn start<B: Backend>(boot: &BootInfo) -> ! {
    // SAFETY: paging, traps and the stack are set up, and interrupts are off.
    if let Err(missing) = unsafe { B::enable() } {
        println!("cannot run guests: {missing}");
        machine::power_off()
    }
    println!("{}: {}", B::NAME, B::capabilities());
    let on_exit = config::run_all::<B>(boot);
    // SAFETY: no guest runs any more.
    unsafe { B::disable() };
    match on_exit {
        OnExit::Poweroff => machine::power_off(),
        OnExit::Reboot => machine::reset(),
        OnExit::Halt => {
            println!("all virtual machines have ended; halted");
            cpu::halt()
        }
    }
}

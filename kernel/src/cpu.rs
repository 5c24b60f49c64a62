//! Single instructions that the rest of the kernel needs, and what this CPU is.
#![allow(unsafe_code, reason = "privileged instructions")]

use core::arch::asm;
pub use core::arch::x86_64::CpuidResult;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use x86defs::control::{Cr4, Efer};

const MSR_EFER: u32 = 0xc000_0080;
/// Whether XSAVE and XCR0 exist: asked once, since CPUID is slow under another hypervisor.
static HAS_XSAVE: AtomicBool = AtomicBool::new(false);

const MSR_TSC_AUX: u32 = 0xc000_0103;

/// What the host keeps for one physical CPU. The base of every stack refers to it; see [`crate::mem::stack`].
pub struct PerCpu {
    /// Hazard word of the virtual CPU that is resident, by address; 0: none. Interrupt handlers raise it.
    pub hazard: AtomicUsize,
    /// Host TSC at which the host's timer fires; `u64::MAX`: not armed.
    pub armed: AtomicU64,
    /// Stack pointer to go back to when the resident virtual CPU stops.
    pub supervisor_sp: AtomicU64,
    /// Interrupts taken that nobody had asked for.
    pub spurious: AtomicU64,
    /// NMIs that arrived in root mode.
    pub nmis: AtomicU64,
}

impl PerCpu {
    /// A CPU with nothing resident.
    pub const fn new() -> Self {
        Self {
            hazard: AtomicUsize::new(0),
            armed: AtomicU64::new(u64::MAX),
            supervisor_sp: AtomicU64::new(0),
            spurious: AtomicU64::new(0),
            nmis: AtomicU64::new(0),
        }
    }
}

/// CPUID of the host.
pub fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    core::arch::x86_64::__cpuid_count(leaf, subleaf)
}

/// The time-stamp counter.
#[inline(always)]
pub fn rdtsc() -> u64 {
    // SAFETY: RDTSC has no effect on memory; CR4.TSD does not matter at CPL 0.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads an MSR; `None` if the CPU raises #GP.
pub fn rdmsr_safe(msr: u32) -> Option<u64> {
    let (low, high, failed): (u32, u32, u32);
    // SAFETY: a #GP is fixed up by going on at label 3 with `failed` still 1.
    unsafe {
        asm!(
            "mov {failed:e}, 1",
            "2: rdmsr",
            "mov {failed:e}, 0",
            "3:",
            ".pushsection .fixup, \"a\"",
            ".quad 2b, 3b",
            ".popsection",
            failed = out(reg) failed,
            in("ecx") msr, out("eax") low, out("edx") high,
            options(nostack)
        );
    }
    (failed == 0).then_some(u64::from(high) << 32 | u64::from(low))
}

/// Writes an MSR; `false` if the CPU raises #GP.
///
/// # Safety
/// The value must not break what the host relies on.
pub unsafe fn wrmsr_safe(msr: u32, value: u64) -> bool {
    let failed: u32;
    // SAFETY: a #GP is fixed up by going on at label 3 with `failed` still 1.
    unsafe {
        asm!(
            "mov {failed:e}, 1",
            "2: wrmsr",
            "mov {failed:e}, 0",
            "3:",
            ".pushsection .fixup, \"a\"",
            ".quad 2b, 3b",
            ".popsection",
            failed = out(reg) failed,
            in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack)
        );
    }
    failed == 0
}

/// Reads an MSR that is known to exist.
///
/// # Safety
/// The MSR exists: otherwise this is a host #GP.
pub unsafe fn rdmsr(msr: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high, options(nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Writes an MSR that is known to exist.
///
/// # Safety
/// The MSR exists, takes this value, and nothing that the host relies on breaks.
pub unsafe fn wrmsr(msr: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack, preserves_flags))
    };
}

/// EFER.
pub fn read_efer() -> Efer {
    // SAFETY: every CPU in long mode has EFER.
    Efer::from_bits_retain(unsafe { rdmsr(MSR_EFER) })
}

/// Sets EFER.
///
/// # Safety
/// Long mode and NX stay on; other bits are ones that this CPU knows.
pub unsafe fn write_efer(value: Efer) {
    // SAFETY: the caller's promise.
    unsafe { wrmsr(MSR_EFER, value.bits()) };
}

/// XCR0, which belongs to the resident guest; x87 alone on a CPU without it.
pub fn read_xcr0() -> u64 {
    if !HAS_XSAVE.load(Ordering::Relaxed) {
        return 1;
    }
    let (low, high): (u32, u32);
    // SAFETY: CR4.OSXSAVE is set at start.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Loads XCR0 where the CPU has it.
pub fn write_xcr0(value: u64) {
    if !HAS_XSAVE.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: CR4.OSXSAVE is set at start, and the value was checked against what the CPU offers (vmm::xcr0).
    unsafe {
        asm!("xsetbv", in("ecx") 0, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nomem, nostack, preserves_flags))
    };
}

/// TSC_AUX, which belongs to the resident guest; 0 on a CPU without it.
pub fn tsc_aux() -> u64 {
    rdmsr_safe(MSR_TSC_AUX).unwrap_or(0)
}

/// Sets TSC_AUX.
pub fn set_tsc_aux(value: u64) {
    // SAFETY: the host uses neither RDTSCP nor RDPID.
    unsafe { wrmsr_safe(MSR_TSC_AUX, value) };
}

/// CR4 bits that can be set on this CPU: those of every 64-bit CPU, and those that CPUID announces.
pub fn supported_cr4() -> Cr4 {
    let every = Cr4::TSD
        | Cr4::DE
        | Cr4::PSE
        | Cr4::PAE
        | Cr4::MCE
        | Cr4::PGE
        | Cr4::PCE
        | Cr4::OSFXSR
        | Cr4::OSXMMEXCPT;
    let (leaf1, leaf7) = (cpuid(1, 0), cpuid(7, 0));
    let announced = [
        (Cr4::VME | Cr4::PVI, leaf1.edx, 1),
        (Cr4::PCIDE, leaf1.ecx, 17),
        (Cr4::OSXSAVE, leaf1.ecx, 26),
        (Cr4::FSGSBASE, leaf7.ebx, 0),
        (Cr4::SMEP, leaf7.ebx, 7),
        (Cr4::SMAP, leaf7.ebx, 20),
        (Cr4::UMIP, leaf7.ecx, 2),
        (Cr4::PKE, leaf7.ecx, 3),
        (Cr4::CET, leaf7.ecx, 7),
        (Cr4::LA57, leaf7.ecx, 16),
        (Cr4::PKS, leaf7.ecx, 31),
    ];
    announced
        .into_iter()
        .filter(|(_, register, bit)| register & 1 << bit != 0)
        .fold(every, |all, (b, ..)| all | b)
}

/// Width of physical addresses in bits, as the guest has them, too.
pub fn physical_bits() -> u8 {
    const SMALLEST: u8 = 36;
    match cpuid(0x8000_0000, 0).eax {
        0x8000_0008.. => cpuid(0x8000_0008, 0).eax as u8,
        _ => SMALLEST,
    }
}

/// Microcode revision: in the upper half of IA32_BIOS_SIGN_ID on Intel, in the lower of PATCH_LEVEL on AMD, which
/// have the same number.
pub fn microcode_revision() -> u32 {
    let value = rdmsr_safe(x86defs::msr::IA32_BIOS_SIGN_ID).unwrap_or(0);
    if value >> 32 != 0 { (value >> 32) as u32 } else { value as u32 }
}

/// Sets the control registers up as the kernel and the guests' extended state need them.
///
/// # Safety
/// Called once on each CPU, before the first guest.
pub unsafe fn init() {
    let has_xsave = cpuid(1, 0).ecx & CPUID_XSAVE != 0;
    HAS_XSAVE.store(has_xsave, Ordering::Relaxed);
    // Without MCE a machine check would reset the machine without a word.
    let mut cr4 = Cr4::OSFXSR | Cr4::OSXMMEXCPT | Cr4::MCE;
    cr4.set(Cr4::OSXSAVE, has_xsave);
    // SAFETY: these bits enable instructions that the host does not use itself.
    unsafe {
        x86_64::registers::control::Cr4::update(|flags| {
            *flags |= x86_64::registers::control::Cr4Flags::from_bits_retain(cr4.bits())
        });
        // Floating point is the guests': it must neither trap nor be emulated.
        x86_64::registers::control::Cr0::update(|flags| {
            use x86_64::registers::control::Cr0Flags as F;
            *flags -= F::EMULATE_COPROCESSOR | F::TASK_SWITCHED;
            *flags |= F::MONITOR_COPROCESSOR | F::NUMERIC_ERROR;
        });
    }
}

/// CPUID.1:ECX: XSAVE exists.
const CPUID_XSAVE: u32 = 1 << 26;

/// Clears x87, SSE, all further extended state and DR0 to DR3, as a reset does: nothing of a guest before
/// is left. XCR0 is 1 afterwards.
pub fn reset_extended_state() {
    /// An XSAVE area whose header says that every component has its initial value (SDM 1, 13.4); as an FXSAVE
    /// image it says the same of x87 and SSE.
    #[repr(C, align(64))]
    struct Initial([u8; 4096]);
    const FCW: u16 = 0x37f;
    const MXCSR: u32 = 0x1f80;
    static INITIAL: Initial = {
        let mut area = [0; 4096];
        (area[0], area[1]) = (FCW as u8, (FCW >> 8) as u8);
        (area[24], area[25]) = (MXCSR as u8, (MXCSR >> 8) as u8);
        Initial(area)
    };
    // SAFETY: the area is a valid image; the host uses none of the registers.
    unsafe {
        asm!("fxrstor64 [{}]", in(reg) &INITIAL, options(nostack, readonly));
        if HAS_XSAVE.load(Ordering::Relaxed) {
            let all = cpuid(0xd, 0);
            write_xcr0(u64::from(all.edx) << 32 | u64::from(all.eax));
            asm!("xrstor64 [{}]", in(reg) &INITIAL, in("eax") u32::MAX, in("edx") u32::MAX, options(nostack, readonly));
            write_xcr0(1);
        }
        clear_breakpoint_addresses();
    }
}

/// Clears DR0 to DR3.
///
/// # Safety
/// Nobody has armed a breakpoint.
unsafe fn clear_breakpoint_addresses() {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mov dr0, {0}", "mov dr1, {0}", "mov dr2, {0}", "mov dr3, {0}", in(reg) 0u64,
            options(nomem, nostack, preserves_flags))
    };
}

/// Stops this CPU for good.
pub fn halt() -> ! {
    loop {
        // SAFETY: interrupts are off; an NMI only turns the loop once more.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// Raises the hazard word of the virtual CPU that is resident here, so that it leaves the fast path.
pub fn raise_hazard(cpu: &PerCpu, bits: u32) {
    let address = cpu.hazard.load(Ordering::Relaxed);
    if address != 0 {
        // SAFETY: `run` stores the address of a live hazard word and takes it back before that is freed.
        unsafe { &*(address as *const core::sync::atomic::AtomicU32) }.fetch_or(bits, Ordering::Relaxed);
    }
}

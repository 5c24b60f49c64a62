//! The machine layer of the two vendors, behind one seam.
//!
//! A backend turns its raw exit into [`vmm::Exit`] and gives [`vmm::Vcpu`]; everything that an exit means is
//! decided in `vmm`, once for both.
#![allow(unsafe_code, reason = "the seam declares what only the machine layer may do")]

pub mod svm;
pub mod vmx;

use core::fmt;
use vmm::state::VcpuState;
use x86defs::addr::Hpa;

/// What a virtual CPU is made from; physical addresses are the host's.
pub struct VcpuSetup {
    /// Number of the virtual CPU on this machine, from 0: tells its translations from others'.
    pub id: u32,
    /// Root of the nested page tables.
    pub nested_root: Hpa,
    /// Host TSC at which the guest's TSC reads zero.
    pub tsc_origin: u64,
    /// CR4 bits that the guest may set; setting any other raises #GP.
    pub allowed_cr4: u64,
}

/// A virtual CPU on the host: lies at the top of its own stack, so that the exit stub's pushes fill
/// `hw`'s general registers, its first field, and handlers go on below without a stack switch.
#[repr(C)]
pub struct Guest<B: Backend> {
    /// The backend's part; its first field is [`x86defs::gpr::Gprs`].
    pub hw: B::Vcpu,
    /// The vendor-neutral part.
    pub state: VcpuState,
}

/// Why this machine cannot run guests, in a sentence for a person.
#[derive(Debug)]
pub struct Missing {
    /// What is missing.
    pub what: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.advice)
    }
}

impl core::error::Error for Missing {}

/// One vendor's way to run guests.
pub trait Backend: Sized + 'static {
    /// A virtual CPU.
    type Vcpu: vmm::Vcpu;
    /// The nested page tables' format.
    type Format: vmm::nested::PageFormat + Send;
    /// "VMX" or "SVM".
    const NAME: &'static str;

    /// Whether this CPU can run guests, without changing anything.
    fn check() -> Result<(), Missing>;

    /// Switches virtualization on for this CPU and computes the controls. Called once per CPU, before any
    /// other function but `check`.
    ///
    /// # Safety
    /// Host paging, the IDT and the per-CPU stack are set up; interrupts are off.
    unsafe fn enable() -> Result<(), Missing>;

    /// What this CPU's virtualization can do, by the manual's names, in a line for a person.
    fn capabilities() -> impl fmt::Display;

    /// Switches virtualization off, so that INIT and resets work again.
    ///
    /// # Safety
    /// No guest runs on this CPU afterwards.
    unsafe fn disable();

    /// Features that need a control, and whether this CPU has that control.
    fn offered() -> vmm::cpuid::Offered;

    /// The nested page tables' format on this CPU (largest page, execute-only, ...).
    fn format() -> Self::Format;

    /// A new virtual CPU in the architectural reset state.
    fn new_vcpu(setup: &VcpuSetup) -> Self::Vcpu;

    /// Enters the guest, for ever: after each exit the stub calls the backend's handler, which calls
    /// [`vmm::exits::handle`] with the decoded exit, then [`crate::run::slow_path`] if the hazard word asks,
    /// and enters again.
    ///
    /// If `PROFILED`, each exit is handled inside [`crate::run::profiled`].
    ///
    /// # Safety
    /// `guest` is the top object of the current vCPU stack and stays valid; nobody else uses it.
    unsafe fn enter<const PROFILED: bool>(guest: *mut Guest<Self>) -> !;

    /// The virtual CPU ceases to be resident: descriptor tables and interrupts of the host are as they were before
    /// [`Backend::enter`]. What the guest has in other registers of this CPU is not saved; it stays there until the
    /// next virtual CPU begins with its own.
    fn leave(vcpu: &mut Self::Vcpu);

    /// Lets pending host interrupts in for a moment.
    fn take_interrupts();

    /// Halts this CPU until a host interrupt has been taken.
    fn idle();

    /// Prints what the hardware thinks of the guest, for a person. Must not fault.
    fn dump(vcpu: &Self::Vcpu);
}

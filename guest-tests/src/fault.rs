//! Recoverable faults. [`catch`] runs a closure and returns either its value or the exception that ended it.
//!
//! It works like `setjmp`: an assembly frame saves the callee-saved registers, flags and stack pointer before
//! the closure is called. An exception, or a panic, restores them and returns from that frame a second time.
//! What lies between is abandoned without running destructors, so closures must not own anything that needs
//! dropping; nothing in a guest does.

#![allow(unsafe_code, reason = "leaves frames without unwinding")]

use crate::gdt;
use crate::interrupt::Frame;
use crate::single::Single;
use core::arch::{asm, naked_asm};
use core::fmt;
use core::mem::MaybeUninit;
use x86defs::event::Exception;

/// An exception as the CPU delivered it, with the registers that tests ask for.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "register names")]
pub struct Fault {
    pub vector: u8,
    /// 0 for exceptions without one.
    pub error_code: u64,
    /// Means something for #PF only.
    pub cr2: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub rax: u64,
    pub rdx: u64,
}

impl Fault {
    pub(crate) fn of(frame: &Frame) -> Self {
        let &Frame { vector, error_code, rip, cs, rflags, rsp, ss, rax, rdx, .. } = frame;
        Self { vector: vector as u8, error_code, cr2: crate::cpu::cr2(), rip, cs, rflags, rsp, ss, rax, rdx }
    }
    /// Whether it is this exception with this error code.
    pub fn is(&self, exception: Exception, error_code: u64) -> bool {
        self.vector == exception as u8 && self.error_code == error_code
    }
}

/// The manuals' short names, by vector.
const MNEMONICS: [&str; 20] = [
    "#DE",
    "#DB",
    "NMI",
    "#BP",
    "#OF",
    "#BR",
    "#UD",
    "#NM",
    "#DF",
    "vector 9",
    "#TS",
    "#NP",
    "#SS",
    "#GP",
    "#PF",
    "vector 15",
    "#MF",
    "#AC",
    "#MC",
    "#XM",
];

/// The short name of an exception.
pub fn mnemonic(exception: Exception) -> &'static str {
    MNEMONICS.get(exception as usize).unwrap_or(&"exception")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vector, error_code, rip, .. } = *self;
        match MNEMONICS.get(usize::from(vector)) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "vector {vector}")?,
        }
        write!(f, "({error_code:#x}) at {rip:#x}")?;
        if vector == Exception::PageFault as u8 {
            write!(f, " for address {:#x}", self.cr2)?;
        }
        Ok(())
    }
}

/// Why a [`catch`] frame returned.
const RETURNED: u64 = 0;
const FAULTED: u64 = 1;
const ABANDONED: u64 = 2;

/// Stack pointer of the innermost catch frame; 0: none.
static INNERMOST: Single<u64> = Single::new(0);
static LAST_FAULT: Single<Option<Fault>> = Single::new(None);

/// How a closure under [`catch_all`] ended, other than by returning.
#[derive(Clone, Copy, Debug)]
pub enum Abort {
    /// By an exception.
    Fault(Fault),
    /// By [`abandon`].
    Abandoned,
}

/// Runs `f`; an exception in it ends it and becomes the error. A panic in it passes through.
pub fn catch<R>(f: impl FnOnce() -> R) -> Result<R, Fault> {
    match catch_all(f) {
        Ok(value) => Ok(value),
        Err(Abort::Fault(fault)) => Err(fault),
        Err(Abort::Abandoned) => abandon(),
    }
}

/// As [`catch`], and [`abandon`] ends here, too.
pub fn catch_all<R, F: FnOnce() -> R>(f: F) -> Result<R, Abort> {
    struct Call<F, R> {
        f: Option<F>,
        value: MaybeUninit<R>,
    }
    extern "C" fn run<R, F: FnOnce() -> R>(call: &mut Call<F, R>) {
        if let Some(f) = call.f.take() {
            call.value.write(f());
        }
    }
    let mut call = Call { f: Some(f), value: MaybeUninit::uninit() };
    let outer = INNERMOST.load();
    // SAFETY: `run` is given the structure that it expects; see the module's text for what is left behind.
    let how = unsafe { enter_frame(run::<R, F> as *const (), (&raw mut call).cast(), INNERMOST.get()) };
    INNERMOST.store(outer);
    match (how, LAST_FAULT.load()) {
        // SAFETY: `run` returned, so it has written the value.
        (RETURNED, _) => Ok(unsafe { call.value.assume_init() }),
        (FAULTED, Some(fault)) => Err(Abort::Fault(fault)),
        _ => Err(Abort::Abandoned),
    }
}

/// Ends the innermost [`catch`], if there is one, with `fault`.
pub(crate) fn raise(fault: Fault) {
    LAST_FAULT.store(Some(fault));
    if INNERMOST.load() != 0 {
        leave_frame(FAULTED);
    }
}

/// Ends the innermost [`catch_all`].
pub fn abandon() -> ! {
    assert!(INNERMOST.load() != 0, "nothing to return to");
    leave_frame(ABANDONED)
}

fn leave_frame(how: u64) -> ! {
    // SAFETY: INNERMOST is the stack pointer of a frame that has not returned. Data segments may be those of
    // another mode or privilege level; FS and GS are left alone, since nothing uses them.
    unsafe {
        asm!(
            "mov ds, {data:x}",
            "mov es, {data:x}",
            "mov ss, {data:x}",
            "mov rsp, {rsp}",
            "jmp {resume}",
            data = in(reg) u64::from(gdt::DATA),
            rsp = in(reg) INNERMOST.load(),
            resume = sym resume_frame,
            in("rax") how,
            options(noreturn)
        )
    }
}

/// Calls `run(data)` from a frame that [`leave_frame`] can return from; its stack pointer goes to `*frame`.
#[unsafe(naked)]
unsafe extern "C" fn enter_frame(run: *const (), data: *mut (), frame: *mut u64) -> u64 {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "pushfq",
        "mov [rdx], rsp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "mov eax, {returned}",
        "jmp {resume}",
        returned = const RETURNED,
        resume = sym resume_frame,
    )
}

/// The second half of [`enter_frame`].
#[unsafe(naked)]
unsafe extern "C" fn resume_frame() {
    naked_asm!("popfq", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret")
}

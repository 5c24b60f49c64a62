//! The CPU under the fuzzer as the judge of emulation: executes one 64-bit instruction with all registers and some
//! memory as asked, and says what became of them.

#![allow(unsafe_code, reason = "executes an instruction that an input chose")]

use std::arch::global_asm;
use std::ptr;
use std::sync::Once;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Linear address of the instruction. Low, so that 32-bit addresses and displacements can reach everything.
pub const CODE: u64 = 0x1000_0000;
/// Linear address of the memory that the instruction may change, with an unmapped page before and after it.
pub const DATA: u64 = CODE + 2 * PAGE as u64;
/// Its length.
pub const DATA_LEN: usize = 2 * PAGE;
/// The longest instruction.
pub const MAX_LEN: usize = 15;
/// Length of an instruction with the jump that follows it.
pub const CODE_LEN: usize = MAX_LEN + RETURN.len() + size_of::<u64>();

/// `jmp [rip]`, with the target behind it.
const RETURN: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];

/// General registers in the order of their numbers, and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub gprs: [u64; 16],
    /// RFLAGS.
    pub flags: u64,
}

/// What the stub below works on; targets have one thread.
#[unsafe(no_mangle)]
static mut FUZZ_REGISTERS: Registers = Registers { gprs: [0; 16], flags: 0 };
#[unsafe(no_mangle)]
static mut FUZZ_HOST_RSP: u64 = 0;
#[unsafe(no_mangle)]
static FUZZ_CODE: u64 = CODE;

global_asm!(
    ".global fuzz_execute",
    "fuzz_execute:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "mov [rip + FUZZ_HOST_RSP], rsp",
    "push qword ptr [rip + FUZZ_REGISTERS + 128]",
    "popfq",
    "mov rax, [rip + FUZZ_REGISTERS]",
    "mov rcx, [rip + FUZZ_REGISTERS + 8]",
    "mov rdx, [rip + FUZZ_REGISTERS + 16]",
    "mov rbx, [rip + FUZZ_REGISTERS + 24]",
    "mov rsp, [rip + FUZZ_REGISTERS + 32]",
    "mov rbp, [rip + FUZZ_REGISTERS + 40]",
    "mov rsi, [rip + FUZZ_REGISTERS + 48]",
    "mov rdi, [rip + FUZZ_REGISTERS + 56]",
    "mov r8, [rip + FUZZ_REGISTERS + 64]",
    "mov r9, [rip + FUZZ_REGISTERS + 72]",
    "mov r10, [rip + FUZZ_REGISTERS + 80]",
    "mov r11, [rip + FUZZ_REGISTERS + 88]",
    "mov r12, [rip + FUZZ_REGISTERS + 96]",
    "mov r13, [rip + FUZZ_REGISTERS + 104]",
    "mov r14, [rip + FUZZ_REGISTERS + 112]",
    "mov r15, [rip + FUZZ_REGISTERS + 120]",
    "jmp qword ptr [rip + FUZZ_CODE]",
    ".global fuzz_return",
    "fuzz_return:",
    "mov [rip + FUZZ_REGISTERS], rax",
    "mov [rip + FUZZ_REGISTERS + 8], rcx",
    "mov [rip + FUZZ_REGISTERS + 16], rdx",
    "mov [rip + FUZZ_REGISTERS + 24], rbx",
    "mov [rip + FUZZ_REGISTERS + 32], rsp",
    "mov [rip + FUZZ_REGISTERS + 40], rbp",
    "mov [rip + FUZZ_REGISTERS + 48], rsi",
    "mov [rip + FUZZ_REGISTERS + 56], rdi",
    "mov [rip + FUZZ_REGISTERS + 64], r8",
    "mov [rip + FUZZ_REGISTERS + 72], r9",
    "mov [rip + FUZZ_REGISTERS + 80], r10",
    "mov [rip + FUZZ_REGISTERS + 88], r11",
    "mov [rip + FUZZ_REGISTERS + 96], r12",
    "mov [rip + FUZZ_REGISTERS + 104], r13",
    "mov [rip + FUZZ_REGISTERS + 112], r14",
    "mov [rip + FUZZ_REGISTERS + 120], r15",
    "mov rsp, [rip + FUZZ_HOST_RSP]",
    "pushfq",
    "pop qword ptr [rip + FUZZ_REGISTERS + 128]",
    "cld",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
);

unsafe extern "C" {
    fn fuzz_execute();
    fn fuzz_return();
}

/// What lies at [`CODE`]: an instruction and the way back from it.
pub fn code(instruction: &[u8]) -> [u8; CODE_LEN] {
    let mut code = [0; CODE_LEN];
    let (jump, target) = (instruction.len(), instruction.len() + RETURN.len());
    code[..jump].copy_from_slice(instruction);
    code[jump..target].copy_from_slice(&RETURN);
    code[target..target + size_of::<u64>()].copy_from_slice(&(fuzz_return as *const () as u64).to_le_bytes());
    code
}

/// Executes what [`code`] gave, with `data` at [`DATA`], which gets what is there afterwards.
///
/// # Safety
/// The instruction goes on behind itself, and accesses nothing but what is mapped at [`CODE`], to be read, and at
/// [`DATA`]. It changes nothing but that memory, general registers, and status flags and DF.
pub unsafe fn execute(code: &[u8; CODE_LEN], registers: &Registers, data: &mut [u8; DATA_LEN]) -> Registers {
    prepare();
    // SAFETY: Both areas have been mapped and nobody else uses them. The stub saves what its caller owns; the rest is
    // promised by the caller.
    unsafe {
        ptr::copy_nonoverlapping(code.as_ptr(), CODE as *mut u8, CODE_LEN);
        ptr::copy_nonoverlapping(data.as_ptr(), DATA as *mut u8, DATA_LEN);
        FUZZ_REGISTERS = *registers;
        fuzz_execute();
        ptr::copy_nonoverlapping(DATA as *const u8, data.as_mut_ptr(), DATA_LEN);
        FUZZ_REGISTERS
    }
}

/// Maps the areas, once.
fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        map(CODE, PAGE, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
        map(DATA, DATA_LEN, libc::PROT_READ | libc::PROT_WRITE);
    });
}

fn map(at: u64, len: usize, protection: i32) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: A new mapping that replaces nothing.
    let mapped = unsafe { libc::mmap(at as *mut libc::c_void, len, protection, flags, -1, 0) };
    assert_eq!(mapped as u64, at, "the address is taken");
}

/// Lets the fuzzer's signal handlers run on a stack of their own, since RSP may be anything. To be called before they
/// are installed.
pub fn keep_signals_off_the_stack() {
    const STACK: usize = 1 << 18;
    let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
    let alternative = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: The stack is never freed. The actions are the default ones; libFuzzer keeps the flag when it replaces
    // them.
    unsafe {
        assert_eq!(libc::sigaltstack(&alternative, ptr::null_mut()), 0);
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGALRM]
        {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_flags_and_memory_come_back() {
        let mut registers = Registers { flags: 0x202, ..Registers::default() };
        registers.gprs = std::array::from_fn(|n| n as u64);
        registers.gprs[3] = DATA + 8;
        registers.gprs[0] = 0xff;
        let mut data = [0; DATA_LEN];
        data[8] = 1;
        // add byte ptr [rbx], al
        // SAFETY: It accesses the data and nothing else.
        let after = unsafe { execute(&code(&[0x00, 0x03]), &registers, &mut data) };
        assert_eq!(after.gprs, registers.gprs);
        assert_eq!((data[8], after.flags & 0x8d5), (0, 0x55), "CF, PF, AF and ZF");
    }
}

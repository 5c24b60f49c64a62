//! Addresses that no register should hold, in every register that may hold one.

#![allow(unsafe_code, reason = "chosen instructions")]

use core::arch::asm;
use runtime::cpu;
use runtime::fault::{catch, catch_all};
use runtime::guest_test;
use runtime::memory::{self, PAGE, PRESENT, Space, WRITABLE, write8};
use x86defs::control::Efer;
use x86defs::msr;

const ODD: [u64; 6] =
    [1 << 47, (1 << 47) + PAGE, 1 << 63, 0xffff_7fff_ffff_ffff, 0xffff_0000_0000_0000, 0x1234_5678_9abc_def0];
/// The last page of the lower half.
const LAST_PAGE: u64 = (1 << 47) - PAGE;
/// What can be done with an address that is not canonical.
fn use_it(odd: u64) {
    // SAFETY: each of these is an exception, or changes nothing that the guest needs.
    unsafe {
        let _ = catch(|| asm!("jmp {}", in(reg) odd));
        let _ = catch(|| asm!("push {}", "ret", in(reg) odd));
        let _ = catch(|| asm!("mov rax, [{}]", in(reg) odd, out("rax") _));
        let _ = catch(|| asm!("mov rbx, rsp", "mov rsp, {}", "push rax", "mov rsp, rbx", in(reg) odd));
        let _ = catch(|| {
            asm!("mov r15, rbp", "mov rbp, {}", "mov rax, [rbp]", "mov rbp, r15", in(reg) odd,
            out("rax") _, out("r15") _)
        });
        let _ = catch(|| asm!("invlpg [{}]", in(reg) odd));
        let _ = catch(|| asm!("clflush [{}]", in(reg) odd));
        let _ = catch(|| asm!("rep outsb", in("rsi") odd, in("rcx") 1, in("rdx") 0x80));
        let _ = catch(|| asm!("rep insb", in("rdi") odd, in("rcx") 1, in("rdx") 0x80));
        let _ = catch(|| asm!("cmpxchg16b [{}]", in(reg) odd, out("rax") _, out("rdx") _, in("rcx") 0));
    }
    for register in [
        msr::FS_BASE,
        msr::GS_BASE,
        msr::KERNEL_GS_BASE,
        msr::LSTAR,
        msr::CSTAR,
        msr::IA32_SYSENTER_ESP,
        msr::IA32_SYSENTER_EIP,
    ] {
        let _ = cpu::wrmsr(register, odd);
    }
    let _ = cpu::set_cr2(odd);
    let _ = cpu::set_dr0(odd);
}

guest_test!(addresses);
fn addresses() {
    for odd in ODD {
        use_it(odd);
    }
}

guest_test!(entry_points);
/// SYSCALL and SYSENTER to whatever their registers could be made to hold.
fn entry_points() {
    for odd in ODD {
        for (register, value) in [
            (msr::LSTAR, odd),
            (msr::IA32_SYSENTER_EIP, odd),
            (msr::IA32_SYSENTER_ESP, odd),
            (msr::IA32_SYSENTER_CS, 8),
        ] {
            let _ = cpu::wrmsr(register, value);
        }
        let _ = cpu::wrmsr(msr::EFER, (cpu::efer() | Efer::SCE).bits());
        // SAFETY: both end in an exception.
        let _ = catch_all(|| unsafe { asm!("syscall", out("rcx") _, out("r11") _) });
        // SAFETY: as above.
        let _ = catch_all(|| unsafe { asm!("sysenter") });
    }
}

guest_test!(exits_at_the_end_of_the_lower_half);
/// Instructions that exit, as the last bytes before the hole: the one that follows has no canonical address.
fn exits_at_the_end_of_the_lower_half() {
    const CODES: [&[u8]; 14] = [
        &[0x0f, 0xa2],       // CPUID
        &[0x0f, 0x32],       // RDMSR
        &[0x0f, 0x30],       // WRMSR
        &[0xe4, 0x80],       // IN AL, 80h
        &[0xe6, 0x80],       // OUT 80h, AL
        &[0x6e],             // OUTSB
        &[0x6c],             // INSB
        &[0x0f, 0x08],       // INVD
        &[0x0f, 0x09],       // WBINVD
        &[0x0f, 0x22, 0xc0], // MOV CR0, RAX
        &[0x0f, 0x20, 0xc0], // MOV RAX, CR0
        &[0x0f, 0x01, 0xd1], // XSETBV
        &[0x8b, 0x07],       // MOV EAX, [RDI]
        &[0x0f, 0xb6, 0x07], // MOVZX EAX, BYTE PTR [RDI]
    ];
    let space = Space::new();
    let frame = memory::frame();
    space.map(LAST_PAGE, frame, PRESENT | WRITABLE);
    space.activate();
    for code in CODES {
        let start = PAGE - code.len() as u64;
        for (offset, byte) in (start..).zip(code) {
            write8(frame + offset, *byte);
        }
        // SAFETY: the exception at the end of the code ends it. RDI is a device, RAX a value of CR0.
        let _ = catch(|| unsafe {
            asm!("call {}", in(reg) LAST_PAGE + start, in("rcx") 0x10, in("rdi") 0xfee0_0030u64,
                in("rax") cpu::cr0_bits(), clobber_abi("C"))
        });
    }
}

//! A new VMCS: controls, the host's state, and what of the guest's state [`vmm::Vcpu`] does not reach.
#![allow(unsafe_code, reason = "pages shared with the CPU")]

use super::capabilities::Capabilities;
use super::instructions::{invept, make_current, vmclear, vmwrite};
use crate::hw::VcpuSetup;
use crate::{cpu, mem, time, trap};
use core::arch::asm;
use core::ptr::NonNull;
use x86_64::registers::control::{Cr0, Cr3, Cr4};
use x86defs::addr::{Hpa, PAGE_SIZE};
use x86defs::event::Exception;
use x86defs::vmcs;
use x86defs::vmx::{ActivityState, PinControls, SecondaryControls};
use x86defs::{ept, msr};

/// How long a guest may run before interrupts are looked for.
const SLICE_MS: u64 = 10;

/// A guest could otherwise loop inside the CPU delivering the first two for ever; machine checks are the host's.
const EXITING_EXCEPTIONS: u32 = 1 << Exception::Debug as u32
    | 1 << Exception::AlignmentCheck as u32
    | 1 << Exception::MachineCheck as u32;

/// Pages that belong to a virtual CPU; freed when dropped.
pub(super) struct Pages {
    vmcs: Hpa,
    msr_bitmap: Hpa,
    virtual_apic: Hpa,
}

impl Pages {
    fn new(capabilities: &Capabilities) -> Self {
        Self { vmcs: region(capabilities), msr_bitmap: msr_bitmap(), virtual_apic: page() }
    }

    /// The task priority in the virtual-APIC page (SDM 3, 30.1.1).
    pub(super) fn vtpr(&self) -> NonNull<u8> {
        const OFFSET: usize = 0x80;
        // SAFETY: inside the page.
        unsafe { mem::direct(self.virtual_apic).add(OFFSET) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the guest never runs again; after VMCLEAR the CPU has let go of the region, and of the pages that it
        // refers to.
        unsafe {
            vmclear(self.vmcs);
            for page in [self.vmcs, self.msr_bitmap, self.virtual_apic] {
                mem::free(page, PAGE_SIZE as usize);
            }
        }
    }
}

fn page() -> Hpa {
    mem::alloc_zeroed(PAGE_SIZE as usize, PAGE_SIZE)
}

/// A zeroed page that begins with the VMCS revision identifier.
pub(super) fn region(capabilities: &Capabilities) -> Hpa {
    let page = page();
    // SAFETY: just allocated, and large enough.
    unsafe { mem::direct(page).cast::<u32>().write(capabilities.basic.revision()) };
    page
}

/// Makes a new VMCS, current on this CPU from now on, and fills in everything that stays as it is.
pub(super) fn new_vmcs(setup: &VcpuSetup, vpid: u16) -> Pages {
    let capabilities = Capabilities::get();
    let pages = Pages::new(capabilities);
    // SAFETY: a fresh region with the right revision.
    unsafe { make_current(pages.vmcs) }.expect("a fresh VMCS region is accepted");
    controls(capabilities);
    vmwrite(vmcs::VIRTUAL_APIC_ADDRESS, pages.virtual_apic.0);
    vmwrite(vmcs::MSR_BITMAP, pages.msr_bitmap.0);
    if capabilities.secondary.contains(SecondaryControls::ENABLE_VPID) {
        vmwrite(vmcs::VPID, vpid);
    }
    let ept_pointer = ept::pointer(setup.nested_root);
    vmwrite(vmcs::EPT_POINTER, ept_pointer);
    invept(ept_pointer);
    host_state();
    guest_state();
    pages
}

fn controls(capabilities: &Capabilities) {
    vmwrite(vmcs::PIN_BASED_CONTROLS, capabilities.pin.bits());
    vmwrite(vmcs::PRIMARY_PROCESSOR_BASED_CONTROLS, capabilities.primary.bits());
    vmwrite(vmcs::SECONDARY_PROCESSOR_BASED_CONTROLS, capabilities.secondary.bits());
    vmwrite(vmcs::PRIMARY_VM_EXIT_CONTROLS, capabilities.exit.bits());
    vmwrite(vmcs::VM_ENTRY_CONTROLS, capabilities.entry.bits());
    vmwrite(vmcs::EXCEPTION_BITMAP, EXITING_EXCEPTIONS);
    vmwrite(vmcs::PAGE_FAULT_ERROR_CODE_MASK, 0);
    vmwrite(vmcs::PAGE_FAULT_ERROR_CODE_MATCH, 0);
    vmwrite(vmcs::CR3_TARGET_COUNT, 0);
    vmwrite(vmcs::VM_EXIT_MSR_STORE_COUNT, 0);
    vmwrite(vmcs::VM_EXIT_MSR_LOAD_COUNT, 0);
    vmwrite(vmcs::VM_ENTRY_MSR_LOAD_COUNT, 0);
    vmwrite(vmcs::TPR_THRESHOLD, 0);
    start_slice(capabilities);
    if capabilities.secondary.contains(SecondaryControls::ENABLE_ENCLS_EXITING) {
        vmwrite(vmcs::ENCLS_EXITING_BITMAP, u64::MAX);
    }
    if capabilities.secondary.contains(SecondaryControls::ENABLE_XSAVES) {
        vmwrite(vmcs::XSS_EXITING_BITMAP, 0);
    }
}

/// Winds the preemption timer up. It stands still during exits, where the CPU can save it; else each entry winds it up.
pub(super) fn start_slice(capabilities: &Capabilities) {
    if capabilities.pin.contains(PinControls::ACTIVATE_PREEMPTION_TIMER) {
        let ticks = (time::tsc_khz() * SLICE_MS) >> capabilities.misc.preemption_timer_shift();
        vmwrite(vmcs::VMX_PREEMPTION_TIMER_VALUE, ticks as u32);
    }
}

fn host_state() {
    for selector in [vmcs::HOST_ES_SELECTOR, vmcs::HOST_SS_SELECTOR, vmcs::HOST_DS_SELECTOR] {
        vmwrite(selector, trap::DATA_SELECTOR);
    }
    vmwrite(vmcs::HOST_CS_SELECTOR, trap::CODE_SELECTOR);
    vmwrite(vmcs::HOST_TR_SELECTOR, trap::TSS_SELECTOR);
    vmwrite(vmcs::HOST_FS_SELECTOR, 0);
    vmwrite(vmcs::HOST_GS_SELECTOR, 0);
    vmwrite(vmcs::HOST_FS_BASE, 0);
    vmwrite(vmcs::HOST_GS_BASE, 0);
    vmwrite(vmcs::HOST_TR_BASE, trap::tss_base());
    vmwrite(vmcs::HOST_GDTR_BASE, trap::gdt_base());
    vmwrite(vmcs::HOST_IDTR_BASE, trap::idt_base());
    vmwrite(vmcs::HOST_CR0, Cr0::read_raw());
    let (root, flags) = Cr3::read_raw();
    vmwrite(vmcs::HOST_CR3, root.start_address().as_u64() | u64::from(flags));
    vmwrite(vmcs::HOST_CR4, Cr4::read_raw());
    vmwrite(vmcs::HOST_IA32_EFER, cpu::read_efer().bits());
    vmwrite(vmcs::HOST_IA32_SYSENTER_CS, 0);
    vmwrite(vmcs::HOST_IA32_SYSENTER_ESP, 0);
    vmwrite(vmcs::HOST_IA32_SYSENTER_EIP, 0);
}

/// The CPU always enters in the active state: a guest in HLT waits in the host.
fn guest_state() {
    vmwrite(vmcs::VMCS_LINK_POINTER, u64::MAX);
    vmwrite(vmcs::GUEST_ACTIVITY_STATE, ActivityState::Active as u32);
    vmwrite(vmcs::GUEST_INTERRUPTIBILITY_STATE, 0);
    vmwrite(vmcs::GUEST_PENDING_DEBUG_EXCEPTIONS, 0);
    vmwrite(vmcs::GUEST_IA32_DEBUGCTL, 0);
    vmwrite(vmcs::VM_ENTRY_INTERRUPTION_INFORMATION, 0);
}

/// Ones where an access exits: everything but what the policy passes through (SDM 3, 25.6.9).
fn msr_bitmap() -> Hpa {
    /// First MSR of the low and of the high half, each of 0x2000 MSRs.
    const HALVES: [(u32, usize); 2] = [(0, 0), (0xc000_0000, 0x400)];
    /// Where the bits for writes begin.
    const WRITE: usize = 0x800;
    let map = page();
    // SAFETY: just allocated, a page long, referred to by nobody else yet.
    let bytes = unsafe { core::slice::from_raw_parts_mut(mem::direct(map).as_ptr(), PAGE_SIZE as usize) };
    bytes.fill(0xff);
    for direct in vmm::msr::direct() {
        let half = HALVES.into_iter().find(|(first, _)| direct.number.wrapping_sub(*first) < 0x2000);
        let Some((first, offset)) = half else { continue };
        let number = (direct.number - first) as usize;
        let (byte, bit) = (offset + number / 8, 1 << (number % 8));
        if direct.read {
            bytes[byte] &= !bit;
        }
        if direct.write {
            bytes[WRITE + byte] &= !bit;
        }
    }
    map
}

/// State of a guest that lives in the CPU itself while it is resident, as RESET leaves it.
pub(super) fn reset_resident_state() {
    for number in [msr::STAR, msr::LSTAR, msr::CSTAR, msr::FMASK, msr::KERNEL_GS_BASE] {
        // SAFETY: the host uses neither SYSCALL nor SWAPGS; zero is valid for each.
        unsafe { cpu::wrmsr(number, 0) };
    }
    cpu::set_tsc_aux(0);
    // SAFETY: the host arms no breakpoint, so what the registers hold does not matter to it.
    unsafe {
        asm!("mov dr0, {0}", "mov dr1, {0}", "mov dr2, {0}", "mov dr3, {0}", in(reg) 0_u64,
            options(nomem, nostack, preserves_flags));
    }
}

//! Says why the CPU refused to enter the guest.

use super::capabilities::Capabilities;
use super::instructions::{vmread, vmread_checked};
use crate::println;
use vmm::Exit;
use x86defs::vmcs;
use x86defs::vmx::{EntryFailure, ExitReason, InstructionError, InvalidSource, check_guest_state};

/// VMLAUNCH or VMRESUME failed on controls or host state, and left a number.
#[cold]
pub(super) fn instruction() -> Exit {
    let error = InstructionError(vmread(vmcs::VM_INSTRUCTION_ERROR));
    println!("VM entry failed: {} (VM-instruction error {})", error.meaning(), error.0);
    all_fields();
    Exit::EntryFailed
}

/// The entry failed while it loaded the guest's state. Names the checks that fail.
#[cold]
pub(super) fn guest_state(reason: ExitReason) -> Exit {
    let qualification = vmread(vmcs::EXIT_QUALIFICATION);
    match reason.entry_failure() {
        Some(EntryFailure::MsrLoading) => {
            println!("VM entry failed: MSR-load entry {qualification} is refused")
        }
        Some(EntryFailure::MachineCheck) => println!("VM entry failed: a machine check during the entry"),
        _ => println!("VM entry failed on the guest's state: {}", InvalidSource(qualification)),
    }
    let mut found = false;
    check_guest_state(&vmread_checked, &Capabilities::get().limits, &mut |violation| {
        found = true;
        println!("  violated: {}", violation.rule);
        for field in violation.fields {
            println!("    {} = {:#x}", field.name(), vmread_checked(*field).unwrap_or(0));
        }
    });
    if !found {
        println!("  every check that is known here holds");
        all_fields();
    }
    Exit::EntryFailed
}

/// Every field that this CPU has.
fn all_fields() {
    for (field, name) in vmcs::ALL {
        if let Some(value) = vmread_checked(*field) {
            println!("  {name} = {value:#x}");
        }
    }
}

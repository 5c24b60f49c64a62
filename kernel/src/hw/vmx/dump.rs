//! The guest as the VMCS has it, for a person.

use super::instructions::vmread_checked;
use super::vcpu::VmxVcpu;
use crate::println;
use vmm::Vcpu as _;
use x86defs::segment::SegmentName;
use x86defs::vmcs::{self, Encoding};
use x86defs::vmx::ExitReason;

/// Lines of the dump: a title and fields.
const LINES: [(&str, &[Encoding]); 6] = [
    (
        "exit",
        &[
            vmcs::EXIT_QUALIFICATION.encoding(),
            vmcs::GUEST_LINEAR_ADDRESS.encoding(),
            vmcs::GUEST_PHYSICAL_ADDRESS.encoding(),
            vmcs::VM_EXIT_INSTRUCTION_LENGTH.encoding(),
        ],
    ),
    (
        "events",
        &[
            vmcs::VM_EXIT_INTERRUPTION_INFORMATION.encoding(),
            vmcs::IDT_VECTORING_INFORMATION.encoding(),
            vmcs::VM_ENTRY_INTERRUPTION_INFORMATION.encoding(),
            vmcs::GUEST_INTERRUPTIBILITY_STATE.encoding(),
            vmcs::GUEST_ACTIVITY_STATE.encoding(),
        ],
    ),
    ("where", &[vmcs::GUEST_RIP.encoding(), vmcs::GUEST_RSP.encoding(), vmcs::GUEST_RFLAGS.encoding()]),
    (
        "control registers",
        &[
            vmcs::GUEST_CR0.encoding(),
            vmcs::CR0_READ_SHADOW.encoding(),
            vmcs::GUEST_CR3.encoding(),
            vmcs::GUEST_CR4.encoding(),
        ],
    ),
    (
        "tables",
        &[
            vmcs::GUEST_GDTR_BASE.encoding(),
            vmcs::GUEST_GDTR_LIMIT.encoding(),
            vmcs::GUEST_IDTR_BASE.encoding(),
            vmcs::GUEST_IDTR_LIMIT.encoding(),
        ],
    ),
    (
        "controls",
        &[
            vmcs::PIN_BASED_CONTROLS.encoding(),
            vmcs::PRIMARY_PROCESSOR_BASED_CONTROLS.encoding(),
            vmcs::SECONDARY_PROCESSOR_BASED_CONTROLS.encoding(),
            vmcs::PRIMARY_VM_EXIT_CONTROLS.encoding(),
            vmcs::VM_ENTRY_CONTROLS.encoding(),
        ],
    ),
];

/// Prints it. A field that this CPU lacks is left out.
pub(super) fn print(vcpu: &VmxVcpu) {
    let reason = vmread_checked(vmcs::EXIT_REASON.encoding()).unwrap_or(0);
    println!("  exit reason {:?}, efer {:#x}", ExitReason(reason as u32), vcpu.efer().bits());
    for (title, fields) in LINES {
        println!("  {title}:");
        for field in fields {
            if let Some(value) = vmread_checked(*field) {
                println!("    {} = {value:#x}", field.name());
            }
        }
    }
    for name in SegmentName::ALL {
        let s = vcpu.segment(name);
        println!(
            "  {name:?}: {:#06x} base {:#x} limit {:#x} access rights {:#x}",
            s.selector,
            s.base,
            s.limit,
            s.attributes.bits()
        );
    }
}

//! The end of an NMI handler. SVM tells that IRET is about to execute, and NMIs stay blocked until it has: if one
//! waits, the IRET is single-stepped. The guest sees neither TF, since whatever the IRET raises exits first, nor the
//! debug exception.

use super::controls::INTERCEPT_EXCEPTIONS;
use super::vcpu::SvmVcpu;
use vmm::{Exit, Vcpu as _, vcpu::Window};
use x86defs::control::Rflags;
use x86defs::event::{Event, Exception};
use x86defs::svm::{Clean, Intercept3};

/// DR6.B0 to B3: breakpoint conditions (SDM 3, 18.2.3).
const DR6_BREAKPOINTS: u64 = 0xf;
/// Every exception; vector 2 is not one.
const ALL_EXCEPTIONS: u32 = !(1 << Exception::NonMaskable as u32);

/// An IRET that is single-stepped, and what the guest had before.
pub(super) struct IretStep {
    rip: u64,
    trap_flag: bool,
    dr6: u64,
}

impl SvmVcpu {
    /// The NMI handler's IRET is about to execute.
    #[cold]
    pub(super) fn nmi_handler_returns(&mut self) {
        if !self.nmi_waits {
            return self.block_nmis(false);
        }
        self.set_window(Window::Interrupt, false);
        let save = self.save();
        let trap_flag = save.rflags & Rflags::TF.bits() != 0;
        self.iret_step = Some(IretStep { rip: save.rip, trap_flag, dr6: save.dr6 });
        self.save_mut(Clean::empty()).rflags |= Rflags::TF.bits();
        let control = self.control_mut(Clean::I);
        control.intercept3.remove(Intercept3::IRET);
        control.intercept_exceptions = ALL_EXCEPTIONS;
    }

    /// An exception ends the step: the expected one, or one that the IRET raises, which the guest gets.
    #[cold]
    pub(super) fn end_step(&mut self, step: &IretStep, vector: u8) -> Exit {
        self.control_mut(Clean::I).intercept_exceptions = INTERCEPT_EXCEPTIONS;
        let stepped = vector == Exception::Debug as u8;
        // Some emulators trap before the instruction.
        let executed = stepped && self.save().rip != step.rip;
        if !executed {
            let rflags = &mut self.save_mut(Clean::empty()).rflags;
            *rflags = *rflags & !Rflags::TF.bits() | if step.trap_flag { Rflags::TF.bits() } else { 0 };
        }
        let breakpoint = stepped && self.save().dr6 & DR6_BREAKPOINTS & !step.dr6 != 0;
        if stepped && !step.trap_flag && !breakpoint {
            self.save_mut(Clean::DRX).dr6 = step.dr6;
            self.block_nmis(false);
        } else {
            self.reflect(vector);
            // The waiting NMI comes after the handler of this exception.
            self.block_nmis(true);
        }
        Exit::NmiWindow
    }

    /// Gives the guest the exception that has exited.
    fn reflect(&mut self, vector: u8) {
        let (error_code, address) = (self.control().exitinfo1 as u32, self.control().exitinfo2);
        if vector == Exception::PageFault as u8 {
            self.set_cr2(address);
        }
        let error_code = Event::has_error_code(vector).then_some(error_code);
        self.inject(Event { vector, error_code, ..Event::exception(Exception::Debug) });
    }
}

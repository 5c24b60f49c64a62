//! The virtual local APIC (SDM 3, chapter 11). It is touched only by the CPU that runs its virtual CPU, so
//! it has no locks; everybody else posts into its [`Mailbox`].
//!
//! Time is the guest's TSC. Writes return a [`LapicEffect`] for the router to apply.

mod bitmap;
mod ipi;
mod lvt;
mod mailbox;
mod mode;
mod registers;
mod timer;
mod x2apic;

#[cfg(test)]
mod tests;

pub use ipi::{Address, Ipi, Target};
pub use mailbox::{Line, Mailbox};
pub use mode::ApicMode;
pub use timer::TimerClock;

use bitmap::Vectors;
use lvt::{ENTRIES, Entry};
use timer::Timer;
use x86defs::apic::{self, ApicBase, DeliveryMode, Esr, Lvt, Svr};

/// What a write asks its surroundings to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LapicEffect {
    /// Nothing. What is pending may have changed, as after any write.
    Nothing,
    /// Deliver an interprocessor interrupt.
    Ipi(Ipi),
    /// Tell the IOAPICs that a level-triggered interrupt with this vector is over.
    Eoi(u8),
    /// [`Lapic::deadline`] may have changed.
    Deadline,
    /// [`Lapic::address`] may have changed: publish it in the mailbox.
    Address,
}

/// What the mailbox held that concerns the whole virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Reset this CPU as INIT does; comes before `startup`.
    pub init: bool,
    /// Start at this page, if waiting for it.
    pub startup: Option<u8>,
}

/// A virtual local APIC.
#[derive(Clone, Debug)]
pub struct Lapic {
    irr: Vectors,
    isr: Vectors,
    tmr: Vectors,
    tpr: u8,
    /// Processor priority, kept up to date with TPR and ISR.
    ppr: u8,
    /// The highest vector in ISR; 0 if there is none.
    in_service: u8,
    mode: ApicMode,
    base: u64,
    /// The bits that a guest physical address can have.
    address_mask: u64,
    id: u32,
    ldr: u8,
    dfr: u32,
    svr: Svr,
    esr: Esr,
    esr_pending: Esr,
    icr_low: u32,
    icr_destination: u32,
    lvt: [Lvt; ENTRIES],
    timer: Timer,
    lines: [bool; 2],
    nmi: bool,
}

impl Lapic {
    /// The local APIC after reset. `physical_bits` is the width of guest physical addresses.
    pub fn new(id: u32, bootstrap: bool, physical_bits: u8, clock: TimerClock) -> Self {
        let bsp = if bootstrap { ApicBase::BSP } else { ApicBase::empty() };
        Self {
            irr: Vectors::default(),
            isr: Vectors::default(),
            tmr: Vectors::default(),
            tpr: 0,
            ppr: 0,
            in_service: 0,
            mode: ApicMode::XApic,
            base: apic::DEFAULT_BASE | (bsp | ApicBase::EN).bits(),
            address_mask: (1 << physical_bits) - 1,
            id,
            ldr: 0,
            dfr: apic::DFR_FLAT,
            svr: Svr::VECTOR,
            esr: Esr::empty(),
            esr_pending: Esr::empty(),
            icr_low: 0,
            icr_destination: 0,
            lvt: [Lvt::MASKED; ENTRIES],
            timer: Timer::new(clock),
            lines: [false; 2],
            nmi: false,
        }
    }

    /// The state in which a PC's firmware leaves the bootstrap CPU: software-enabled in virtual-wire mode,
    /// with the 8259 pair on LINT0 and NMI on LINT1 (MultiProcessor Specification, 3.6.2.2).
    #[must_use]
    pub fn after_firmware(mut self) -> Self {
        self.svr |= Svr::ENABLE;
        self.lvt[Entry::Lint0 as usize] = Lvt::from_bits_retain(DeliveryMode::ExtInt.bits());
        self.lvt[Entry::Lint1 as usize] = Lvt::from_bits_retain(DeliveryMode::Nmi.bits());
        self
    }

    /// INIT: as after reset, but the id, IA32_APIC_BASE and the levels of the inputs stay (SDM 3, 11.4.7.3).
    pub fn init(&mut self) {
        let fresh = Self::new(self.id, false, 0, self.timer.clock());
        *self = Self {
            mode: self.mode,
            base: self.base,
            address_mask: self.address_mask,
            lines: self.lines,
            ..fresh
        };
    }

    /// Takes what others have posted.
    pub fn drain(&mut self, mailbox: &Mailbox) -> Signals {
        let Some(mail) = mailbox.drain() else { return Signals::default() };
        self.nmi |= mail.nmi;
        self.set_line(Line::Lint0, mail.lint0);
        self.set_line(Line::Lint1, mail.lint1);
        if self.takes_interrupts() {
            let reserved = (1 << apic::FIRST_LEGAL_VECTOR) - 1;
            for word in 0..4 {
                let legal = mail.requests[word] & if word == 0 { !reserved } else { u64::MAX };
                self.irr.0[word] |= legal;
                self.tmr.0[word] = self.tmr.0[word] & !legal | mail.level[word] & legal;
            }
            if mail.requests[0] & reserved != 0 {
                self.error(Esr::RECEIVE_ILLEGAL_VECTOR);
            }
        }
        Signals { init: mail.init, startup: mail.startup }
    }

    /// Takes an interrupt from inside: IPI to itself, timer, input.
    fn accept(&mut self, vector: u8, level: bool) {
        if vector < apic::FIRST_LEGAL_VECTOR {
            self.error(Esr::RECEIVE_ILLEGAL_VECTOR);
        } else if self.takes_interrupts() {
            self.request(vector, level);
        }
    }

    fn request(&mut self, vector: u8, level: bool) {
        self.irr.insert(vector);
        self.tmr.set(vector, level);
    }

    /// The interrupt to deliver next: the highest requested, if its class is above the processor priority.
    pub fn next_interrupt(&self) -> Option<u8> {
        let vector = self.irr.highest()?;
        (vector >> 4 > self.ppr >> 4 && self.mode != ApicMode::Disabled).then_some(vector)
    }

    /// Whether an interrupt waits that no other in service holds back; TPR still may.
    pub fn has_request(&self) -> bool {
        self.irr.highest().is_some_and(|vector| vector >> 4 > self.in_service >> 4)
    }

    /// The vector that [`Lapic::next_interrupt`] named is being delivered.
    pub fn acknowledge(&mut self, vector: u8) {
        self.irr.remove(vector);
        self.isr.insert(vector);
        self.in_service = self.in_service.max(vector);
        self.update_ppr();
    }

    /// End of interrupt: the highest in service is over (SDM 3, 11.8.5).
    fn eoi(&mut self) -> LapicEffect {
        let vector = self.in_service;
        if vector == 0 {
            return LapicEffect::Nothing;
        }
        self.isr.remove(vector);
        self.in_service = self.isr.highest().unwrap_or(0);
        self.update_ppr();
        if !self.tmr.contains(vector) {
            return LapicEffect::Nothing;
        }
        self.end_level_inputs(vector);
        LapicEffect::Eoi(vector)
    }

    fn set_tpr(&mut self, value: u8) -> LapicEffect {
        self.tpr = value;
        self.update_ppr();
        LapicEffect::Nothing
    }

    /// CR8: the upper half of TPR (SDM 3, 11.8.6).
    pub fn cr8(&self) -> u8 {
        self.tpr >> 4
    }

    /// MOV to CR8, with a value from 0 to 15.
    pub fn set_cr8(&mut self, value: u8) {
        self.set_tpr(value << 4);
    }

    /// SDM 3, 11.8.3.1: the higher class of TPR and the interrupt in service.
    fn update_ppr(&mut self) {
        let served = self.in_service & 0xf0;
        self.ppr = if self.tpr & 0xf0 >= served { self.tpr } else { served };
    }

    /// SDM 3, 11.6.2.4.
    fn arbitration_priority(&self) -> u8 {
        let requested = self.irr.highest().unwrap_or(0) & 0xf0;
        let served = self.in_service & 0xf0;
        if self.tpr & 0xf0 >= requested && self.tpr & 0xf0 > served {
            self.tpr
        } else {
            requested.max(served).max(self.tpr & 0xf0)
        }
    }

    /// Whether an NMI waits.
    pub fn nmi_pending(&self) -> bool {
        self.nmi
    }

    /// The class of the highest request that nothing but TPR holds back; 0 if there is none. It can be
    /// delivered as soon as CR8 falls below.
    pub fn masked_class(&self) -> u8 {
        let class = self.irr.highest().map_or(0, |vector| vector >> 4);
        let by_tpr_only = class <= self.cr8() && class > self.in_service >> 4;
        if by_tpr_only && self.mode != ApicMode::Disabled { class } else { 0 }
    }

    /// Whether an NMI waits; taking it clears it. NMIs pass a disabled APIC, too.
    pub fn take_nmi(&mut self) -> bool {
        core::mem::take(&mut self.nmi)
    }

    /// The guest TSC at which to call [`Lapic::tick`]; nothing while the timer is stopped or masked.
    pub fn deadline(&self) -> Option<u64> {
        self.timer.expires().filter(|_| !self.lvt(Entry::Timer).contains(Lvt::MASKED))
    }

    /// Time has come to `now`.
    pub fn tick(&mut self, now: u64) {
        let lvt = self.lvt(Entry::Timer);
        if self.timer.expire(now) && !lvt.contains(Lvt::MASKED) {
            self.accept(lvt.bits() as u8, false);
        }
    }

    /// Reads IA32_TSC_DEADLINE.
    pub fn tsc_deadline(&self, now: u64) -> u64 {
        self.timer.deadline_msr(now)
    }

    /// Writes IA32_TSC_DEADLINE. A deadline in the past interrupts at the next [`Lapic::tick`].
    pub fn set_tsc_deadline(&mut self, deadline: u64) -> LapicEffect {
        self.timer.set_deadline(deadline);
        LapicEffect::Deadline
    }

    /// The guest has set its TSC forward by `delta` (modulo 2^64).
    pub fn tsc_moved(&mut self, delta: u64) -> LapicEffect {
        self.timer.tsc_moved(delta);
        LapicEffect::Deadline
    }

    /// APIC id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What interrupts for this CPU are addressed to.
    pub fn address(&self) -> Address {
        Address {
            id: self.id,
            logical: self.ldr,
            cluster: self.dfr >> 28 == 0,
            x2apic: self.mode == ApicMode::X2Apic,
            enabled: self.takes_interrupts(),
        }
    }

    fn software_enabled(&self) -> bool {
        self.svr.contains(Svr::ENABLE)
    }

    fn takes_interrupts(&self) -> bool {
        self.software_enabled() && self.mode != ApicMode::Disabled
    }
}

//! Why VMRUN refuses a VMCB (APM 2, 15.5.1, "Canonicalization and Consistency Checks"): each check by name,
//! with the fields that offend. Some emulators accept what is refused here.

use super::{EventField, Intercept4, Vmcb};
use crate::control::{Cr0, Cr4, Efer};
use crate::segment::Attributes;
use core::fmt;

/// A check that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What must hold.
    pub rule: &'static str,
    /// The offending fields by name; unused ones have no name.
    pub fields: [(&'static str, u64); 3],
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.rule)?;
        for (name, value) in self.fields.iter().filter(|(name, _)| !name.is_empty()) {
            write!(f, " {name} = {value:#x}")?;
        }
        Ok(())
    }
}

/// What the checks look at.
#[derive(Clone, Copy, Debug, Default)]
struct Checked {
    efer: u64,
    cr0: u64,
    cr3: u64,
    cr4: u64,
    dr6: u64,
    dr7: u64,
    cs_attributes: u16,
    intercept4: Intercept4,
    asid: u32,
    msrpm: u64,
    iopm: u64,
    eventinj: u64,
}

impl From<&Vmcb> for Checked {
    fn from(vmcb: &Vmcb) -> Self {
        let (control, save) = (&vmcb.control, &vmcb.save);
        Self {
            efer: save.efer,
            cr0: save.cr0,
            cr3: save.cr3,
            cr4: save.cr4,
            dr6: save.dr6,
            dr7: save.dr7,
            cs_attributes: save.cs.attributes,
            intercept4: control.intercept4,
            asid: control.guest_asid,
            msrpm: control.msrpm_base_pa,
            iopm: control.iopm_base_pa,
            eventinj: control.eventinj,
        }
    }
}

/// CS attributes as the VMCB packs them: L and D/B.
const CS_LONG: u16 = (Attributes::LONG.bits() >> 4) as u16;
const CS_BIG: u16 = (Attributes::DEFAULT_BIG.bits() >> 4) as u16;

/// Calls `report` with each check that fails. `physical_bits` is the width of physical addresses.
pub fn check(vmcb: &Vmcb, physical_bits: u8, mut report: impl FnMut(Failed)) {
    Checked::from(vmcb).run(physical_bits, &mut report);
}

type Fields = [(&'static str, u64); 3];

const NONE: (&str, u64) = ("", 0);

impl Checked {
    fn run(&self, physical_bits: u8, report: &mut dyn FnMut(Failed)) {
        let mut must = |holds: bool, rule, fields| {
            if !holds {
                report(Failed { rule, fields });
            }
        };
        self.check_registers(physical_bits, &mut must);
        self.check_mode(&mut must);
        self.check_controls(physical_bits, &mut must);
    }

    fn check_registers(&self, physical_bits: u8, must: &mut dyn FnMut(bool, &'static str, Fields)) {
        let one = |name, value| [(name, value), NONE, NONE];
        let cr0 = Cr0::from_bits_retain(self.cr0);
        let known_cr4 = Cr4::from_bits(self.cr4).is_some();
        let known_efer = Efer::from_bits(self.efer).is_some();
        let svme = self.efer & Efer::SVME.bits() != 0;
        let nw_needs_cd = cr0.contains(Cr0::CD) || !cr0.contains(Cr0::NW);
        must(svme, "EFER.SVME is set", one("EFER", self.efer));
        must(nw_needs_cd, "CR0.NW is set only with CD", one("CR0", self.cr0));
        must(self.cr0 >> 32 == 0, "CR0 bits 63:32 are zero", one("CR0", self.cr0));
        must(self.cr3 >> physical_bits == 0, "CR3 is a physical address", one("CR3", self.cr3));
        must(known_cr4, "CR4 has no reserved bits", one("CR4", self.cr4));
        must(self.dr6 >> 32 == 0, "DR6 bits 63:32 are zero", one("DR6", self.dr6));
        must(self.dr7 >> 32 == 0, "DR7 bits 63:32 are zero", one("DR7", self.dr7));
        must(known_efer, "EFER has no reserved bits", one("EFER", self.efer));
    }

    fn check_mode(&self, must: &mut dyn FnMut(bool, &'static str, Fields)) {
        let (cr0, cr4) = (Cr0::from_bits_retain(self.cr0), Cr4::from_bits_retain(self.cr4));
        if self.efer & Efer::LME.bits() == 0 || !cr0.contains(Cr0::PG) {
            return;
        }
        let (efer, cr0_field) = (("EFER", self.efer), ("CR0", self.cr0));
        let both = self.cs_attributes & CS_LONG != 0 && self.cs_attributes & CS_BIG != 0;
        must(cr4.contains(Cr4::PAE), "long mode has CR4.PAE", [efer, cr0_field, ("CR4", self.cr4)]);
        must(cr0.contains(Cr0::PE), "long mode has CR0.PE", [efer, cr0_field, NONE]);
        let cs = ("CS attributes", self.cs_attributes.into());
        must(!both, "CS.L and CS.D are not both set in long mode", [cs, efer, NONE]);
    }

    fn check_controls(&self, physical_bits: u8, must: &mut dyn FnMut(bool, &'static str, Fields)) {
        let event = EventField(self.eventinj);
        let maps_fit = (self.msrpm | self.iopm) >> physical_bits == 0;
        let vmrun = self.intercept4.contains(Intercept4::VMRUN);
        let intercepts = ("intercepts", self.intercept4.bits().into());
        must(vmrun, "VMRUN is intercepted", [intercepts, NONE, NONE]);
        must(self.asid != 0, "the ASID is not the host's", [("ASID", 0), NONE, NONE]);
        let maps = [("MSRPM", self.msrpm), ("IOPM", self.iopm), NONE];
        must(maps_fit, "the permission maps are in physical memory", maps);
        let legal = !event.is_valid() || event.is_legal();
        must(legal, "the injected event is legal", [("EVENTINJ", self.eventinj), NONE, NONE]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svm::event_field;

    fn sound() -> Checked {
        Checked {
            intercept4: Intercept4::VMRUN,
            asid: 1,
            efer: (Efer::SVME | Efer::LME | Efer::LMA).bits(),
            cr0: (Cr0::PE | Cr0::PG).bits(),
            cr4: Cr4::PAE.bits(),
            cs_attributes: CS_LONG,
            ..Checked::default()
        }
    }

    /// The one check that fails.
    fn failing(change: impl FnOnce(&mut Checked)) -> &'static str {
        let mut state = sound();
        change(&mut state);
        let mut found = None;
        state.run(40, &mut |failed| assert_eq!(found.replace(failed.rule), None, "{failed}"));
        found.expect("a failing check")
    }

    #[test]
    fn a_sound_vmcb_passes() {
        sound().run(40, &mut |failed| panic!("{failed}"));
    }

    #[test]
    fn the_offending_fields_are_shown() {
        let mut text = std::string::String::new();
        let state = Checked { asid: 0, dr7: 1 << 32, ..sound() };
        state.run(40, &mut |failed| text += &std::format!("{failed};"));
        assert_eq!(
            text,
            "DR7 bits 63:32 are zero: DR7 = 0x100000000;the ASID is not the host's: ASID = 0x0;"
        );
    }

    #[test]
    fn each_check_is_named() {
        assert_eq!(failing(|v| v.efer &= !Efer::SVME.bits()), "EFER.SVME is set");
        assert_eq!(failing(|v| v.cr0 |= Cr0::NW.bits()), "CR0.NW is set only with CD");
        assert_eq!(failing(|v| v.cr0 |= 1 << 40), "CR0 bits 63:32 are zero");
        assert_eq!(failing(|v| v.cr3 = 1 << 40), "CR3 is a physical address");
        assert_eq!(failing(|v| v.cr4 |= 1 << 31), "CR4 has no reserved bits");
        assert_eq!(failing(|v| v.dr6 = 1 << 32), "DR6 bits 63:32 are zero");
        assert_eq!(failing(|v| v.dr7 = 1 << 32), "DR7 bits 63:32 are zero");
        assert_eq!(failing(|v| v.efer |= 1 << 9), "EFER has no reserved bits");
        assert_eq!(failing(|v| v.cr4 = 0), "long mode has CR4.PAE");
        assert_eq!(failing(|v| v.cr0 &= !Cr0::PE.bits()), "long mode has CR0.PE");
        assert_eq!(failing(|v| v.cs_attributes |= CS_BIG), "CS.L and CS.D are not both set in long mode");
        assert_eq!(failing(|v| v.intercept4 = Intercept4::empty()), "VMRUN is intercepted");
        assert_eq!(failing(|v| v.asid = 0), "the ASID is not the host's");
        assert_eq!(failing(|v| v.iopm = 1 << 41), "the permission maps are in physical memory");
        let reserved_type = event_field::VALID | 1 << 8;
        assert_eq!(failing(|v| v.eventinj = reserved_type), "the injected event is legal");
    }
}

//! Interprocessor interrupts and who they are for (SDM 3, 11.6).

use super::mode::ApicMode;
use x86defs::apic::{self, DeliveryMode, Icr, Shorthand};

/// Whom an interrupt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The CPU with this APIC id.
    Physical(u32),
    /// The CPUs whose logical id matches this message destination address.
    Logical(u32),
    /// All CPUs, the sender too.
    All,
    /// All CPUs but the sender.
    AllButSelf,
}

impl Target {
    /// The target of an interrupt from an IOAPIC or an MSI, with its 8-bit destination.
    pub fn from_bus(destination: u8, logical: bool) -> Self {
        Self::new(destination.into(), logical, apic::BROADCAST_XAPIC)
    }

    fn new(destination: u32, logical: bool, broadcast: u32) -> Self {
        match logical {
            true => Self::Logical(destination),
            false if destination == broadcast => Self::All,
            false => Self::Physical(destination),
        }
    }
}

/// An interprocessor interrupt for the router to deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipi {
    /// For whom.
    pub target: Target,
    /// Fixed, LowestPriority (one of those that match), Nmi, Init or Startup.
    pub mode: DeliveryMode,
    /// Vector, or the page to start at.
    pub vector: u8,
}

/// What a write to ICR asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// An interrupt for this CPU alone.
    ToSelf(u8),
    /// One for the router.
    Send(Ipi),
    /// Fixed or lowest priority with a reserved vector.
    IllegalVector,
    /// Something without effect: SMI, INIT de-assert, reserved combinations.
    Nothing,
}

impl Command {
    /// Decodes an ICR whose destination is in bits 63:32; the xAPIC's 8 bits have been shifted there.
    pub(super) fn decode(icr: u64, mode: ApicMode, own_id: u32) -> Command {
        let vector = icr as u8;
        let delivery = DeliveryMode::of(icr as u32);
        let fixed = matches!(delivery, DeliveryMode::Fixed | DeliveryMode::LowestPriority);
        if fixed && vector < apic::FIRST_LEGAL_VECTOR {
            return Command::IllegalVector;
        }
        let icr_bits = Icr::from_bits_retain(icr);
        let deassert = icr_bits.contains(Icr::LEVEL) && !icr_bits.contains(Icr::ASSERT);
        match delivery {
            DeliveryMode::Smi | DeliveryMode::Reserved | DeliveryMode::ExtInt => return Command::Nothing,
            DeliveryMode::Init if deassert => return Command::Nothing,
            _ => {}
        }
        let broadcast = match mode {
            ApicMode::X2Apic => apic::BROADCAST_X2APIC,
            _ => apic::BROADCAST_XAPIC,
        };
        let target = match Shorthand::of(icr) {
            Shorthand::ToSelf if delivery == DeliveryMode::Fixed => return Command::ToSelf(vector),
            Shorthand::ToSelf => return Command::Nothing,
            Shorthand::All => Target::All,
            Shorthand::AllButSelf => Target::AllButSelf,
            Shorthand::None => Target::new((icr >> 32) as u32, icr_bits.contains(Icr::LOGICAL), broadcast),
        };
        match target {
            Target::Physical(id) if fixed && id == own_id => Command::ToSelf(vector),
            _ => Command::Send(Ipi { target, mode: delivery, vector }),
        }
    }
}

/// All that decides whether an interrupt is for a local APIC, in one word so that other CPUs can read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// APIC id.
    pub id: u32,
    /// Logical id of the xAPIC, 8 bits.
    pub logical: u8,
    /// The xAPIC's destination format is the cluster model.
    pub cluster: bool,
    /// In x2APIC mode.
    pub x2apic: bool,
    /// Software-enabled: takes fixed interrupts.
    pub enabled: bool,
}

impl Address {
    const LOGICAL_SHIFT: u32 = 32;
    const CLUSTER: u64 = 1 << 40;
    const X2APIC: u64 = 1 << 41;
    const ENABLED: u64 = 1 << 42;

    pub(super) fn bits(self) -> u64 {
        let flag = |set, bit| if set { bit } else { 0 };
        u64::from(self.id)
            | u64::from(self.logical) << Self::LOGICAL_SHIFT
            | flag(self.cluster, Self::CLUSTER)
            | flag(self.x2apic, Self::X2APIC)
            | flag(self.enabled, Self::ENABLED)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self {
            id: bits as u32,
            logical: (bits >> Self::LOGICAL_SHIFT) as u8,
            cluster: bits & Self::CLUSTER != 0,
            x2apic: bits & Self::X2APIC != 0,
            enabled: bits & Self::ENABLED != 0,
        }
    }

    /// Whether an interrupt with this target, sent by the CPU with APIC id `sender`, is for this one.
    pub fn matches(self, target: Target, sender: Option<u32>) -> bool {
        match target {
            Target::All => true,
            Target::AllButSelf => sender != Some(self.id),
            Target::Physical(id) => id == self.id,
            Target::Logical(mda) if self.x2apic => self.matches_x2apic(mda),
            Target::Logical(mda) => self.matches_xapic(mda),
        }
    }

    /// SDM 3, 11.12.10.2: cluster in the upper half, a bit for each member in the lower.
    fn matches_x2apic(self, mda: u32) -> bool {
        let ldr = logical_x2apic_id(self.id);
        mda == apic::BROADCAST_X2APIC || (mda >> 16 == ldr >> 16 && mda & ldr & 0xffff != 0)
    }

    /// SDM 3, 11.6.2.2: one bit for each CPU, or a cluster and four bits.
    fn matches_xapic(self, mda: u32) -> bool {
        let own = u32::from(self.logical);
        let broadcast = mda == apic::BROADCAST_XAPIC;
        match self.cluster {
            false => mda & own != 0,
            true => broadcast || (mda >> 4 == own >> 4 && mda & own & 0xf != 0),
        }
    }
}

/// The logical id in x2APIC mode, derived from the APIC id (SDM 3, 11.12.10.2).
pub(super) fn logical_x2apic_id(id: u32) -> u32 {
    (id >> 4) << 16 | 1 << (id & 0xf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(icr: u64) -> Command {
        Command::decode(icr, ApicMode::X2Apic, 3)
    }

    #[test]
    fn icr_fields_select_target_mode_and_vector() {
        let ipi = |target, mode, vector| Command::Send(Ipi { target, mode, vector });
        assert_eq!(decode(7 << 32 | 0x41), ipi(Target::Physical(7), DeliveryMode::Fixed, 0x41));
        assert_eq!(decode(7 << 32 | 0x941), ipi(Target::Logical(7), DeliveryMode::LowestPriority, 0x41));
        assert_eq!(decode(3 << 32 | 0x41), Command::ToSelf(0x41));
        assert_eq!(decode(1 << 18 | 0x41), Command::ToSelf(0x41));
        assert_eq!(decode(2 << 18 | 0x41), ipi(Target::All, DeliveryMode::Fixed, 0x41));
        assert_eq!(decode(3 << 18 | 0x400), ipi(Target::AllButSelf, DeliveryMode::Nmi, 0));
        assert_eq!(decode(0xffff_ffff << 32 | 0x500), ipi(Target::All, DeliveryMode::Init, 0));
        assert_eq!(decode(1 << 32 | 0x69a), ipi(Target::Physical(1), DeliveryMode::Startup, 0x9a));
        assert_eq!(decode(1 << 32 | 0x8500), Command::Nothing, "INIT de-assert");
        assert_eq!(decode(1 << 32 | 0x200), Command::Nothing, "SMI");
        assert_eq!(decode(1 << 32 | 0xf), Command::IllegalVector);
    }

    #[test]
    fn physical_255_is_a_broadcast_for_the_xapic_only() {
        let icr = 0xff << 32 | 0x41;
        let send = |target| Command::Send(Ipi { target, mode: DeliveryMode::Fixed, vector: 0x41 });
        assert_eq!(Command::decode(icr, ApicMode::XApic, 0), send(Target::All));
        assert_eq!(decode(icr), send(Target::Physical(0xff)));
        assert_eq!(Target::from_bus(0xff, false), Target::All);
        assert_eq!(Target::from_bus(0xff, true), Target::Logical(0xff));
    }

    #[test]
    fn logical_destinations_match_by_model() {
        let flat = Address { id: 1, logical: 0x02, ..Address::default() };
        assert!(flat.matches(Target::Logical(0x06), None) && !flat.matches(Target::Logical(0x05), None));
        let cluster = Address { logical: 0x32, cluster: true, ..flat };
        assert!(cluster.matches(Target::Logical(0x33), None));
        assert!(!cluster.matches(Target::Logical(0x23), None), "another cluster");
        assert!(!cluster.matches(Target::Logical(0x31), None), "another member");
        assert!(cluster.matches(Target::Logical(0xff), None));
        let x2 = Address { id: 0x25, x2apic: true, ..flat };
        assert!(x2.matches(Target::Logical(0x0002_0020), None));
        assert!(!x2.matches(Target::Logical(0x0001_0020), None));
        assert!(!x2.matches(Target::Logical(0x0002_0010), None));
        assert!(x2.matches(Target::AllButSelf, Some(1)) && !x2.matches(Target::AllButSelf, Some(0x25)));
    }

    #[test]
    fn an_address_survives_its_packing() {
        let a = Address { id: 0x8765_4321, logical: 0xa5, cluster: true, x2apic: false, enabled: true };
        assert_eq!(Address::from_bits(a.bits()), a);
        let b = Address { x2apic: true, cluster: false, enabled: false, ..a };
        assert_eq!(Address::from_bits(b.bits()), b);
    }
}

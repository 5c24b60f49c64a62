//! Working the table out.

use super::controls::Seen;
use super::features::{FEATURES, Feature, When};
use super::{CpuidTable, EXTENDED, Setup, Subleaf};
use crate::xcr0;
use arrayvec::ArrayVec;
use x86defs::cpuid::{CpuidResult, Ext1Ecx, Ext1Edx, Leaf1Edx, Register, Vendor, leaf};

/// Our own signature, in the leaf where guests look for a hypervisor first.
const SIGNATURE: &[u8; 12] = b"GossamerGoss";
/// The signature of the interface whose clock we implement.
const KVM_SIGNATURE: &[u8; 12] = b"KVMKVMKVM\0\0\0";
/// Linear addresses without LA57.
const LINEAR_BITS: u32 = 48;
/// Most cache levels that leaf 4 is searched for.
const MAX_CACHES: u32 = 8;

/// The host's CPUID, zero for leaves that it does not have.
struct Host<'a> {
    cpuid: &'a dyn Fn(u32, u32) -> CpuidResult,
    max_basic: u32,
    max_extended: u32,
}

impl<'a> Host<'a> {
    fn new(cpuid: &'a dyn Fn(u32, u32) -> CpuidResult) -> Self {
        let max_extended = cpuid(leaf::EXTENDED_MAX, 0).eax;
        Self { cpuid, max_basic: cpuid(leaf::VENDOR, 0).eax, max_extended }
    }

    fn leaf(&self, leaf: u32, subleaf: u32) -> CpuidResult {
        let extended = (leaf::EXTENDED_MAX..=self.max_extended).contains(&leaf);
        match leaf <= self.max_basic || extended {
            true => (self.cpuid)(leaf, subleaf),
            false => CpuidResult::default(),
        }
    }
}

pub(super) fn table(cpuid: &dyn Fn(u32, u32) -> CpuidResult, setup: &Setup) -> CpuidTable {
    let host = Host::new(cpuid);
    let mut table = skeleton(&host, setup);
    names(&mut table, &host);
    caches(&mut table, &host, setup);
    topology(&mut table, &host, setup);
    address_sizes(&mut table, &host, setup);
    if table.vendor == Vendor::Intel {
        frequencies(&mut table, setup);
    }
    for feature in FEATURES {
        offer(&mut table, &host, setup, feature);
    }
    xsave(&mut table);
    derive(&mut table);
    table
}

/// All leaves that exist, empty. Highest leaves: Intel gets up to the frequencies, whatever the host has; AMD
/// up to XSAVE.
fn skeleton(host: &Host<'_>, setup: &Setup) -> CpuidTable {
    let vendor = Vendor::of(&host.leaf(leaf::VENDOR, 0));
    let (max_basic, max_extended) = match vendor {
        Vendor::Intel => (leaf::FREQUENCY, leaf::ADDRESS_SIZES),
        Vendor::Amd => (leaf::XSAVE, leaf::EXTENDED_FEATURES_2),
    };
    let max_extended = max_extended.min(host.max_extended).max(leaf::ADDRESS_SIZES);
    let mut extended = ArrayVec::<_, EXTENDED>::new();
    extended.extend((leaf::EXTENDED_MAX..=max_extended).map(|_| CpuidResult::default()));
    CpuidTable {
        vendor,
        apic_id: setup.apic_id,
        basic: (0..=max_basic).map(|_| CpuidResult::default()).collect(),
        extended,
        with_subleaves: 0,
        subleaves: ArrayVec::new(),
        hypervisor: signature(leaf::HYPERVISOR, SIGNATURE),
        kvm: [signature(leaf::KVM_FEATURES, KVM_SIGNATURE), CpuidResult::default()],
        xsave: xcr0::host_layout(|leaf, subleaf| host.leaf(leaf, subleaf)),
        allowed_cr4: Default::default(),
        allowed_efer: Default::default(),
    }
}

fn signature(max: u32, name: &[u8; 12]) -> CpuidResult {
    let word = |i: usize| u32::from_le_bytes([name[i], name[i + 1], name[i + 2], name[i + 3]]);
    CpuidResult { eax: max, ebx: word(0), ecx: word(4), edx: word(8) }
}

/// The register of a leaf that exists; nothing for others, whose features then do not exist either.
fn slot(table: &mut CpuidTable, leaf: u32, subleaf: u32) -> Option<&mut CpuidResult> {
    if subleaf != 0 {
        if leaf as usize >= table.basic.len() {
            return None;
        }
        let known = table.subleaves.iter().position(|s| s.leaf == leaf && s.subleaf == subleaf);
        let index = known.unwrap_or_else(|| {
            table.with_subleaves |= 1 << leaf;
            table.subleaves.push(Subleaf { leaf, subleaf, result: CpuidResult::default() });
            table.subleaves.len() - 1
        });
        return Some(&mut table.subleaves[index].result);
    }
    match leaf {
        leaf::HYPERVISOR_SECOND | leaf::KVM_FEATURES => {
            table.kvm.get_mut((leaf - leaf::HYPERVISOR_SECOND) as usize)
        }
        leaf::EXTENDED_MAX.. => table.extended.get_mut((leaf - leaf::EXTENDED_MAX) as usize),
        _ => table.basic.get_mut(leaf as usize),
    }
}

fn set(table: &mut CpuidTable, leaf: u32, subleaf: u32, result: CpuidResult) {
    if let Some(slot) = slot(table, leaf, subleaf) {
        *slot = result;
    }
}

/// Who made the CPU, which it is, and the host's values that need no change.
fn names(table: &mut CpuidTable, host: &Host<'_>) {
    let max_basic = table.max_basic();
    set(table, leaf::VENDOR, 0, CpuidResult { eax: max_basic, ..host.leaf(leaf::VENDOR, 0) });
    let max_extended = leaf::EXTENDED_MAX + table.extended.len() as u32 - 1;
    let extended = host.leaf(leaf::EXTENDED_MAX, 0);
    set(table, leaf::EXTENDED_MAX, 0, CpuidResult { eax: max_extended, ..extended });
    let from_host = [
        leaf::CACHE_DESCRIPTORS,
        leaf::BRAND_FIRST,
        leaf::BRAND_FIRST + 1,
        leaf::BRAND_LAST,
        leaf::L1_CACHE_TLB,
        leaf::L2_CACHE_TLB,
        leaf::TLB_1G,
        leaf::OPTIMIZATION,
    ];
    for leaf in from_host {
        set(table, leaf, 0, host.leaf(leaf, 0));
    }
    let features = host.leaf(leaf::EXTENDED_FEATURES, 0);
    let model = CpuidResult { ecx: 0, edx: 0, ..features };
    set(table, leaf::EXTENDED_FEATURES, 0, model);
}

/// Leaf 4: the host's caches. Each virtual CPU is a core; the last level is shared by all of them.
fn caches(table: &mut CpuidTable, host: &Host<'_>, setup: &Setup) {
    const TYPE: u32 = 0x1f;
    const LEVEL_SHIFT: u32 = 5;
    const SHARING_SHIFT: u32 = 14;
    const CORES_SHIFT: u32 = 26;
    const OWN_BITS: u32 = (1 << SHARING_SHIFT) - 1;
    let others = id_space(setup.cpus) - 1;
    for index in 0..MAX_CACHES {
        let cache = host.leaf(leaf::CACHE_PARAMETERS, index);
        if cache.eax & TYPE == 0 {
            break;
        }
        let shared = if (cache.eax >> LEVEL_SHIFT) & 7 >= 3 { others.min(0xfff) } else { 0 };
        let eax = cache.eax & OWN_BITS | shared << SHARING_SHIFT | others.min(0x3f) << CORES_SHIFT;
        set(table, leaf::CACHE_PARAMETERS, index, CpuidResult { eax, ..cache });
    }
}

/// How many APIC ids a package takes: the power of two that holds its CPUs.
fn id_space(cpus: u32) -> u32 {
    cpus.next_power_of_two()
}

/// Leaves 1 and 0xB: one package of `cpus` cores with one thread each.
fn topology(table: &mut CpuidTable, host: &Host<'_>, setup: &Setup) {
    const BRAND_AND_CLFLUSH: u32 = 0xffff;
    const COUNT_SHIFT: u32 = 16;
    const APIC_ID_SHIFT: u32 = 24;
    const SMT: u32 = 1 << 8;
    const CORE: u32 = 2 << 8;
    let one = host.leaf(leaf::FEATURES, 0);
    let count = id_space(setup.cpus).min(0xff);
    let ebx = one.ebx & BRAND_AND_CLFLUSH | count << COUNT_SHIFT | setup.apic_id << APIC_ID_SHIFT;
    let edx = if setup.cpus > 1 { Leaf1Edx::HTT.bits() } else { 0 };
    set(table, leaf::FEATURES, 0, CpuidResult { eax: one.eax, ebx, ecx: 0, edx });
    if setup.cpus > 1 && table.vendor == Vendor::Amd {
        set_bits(table, leaf::EXTENDED_FEATURES, 0, Register::Ecx, Ext1Ecx::CMP_LEGACY.bits());
    }

    let id = setup.apic_id;
    let thread = CpuidResult { eax: 0, ebx: 1, ecx: SMT, edx: id };
    let bits = id_space(setup.cpus).trailing_zeros();
    let core = CpuidResult { eax: bits, ebx: setup.cpus, ecx: CORE | 1, edx: id };
    set(table, leaf::EXTENDED_TOPOLOGY, 0, thread);
    set(table, leaf::EXTENDED_TOPOLOGY, 1, core);
}

/// Leaf 0x80000008. AMD tells the number of cores there, too (APM 3, E.4.7).
fn address_sizes(table: &mut CpuidTable, host: &Host<'_>, setup: &Setup) {
    const LINEAR_SHIFT: u32 = 8;
    const ID_SIZE_SHIFT: u32 = 12;
    let linear = (host.leaf(leaf::ADDRESS_SIZES, 0).eax >> LINEAR_SHIFT) & 0xff;
    let linear = if linear == 0 { LINEAR_BITS } else { linear.min(LINEAR_BITS) };
    let ecx = match table.vendor {
        Vendor::Intel => 0,
        Vendor::Amd => (setup.cpus - 1) & 0xff | id_space(setup.cpus).trailing_zeros() << ID_SIZE_SHIFT,
    };
    let eax = u32::from(setup.physical_bits) | linear << LINEAR_SHIFT;
    set(table, leaf::ADDRESS_SIZES, 0, CpuidResult { eax, ebx: 0, ecx, edx: 0 });
}

/// Leaves 0x15 and 0x16: what was measured, since the host's own values can be wrong.
fn frequencies(table: &mut CpuidTable, setup: &Setup) {
    let clock = setup.clock;
    let tsc = CpuidResult { eax: 1, ebx: clock.tsc_ratio(), ecx: clock.hz(), edx: 0 };
    set(table, leaf::TSC, 0, tsc);
    let tsc_mhz = (clock.tsc_khz() / 1000) as u32;
    let bus_mhz = clock.hz() / 1_000_000;
    set(table, leaf::FREQUENCY, 0, CpuidResult { eax: tsc_mhz, ebx: tsc_mhz, ecx: bus_mhz, edx: 0 });
}

fn offer(table: &mut CpuidTable, host: &Host<'_>, setup: &Setup, feature: &Feature) {
    let has = host.leaf(feature.leaf, feature.subleaf).get(feature.register);
    let bits = match feature.when {
        When::Emulated => feature.bits,
        When::Host => has & feature.bits,
        When::Control(needed) if setup.offered.contains(needed) => has & feature.bits,
        When::State(needed) if table.xsave.offered().contains(needed) => has & feature.bits,
        When::Control(_) | When::State(_) => 0,
    };
    set_bits(table, feature.leaf, feature.subleaf, feature.register, bits);
}

fn set_bits(table: &mut CpuidTable, leaf: u32, subleaf: u32, register: Register, bits: u32) {
    if bits != 0
        && let Some(slot) = slot(table, leaf, subleaf)
    {
        *slot.get_mut(register) |= bits;
    }
}

/// Leaf 0xD, 0; the sizes for what is enabled are patched at each lookup.
fn xsave(table: &mut CpuidTable) {
    let offered = table.xsave.offered();
    if offered.is_empty() {
        return;
    }
    let all = offered.bits();
    let ecx = table.xsave.standard_size(all);
    let result = CpuidResult { eax: all as u32, ebx: 0, ecx, edx: (all >> 32) as u32 };
    set(table, leaf::XSAVE, 0, result);
}

/// What follows from the features that are seen.
fn derive(table: &mut CpuidTable) {
    let leaf1 = table.basic[leaf::FEATURES as usize];
    let subleaf1 = table.subleaf(leaf::STRUCTURED_FEATURES, 1);
    let leaf7 = &mut table.basic[leaf::STRUCTURED_FEATURES as usize];
    leaf7.eax = u32::from(subleaf1 != CpuidResult::default());
    let leaf7 = *leaf7;
    if table.vendor == Vendor::Amd {
        let repeated = leaf1.edx & Ext1Edx::REPEATED.bits();
        set_bits(table, leaf::EXTENDED_FEATURES, 0, Register::Edx, repeated);
    }
    let extended = table.extended[(leaf::EXTENDED_FEATURES - leaf::EXTENDED_MAX) as usize];
    let seen = Seen { leaf1, leaf7, extended };
    table.allowed_cr4 = seen.cr4();
    table.allowed_efer = seen.efer();
}

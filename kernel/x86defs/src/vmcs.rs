//! Fields of the virtual-machine control structure (SDM 3, 25.4 to 25.9 and appendix B).
//!
//! The width of a field is in its type, so that a field cannot be read or written with the wrong one.

#![allow(missing_docs, reason = "fields carry the names that the manual defines")]

use core::fmt;

/// The encoding of a field of any width, for code that treats all alike (the dump, the checker).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Encoding(pub u32);

/// Width of a field: bits 14:13 of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldWidth {
    Bits16,
    Bits64,
    Bits32,
    Natural,
}

impl Encoding {
    /// Its width.
    pub const fn width(self) -> FieldWidth {
        match self.0 >> 13 & 3 {
            0 => FieldWidth::Bits16,
            1 => FieldWidth::Bits64,
            2 => FieldWidth::Bits32,
            _ => FieldWidth::Natural,
        }
    }

    /// Its name in the manual.
    pub fn name(self) -> &'static str {
        match ALL.iter().find(|(e, _)| *e == self) {
            Some((_, name)) => name,
            None => "unnamed field",
        }
    }
}

impl fmt::Debug for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:#06x})", self.name(), self.0)
    }
}

/// A field of one width.
pub trait Field: Copy {
    /// What it holds.
    type Value: Copy;
    /// Its encoding.
    fn encoding(self) -> Encoding;
    /// What VMREAD gave, in the field's width.
    fn narrow(raw: u64) -> Self::Value;
    /// What VMWRITE takes.
    fn widen(value: Self::Value) -> u64;
}

macro_rules! width {
    ($(#[$doc:meta])* $name:ident, $value:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            /// Its encoding.
            #[inline(always)]
            pub const fn encoding(self) -> Encoding {
                Encoding(self.0)
            }
        }

        impl Field for $name {
            type Value = $value;
            #[inline(always)]
            fn encoding(self) -> Encoding {
                Encoding(self.0)
            }
            #[inline(always)]
            fn narrow(raw: u64) -> $value {
                raw as $value
            }
            #[inline(always)]
            fn widen(value: $value) -> u64 {
                value as u64
            }
        }
    };
}

width!(
    /// A 16-bit field.
    Field16, u16);
width!(
    /// A 32-bit field.
    Field32, u32);
width!(
    /// A 64-bit field.
    Field64, u64);
width!(
    /// A field of natural width: 64 bits on every CPU that runs this code.
    FieldNatural, u64);

macro_rules! fields {
    ($($width:ident { $($name:ident = $encoding:literal),+ $(,)? })+) => {
        $($(pub const $name: $width = $width($encoding);)+)+

        /// All fields with their names, by width.
        pub const ALL: &[(Encoding, &str)] = &[$($((Encoding($encoding), stringify!($name)),)+)+];
    };
}

fields! {
    Field16 {
        VPID = 0x0000,
        GUEST_ES_SELECTOR = 0x0800,
        GUEST_CS_SELECTOR = 0x0802,
        GUEST_SS_SELECTOR = 0x0804,
        GUEST_DS_SELECTOR = 0x0806,
        GUEST_FS_SELECTOR = 0x0808,
        GUEST_GS_SELECTOR = 0x080a,
        GUEST_LDTR_SELECTOR = 0x080c,
        GUEST_TR_SELECTOR = 0x080e,
        HOST_ES_SELECTOR = 0x0c00,
        HOST_CS_SELECTOR = 0x0c02,
        HOST_SS_SELECTOR = 0x0c04,
        HOST_DS_SELECTOR = 0x0c06,
        HOST_FS_SELECTOR = 0x0c08,
        HOST_GS_SELECTOR = 0x0c0a,
        HOST_TR_SELECTOR = 0x0c0c,
    }
    Field64 {
        IO_BITMAP_A = 0x2000,
        IO_BITMAP_B = 0x2002,
        MSR_BITMAP = 0x2004,
        VM_EXIT_MSR_STORE_ADDRESS = 0x2006,
        VM_EXIT_MSR_LOAD_ADDRESS = 0x2008,
        VM_ENTRY_MSR_LOAD_ADDRESS = 0x200a,
        TSC_OFFSET = 0x2010,
        VIRTUAL_APIC_ADDRESS = 0x2012,
        APIC_ACCESS_ADDRESS = 0x2014,
        EPT_POINTER = 0x201a,
        XSS_EXITING_BITMAP = 0x202c,
        ENCLS_EXITING_BITMAP = 0x202e,
        GUEST_PHYSICAL_ADDRESS = 0x2400,
        VMCS_LINK_POINTER = 0x2800,
        GUEST_IA32_DEBUGCTL = 0x2802,
        GUEST_IA32_PAT = 0x2804,
        GUEST_IA32_EFER = 0x2806,
        GUEST_PDPTE0 = 0x280a,
        GUEST_PDPTE1 = 0x280c,
        GUEST_PDPTE2 = 0x280e,
        GUEST_PDPTE3 = 0x2810,
        HOST_IA32_PAT = 0x2c00,
        HOST_IA32_EFER = 0x2c02,
    }
    Field32 {
        PIN_BASED_CONTROLS = 0x4000,
        PRIMARY_PROCESSOR_BASED_CONTROLS = 0x4002,
        EXCEPTION_BITMAP = 0x4004,
        PAGE_FAULT_ERROR_CODE_MASK = 0x4006,
        PAGE_FAULT_ERROR_CODE_MATCH = 0x4008,
        CR3_TARGET_COUNT = 0x400a,
        PRIMARY_VM_EXIT_CONTROLS = 0x400c,
        VM_EXIT_MSR_STORE_COUNT = 0x400e,
        VM_EXIT_MSR_LOAD_COUNT = 0x4010,
        VM_ENTRY_CONTROLS = 0x4012,
        VM_ENTRY_MSR_LOAD_COUNT = 0x4014,
        VM_ENTRY_INTERRUPTION_INFORMATION = 0x4016,
        VM_ENTRY_EXCEPTION_ERROR_CODE = 0x4018,
        VM_ENTRY_INSTRUCTION_LENGTH = 0x401a,
        TPR_THRESHOLD = 0x401c,
        SECONDARY_PROCESSOR_BASED_CONTROLS = 0x401e,
        VM_INSTRUCTION_ERROR = 0x4400,
        EXIT_REASON = 0x4402,
        VM_EXIT_INTERRUPTION_INFORMATION = 0x4404,
        VM_EXIT_INTERRUPTION_ERROR_CODE = 0x4406,
        IDT_VECTORING_INFORMATION = 0x4408,
        IDT_VECTORING_ERROR_CODE = 0x440a,
        VM_EXIT_INSTRUCTION_LENGTH = 0x440c,
        VM_EXIT_INSTRUCTION_INFORMATION = 0x440e,
        GUEST_ES_LIMIT = 0x4800,
        GUEST_CS_LIMIT = 0x4802,
        GUEST_SS_LIMIT = 0x4804,
        GUEST_DS_LIMIT = 0x4806,
        GUEST_FS_LIMIT = 0x4808,
        GUEST_GS_LIMIT = 0x480a,
        GUEST_LDTR_LIMIT = 0x480c,
        GUEST_TR_LIMIT = 0x480e,
        GUEST_GDTR_LIMIT = 0x4810,
        GUEST_IDTR_LIMIT = 0x4812,
        GUEST_ES_ACCESS_RIGHTS = 0x4814,
        GUEST_CS_ACCESS_RIGHTS = 0x4816,
        GUEST_SS_ACCESS_RIGHTS = 0x4818,
        GUEST_DS_ACCESS_RIGHTS = 0x481a,
        GUEST_FS_ACCESS_RIGHTS = 0x481c,
        GUEST_GS_ACCESS_RIGHTS = 0x481e,
        GUEST_LDTR_ACCESS_RIGHTS = 0x4820,
        GUEST_TR_ACCESS_RIGHTS = 0x4822,
        GUEST_INTERRUPTIBILITY_STATE = 0x4824,
        GUEST_ACTIVITY_STATE = 0x4826,
        GUEST_IA32_SYSENTER_CS = 0x482a,
        VMX_PREEMPTION_TIMER_VALUE = 0x482e,
        HOST_IA32_SYSENTER_CS = 0x4c00,
    }
    FieldNatural {
        CR0_GUEST_HOST_MASK = 0x6000,
        CR4_GUEST_HOST_MASK = 0x6002,
        CR0_READ_SHADOW = 0x6004,
        CR4_READ_SHADOW = 0x6006,
        EXIT_QUALIFICATION = 0x6400,
        GUEST_LINEAR_ADDRESS = 0x640a,
        GUEST_CR0 = 0x6800,
        GUEST_CR3 = 0x6802,
        GUEST_CR4 = 0x6804,
        GUEST_ES_BASE = 0x6806,
        GUEST_CS_BASE = 0x6808,
        GUEST_SS_BASE = 0x680a,
        GUEST_DS_BASE = 0x680c,
        GUEST_FS_BASE = 0x680e,
        GUEST_GS_BASE = 0x6810,
        GUEST_LDTR_BASE = 0x6812,
        GUEST_TR_BASE = 0x6814,
        GUEST_GDTR_BASE = 0x6816,
        GUEST_IDTR_BASE = 0x6818,
        GUEST_DR7 = 0x681a,
        GUEST_RSP = 0x681c,
        GUEST_RIP = 0x681e,
        GUEST_RFLAGS = 0x6820,
        GUEST_PENDING_DEBUG_EXCEPTIONS = 0x6822,
        GUEST_IA32_SYSENTER_ESP = 0x6824,
        GUEST_IA32_SYSENTER_EIP = 0x6826,
        HOST_CR0 = 0x6c00,
        HOST_CR3 = 0x6c02,
        HOST_CR4 = 0x6c04,
        HOST_FS_BASE = 0x6c06,
        HOST_GS_BASE = 0x6c08,
        HOST_TR_BASE = 0x6c0a,
        HOST_GDTR_BASE = 0x6c0c,
        HOST_IDTR_BASE = 0x6c0e,
        HOST_IA32_SYSENTER_ESP = 0x6c10,
        HOST_IA32_SYSENTER_EIP = 0x6c12,
        HOST_RSP = 0x6c14,
        HOST_RIP = 0x6c16,
    }
}

/// The four fields of a guest segment register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SegmentFields {
    pub selector: Field16,
    pub base: FieldNatural,
    pub limit: Field32,
    pub access_rights: Field32,
}

impl SegmentFields {
    /// Those of one register. The encodings count up by two in the order of [`SegmentName`](crate::segment::SegmentName).
    pub const fn of(name: crate::segment::SegmentName) -> SegmentFields {
        let step = 2 * name as u32;
        SegmentFields {
            selector: Field16(GUEST_ES_SELECTOR.0 + step),
            base: FieldNatural(GUEST_ES_BASE.0 + step),
            limit: Field32(GUEST_ES_LIMIT.0 + step),
            access_rights: Field32(GUEST_ES_ACCESS_RIGHTS.0 + step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::SegmentName;

    /// The width in the type agrees with the width in the encoding, and every encoding is used once.
    #[test]
    fn widths_agree_with_encodings() {
        assert_eq!(VPID.encoding().width(), FieldWidth::Bits16);
        assert_eq!(EPT_POINTER.encoding().width(), FieldWidth::Bits64);
        assert_eq!(EXIT_REASON.encoding().width(), FieldWidth::Bits32);
        assert_eq!(HOST_RIP.encoding().width(), FieldWidth::Natural);
        for pair in ALL.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{:?} is out of order", pair[1].0);
            // Bit 0 selects the high half of a 64-bit field, and nothing here does.
            assert_eq!(pair[1].0.0 & 1, 0);
        }
        let count = |width| ALL.iter().filter(|(e, _)| e.width() == width).count();
        assert_eq!(count(FieldWidth::Bits16), 1 + 8 + 7);
    }

    #[test]
    fn segment_fields_follow_the_register() {
        let tr = SegmentFields::of(SegmentName::Tr);
        assert!(tr.selector == GUEST_TR_SELECTOR && tr.base == GUEST_TR_BASE);
        assert!(tr.limit == GUEST_TR_LIMIT && tr.access_rights == GUEST_TR_ACCESS_RIGHTS);
        let gs = SegmentFields::of(SegmentName::Gs);
        assert!(gs.selector == GUEST_GS_SELECTOR && gs.access_rights == GUEST_GS_ACCESS_RIGHTS);
    }

    #[test]
    fn names_are_found() {
        assert_eq!(GUEST_CR3.encoding().name(), "GUEST_CR3");
        assert_eq!(Encoding(0x7ffe).name(), "unnamed field");
    }
}

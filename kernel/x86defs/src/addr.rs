//! Addresses, one type per address space.

use core::fmt;

/// Bytes in a page.
pub const PAGE_SIZE: u64 = 4096;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `offset` bytes further on, wrapping like the CPU's own arithmetic.
            #[must_use]
            pub const fn offset(self, offset: u64) -> Self {
                Self(self.0.wrapping_add(offset))
            }
            /// The address `offset` bytes further on, or nothing where that passes the end of the space.
            pub const fn checked_offset(self, offset: u64) -> Option<Self> {
                match self.0.checked_add(offset) {
                    Some(a) => Some(Self(a)),
                    None => None,
                }
            }
            /// Its page's first address.
            #[must_use]
            pub const fn page(self) -> Self {
                Self(self.0 & !(PAGE_SIZE - 1))
            }
            /// Its offset in its page.
            pub const fn page_offset(self) -> u64 {
                self.0 & (PAGE_SIZE - 1)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{:#x}"), self.0)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address!(
    /// A guest physical address.
    Gpa, "gpa:");
address!(
    /// A guest linear (virtual) address.
    Gva, "gva:");
address!(
    /// A host physical address.
    Hpa, "hpa:");
address!(
    /// A host virtual address.
    Hva, "hva:");

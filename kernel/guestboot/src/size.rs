//! Sizes in bytes, read from and written for people.

use core::fmt;

/// Bytes in a KiB.
pub(crate) const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub(crate) const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub(crate) const GIB: u64 = 1 << 30;
/// Bytes in a TiB.
pub(crate) const TIB: u64 = 1 << 40;

const UNITS: [(char, u64); 4] = [('T', TIB), ('G', GIB), ('M', MIB), ('K', KIB)];

/// Reads "512M" or "4096". Nothing where it is neither, or more than 64 bits can hold.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let unit = text.chars().last()?.to_ascii_uppercase();
    let (digits, scale) = match UNITS.iter().find(|(letter, _)| *letter == unit) {
        Some((_, scale)) => (&text[..text.len() - 1], *scale),
        None => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// Writes a size in the largest unit that leaves no remainder: "512M", "4095 bytes".
#[derive(Clone, Copy)]
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale)) {
            Some((letter, scale)) => write!(f, "{}{letter}", self.0 / scale),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse("4096"), Some(4096));
        assert_eq!(parse("64K"), Some(64 * KIB));
        assert_eq!(parse("512M"), Some(512 * MIB));
        assert_eq!(parse("3g"), Some(3 * GIB));
        assert_eq!(parse("1T"), Some(TIB));
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", "M", "12Q", "-1M", "+1M", "1.5G", " 1M", "1 M", "0x10M", "1MM", "1é", "16777216T"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("99999999999999999999"), None);
    }

    #[test]
    fn writes_the_largest_whole_unit() {
        assert_eq!(Size(512 * MIB).to_string(), "512M");
        assert_eq!(Size(1536 * MIB).to_string(), "1536M");
        assert_eq!(Size(4095).to_string(), "4095 bytes");
        assert_eq!(Size(0).to_string(), "0 bytes");
    }
}

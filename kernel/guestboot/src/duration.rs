//! Spans of time, read from what people write.

use core::time::Duration;

const UNITS: [(&str, Duration); 4] = [
    // Before "s", which its name ends with, too.
    ("ms", Duration::from_millis(1)),
    ("s", Duration::from_secs(1)),
    ("m", Duration::from_secs(60)),
    ("h", Duration::from_secs(60 * 60)),
];

/// Longest span: more than any machine stays on, and any clock can count it.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Reads "500ms", "10s", "5m" or "2h". Nothing where it is neither, or none of 1 ms to ten years.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return None;
    }
    let span = unit.checked_mul(digits.parse().ok()?)?;
    (Duration::from_millis(1)..=LONGEST).contains(&span).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        assert_eq!(parse("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse("10s"), Some(Duration::from_secs(10)));
        assert_eq!(parse("5m"), Some(Duration::from_secs(300)));
        assert_eq!(parse("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(parse("87600h"), Some(LONGEST));
    }

    #[test]
    fn refuses_what_is_no_span() {
        for text in ["", "s", "10", "-1s", "+1s", "1.5s", " 1s", "1 s", "1S", "10sm", "1\u{e9}", "0s", "0ms"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["87601h", "4294967296s", "99999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

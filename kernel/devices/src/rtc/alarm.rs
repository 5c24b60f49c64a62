//! When the alarm bytes match next.

use super::calendar::{SECONDS_PER_HOUR, SECONDS_PER_MINUTE, encode, encode_hour};
use super::spec::{ALARM_ANY, RegisterB};

/// More steps than any alarm needs: the seconds and minutes that are left of this hour, the hours of a day,
/// and minutes and seconds to the match.
const STEPS: u32 = 60 + 60 + 24 + 60 + 60;

/// Seconds from a second of the day, which does not count itself, to the next match of the alarm bytes
/// (hours, minutes, seconds). `None` if they are no time of day.
pub(super) fn seconds_to(alarm: [u8; 3], mode: RegisterB, second_of_day: u64) -> Option<u64> {
    let [hours, minutes, seconds] = alarm;
    let matches = |alarm: u8, byte: u8| alarm & ALARM_ANY == ALARM_ANY || alarm == byte;
    let mut time = second_of_day + 1;
    for _ in 0..STEPS {
        let hour = time / SECONDS_PER_HOUR % 24;
        let minute = time / SECONDS_PER_MINUTE % 60;
        if !matches(hours, encode_hour(hour, mode)) {
            time = (time / SECONDS_PER_HOUR + 1) * SECONDS_PER_HOUR;
        } else if !matches(minutes, encode(minute, mode)) {
            time = (time / SECONDS_PER_MINUTE + 1) * SECONDS_PER_MINUTE;
        } else if !matches(seconds, encode(time % SECONDS_PER_MINUTE, mode)) {
            time += 1;
        } else {
            return Some(time - second_of_day);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const BCD: RegisterB = RegisterB::HOURS_24;

    #[test]
    fn the_next_match() {
        assert_eq!(seconds_to([0x06, 0x30, 0x00], BCD, 0), Some(6 * 3600 + 1800));
        assert_eq!(seconds_to([0x00, 0x00, 0x00], BCD, 0), Some(86_400), "the present second does not count");
        assert_eq!(seconds_to([0xff, 0xff, 0x10], BCD, 11), Some(59));
        assert_eq!(seconds_to([0xff, 0xc0, 0xff], BCD, 86_399), Some(1));
        assert_eq!(
            seconds_to([0x86, 0x00, 0x00], RegisterB::empty(), 0),
            Some(18 * 3600),
            "6 in the evening"
        );
        assert_eq!(seconds_to([0x23, 0x59, 0x59], BCD, 86_398), Some(1));
    }

    #[test]
    fn longest_searches_end_and_nonsense_never_matches() {
        assert_eq!(seconds_to([0x05, 0x59, 0x59], BCD, 6 * 3600), Some(86_399));
        assert_eq!(seconds_to([0x05, 0x59, 0x58], BCD, 5 * 3600 + 3599), Some(86_399));
        assert_eq!(seconds_to([0x24, 0xff, 0xff], BCD, 0), None);
        assert_eq!(seconds_to([0xff, 0xff, 0x5a], BCD, 0), None);
    }
}

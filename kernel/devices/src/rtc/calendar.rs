//! Between a count of seconds and the clock's bytes.

use super::spec::{PM, RegisterB};

pub(super) const SECONDS_PER_MINUTE: u64 = 60;
pub(super) const SECONDS_PER_HOUR: u64 = 3600;
pub(super) const SECONDS_PER_DAY: u64 = 86_400;
/// Days of 400 Gregorian years, after which the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;
/// From 1 March of year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_468;

/// A date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) year: u64,
    pub(super) month: u64,
    pub(super) day: u64,
    /// 1 is Sunday.
    pub(super) day_of_week: u64,
    pub(super) hour: u64,
    pub(super) minute: u64,
    pub(super) second: u64,
}

impl Calendar {
    /// From seconds since 1970. Years are counted from March, so that the leap day is their last.
    pub(super) fn from_unix(seconds: u64) -> Calendar {
        let days = seconds / SECONDS_PER_DAY;
        let since_march_0 = days + EPOCH_DAYS;
        let day_of_era = since_march_0 % DAYS_PER_ERA;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - days_before_year(year_of_era);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Calendar {
            year: since_march_0 / DAYS_PER_ERA * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - days_before_month(month_from_march) + 1,
            // 1 January 1970 was a Thursday.
            day_of_week: (days + 4) % 7 + 1,
            hour: seconds % SECONDS_PER_DAY / SECONDS_PER_HOUR,
            minute: seconds % SECONDS_PER_HOUR / SECONDS_PER_MINUTE,
            second: seconds % SECONDS_PER_MINUTE,
        }
    }

    /// To seconds since 1970. Fields may be out of their ranges: too long a time of day or month carries
    /// over, a month outside 1 to 12 becomes the nearest, a time before 1970 is 1970.
    pub(super) fn to_unix(self) -> u64 {
        let month = self.month.clamp(1, 12);
        let year = self.year - u64::from(month <= 2 && self.year > 0);
        let month_from_march = (month + 9) % 12;
        let days = year / 400 * DAYS_PER_ERA
            + days_before_year(year % 400)
            + days_before_month(month_from_march)
            + self.day.max(1)
            - 1;
        days.saturating_sub(EPOCH_DAYS) * SECONDS_PER_DAY
            + self.hour * SECONDS_PER_HOUR
            + self.minute * SECONDS_PER_MINUTE
            + self.second
    }
}

/// Days of an era (or of no more than 400 years) before a year of it.
fn days_before_year(year_of_era: u64) -> u64 {
    year_of_era * 365 + year_of_era / 4 - year_of_era / 100
}

/// Days of a year that begins in March before a month (0 is March).
fn days_before_month(month_from_march: u64) -> u64 {
    (153 * month_from_march + 2) / 5
}

/// A number below 100 in the register's data mode.
pub(super) fn encode(value: u64, mode: RegisterB) -> u8 {
    let value = value as u8;
    if mode.contains(RegisterB::BINARY) { value } else { value / 10 * 16 + value % 10 }
}

/// The inverse of [`encode`]; digits above nine count what they say.
pub(super) fn decode(byte: u8, mode: RegisterB) -> u64 {
    u64::from(if mode.contains(RegisterB::BINARY) { byte } else { byte / 16 * 10 + byte % 16 })
}

/// An hour 0 to 23 in the register's mode.
pub(super) fn encode_hour(hour: u64, mode: RegisterB) -> u8 {
    if mode.contains(RegisterB::HOURS_24) {
        return encode(hour, mode);
    }
    let of_twelve = (hour + 11) % 12 + 1;
    encode(of_twelve, mode) | if hour >= 12 { PM } else { 0 }
}

/// The inverse of [`encode_hour`].
pub(super) fn decode_hour(byte: u8, mode: RegisterB) -> u64 {
    if mode.contains(RegisterB::HOURS_24) {
        return decode(byte, mode);
    }
    decode(byte & !PM, mode) % 12 + if byte & PM != 0 { 12 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        let date = |seconds| {
            let calendar = Calendar::from_unix(seconds);
            (calendar.year, calendar.month, calendar.day, calendar.day_of_week)
        };
        assert_eq!(date(0), (1970, 1, 1, 5));
        assert_eq!(date(951_782_400), (2000, 2, 29, 3));
        assert_eq!(date(1_709_164_800), (2024, 2, 29, 5));
        assert_eq!(date(4_107_542_399), (2100, 2, 28, 1));
        assert_eq!(date(4_107_542_400), (2100, 3, 1, 2));
    }

    #[test]
    fn every_day_of_eight_centuries_comes_back() {
        for day in 0..800 * 365 {
            let seconds = day * SECONDS_PER_DAY + 86_399;
            let calendar = Calendar::from_unix(seconds);
            assert_eq!(calendar.to_unix(), seconds);
            assert!((1..=12).contains(&calendar.month) && (1..=31).contains(&calendar.day));
        }
    }

    #[test]
    fn hours_in_all_modes() {
        for mode in [
            RegisterB::empty(),
            RegisterB::HOURS_24,
            RegisterB::BINARY,
            RegisterB::BINARY | RegisterB::HOURS_24,
        ] {
            for hour in 0..24 {
                assert_eq!(decode_hour(encode_hour(hour, mode), mode), hour);
            }
        }
        assert_eq!(encode_hour(0, RegisterB::empty()), 0x12);
        assert_eq!(encode_hour(12, RegisterB::empty()), 0x92);
        assert_eq!(encode_hour(23, RegisterB::BINARY), 0x8b);
    }
}

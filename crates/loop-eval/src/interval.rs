//! Confidence intervals of rates and of differences of rates.

/// The 97.5th percentile of the normal distribution: an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A rate with the 95 % interval of Wilson's score, which also holds for small counts and for rates near 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The rate that was counted. 0 if nothing was.
    pub rate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of `hits` out of `all`. It is 0 to 1 if `all` is 0.
    pub fn of(hits: u32, all: u32) -> Self {
        if all == 0 {
            return Self { rate: 0.0, low: 0.0, high: 1.0 };
        }
        let n = f64::from(all);
        let rate = f64::from(hits.min(all)) / n;
        let z2 = Z * Z;
        let centre = (rate + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z / (1.0 + z2 / n) * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n)).sqrt();
        let low = if hits == 0 { 0.0 } else { (centre - half).max(0.0) };
        let high = if hits >= all { 1.0 } else { (centre + half).min(1.0) };
        Self { rate, low, high }
    }

    /// The fewest runs, all of them hits, for which the lower end is `rate` or more. `None`: no number is enough.
    #[cfg(test)]
    pub(crate) fn least_runs(rate: f64) -> Option<u32> {
        let needed = (Z * Z * rate / (1.0 - rate)).ceil();
        (rate < 1.0 && needed < f64::from(u32::MAX)).then_some(needed.max(1.0) as u32)
    }
}

/// The 95 % interval of the difference `now - before` of two rates, by Newcombe's method 10, from the Wilson intervals
/// of both.
pub(crate) fn difference(before: &Interval, now: &Interval) -> Interval {
    let rate = now.rate - before.rate;
    let below = ((now.rate - now.low).powi(2) + (before.high - before.rate).powi(2)).sqrt();
    let above = ((now.high - now.rate).powi(2) + (before.rate - before.low).powi(2)).sqrt();
    Interval { rate, low: (rate - below).max(-1.0), high: (rate + above).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_difference_has_the_published_values() {
        // Newcombe, Statistics in Medicine 17 (1998) 873-890, table II, method 10.
        for (now, before, low, high) in [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((6, 7), (2, 7), 0.0582, 0.8062),
            ((5, 56), (0, 29), -0.0381, 0.1926),
        ] {
            let of = |(hits, all)| Interval::of(hits, all);
            let found = difference(&of(before), &of(now));
            let near = |a: f64, b: f64| (a - b).abs() < 0.000_06;
            assert!(near(found.low, low) && near(found.high, high), "{now:?} {before:?}: {found:?}");
        }
    }

    #[track_caller]
    fn check(hits: u32, all: u32, low: f64, high: f64) {
        let interval = Interval::of(hits, all);
        let near = |a: f64, b: f64| (a - b).abs() < 0.000_05;
        assert!(near(interval.low, low) && near(interval.high, high), "{hits} of {all}: {interval:?}");
    }

    #[test]
    fn the_interval_has_the_published_values() {
        // Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        check(81, 263, 0.2553, 0.3662);
        check(15, 148, 0.0624, 0.1605);
        check(0, 20, 0.0000, 0.1611);
        check(1, 29, 0.0061, 0.1718);
    }

    #[test]
    fn the_interval_holds_the_rate_and_shrinks_with_the_count() {
        for all in 1..=60_u32 {
            for hits in 0..=all {
                let one = Interval::of(hits, all);
                assert!(
                    (0.0..=one.rate).contains(&one.low) && (one.rate..=1.0).contains(&one.high),
                    "{one:?}"
                );
                let ten = Interval::of(hits * 10, all * 10);
                assert!(ten.high - ten.low < one.high - one.low, "{one:?} {ten:?}");
                // What misses is counted from the other end.
                let other = Interval::of(all - hits, all);
                assert!((one.low - (1.0 - other.high)).abs() < 1e-9, "{one:?} {other:?}");
            }
        }
        assert_eq!(Interval::of(0, 0), Interval { rate: 0.0, low: 0.0, high: 1.0 });
    }

    #[test]
    fn so_many_runs_without_a_miss_are_enough_and_one_less_is_not() {
        for rate in [0.5, 0.8, 0.9, 0.95, 0.99, 0.999] {
            let Some(least) = Interval::least_runs(rate) else { panic!("{rate}") };
            assert!(Interval::of(least, least).low >= rate, "{rate} {least}");
            assert!(least == 1 || Interval::of(least - 1, least - 1).low < rate, "{rate} {least}");
        }
        assert_eq!(Interval::least_runs(1.0), None);
    }
}

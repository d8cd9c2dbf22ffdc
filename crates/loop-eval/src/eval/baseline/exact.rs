//! The significance test of a baseline: whether fewer runs pass than before, beyond chance.
//!
//! The test is exact and conditional: for each case, the runs of both sides are one heap, and if the case passes as often
//! as before, every way to split the heap into the two sides is equally likely. So the passes of the new side are
//! hypergeometric in each case, and their sum over the cases is the convolution of these distributions. The p-value is the
//! probability of a sum that is as small as the found one. (Fisher's exact test for one case; for several cases the exact
//! conditional test of Mantel-Haenszel, Birch 1964; for one run of each case on each side the exact test of McNemar.)
//! Cases that differ in difficulty, or have unequal numbers of runs, do not distort it: a case is compared with itself
//! only.

/// The runs of one case on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CasePair {
    /// Runs that passed, and all, before.
    pub(crate) before: (u32, u32),
    /// Runs that passed, and all, now.
    pub(crate) now: (u32, u32),
}

/// The probability that so few runs pass now, or fewer, if each case passes as often as before.
pub(crate) fn p_value(cases: &[CasePair]) -> f64 {
    let most = cases.iter().map(|pair| pair.before.1 + pair.now.1).max().unwrap_or_default();
    let logs = LogFactorials::to(most);
    // The distribution of the sum, whose first member is the probability of the smallest possible sum.
    let (mut sums, mut smallest, mut found) = (vec![1.0_f64], 0_u32, 0_u32);
    for pair in cases {
        let ((before, of_before), (now, of_now)) = (pair.before, pair.now);
        let passed = before + now;
        let (low, high) = (passed.saturating_sub(of_before), passed.min(of_now));
        smallest += low;
        found += now;
        let weights: Vec<f64> = (low..=high)
            .map(|here| {
                let log = logs.choose(of_now, here) + logs.choose(of_before, passed - here)
                    - logs.choose(of_before + of_now, passed);
                log.exp()
            })
            .collect();
        sums = convolved(&sums, &weights);
    }
    let as_small = found.saturating_sub(smallest) as usize + 1;
    sums.iter().take(as_small).sum::<f64>().min(1.0)
}

fn convolved(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; one.len() + other.len() - 1];
    for (at, a) in one.iter().enumerate() {
        for (sum, b) in sums.iter_mut().skip(at).zip(other) {
            *sum += a * b;
        }
    }
    sums
}

/// Logarithms of factorials.
struct LogFactorials(Vec<f64>);

impl LogFactorials {
    fn to(most: u32) -> Self {
        let mut logs = vec![0.0];
        let mut log = 0.0;
        for n in 1..=most {
            log += f64::from(n).ln();
            logs.push(log);
        }
        Self(logs)
    }

    fn of(&self, n: u32) -> f64 {
        self.0.get(n as usize).copied().unwrap_or(f64::INFINITY)
    }

    /// The logarithm of the number of ways to choose `k` of `n`.
    fn choose(&self, n: u32, k: u32) -> f64 {
        if k > n { f64::NEG_INFINITY } else { self.of(n) - self.of(k) - self.of(n - k) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(before: (u32, u32), now: (u32, u32)) -> CasePair {
        CasePair { before, now }
    }

    #[track_caller]
    fn is_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn one_case_is_fishers_exact_test() {
        // Fisher's lady who tasted eight cups of tea, The Design of Experiments (1935): 17 of 70 for three or more of four.
        is_near(p_value(&[pair((3, 4), (1, 4))]), 17.0 / 70.0);
        is_near(p_value(&[pair((4, 4), (0, 4))]), 1.0 / 70.0);
        is_near(p_value(&[pair((0, 4), (4, 4))]), 1.0);
    }

    #[test]
    fn one_run_of_each_case_is_mcnemars_exact_test() {
        // Six cases passed before and fail now, one the other way round, and three are as before.
        let fell = [pair((1, 1), (0, 1)); 6];
        let rose = [pair((0, 1), (1, 1))];
        let same = [pair((1, 1), (1, 1)), pair((1, 1), (1, 1)), pair((0, 1), (0, 1))];
        is_near(p_value(&[&fell[..], &rose, &same].concat()), 8.0 / 128.0);
    }

    #[test]
    fn several_cases_are_compared_each_with_itself() {
        // Simpson: each case passes as often as before, and the pooled rates are 10 of 12 and 3 of 12.
        let cases = [pair((10, 10), (2, 2)), pair((0, 2), (1, 10))];
        assert!(p_value(&cases) > 0.5);
        // By hand: both cases pass 2 of 4 on both sides together, so that 0, 1 or 2 pass now with 1/6, 4/6 and 1/6. The sum
        // is 1 or less for (0, 0), (0, 1) and (1, 0).
        let two = [pair((2, 2), (0, 2)), pair((1, 2), (1, 2))];
        is_near(p_value(&two), (1.0 + 4.0 + 4.0) / 36.0);
        is_near(p_value(&[]), 1.0);
    }

    #[test]
    fn many_runs_keep_their_precision() {
        let all = p_value(&[pair((5_000, 10_000), (5_000, 10_000))]);
        assert!((0.5..0.51).contains(&all), "{all}");
        assert!(p_value(&[pair((10_000, 10_000), (9_990, 10_000))]) < 0.001);
    }
}

//! A seeded order, shards of it, and how sure a share is.

/// Numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. The bias of the remainder is below 2^-50 for the lengths of our lists.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }
}

/// `items` in a random order: the first `n` are a sample without replacement.
pub(crate) fn shuffled<T>(mut items: Vec<T>, seed: u64) -> Vec<T> {
    let mut random = Random(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
    items
}

/// Every `of`-th item, from the `number`-th, which counts from 1.
pub(crate) fn shard<T>(items: Vec<T>, number: usize, of: usize) -> Vec<T> {
    items.into_iter().skip(number.saturating_sub(1)).step_by(of.max(1)).collect()
}

/// The exact one-sided lower bound (Clopper and Pearson) of a share of which `hits` of `n` were seen, in 95 of 100 cases.
pub(crate) fn lower_bound(hits: u32, n: u32) -> f64 {
    if hits == 0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_least(hits, n, middle) < 0.05 { low = middle } else { high = middle }
    }
    low
}

/// The probability of at least `hits` of `n`, each with the share `p`.
fn at_least(hits: u32, n: u32, p: f64) -> f64 {
    let (n64, log_p, log_q) = (f64::from(n), p.ln(), (1.0 - p).ln());
    let mut log_choose = 0.0;
    let mut sum = 0.0;
    // From n hits down, since few are missed.
    for misses in 0..=n - hits {
        let missed = f64::from(misses);
        if misses > 0 {
            log_choose += ((n64 - missed + 1.0) / missed).ln();
        }
        sum += (log_choose + (n64 - missed) * log_p + missed * log_q).exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_item_once_and_is_that_of_its_seed() {
        let order = shuffled((0..100).collect(), 7);
        assert_eq!(order, shuffled((0..100).collect(), 7));
        assert_ne!(order, shuffled((0..100).collect(), 8));
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn shards_have_every_item_once() {
        let mut all: Vec<u32> = (1..=3).flat_map(|number| shard((0..10).collect(), number, 3)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_bound_is_that_of_the_tables() {
        // Of n without a miss: 0.05^(1/n).
        assert!((lower_bound(59, 59) - 0.05_f64.powf(1.0 / 59.0)).abs() < 1e-9);
        // `binom.test(95, 100, alternative = "greater")` of R gives 0.8977.
        assert!((lower_bound(95, 100) - 0.8977).abs() < 1e-3, "{}", lower_bound(95, 100));
        assert!(lower_bound(0, 10) < 1e-9);
    }
}

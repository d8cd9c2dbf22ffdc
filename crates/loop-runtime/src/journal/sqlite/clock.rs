//! A clock that nobody sets: milliseconds since this machine was started, its sleep included.

use std::fs;

/// An instant of one start of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SinceBoot {
    /// Names the start.
    pub(super) boot: String,
    /// Milliseconds since then.
    pub(super) millis: u64,
}

impl SinceBoot {
    /// Milliseconds from this instant until `now`; `None` where the machine was started anew between them.
    pub(super) fn until(&self, now: &Self) -> Option<u64> {
        (self.boot == now.boot).then(|| now.millis.saturating_sub(self.millis))
    }
}

/// Now; `None` on a system that does not tell.
pub(super) fn now() -> Option<SinceBoot> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let boot = boot.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if boot.is_empty() || boot.len() > 64 || !boot.chars().all(is_plain) {
        return None;
    }
    Some(SinceBoot { boot: boot.to_owned(), millis: millis(uptime.split_whitespace().next()?)? })
}

/// `12.34` seconds in milliseconds.
fn millis(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_once('.')?;
    let hundredths: u64 = hundredths.get(..2)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(hundredths * 10)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_the_start_goes_forward_and_ends_with_it() {
        // B11, H7
        assert_eq!((millis("12.34"), millis("12"), millis("x.yz")), (Some(12_340), None, None));
        let at = |boot: &str, millis| SinceBoot { boot: boot.to_owned(), millis };
        assert_eq!(at("a", 10).until(&at("a", 25)), Some(15));
        assert_eq!(at("a", 10).until(&at("b", 25)), None);
        if cfg!(target_os = "linux") {
            let (before, after) = (now().unwrap(), now().unwrap());
            assert!(before.until(&after).is_some());
        }
    }
}

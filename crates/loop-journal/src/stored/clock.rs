//! A clock that cannot be set: milliseconds since this machine was started, its sleep included.

use std::fs;
use std::sync::{Arc, LazyLock};

/// An instant of one start of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SinceBoot {
    /// Names the start.
    pub(super) boot: Arc<str>,
    /// Milliseconds since then.
    pub(super) millis: u64,
}

impl SinceBoot {
    /// Milliseconds from this instant until `now`; `None`: the machine was restarted between them.
    pub(super) fn until(&self, now: &Self) -> Option<u64> {
        (self.boot == now.boot).then(|| now.millis.saturating_sub(self.millis))
    }
}

/// The boot id. A process does not survive a restart of its machine, so it is read once.
static BOOT: LazyLock<Option<Arc<str>>> = LazyLock::new(boot);

/// Whether a restart of the machine can be noticed.
pub(super) fn has_boot_id() -> bool {
    BOOT.is_some()
}

/// Now. `None`: the system has no boot id, or no clock that counts from the boot.
pub(super) fn now() -> Option<SinceBoot> {
    Some(SinceBoot { boot: BOOT.clone()?, millis: since_boot_ms()? })
}

fn boot() -> Option<Arc<str>> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = boot.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (!boot.is_empty() && boot.len() <= 64 && boot.chars().all(is_plain)).then(|| boot.into())
}

#[cfg(target_os = "linux")]
fn since_boot_ms() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    seconds.checked_mul(1_000)?.checked_add(nanos / 1_000_000)
}

#[cfg(not(target_os = "linux"))]
fn since_boot_ms() -> Option<u64> {
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_the_start_goes_forward_and_ends_with_it() {
        // B11, H7
        let at = |boot: &str, millis| SinceBoot { boot: boot.into(), millis };
        assert_eq!(at("a", 10).until(&at("a", 25)), Some(15));
        assert_eq!(at("a", 10).until(&at("b", 25)), None);
        if cfg!(target_os = "linux") {
            let (before, after) = (now().unwrap(), now().unwrap());
            assert!(before.until(&after).is_some());
        }
    }
}

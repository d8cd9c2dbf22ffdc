//! The panic hook: prints the message and the place of a panic, without the secrets of the domain. A panicking tool
//! only fails its call, so its message would otherwise reach standard error unmasked.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, PoisonError};

use loop_core::secrets::Secrets;

use super::stream;

/// The secrets of the domains that were loaded.
static SECRETS: Mutex<Option<Secrets>> = Mutex::new(None);

/// Masks the messages of all further panics.
pub(crate) fn mask() {
    panic::set_hook(Box::new(|panic| {
        stream::note(report(panic));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            stream::note(trace.to_string());
        }
    }));
}

/// Adds secrets to mask.
pub(crate) fn add(secrets: &Secrets) {
    let mut known = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().extend(secrets);
}

fn report(panic: &PanicHookInfo<'_>) -> String {
    let place =
        panic.location().map(|place| format!("{}:{}", place.file(), place.line())).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("no message");
    let known = SECRETS.lock().unwrap_or_else(PoisonError::into_inner);
    let message = known.as_ref().map_or_else(|| message.to_owned(), |known| known.mask_message(message));
    format!("internal error at {place}: {message}; please report it")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::panic::{self, catch_unwind};
    use std::sync::{Arc, Mutex};

    use loop_core::secrets::Secrets;

    // K13
    #[test]
    fn a_panic_prints_where_it_was_and_no_secret() {
        super::add(&Secrets::of(["Violet-Harbour-2291"]));
        let printed = Arc::<Mutex<String>>::default();
        let of_hook = Arc::clone(&printed);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| *of_hook.lock().unwrap() = super::report(panic)));
        let ended = catch_unwind(|| panic!("no answer to Bearer Violet-Harbour-2291"));
        panic::set_hook(before);
        assert!(ended.is_err());
        let printed = printed.lock().unwrap();
        assert!(printed.starts_with("internal error at crates/loopgate/src/output/panics.rs:"), "{printed}");
        assert!(printed.ends_with(": no answer to Bearer [masked]; please report it"), "{printed}");
    }
}

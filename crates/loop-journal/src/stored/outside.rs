//! Seals of texts that are given to the outside, such as the target of a link: one that comes back unchanged is known.

use super::StoredJournal;

/// No seal of the journal's own rows has this tag.
const TAG: &str = "outside";

impl StoredJournal {
    /// The seal of a text that is given to the outside for this purpose: only a program with the journal's key can make it.
    /// `None`: the key cannot be read.
    pub fn seal_outside(&self, purpose: &str, text: &str) -> Option<String> {
        Some(self.store.files.key.as_ref()?.seal(TAG, &[purpose, text]))
    }

    /// Whether this is the seal of a text for this purpose.
    pub fn is_sealed_outside(&self, purpose: &str, text: &str, seal: &str) -> bool {
        let key = self.store.files.key.as_ref();
        key.is_some_and(|key| key.check(seal, TAG, &[purpose, text]).is_none())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_journal_one_purpose_and_one_text() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| StoredJournal::open(folder.path().join(name)).unwrap();
        let journal = open("a.db");
        let seal = journal.seal_outside("link", "text").unwrap();
        assert!(open("a.db").is_sealed_outside("link", "text", &seal), "another process with the key");
        assert!(!open("b.db").is_sealed_outside("link", "text", &seal));
        for (purpose, text, seal) in [
            ("other", "text", &*seal),
            ("link", "texts", &seal),
            ("link", "text", ""),
            ("link", "text", &seal[1..]),
        ] {
            assert!(!journal.is_sealed_outside(purpose, text, seal), "{purpose} {text} {seal}");
        }
    }
}

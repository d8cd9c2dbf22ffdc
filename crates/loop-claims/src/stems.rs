//! The words of a sentence, shortened to their stems. Few values need them, so they are made when they are asked for.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::absence::{stem, unaccented};
use crate::scan::same;
use crate::value::words;

/// The stems of a sentence.
#[derive(Debug, Default)]
pub(crate) struct Stems {
    text: Box<str>,
    stems: OnceLock<BTreeSet<Box<str>>>,
}

impl Stems {
    pub(crate) fn of(text: &str) -> Self {
        Self { text: text.into(), stems: OnceLock::new() }
    }

    /// Whether it is the stem of a word of the sentence.
    pub(crate) fn contains(&self, stem: &str) -> bool {
        self.stems.get_or_init(|| stems(&self.text)).contains(stem)
    }
}

fn stems(text: &str) -> BTreeSet<Box<str>> {
    let mut stems: BTreeSet<Box<str>> =
        words(text).iter().map(|word| same(stem(&unaccented(word))).into()).collect();
    // Words of these scripts have no spaces between them.
    for (word, stem) in [("失敗", "failed"), ("成功", "success")] {
        if text.contains(word) {
            stems.insert(stem.into());
        }
    }
    stems
}

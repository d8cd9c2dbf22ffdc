//! The document: typed sections that stay or are replaced, pass by pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::reply::citation::{citations, has_words};
use crate::reply::sections::{PREAMBLE, ProposedSection, emoji_of};
use crate::spec::SectionSpec;
use crate::types::{Digest, EvidenceId, Millis, steps};

/// A section with its provenance: its pass, its evidence, and what it replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Section {
    /// The section's id in the domain, or a slug of the heading where the domain declares none.
    pub id: Arc<str>,
    /// The heading as written, for example `🔍 Situation`.
    pub heading: Arc<str>,
    /// The heading without its emoji, for example `Situation`. Empty for the preamble.
    pub heading_text: Arc<str>,
    /// The emoji of the heading. Empty if it has none.
    pub emoji: Arc<str>,
    /// The body as Markdown, without the heading.
    pub body: Arc<str>,
    /// The pass that last changed the body, from 1.
    pub pass: u32,
    /// When that pass's reply was read, since the start of the run.
    pub at: Millis,
    /// The evidence that the body cites, among what existed and had not failed when it was last proposed.
    pub evidence: Vec<EvidenceId>,
    /// The other evidence that it cites: it did not exist, or had failed. Empty: all its citations are valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad_citations: Vec<EvidenceId>,
    /// The digest of the body that it replaced. `None`: there was none before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Digest>,
    /// Whether the domain declares the section.
    pub known: bool,
}

/// The sections in the order in which they are shown: preamble, then as declared, then the unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Document {
    /// In the order in which they are shown. Empty before the first reply.
    pub sections: Vec<Section>,
}

/// What merging a reply into the document changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Merge {
    /// Sections that are new or have another body. The preamble is never among them.
    pub changed: Vec<SectionChange>,
    /// Ids of sections that the reply repeats with the same body. Their `pass` does not change, and they may cite more
    /// evidence.
    pub identical: Vec<Arc<str>>,
    /// Ids of sections whose earlier body stays: the reply gave them no words of their own, or left a required one
    /// empty.
    pub kept: Vec<Arc<str>>,
    /// Citations that do not count, of evidence that does not exist or that failed.
    pub bad_citations: Vec<BadCitation>,
}

/// A section that a merge changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SectionChange {
    /// The section's id.
    pub section: Arc<str>,
    /// The digest of the body before. `None`: the section is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Digest>,
    /// The evidence that the new body cites.
    pub evidence: Vec<EvidenceId>,
}

/// A citation that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BadCitation {
    /// The id of the section that has it.
    pub section: Arc<str>,
    /// The evidence that it names.
    pub evidence: EvidenceId,
}

/// What a merge needs to know besides the sections: what may be cited, and the pass.
#[derive(Clone, Copy, Debug)]
pub struct MergeContext<'a> {
    /// The sections that the domain declares.
    pub declared: &'a [SectionSpec],
    /// The pass that proposes, from 1.
    pub pass: u32,
    /// When the reply was read.
    pub at: Millis,
    /// Evidence that may be cited, in ascending order.
    pub citable: &'a [EvidenceId],
}

impl Document {
    /// The section with this id.
    pub fn get(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| &*section.id == id)
    }

    /// Merges `proposed` into a copy of this document, and returns it with the changes. A section that is not proposed
    /// stays unchanged, byte for byte. Merging nothing changes nothing, and merging twice equals merging once.
    pub fn merged(&self, proposed: &[ProposedSection], context: MergeContext<'_>) -> (Self, Merge) {
        let mut draft = MergeDraft::of(self, context.declared);
        let mut merge = Merge::default();
        for proposal in proposed {
            draft.merge_one(proposal, context, &mut merge);
        }
        (draft.into_document(), merge)
    }

    /// The whole document as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        for section in &self.sections {
            if !out.is_empty() {
                out.push('\n');
            }
            if &*section.id != PREAMBLE {
                out.push_str("## ");
                out.push_str(&section.heading);
                out.push_str("\n\n");
            }
            out.push_str(&section.body);
            out.push('\n');
        }
        out
    }
}

/// A document while a reply is merged into it: sections and declarations are found by their ids.
struct MergeDraft<'a> {
    /// A removed section leaves its position empty.
    sections: Vec<Option<Section>>,
    places: BTreeMap<Arc<str>, usize>,
    declared: BTreeMap<&'a str, (usize, &'a SectionSpec)>,
}

impl<'a> MergeDraft<'a> {
    fn of(document: &Document, declared: &'a [SectionSpec]) -> Self {
        let ids = document.sections.iter().enumerate().rev();
        let specs = declared.iter().enumerate().rev();
        Self {
            places: ids.map(|(at, section)| (Arc::clone(&section.id), at)).collect(),
            declared: specs.map(|(at, spec)| (&*spec.id, (at, spec))).collect(),
            sections: document.sections.iter().cloned().map(Some).collect(),
        }
    }

    fn into_document(self) -> Document {
        let mut sections: Vec<Section> = self.sections.into_iter().flatten().collect();
        // Preamble, then the declared sections in their order, then the others in order of arrival.
        sections.sort_by_key(|section| match &*section.id {
            PREAMBLE => 0,
            id => 1 + self.declared.get(id).map_or(self.declared.len(), |(at, _)| *at),
        });
        Document { sections }
    }

    fn merge_one(&mut self, proposal: &ProposedSection, context: MergeContext<'_>, merge: &mut Merge) {
        steps::count(1);
        let at = self.places.get(&proposal.id).copied();
        let before = at.and_then(|at| self.sections.get(at)).and_then(Option::as_ref);
        let is_citable = |id: &EvidenceId| context.citable.binary_search(id).is_ok();
        if before.is_some_and(|before| before.body == proposal.body) {
            // Evidence that it cites may have settled since.
            if let Some(same) = at.and_then(|at| self.sections.get_mut(at)?.as_mut()) {
                (same.evidence, same.bad_citations) = citations(&same.body).into_iter().partition(is_citable);
            }
            merge.identical.push(Arc::clone(&proposal.id));
            return;
        }
        // A body with citations alone has no content: an earlier body stays, and a new section is not written.
        if !proposal.body.is_empty() && !has_words(&proposal.body) {
            merge.kept.push(Arc::clone(&proposal.id));
            return;
        }
        if proposal.body.is_empty() {
            let required = self.declared.get(&*proposal.id).is_some_and(|(_, spec)| spec.required);
            if required && before.is_some() {
                merge.kept.push(Arc::clone(&proposal.id));
            } else if let Some(gone) = at.and_then(|at| self.sections.get_mut(at)?.take()) {
                self.places.remove(&proposal.id);
                let replaced = Some(body_digest(&gone.body));
                if &*gone.id != PREAMBLE {
                    merge.changed.push(SectionChange { section: gone.id, replaced, evidence: Vec::new() });
                }
            }
            return;
        }
        let (evidence, bad): (Vec<_>, Vec<_>) = citations(&proposal.body).into_iter().partition(is_citable);
        let section = || Arc::clone(&proposal.id);
        merge
            .bad_citations
            .extend(bad.iter().map(|evidence| BadCitation { section: section(), evidence: *evidence }));
        let replaced = before.map(|before| body_digest(&before.body));
        if &*proposal.id != PREAMBLE {
            let section = Arc::clone(&proposal.id);
            merge.changed.push(SectionChange { section, replaced, evidence: evidence.clone() });
        }
        let emoji = emoji_of(&proposal.heading);
        let heading_text =
            proposal.heading.trim_start().strip_prefix(emoji).unwrap_or(&proposal.heading).trim();
        let section = Section {
            id: Arc::clone(&proposal.id),
            // Later passes may write the heading without its emoji. The first form stays.
            heading: before
                .map_or_else(|| Arc::clone(&proposal.heading), |before| Arc::clone(&before.heading)),
            heading_text: before
                .map_or_else(|| heading_text.into(), |before| Arc::clone(&before.heading_text)),
            emoji: before.map_or_else(|| emoji.into(), |before| Arc::clone(&before.emoji)),
            body: Arc::clone(&proposal.body),
            pass: context.pass,
            at: context.at,
            evidence,
            bad_citations: bad,
            replaced,
            known: proposal.known,
        };
        match at.and_then(|at| self.sections.get_mut(at)) {
            Some(slot) => *slot = Some(section),
            None => {
                self.places.insert(Arc::clone(&section.id), self.sections.len());
                self.sections.push(Some(section));
            }
        }
    }
}

fn body_digest(body: &str) -> Digest {
    Digest::of("section", body.as_bytes())
}

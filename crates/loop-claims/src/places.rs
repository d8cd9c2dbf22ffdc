//! In which evidence a value is.

use crate::formula::Formula;
use loop_core::types::EvidenceId;

/// The evidence that has a value, in its order, and how it was computed from each. `None`: copied.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<(EvidenceId, Option<Formula>)>);

impl Places {
    /// Adds a piece of evidence, or says anew how the value was computed from it.
    pub(super) fn insert(&mut self, id: EvidenceId, formula: Option<Formula>) {
        if self.0.last().is_none_or(|(last, _)| *last < id) {
            self.0.push((id, formula));
            return;
        }
        match self.0.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => {
                if let Some((_, known)) = self.0.get_mut(at) {
                    *known = formula;
                }
            }
            Err(at) => self.0.insert(at, (id, formula)),
        }
    }

    /// How it was computed from this evidence. `None`: it is not there.
    pub(super) fn get(&self, id: EvidenceId) -> Option<&Option<Formula>> {
        let at = self.0.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.0.get(at).map(|(_, formula)| formula)
    }

    /// The evidence, in its order.
    pub(super) fn ids(&self) -> impl Iterator<Item = EvidenceId> {
        self.0.iter().map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_in_its_order_however_it_was_read() {
        let mut places = Places::default();
        for id in [3, 1, 7, 5, 3] {
            let formula = (id == 3).then_some(Formula::Rounded);
            places.insert(EvidenceId(id), formula);
        }
        assert_eq!(places.ids().map(|id| id.0).collect::<Vec<_>>(), [1, 3, 5, 7]);
        assert_eq!(places.get(EvidenceId(3)), Some(&Some(Formula::Rounded)));
        assert_eq!(places.get(EvidenceId(7)), Some(&None));
        assert_eq!(places.get(EvidenceId(2)), None);
    }
}

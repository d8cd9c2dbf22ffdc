//! A small map in one list, sorted by its keys.
//!
//! A run holds few values of a kind at a time. A node of a tree has room for eleven of them, from the first on.

/// A map for few values, or for keys that come in their order: another one moves those behind it.
#[derive(Clone, Debug)]
pub(crate) struct SortedList<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedList<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord, V> SortedList<K, V> {
    /// Puts a value under a key, in place of the one before.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.at(&key) {
            Ok(at) => {
                if let Some((_, before)) = self.0.get_mut(at) {
                    *before = value;
                }
            }
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(self.at(key).ok()?).map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.at(key).is_ok()
    }

    /// Changes the value of a key. Where there is none, `value` gives the one to begin with.
    pub(crate) fn change(&mut self, key: &K, value: impl FnOnce() -> V, change: impl FnOnce(&mut V))
    where
        K: Clone,
    {
        let at = self.at(key).unwrap_or_else(|at| {
            self.0.insert(at, (key.clone(), value()));
            at
        });
        if let Some((_, value)) = self.0.get_mut(at) {
            change(value);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.at(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// All of them, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    fn at(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::SortedList;

    #[test]
    fn it_is_the_map_that_a_tree_is() {
        let (mut list, mut tree) = (SortedList::default(), BTreeMap::new());
        let mut number = 1_u32;
        for _ in 0..2_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (key, step, value) = (number >> 28, (number >> 24) % 3, number);
            match step {
                0 => assert_eq!(list.remove(&key), tree.remove(&key)),
                1 => {
                    list.insert(key, value);
                    tree.insert(key, value);
                }
                _ => {
                    list.change(&key, || value, |known| *known ^= 1);
                    *tree.entry(key).or_insert(value) ^= 1;
                }
            }
            assert_eq!((list.get(&key), list.contains_key(&key)), (tree.get(&key), tree.contains_key(&key)));
            list.values_mut().for_each(|value| *value ^= 2);
            tree.values_mut().for_each(|value| *value ^= 2);
            assert!(list.values().eq(tree.values()));
            assert!(list.iter().map(|(key, value)| (key, value)).eq(&tree));
        }
    }
}

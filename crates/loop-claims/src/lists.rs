//! Many short lists in one allocation.

/// Lists of numbers that share one allocation.
#[derive(Debug, Default)]
pub(super) struct Lists(Vec<(usize, u32)>);

/// One of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct List {
    /// Where its last number is, plus one. 0: it is empty.
    last: u32,
    length: u32,
}

impl List {
    pub(super) fn len(self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }
}

impl Lists {
    /// Adds a number to a list.
    pub(super) fn add(&mut self, list: &mut List, number: usize) {
        if let Ok(place) = u32::try_from(self.0.len() + 1) {
            self.0.push((number, list.last));
            *list = List { last: place, length: list.length + 1 };
        }
    }

    /// The numbers of a list, the last one first.
    pub(super) fn of(&self, list: List) -> impl Iterator<Item = usize> {
        let mut next = list.last;
        std::iter::from_fn(move || {
            let (number, before) = self.0.get(usize::try_from(next.checked_sub(1)?).ok()?)?;
            next = *before;
            Some(*number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_grow_in_turn_have_their_own_numbers() {
        let mut lists = Lists::default();
        let (mut even, mut odd) = (List::default(), List::default());
        for n in 0..6 {
            lists.add(if n % 2 == 0 { &mut even } else { &mut odd }, n);
        }
        assert_eq!(lists.of(even).collect::<Vec<_>>(), [4, 2, 0]);
        assert_eq!(lists.of(odd).collect::<Vec<_>>(), [5, 3, 1]);
        assert_eq!((even.len(), odd.len(), List::default().len()), (3, 3, 0));
        assert!(lists.of(List::default()).next().is_none());
    }
}

//! Spans of events at which something on a run's page is visible. The script and the page at one event use the same
//! numbers.

/// The events at which something is visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSpan {
    /// The first event, from 0.
    pub from: u64,
    /// The first event at which it is no longer visible. `None`: it stays visible.
    pub until: Option<u64>,
}

impl EventSpan {
    /// From this event on.
    pub fn since(from: u64) -> Self {
        Self { from, until: None }
    }

    /// Whether it is visible at this event.
    pub fn shows(&self, at: u64) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// A value that changes with the events: each of its values with its span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changing<T> {
    values: Vec<(EventSpan, T)>,
}

impl<T> Default for Changing<T> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

impl<T: PartialEq> Changing<T> {
    /// Sets the value from this event on. An equal value changes nothing.
    pub(super) fn set(&mut self, at: u64, value: T) {
        if self.values.last().is_some_and(|(_, last)| *last == value) {
            return;
        }
        match self.values.last_mut() {
            Some((span, last)) if span.from == at => *last = value,
            Some((span, _)) => {
                span.until = Some(at);
                self.values.push((EventSpan::since(at), value));
            }
            None => self.values.push((EventSpan::since(at), value)),
        }
    }

    /// Ends the value with this event.
    pub(super) fn end(&mut self, at: u64) {
        if let Some((span, _)) = self.values.last_mut()
            && span.until.is_none()
        {
            span.until = Some(at);
        }
    }

    /// The first event at which there is a value.
    pub(super) fn first(&self) -> Option<u64> {
        self.values.first().map(|(span, _)| span.from)
    }

    pub(super) fn last(&self) -> Option<&T> {
        self.values.last().map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(EventSpan, T)> {
        self.values.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_every_event_exactly_one_value_is_shown() {
        let mut value = Changing::default();
        for (at, now) in [(0, 1), (2, 1), (3, 2), (3, 4), (7, 1)] {
            value.set(at, now);
        }
        let shown = |at| -> Vec<i32> {
            value.iter().filter(|(span, _)| span.shows(at)).map(|(_, value)| *value).collect()
        };
        assert_eq!((0..9).map(shown).collect::<Vec<_>>(), [1, 1, 1, 4, 4, 4, 4, 1, 1].map(|it| vec![it]));
        value.end(8);
        assert_eq!(value.iter().filter(|(span, _)| span.shows(8)).count(), 0);
    }
}

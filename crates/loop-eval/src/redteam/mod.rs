//! A red team: injected texts, models that follow them, and what they achieve.

//! A run as trace lines, in the form of `step:0:validation:execute` (S4-87).

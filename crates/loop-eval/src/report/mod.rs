//! Reports of evals: a table, JSON, JUnit.

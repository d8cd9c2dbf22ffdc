//! Cases: what is run, with which model and tools, and what is expected.

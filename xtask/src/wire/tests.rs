//! The whole comparison over small exchanges, right and broken.

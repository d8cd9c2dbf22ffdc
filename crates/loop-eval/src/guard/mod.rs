//! Scores of repeat policies over recorded trajectories.

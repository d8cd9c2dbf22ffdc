//! Running cases, and holding what happened against what was expected.

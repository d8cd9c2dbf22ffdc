//! Configurations: which models the cases are run with, one for each combination of the alternatives.

use std::path::{Path, PathBuf};

use loop_core::types::Tier;
use loop_domain::outlives_model;

use crate::case::Case;

/// The name of the configuration in which each case has its own model.
pub const OWN_MODELS: &str = "own";
/// How many configurations one command runs at most.
pub const MAX_CONFIGURATIONS: usize = 16;

/// The models that replace those of the cases: a row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Its name in tables: its models as `TIER=PROVIDER/NAME`, with a blank between them. [`OWN_MODELS`] if there are none.
    pub name: String,
    /// The tiers whose models are replaced, each once, in the order in which they were given. Empty: each case has its own.
    pub models: Vec<(Tier, String)>,
}

/// Why alternatives cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// A model is given twice for one tier.
    #[error("--model {tier}={model}: it is given twice; give each alternative once", tier = .tier.name())]
    Twice {
        /// The tier.
        tier: Tier,
        /// The model.
        model: String,
    },
    /// The product of the alternatives is too large.
    #[error(
        "--model: {found} combinations of models are more than {MAX_CONFIGURATIONS}; give fewer alternatives"
    )]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// No case can be run with a configuration.
    #[error("{option}: no case can be run with {configuration}; the first one: {message}")]
    Unusable {
        /// The options that say so.
        option: &'static str,
        /// The configuration's name.
        configuration: String,
        /// What is wrong in the first case, with its place.
        message: String,
    },
    /// The provider of a configuration refused the key.
    #[error(
        "--model: {configuration}: {message} The key is wrong or missing: set it, and try again; results so far are stored"
    )]
    Refused {
        /// The configuration's name.
        configuration: String,
        /// What the run ended with.
        message: String,
    },
    /// A case is a recorded run.
    #[error(
        "--model, --set: {case} is a recorded run without a domain, so nothing of it can be replaced; leave the option out"
    )]
    Recorded {
        /// The case's file.
        case: String,
    },
}

impl Configuration {
    /// The configuration in which each case has its own model.
    pub fn own() -> Self {
        Self { name: OWN_MODELS.to_owned(), models: Vec::new() }
    }

    /// One configuration for each combination of the models: several models of one tier are alternatives, and alternatives
    /// of several tiers are combined. The last tier varies fastest.
    ///
    /// ```
    /// use loop_core::types::Tier;
    /// use loop_eval::eval::Configuration;
    ///
    /// let given = [(Tier::Selector, "offline/s"), (Tier::Base, "offline/a"), (Tier::Base, "offline/b")];
    /// let all = Configuration::all(given.map(|(tier, model)| (tier, model.to_owned())))?;
    /// let names: Vec<&str> = all.iter().map(|configuration| configuration.name.as_str()).collect();
    /// assert_eq!(names, ["selector=offline/s base=offline/a", "selector=offline/s base=offline/b"]);
    /// # Ok::<(), loop_eval::eval::ConfigurationError>(())
    /// ```
    ///
    /// # Errors
    /// A model is given twice for one tier, or there are more than [`MAX_CONFIGURATIONS`] combinations.
    pub fn all(given: impl IntoIterator<Item = (Tier, String)>) -> Result<Vec<Self>, ConfigurationError> {
        let mut tiers: Vec<(Tier, Vec<String>)> = Vec::new();
        for (tier, model) in given {
            match tiers.iter_mut().find(|(known, _)| *known == tier) {
                Some((_, models)) if models.contains(&model) => {
                    return Err(ConfigurationError::Twice { tier, model });
                }
                Some((_, models)) => models.push(model),
                None => tiers.push((tier, vec![model])),
            }
        }
        let found = tiers.iter().fold(1_usize, |product, (_, models)| product.saturating_mul(models.len()));
        if found > MAX_CONFIGURATIONS {
            return Err(ConfigurationError::TooMany { found });
        }
        let mut all: Vec<Vec<(Tier, String)>> = vec![Vec::new()];
        for (tier, models) in tiers {
            let longer = |chosen: Vec<(Tier, String)>| {
                let with = move |model: &String| [&chosen[..], &[(tier, model.clone())]].concat();
                models.iter().map(with).collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        Ok(all.into_iter().map(Self::of).collect())
    }

    fn of(models: Vec<(Tier, String)>) -> Self {
        if models.is_empty() {
            return Self::own();
        }
        let names: Vec<String> =
            models.iter().map(|(tier, model)| format!("{}={model}", tier.name())).collect();
        Self { name: names.join(" "), models }
    }

    /// The same configuration, with files of local providers resolved from `cwd`, since cases are in folders of their
    /// own. Its name does not change.
    #[must_use]
    pub fn located(mut self, cwd: &Path) -> Self {
        for (_, model) in &mut self.models {
            *model = with_absolute_file(model, cwd);
        }
        self
    }

    /// The case with these models in place of its own. Settings of how the models reply stay.
    pub(crate) fn applied(&self, case: &Case) -> Case {
        let mut case = case.clone();
        for (tier, model) in &self.models {
            case.set.retain(|key| outlives_model(key, *tier, model));
            if *tier == Tier::Base {
                (case.replies, case.script, case.exhausted) = (None, None, None);
                case.model = Some(model.clone());
            } else {
                case.models.insert(tier.name().to_owned(), model.clone());
            }
        }
        case
    }
}

/// Options of the command line that apply to all runs of an eval.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Base URLs of the servers of tiers' models, which replace the domain's. They may hold credentials.
    pub base_urls: Vec<(Tier, String)>,
    /// The profile of the domains, in place of that of a case. `None`: the case's.
    pub profile: Option<String>,
    /// Settings of the domains, over those of a case: dotted keys with their values.
    pub set: Vec<(String, String)>,
    /// A file with prices, used if the domain names none. `None`: only the built-in table.
    pub prices: Option<PathBuf>,
    /// Whether the domains' `gate.calibration` is not applied: for a command that measures what models state.
    pub uncalibrated: bool,
}

/// A model whose file, if its provider is local, is resolved from `cwd`.
fn with_absolute_file(model: &str, cwd: &Path) -> String {
    match model.split_once('/') {
        Some((provider @ ("scripted" | "recorded"), file)) => {
            format!("{provider}/{}", cwd.join(file).display())
        }
        _ => model.to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;

    fn names(given: &[(Tier, &str)]) -> Result<Vec<String>, ConfigurationError> {
        let given = given.iter().map(|(tier, model)| (*tier, (*model).to_owned()));
        Ok(Configuration::all(given)?.into_iter().map(|one| one.name).collect())
    }

    #[test]
    fn alternatives_of_a_tier_are_columns_and_those_of_several_are_combined() {
        use Tier::{Base, Escalated};
        assert_eq!(names(&[]).unwrap(), ["own"]);
        assert_eq!(names(&[(Base, "x/a"), (Base, "x/b")]).unwrap(), ["base=x/a", "base=x/b"]);
        let given = [(Base, "x/a"), (Escalated, "x/c"), (Base, "x/b"), (Escalated, "x/d")];
        let expected = [
            "base=x/a escalated=x/c",
            "base=x/a escalated=x/d",
            "base=x/b escalated=x/c",
            "base=x/b escalated=x/d",
        ];
        assert_eq!(names(&given).unwrap(), expected);
        assert!(matches!(
            names(&[(Base, "x/a"), (Base, "x/a")]),
            Err(ConfigurationError::Twice { tier: Base, .. })
        ));
        let many: Vec<String> = (0..17).map(|n| format!("x/{n}")).collect();
        let many: Vec<(Tier, &str)> = many.iter().map(|model| (Base, model.as_str())).collect();
        assert_eq!(names(&many), Err(ConfigurationError::TooMany { found: 17 }));
    }

    #[test]
    fn a_file_of_the_command_line_is_found_from_where_it_was_named() {
        let cwd = Path::new("/work");
        assert_eq!(with_absolute_file("scripted/a.json", cwd), "scripted//work/a.json");
        assert_eq!(with_absolute_file("recorded//x/a.jsonl", cwd), "recorded//x/a.jsonl");
        assert_eq!(with_absolute_file("offline/a", cwd), "offline/a");
    }
}

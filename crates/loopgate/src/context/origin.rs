//! The origin of a run: the arguments with which it began, so that its runner can be made again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loop_core::types::{PicoUsd, RunId};
use loop_domain::{may_hold_secret, outlives_model};
use loop_llm::http::holds_url_secret;
use loop_runtime::budget::{SharedBudget, Span};
use serde::{Deserialize, Serialize};

use super::places;
use crate::args::{DomainArgs, SettingArgs, tiered};
use crate::output::{Failure, quoted};

/// The origin of a run: the arguments with which its runner was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    version: u32,
    /// The domain's folder or file, and the folder that relative paths start from, both absolute.
    domain: PathBuf,
    pub(super) cwd: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    models: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    base_urls: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    set: Vec<String>,
    /// Names of options whose values contain credentials and are therefore not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<String>,
    /// Whether the outcome is saved to the domain's save target.
    pub(super) saves: bool,
    /// Whether a person is asked, regardless of the domain.
    pub(super) asks: bool,
    /// The budget of the batch that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) batch: Option<BatchOrigin>,
    /// The budget of the token with which it was submitted to a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<TokenOrigin>,
    /// The tags of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

impl Origin {
    /// The origin of a run with these arguments.
    pub(crate) fn of(args: &DomainArgs, saves: bool, asks: bool) -> Result<Self, Failure> {
        Self::of_folder(args, places::cwd()?, saves, asks)
    }

    /// The origin with paths relative to `cwd`.
    pub(crate) fn of_folder(
        args: &DomainArgs,
        cwd: PathBuf,
        saves: bool,
        asks: bool,
    ) -> Result<Self, Failure> {
        let mut withheld = Vec::new();
        let mut keep = |option: &str, given: &[String]| {
            let holds_secret =
                |text: &str| holds_url_secret(text) || option == "--set" && may_hold_secret(text);
            let (secret, plain): (Vec<_>, Vec<_>) = given.iter().partition(|text| holds_secret(text));
            withheld.extend(secret.iter().map(|_| option.to_owned()));
            plain.into_iter().cloned().collect()
        };
        let user = args.user_model();
        let model = user.map(|user| format!("{}={}", user.tier.name(), user.model));
        let given = tiered::tiered(&args.settings.base_urls);
        let url = user.and_then(|user| Some((format!("{}=", user.tier.name()), user.base_url.as_ref()?)));
        let url = url.filter(|(tier, _)| !given.iter().any(|it| it.starts_with(tier)));
        let base_urls: Vec<_> = url.map(|(tier, url)| tier + url).into_iter().chain(given).collect();
        let models: Vec<_> = model.into_iter().chain(tiered::tiered(&args.settings.models)).collect();
        Ok(Self {
            version: VERSION,
            domain: cwd.join(&args.domain),
            models: keep("--model", &models),
            base_urls: keep("--base-url", &base_urls),
            set: keep("--set", &args.settings.set),
            profile: args.settings.profile.clone(),
            cwd,
            withheld,
            saves,
            asks,
            batch: None,
            token: None,
            tags: Vec::new(),
        })
    }

    /// The origin of a run in a batch with this budget.
    pub(crate) fn of_batch(self, batch: Option<BatchOrigin>) -> Self {
        Self { batch, ..self }
    }

    /// The budget of the run's batch. `None`: it is not in a batch.
    pub(crate) fn batch(&self) -> Option<&BatchOrigin> {
        self.batch.as_ref()
    }

    /// The origin of a run submitted with a token of this budget.
    #[cfg(feature = "server")]
    pub(crate) fn of_token(self, token: Option<TokenOrigin>) -> Self {
        Self { token, ..self }
    }

    /// The origin with these tags.
    pub(crate) fn with_tags(self, tags: Vec<String>) -> Self {
        Self { tags, ..self }
    }

    /// The tags of the run.
    pub(crate) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// The text that the journal stores.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(self)?)
    }

    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let origin: Self = serde_json::from_str(text)?;
        if origin.version > VERSION {
            return Err(Failure::new("the run was begun by a newer loopgate; use that version"));
        }
        Ok(origin)
    }

    /// The domain, the item and the options after `loopgate run` for a new run with these settings. Options that were
    /// not recorded must be added.
    pub(crate) fn in_command(&self, item: &str, settings: &[(String, String)]) -> String {
        let here = places::cwd().ok();
        let domain = here.map_or(self.domain.as_path(), |here| seen_from(&self.domain, &here));
        let mut command = format!("{} {item}", quoted(&domain.to_string_lossy()));
        let is_changed = |set: &&String| {
            let key = set.split_once('=').map_or(set.as_str(), |(key, _)| key.trim());
            settings.iter().any(|(setting, _)| setting == key)
        };
        let profile = self.profile.iter().map(|profile| ("--profile", profile.clone()));
        let models = self.models.iter().map(|model| ("--model", model.clone()));
        let base_urls = self.base_urls.iter().map(|url| ("--base-url", url.clone()));
        let set = self.set.iter().filter(|set| !is_changed(set)).map(|set| ("--set", set.clone()));
        let changed = settings.iter().map(|(setting, value)| ("--set", format!("{setting}={value}")));
        for (option, value) in profile.chain(models).chain(base_urls).chain(set).chain(changed) {
            command.push_str(&format!(" {option} {}", quoted(&value)));
        }
        for option in &self.withheld {
            command.push_str(&format!(" {option} …"));
        }
        if !self.saves {
            command.push_str(" --no-save");
        }
        command
    }

    /// The arguments with other settings. A new model also replaces settings of the model before it.
    pub(crate) fn changed(&self, settings: &SettingArgs) -> DomainArgs {
        let key = |text: &str| text.split_once('=').map_or(text, |(key, _)| key).trim().to_owned();
        let merged = |before: &[String], given: &[String]| -> Vec<String> {
            let is_given = |text: &&String| given.iter().any(|it| key(it) == key(text));
            before.iter().filter(|text| !is_given(text)).chain(given).cloned().collect()
        };
        let models: Vec<_> = settings.models.iter().filter_map(|text| tiered::model(text).ok()).collect();
        let outlives = |set: &&String| models.iter().all(|(tier, it)| outlives_model(&key(set), *tier, it));
        let set: Vec<String> = self.set.iter().filter(outlives).cloned().collect();
        let settings = SettingArgs {
            profile: settings.profile.clone().or_else(|| self.profile.clone()),
            models: merged(&self.models, &tiered::tiered(&settings.models)),
            base_urls: merged(&self.base_urls, &tiered::tiered(&settings.base_urls)),
            set: merged(&set, &settings.set),
            user: None,
        };
        DomainArgs { domain: self.domain.clone(), settings }
    }

    /// The folder that relative paths of the run start from.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Fails if an option with a credential was given for the run and is not given again.
    pub(crate) fn check_withheld(&self, run: &RunId, base_urls: usize) -> Result<(), Failure> {
        let mut given = base_urls;
        for option in &self.withheld {
            if option == "--base-url" && given > 0 {
                given -= 1;
                continue;
            }
            return Err(Failure::new(format!(
                "run {run} was begun with a credential in {option}, which is not kept; an address may be given again with \
                 --base-url, anything else belongs into the environment"
            )));
        }
        Ok(())
    }
}

/// The version of a recorded origin.
const VERSION: u32 = 1;

/// A path as a command in the folder `here` names it.
fn seen_from<'a>(path: &'a Path, here: &Path) -> &'a Path {
    match path.strip_prefix(here) {
        Ok(below) if below.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => path,
    }
}

/// The budget of a batch in the origin of its runs, which a run also keeps when it is resumed alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchOrigin {
    /// The id of the batch.
    id: Arc<str>,
    /// The limit, in pico-dollars.
    limit: u64,
}

impl BatchOrigin {
    pub(crate) fn of(budget: &SharedBudget) -> Self {
        Self { id: Arc::clone(&budget.of), limit: budget.limit.0 }
    }

    pub(crate) fn budget(&self) -> SharedBudget {
        SharedBudget { span: Span::Batch, of: Arc::clone(&self.id), limit: PicoUsd(self.limit) }
    }
}

/// The budget of the token with which a run was submitted, in the run's origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenOrigin {
    /// The token's name.
    name: Arc<str>,
    /// The daily limit, in pico-dollars.
    day: u64,
}

impl TokenOrigin {
    #[cfg(feature = "server")]
    pub(crate) fn of(budget: &SharedBudget) -> Self {
        Self { name: Arc::clone(&budget.of), day: budget.limit.0 }
    }

    pub(crate) fn budget(&self) -> SharedBudget {
        SharedBudget { span: Span::TokenDay, of: Arc::clone(&self.name), limit: PicoUsd(self.day) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_domain_from_where_it_is_given() {
        for (domain, here, seen) in [
            ("/work/shop", "/work", "shop"),
            ("/work/shop/.", "/work/shop", "."),
            ("/work/shop", "/work/shop", "."),
            ("/work/shop", "/work/other", "/work/shop"),
        ] {
            assert_eq!(
                seen_from(Path::new(domain), Path::new(here)),
                Path::new(seen),
                "{domain} from {here}"
            );
        }
    }

    #[test]
    fn an_address_with_a_credential_is_known_wherever_it_stands() {
        for secret in [
            "base=http://ada:pw@host/v1",
            "x.url=\"https://tok@h\"",
            "http://a http://b@c",
            "base=https://h/v1?api-key=hunter2",
            "base=https://h/v1?x=sk-proj-0123456789",
            "base=https://h/9f86d081884c7d659a2feaa0c55ad015/v1",
            "x = { url = 'https://h/a/9f86d081-884c-7d65-9a2f-eaa0c55ad015/' }",
        ] {
            assert!(holds_url_secret(secret), "{secret}");
        }
        for plain in [
            "base=http://host/v1?to=a@b",
            "limits.max_passes=3",
            "mail=ada@example.org",
            "http://h/@x",
            "base=https://h/openai/deployments/gpt-4o-mini-2024-07-18?api-version=2024-10-21",
            "base=https://us-central1.h/v1/projects/my-project-123456/locations/us-central1/publishers",
        ] {
            assert!(!holds_url_secret(plain), "{plain}");
        }
    }
}

//! The environment of a program: what the settings name, and nothing else.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::Credentials;
use loop_core::secrets::Secrets;

use crate::connectors::error::ConnectorError;

/// The variables of a program, as settings name them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables<'a> {
    /// Those that it gets as they are in the environment of this process.
    pub(crate) env: &'a [String],
    /// Those with their values.
    pub(crate) set: &'a [(String, String)],
    /// Those whose values are credentials.
    pub(crate) secret_env: &'a [String],
}

impl Variables<'_> {
    /// Checks the names and values.
    ///
    /// # Errors
    /// The setting that is wrong: a name that cannot be one or is there twice, a value that cannot be one.
    pub(crate) fn check(&self) -> Result<(), ConnectorError> {
        let of = |key: &'static str| move |name| (key, name);
        let names = self.env.iter().map(of("env"));
        let names = names.chain(self.set.iter().map(|(name, _)| ("set", name)));
        let mut taken = BTreeSet::new();
        for (key, name) in names.chain(self.secret_env.iter().map(of("secret_env"))) {
            let wrong = |message| Err(ConnectorError::Setting { key, message });
            if name.is_empty() || name.contains(|c: char| c == '=' || c.is_whitespace() || c.is_control()) {
                return wrong(format!(
                    "`{name}` is not the name of an environment variable; write the name alone"
                ));
            }
            if !taken.insert(name) {
                return wrong(format!("the variable `{name}` is named twice; keep one of them"));
            }
        }
        match self.set.iter().find(|(_, value)| value.contains('\0')) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("the value of `{name}` has a NUL character in it; take that out");
                Err(ConnectorError::Setting { key: "set", message })
            }
        }
    }

    /// The whole environment.
    ///
    /// # Errors
    /// A secret that is not there, by its name.
    pub(crate) fn values(&self, credentials: &Credentials) -> Result<Vec<(String, OsString)>, String> {
        let mut all: Vec<(String, OsString)> = Vec::new();
        all.extend(self.env.iter().filter_map(|name| Some((name.clone(), std::env::var_os(name)?))));
        all.extend(self.set.iter().map(|(name, value)| (name.clone(), value.into())));
        for name in self.secret_env {
            let Some(secret) = credentials.get(name) else {
                return Err(format!(
                    "the secret `{name}` is not there; set the environment variable `{name}`"
                ));
            };
            all.push((name.clone(), secret.into()));
        }
        Ok(all)
    }
}

/// The secrets of a program that was given the variables `names`. Short ones are masked in results too: they came from the
/// operator.
pub(crate) fn secrets_of(names: &[String], credentials: &Credentials) -> Secrets {
    Secrets::of(names.iter().filter_map(|name| credentials.get(name)).map(str::trim)).with_short()
}

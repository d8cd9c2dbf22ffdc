//! Makes the hooks of a runner from `[hooks.NAME]`.

use std::sync::Arc;
use std::time::Duration;

use loop_runtime::hooks::{Hook, HookSender, Hooks};

use crate::config::HookConfig;
use crate::error::DomainError;
use crate::file::File;

/// The default and the maximum of the seconds for one delivery.
const TIMEOUT_S: u64 = 10;
const MAX_TIMEOUT_S: u64 = 60;

/// The hooks of a domain, and the secrets in them.
#[derive(Debug, Default)]
pub(crate) struct MadeHooks {
    pub(crate) hooks: Hooks,
    pub(crate) secrets: Vec<String>,
    pub(crate) unset: Vec<DomainError>,
}

pub(crate) fn hooks(file: &File) -> Result<MadeHooks, DomainError> {
    let (mut hooks, mut made) = (Vec::new(), MadeHooks::default());
    for (name, config) in file.config.hooks.iter() {
        let at = |key: &str, message: &str| file.error(&["hooks", name, key], message);
        if config.on.is_empty() {
            return Err(at("on", "it is told of nothing; write waiting, ended or failed"));
        }
        let timeout = config.timeout_s.unwrap_or(TIMEOUT_S);
        if !(1..=MAX_TIMEOUT_S).contains(&timeout) {
            return Err(at("timeout_s", "a delivery takes from 1 to 60 seconds; correct it"));
        }
        let sender = match (&config.command, &config.url) {
            (Some(_), Some(_)) => return Err(at("url", "`command` is there as well; keep one of them")),
            (None, None) => {
                return Err(file.error(&["hooks", name], "neither `command` nor `url` is there; add one"));
            }
            (Some(_), None) if config.secret.is_some() => {
                return Err(at("secret", "a signature is for a `url`; take it out"));
            }
            (Some(_), None) if !config.private.is_empty() => {
                return Err(at("private", "it is for a `url`; take it out"));
            }
            (Some(_), None) if config.plain_http => {
                return Err(at("plain_http", "it is for a `url`; take it out"));
            }
            (Some(command), None) => command_hook(file, name, command)?,
            (None, Some(url)) => web_hook(file, name, config, url, &mut made)?,
        };
        let (on, timeout) = (config.on.clone(), Duration::from_secs(timeout));
        hooks.push(Hook { name: name.into(), on, sender, timeout });
    }
    made.hooks = Hooks::new(hooks);
    Ok(made)
}

#[cfg(all(feature = "command", unix))]
fn command_hook(file: &File, name: &str, command: &[String]) -> Result<Arc<dyn HookSender>, DomainError> {
    let made = loop_tools::connectors::HookCommand::new(command, &file.folder);
    let command = made.map_err(|message| file.error(&["hooks", name, "command"], message))?;
    Ok(Arc::new(senders::CommandHook { command }))
}

/// Fails: this program was built without such hooks.
#[cfg(not(all(feature = "command", unix)))]
fn command_hook(file: &File, name: &str, _: &[String]) -> Result<Arc<dyn HookSender>, DomainError> {
    let message = "hooks that run a program are not in this build; build it with `--features command`";
    Err(file.error(&["hooks", name, "command"], message))
}

#[cfg(feature = "http")]
fn web_hook(
    file: &File,
    name: &str,
    config: &HookConfig,
    url: &str,
    made: &mut MadeHooks,
) -> Result<Arc<dyn HookSender>, DomainError> {
    let webhook = loop_tools::connectors::Webhook::new(url, &config.private, config.plain_http);
    let webhook = webhook.map_err(|(key, message)| file.error(&["hooks", name, key], message))?;
    let mut secret = None;
    if let Some(named) = &config.secret {
        match file.secret(&["hooks", name, "secret"], named) {
            Ok(None) => {}
            Ok(Some(found)) => {
                secret = Some(loop_runtime::hooks::SigningKey::new(&found).ok_or_else(|| {
                    let message = "the secret is not `whsec_` and Base64, so no library verifies what is signed with it; make \
                                   one with `echo whsec_$(openssl rand -base64 32)`, and give it to the receiver as well";
                    file.error(&["hooks", name, "secret"], message)
                })?);
                made.secrets.push(found);
            }
            Err(missing) => made.unset.push(missing),
        }
    }
    // The path of a webhook may be the key to it.
    let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
    made.secrets.extend(path.filter(|path| path.len() >= KEY_CHARS).map(str::to_owned));
    let is_signed = config.secret.is_some();
    Ok(Arc::new(senders::UrlHook { webhook, secret, is_signed }))
}

/// The length from which a part of a URL's path may be a key, so that it is masked.
#[cfg(feature = "http")]
const KEY_CHARS: usize = 16;

/// Fails: this program was built without such hooks.
#[cfg(not(feature = "http"))]
fn web_hook(
    file: &File,
    name: &str,
    _: &HookConfig,
    _: &str,
    _: &mut MadeHooks,
) -> Result<Arc<dyn HookSender>, DomainError> {
    let message = "webhooks are not in this build; build it with `--features http`";
    Err(file.error(&["hooks", name, "url"], message))
}

#[cfg(any(feature = "http", all(feature = "command", unix)))]
mod senders {
    use async_trait::async_trait;
    #[cfg(feature = "http")]
    use loop_runtime::hooks::SigningKey;
    use loop_runtime::hooks::{HookMessage, HookSender};

    #[cfg(all(feature = "command", unix))]
    pub(super) struct CommandHook {
        pub(super) command: loop_tools::connectors::HookCommand,
    }

    #[cfg(all(feature = "command", unix))]
    #[async_trait]
    impl HookSender for CommandHook {
        async fn send(&self, message: &HookMessage) -> Result<(), String> {
            let HookMessage { id, run, event, body, .. } = message;
            let variables = [
                ("LOOPGATE_HOOK_ID", id.to_string()),
                ("LOOPGATE_HOOK_EVENT", event.name().to_owned()),
                ("LOOPGATE_HOOK_RUN", run.to_string()),
            ];
            let variables = variables.map(|(name, value)| (name.to_owned(), value));
            self.command.run(format!("{body}\n"), variables.into()).await
        }
    }

    #[cfg(feature = "http")]
    pub(super) struct UrlHook {
        pub(super) webhook: loop_tools::connectors::Webhook,
        /// The signing key. `None` with `is_signed`: the key is missing, and no message is sent unsigned instead.
        pub(super) secret: Option<SigningKey>,
        pub(super) is_signed: bool,
    }

    #[cfg(feature = "http")]
    #[async_trait]
    impl HookSender for UrlHook {
        async fn send(&self, message: &HookMessage) -> Result<(), String> {
            use std::time::SystemTime;

            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let HookMessage { id, body, .. } = message;
            let value: serde_json::Value =
                serde_json::from_str(body).map_err(|error| format!("the message cannot be read: {error}"))?;
            // What is signed is what is sent.
            let sent = value.to_string();
            let mut headers = vec![("webhook-id", id.to_string()), ("webhook-timestamp", now.to_string())];
            match &self.secret {
                Some(key) => headers.push(("webhook-signature", key.signature(id, now, &sent))),
                None if self.is_signed => return Err("its secret is not there, so it is not sent".to_owned()),
                None => {}
            }
            self.webhook.send(value, &headers).await
        }
    }
}

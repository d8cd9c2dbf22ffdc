//! The filters of the list of runs. A filter that can never match is an error, since an empty list would look like a
//! result.

use loop_core::StopReason;
use loop_core::types::{RunId, StopClass};
use loop_runtime::journal::list::{RunQuery, SearchTerms};
use serde::Deserialize;

use super::access::ApiCaller;
use super::refuse::problem;
use super::{Api, body};
use crate::engine::{RunFilter, RunState};
use crate::problem::HttpProblem;

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    domain: Option<String>,
    state: Option<RunState>,
    reason: Option<String>,
    since: Option<String>,
    until: Option<String>,
    tag: Option<String>,
    text: Option<String>,
    words: Option<String>,
    cursor: Option<String>,
    pub(super) limit: Option<usize>,
}

impl ListQuery {
    /// The filter for the journal, limited to the domains that the caller may see.
    pub(super) async fn filter(self, api: &Api, known: &ApiCaller) -> Result<RunFilter, HttpProblem> {
        let ListQuery { domain, state, reason, since, until, tag, text, words, cursor, limit: _ } = self;
        let domains = match domain {
            Some(domain) => {
                expect_domain(api, known, &domain).await?;
                Some(vec![domain.into()])
            }
            None => known.domains(),
        };
        let class = reason.as_deref().and_then(class_of);
        let reason = reason.filter(|_| class.is_none());
        let reason = reason.map(|reason| StopReason::own_name(&reason).to_owned());
        if let Some(reason) = &reason {
            expect_reason(api, known, reason).await?;
        }
        if let Some(cursor) = &cursor {
            expect_cursor(api, known, cursor).await?;
        }
        let query = RunQuery {
            domains,
            ended: None,
            reason: reason.map(Into::into),
            since_unix_ms: since.map(|since| time("since", &since)).transpose()?,
            until_unix_ms: until.map(|until| time("until", &until)).transpose()?,
            tag: tag.map(Into::into),
            text: text.map(Into::into),
            words: words.map(|words| searched(&words)).transpose()?,
            before: cursor.map(RunId::new),
        };
        Ok(RunFilter { query, state, class })
    }
}

/// The class of this name, unless a run has the name as its stop reason.
fn class_of(name: &str) -> Option<StopClass> {
    let is_reason = StopReason::all().iter().any(|it| it.name() == name && *it != StopReason::InDoubt);
    StopClass::ALL.iter().copied().find(|class| class.name() == name && !is_reason)
}

/// Fails for a domain that is not served and of which the journal has no run. One that the caller may not see is
/// reported as unknown.
pub(super) async fn expect_domain(api: &Api, known: &ApiCaller, domain: &str) -> Result<(), HttpProblem> {
    let of_domain = RunQuery { domains: Some(vec![domain.into()]), ..RunQuery::default() };
    if known.0.sees(domain) && (api.engine.domain(domain).is_some() || has_runs(api, &of_domain).await?) {
        return Ok(());
    }
    Err(body::nothing_there(format!(
        "domain: there is no domain `{}`; GET /v1/domains lists them",
        cut(domain)
    )))
}

/// Fails for a stop reason that no run can have.
async fn expect_reason(api: &Api, known: &ApiCaller, reason: &str) -> Result<(), HttpProblem> {
    let is_own = |domain: &crate::engine::ServedDomain| {
        let own = &domain.domain.spec.stop_reasons;
        known.0.sees(domain.name()) && own.iter().any(|own| own.name.as_str() == reason)
    };
    let with_reason =
        RunQuery { domains: known.domains(), reason: Some(reason.into()), ..RunQuery::default() };
    let is_known = StopReason::all().iter().any(|known| known.name() == reason)
        || api.engine.domains().any(is_own)
        || has_runs(api, &with_reason).await?;
    if is_known {
        return Ok(());
    }
    let detail = format!(
        "reason: no run stops for `{}`; write it as `reason` of a run that has ended has it, such as `max_passes`",
        cut(reason)
    );
    Err(body::nothing_there(detail))
}

/// Fails for a cursor that is not the id of a run. The run may have been deleted.
async fn expect_cursor(api: &Api, known: &ApiCaller, cursor: &str) -> Result<(), HttpProblem> {
    let is_digit = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    if cursor.len() == 36 && cursor.bytes().enumerate().all(is_digit) {
        return Ok(());
    }
    // A program that embeds the runtime chooses the ids of its runs.
    let owner = api.engine.owner(&RunId::new(cursor)).await.map_err(problem)?;
    match owner {
        Some((domain, _)) if known.0.sees(&domain) => Ok(()),
        _ => Err(body::nothing_there(
            "cursor: it is not one that a page of this list has; give `next` of the page before, or leave it out",
        )),
    }
}

async fn has_runs(api: &Api, query: &RunQuery) -> Result<bool, HttpProblem> {
    let page = api.engine.journal().page(query, 1).await.map_err(|error| problem(error.into()))?;
    Ok(!page.is_empty())
}

fn searched(words: &str) -> Result<SearchTerms, HttpProblem> {
    SearchTerms::parse(words).map_err(|wrong| body::query_problem(format!("words: {wrong}")))
}

/// Parses a time of the query.
fn time(name: &str, given: &str) -> Result<u64, HttpProblem> {
    given.parse().map_err(|_| {
        body::query_problem(format!(
            "{name}: `{}` is not a time in milliseconds since 1970 (UTC); write it as 1795000000000",
            cut(given)
        ))
    })
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

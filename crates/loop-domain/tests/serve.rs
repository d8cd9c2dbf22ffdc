//! What is wrong with `[serve]` is found when the domain is loaded, before a server accepts anything for it.

use std::fs;

use loop_domain::{Domain, DomainError, LoadOptions};

fn load(serve: &str) -> Result<Domain, DomainError> {
    let folder = tempfile::tempdir().unwrap();
    let head = "version = 1\nname = \"shop\"\n[protocol]\ntype = \"conversation\"\n";
    fs::write(folder.path().join("loopgate.toml"), format!("{head}[serve]\n{serve}\n")).unwrap();
    Domain::load(folder.path(), &LoadOptions::default())
}

#[test]
fn a_key_that_no_caller_can_give_and_a_bound_of_nothing_are_refused() {
    let not_a_setting = "is not a setting that a caller can give; write one such as `limits.max_passes`";
    let loosens = "a caller could loosen what the domain guards";
    let nothing = "0 lets nothing run; give 1 or more, or leave the key out";
    for (serve, says) in [
        ("caller_may_set = [\"\"]", not_a_setting),
        ("caller_may_set = [\"limits.\"]", not_a_setting),
        ("caller_may_set = [\"limits.passes\", \"serve.max_runs\"]", not_a_setting),
        ("caller_may_set = [\" profiles.night\"]", not_a_setting),
        ("caller_may_set = [\"version\"]", not_a_setting),
        ("caller_may_set = [\"limits.pases\"]", "`limits.pases` is not a setting; did you mean `passes`?"),
        ("caller_may_set = [\"limit.passes\"]", "`limit.passes` is not a setting; did you mean `limits`?"),
        ("caller_may_set = [\"models.bse.effort\"]", "did you mean `base`?"),
        ("caller_may_set = [\"models.escalated.effort\"]", "the domain has no model `escalated`"),
        ("caller_may_set = [\"limits\"]", loosens),
        ("caller_may_set = [\"limits.passes.x\"]", loosens),
        ("caller_may_set = [\"gate.people\"]", loosens),
        ("caller_may_set = [\"tools.update_user.effect\"]", loosens),
        ("caller_may_set = [\"models.base.base_url\"]", loosens),
        ("caller_may_set = [\"models.base.price\"]", loosens),
        ("caller_may_set = [\"budget.day_usd\"]", loosens),
        ("caller_may_set = \"limits.passes\"", "a list"),
        ("max_runs = 0", nothing),
        ("max_queued = 0", nothing),
        ("max_runs = -1", "a whole number"),
        ("max_run = 1", "did you mean `max_runs`?"),
    ] {
        let error = load(serve).unwrap_err().to_string();
        assert!(error.contains("loopgate.toml:6:") && error.contains(says), "{serve}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn the_bounds_are_those_of_the_file() {
    let domain = load("caller_may_set = [\"limits.passes\"]\nmax_runs = 2\nmax_queued = 3").unwrap();
    assert_eq!(domain.caller_may_set(), ["limits.passes"]);
    assert!(domain.lets_set("limits.passes") && domain.lets_set("limits.max_passes"));
    assert!(!domain.lets_set("limits.tokens") && !domain.lets_set("limits"));
    let aliased = load("caller_may_set = [\" limits.max_passes\", \"models.base.effort\"]").unwrap();
    assert_eq!(aliased.caller_may_set(), ["limits.passes", "models.base.effort"]);
    assert!(aliased.lets_set("limits.passes"));
    assert_eq!((domain.max_runs(), domain.max_queued()), (Some(2), Some(3)));
    let plain = load("").unwrap();
    assert_eq!((plain.caller_may_set().len(), plain.max_runs(), plain.max_queued()), (0, None, None));
}

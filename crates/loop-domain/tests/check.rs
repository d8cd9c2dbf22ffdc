//! What a check of a domain finds: in its profiles too, and what works and is probably not meant.

use std::fs;

use loop_domain::{Domain, LoadOptions};

const HEAD: &str = "version = 1\nname = \"shop\"\ngoal = \"Answer.\"\n[protocol]\ntype = \"conversation\"\n\
                    [tools.search]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\ndescription = \"Search\"\n";
const SCRIPT: &str = "[models.base]\nprovider = \"scripted\"\nscript = \"replies.json\"\n";

fn checked(text: &str, profile: Option<&str>) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("notes.md"), "# Shop\nOpen.").unwrap();
    fs::write(folder.path().join("replies.json"), r#"{"version": 1, "replies": []}"#).unwrap();
    fs::write(folder.path().join("loopgate.toml"), format!("{HEAD}{text}")).unwrap();
    let options = LoadOptions { profile: profile.map(str::to_owned), ..LoadOptions::default() };
    let place = format!("{}/", folder.path().display());
    let report =
        Domain::check(folder.path(), &options).map_err(|error| error.to_string().replace(&place, ""));
    report.map(|report| report.warnings)
}

#[track_caller]
fn refuses(text: &str, expected: &str) {
    let error = checked(text, None).unwrap_err();
    assert!(error.contains(expected) && !error.contains('\n'), "{error}");
}

#[track_caller]
fn warns(text: &str, expected: &str) {
    let warnings = checked(text, None).unwrap();
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:#?}");
}

#[test]
fn every_profile_is_checked_as_a_run_would_read_it() {
    assert_eq!(checked("", None), Ok(Vec::new()));
    let profile = |rest: &str| format!("{SCRIPT}[profiles.off.{rest}\n");
    refuses(
        &profile("gate]\napproved = [\"x\"]"),
        "loopgate.toml:15:13: with the profile `off`: there is no tool `x`; there are `search`",
    );
    refuses(
        &profile("models.base]\nprovider = \"offlin\""),
        "with the profile `off`: unknown provider `offlin`",
    );
    refuses(
        &profile("models.base]\nscript = \"none.json\""),
        "with the profile `off`: none.json: cannot be read",
    );
    refuses(&profile("tools.search]\nfolder = \"none\""), "with the profile `off`: ");
    refuses(
        &profile("models.base]\nprovider = \"offline\""),
        "with the profile `off`: `script` is for the provider `scripted`",
    );
    // The one that is chosen is the one that is checked.
    let two = "[profiles.bad.gate]\napproved = [\"x\"]\n[profiles.good.limits]\npasses = 2\n";
    assert_eq!(checked(two, Some("good")), Ok(Vec::new()));
    assert!(checked(two, Some("bad")).unwrap_err().contains("there is no tool `x`"));
}

#[test]
fn what_only_a_profile_warns_of_is_said_with_its_name() {
    let text = "[gate]\npeople = false\n[profiles.none.limits]\npasses = 0\n";
    assert_eq!(
        checked(text, None).unwrap(),
        ["profile `none`: limits.passes is 0: a run stops before its first call"]
    );
}

#[test]
fn a_profile_that_there_is_not_and_a_number_that_is_too_large() {
    let error = checked("", Some("night")).unwrap_err();
    assert_eq!(error, "--profile night: there is no such profile; the file has none; leave --profile out");
    refuses(
        "[limits]\npasses = 99999999999\n",
        "99999999999 is too large: 4294967295 is the most here; correct the value",
    );
}

#[test]
fn what_is_forbidden_may_be_what_somebody_adds_one_day_and_no_slip() {
    let text = "[gate]\nforbid = [\"drop_table\", \"delete_*\"]\n";
    warns(text, "policy: gate.forbid: no tool is called `drop_table`; it holds for");
    warns(text, "policy: gate.forbid: no tool's name fits `delete_*`; it holds for");
    refuses("[gate]\nforbid = [\"serch\"]\n", "there is no tool `serch`; did you mean `search`?");
    refuses("[gate]\nforbid = [\" \"]\n", "there is no tool ` `");
    // A tool that is switched off is one that may be there one day.
    let off =
        "[tools.wipe]\nkind = \"mock\"\neffect = \"exec\"\nenabled = false\n[gate]\nforbid = [\"wipe\"]\n";
    warns(off, "no tool is called `wipe`");
}

#[test]
fn what_works_and_is_probably_not_meant_is_said() {
    warns("[tools.wipe]\nkind = \"mock\"\neffect = \"read\"\n", "tool `wipe` is of kind `mock`");
    warns("[gate]\npeople = true\n[limits]\nperson_ms = 0\n", "limits.person_ms is 0: nobody has time");
    let three = "[gate]\nrepeats = \"three_tier\"\n[gate.three_tier.limits]\nsearch = 2\nserach = 2\n";
    assert_eq!(
        checked(three, None).unwrap(),
        ["gate.three_tier.limits: no tool is called `serach`; correct it or take it out"]
    );
    assert_eq!(checked("[gate]\nrepeats = \"three_tier\"\n", None), Ok(Vec::new()));
}

#[test]
fn a_tool_that_a_provider_is_sent_otherwise_is_named_before_there_is_a_key() {
    let tool = "[tools.find]\nkind = \"docs\"\neffect = \"read\"\nfolder = \".\"\ndescription = \"Find\"\n\
                query_parameter = \"filter[status]\"\n[tools.find.parameters]\n\"filter[status]\" = { required = true }\n";
    let base = |provider: &str| format!("[models.base]\nprovider = \"{provider}\"\nmodel = \"m\"\n{tool}");
    let changed = |provider: &str| {
        let warnings = checked(&base(provider), None).unwrap();
        warnings.into_iter().filter(|line| line.contains("is sent to")).collect::<Vec<_>>()
    };
    let line =
        "tool `find` is sent to anthropic with other parameters: `filter[status]` is called `filter_status`";
    assert_eq!(changed("anthropic"), [line]);
    assert_eq!(changed("openai"), Vec::<String>::new());
}

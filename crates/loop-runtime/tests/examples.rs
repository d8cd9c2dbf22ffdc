//! The examples print what they promise, and the two guides quote what compiles and say what the code says.

#[allow(dead_code)]
#[path = "../examples/coming_from.rs"]
mod coming_from;
#[allow(dead_code)]
#[path = "../examples/conversation.rs"]
mod conversation;
#[allow(dead_code)]
#[path = "../examples/document.rs"]
mod document;
#[allow(dead_code)]
#[path = "../examples/extract.rs"]
mod extract;
#[allow(dead_code)]
#[path = "../examples/find_and_update.rs"]
mod find_and_update;
#[allow(dead_code)]
#[path = "../examples/find_user.rs"]
mod find_user;
#[cfg(all(feature = "mcp", unix))]
#[allow(dead_code)]
#[path = "../examples/mcp.rs"]
mod mcp;
#[allow(dead_code)]
#[path = "../examples/own_model.rs"]
mod own_model;
#[allow(dead_code)]
#[path = "../examples/own_tool.rs"]
mod own_tool;
#[allow(dead_code)]
#[path = "../examples/policy.rs"]
mod policy;
#[allow(dead_code)]
#[path = "../examples/reflected_report.rs"]
mod reflected_report;

/// What an example writes.
macro_rules! shown {
    ($example:ident) => {{
        let mut out = Vec::new();
        $example::show(&mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }};
}

#[tokio::test]
async fn a_conversation_continues_from_its_history() {
    let expected = "\
Bob lives in Graz.
Graz has about 300,000 people.
1 pass, 4 messages
";
    assert_eq!(shown!(conversation), expected);
}

#[tokio::test]
async fn a_model_and_tools_of_ones_own_need_this_crate_alone() {
    assert_eq!(shown!(own_model), "kalo papagalos, kalo papagalos!\n2 model calls, completed\n");
    let expected =
        "There were 7 nuts, so I ordered some.\norder: 1 call, 0 failed\nstock: 1 call, 0 failed\n";
    assert_eq!(shown!(own_tool), expected);
}

#[cfg(all(feature = "mcp", unix))]
#[tokio::test]
async fn a_server_is_trusted_as_it_was_looked_at() {
    assert_eq!(shown!(mcp), "trusted: 1\nIt is five past two in Graz.\nE1: 14:05\n");
}

#[tokio::test]
async fn the_program_beside_others_orders_what_is_approved() {
    use loop_runtime::models::{Scripted, ScriptedReply};
    let part = || serde_json::json!({"part": "nut"});
    let script = || {
        let calls = [ScriptedReply::call("stock", part()), ScriptedReply::call("order", part())];
        Scripted::new(calls.into_iter().chain([ScriptedReply::text("Done.")]))
    };
    let keeper = coming_from::keeper(script(), |question| question == r#"order {"part":"nut"}"#).unwrap();
    assert_eq!(&*keeper.prompt("Are there enough nuts?").await.unwrap().text, "Done.");
    let keeper = coming_from::keeper(script(), |_| false).unwrap();
    let error = keeper.prompt("Are there enough nuts?").await.unwrap_err();
    assert_eq!(&*error.code(), "EFFECT_NOT_DONE");
}

#[tokio::test]
async fn a_mail_does_not_decide_whom_an_agent_writes_to() {
    let expected = "\
The reply calls no tool. Also true: effect_not_done (send_mail was denied (asked for after untrusted result E2)). Effects: 1 executed, 1 denied.
send_mail: run
read_inbox: run
send_mail: denied
";
    assert_eq!(shown!(policy), expected);
}

#[tokio::test]
async fn a_ticket_becomes_a_document() {
    let document = shown!(document);
    assert!(document.contains("## Findings") && document.contains("[E1]"), "{document}");
    assert!(document.ends_with(" piece of evidence\n") && document.contains("confident: "), "{document}");
}

#[tokio::test]
async fn a_search_answers_a_question() {
    // S1-42
    let expected = "\
Found 15 users named Alice

2 passes, 1 tool call, completed
user: Find user named Alice
assistant: search_user {\"name\":\"Alice\"}
tool: 1 result
assistant: the answer
";
    assert_eq!(shown!(find_user), expected);
}

#[tokio::test]
async fn three_calls_in_turn_change_a_company_once_that_is_approved() {
    // S1-6, S1-43, S2-102
    let expected = "\
not approved: An action needs a person's consent, and no person can be asked. Also true: effect_not_done (update_user was not begun). Effects: 1 waiting.
Bob works for Acme.
approved: Updated Bob's company to EPAM
Bob works for EPAM.
get_user_by_id: 1 call, 0 failed
search_user: 1 call, 0 failed
update_user: 1 call, 0 failed
";
    assert_eq!(shown!(find_and_update), expected);
}

#[tokio::test]
async fn a_rule_of_the_program_rejects_what_fits_the_schema() {
    // S2-4, S2-18
    let expected = "\
Ann Lee of Acme Roofing Ltd: $5000
3 attempts, 3 passes
the last rejection: known_company: `Acme` is not in the register; the nearest there is `Acme Roofing Ltd`
";
    assert_eq!(shown!(extract), expected);
}

#[tokio::test]
async fn a_report_is_shown_to_its_writer_and_submitted() {
    // S2-3, S2-24, S2-46, S2-95
    let expected = "\
pass 1: search_user -> [{\"id\":42,\"name\":\"Bob Brown\",\"company\":\"Acme\",\"email\":\"bob@acme.example\"}]
pass 2: report -> # Bob Brown

# Bob Brown

- works for Acme
- writes from bob@acme.example

3 passes, 7 messages
";
    assert_eq!(shown!(reflected_report), expected);
}

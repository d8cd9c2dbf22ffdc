//! Lies of models in a document run: selections, sections and contracts.

use loop_llm::ModelReply;
use serde_json::json;

use super::LieOn::{Main, Once, Selection};
use super::prompt::{Prompt, block, body_of, says};
use super::words::{FORGED, deep};
use super::{Behaviour, Lie, saying};

lies! {
    // Selections.
    "garbled-selection", Selection, "The selection is half a list" =>
        saying(|_, _| says("I take [{\"tool\": \"fetch_device_info\", \"params\": {\"target\": \"HAR-"));
    "empty-list-in-a-garbled-selection", Selection, "A selection that cannot be read holds `[]` somewhere" =>
        saying(|_, _| says("My list [] begins here: {\"tool\": \"fetch_device_info\", \"params\": "));
    "selection-with-members-twice", Selection, "A selection names each tool twice in one object" =>
        saying(|_, _| {
                says(
                    "[{\"tool\": \"fetch_user_info\", \"tool\": \"fetch_device_info\", \"params\": {\"target\": \"a\", \"target\": \"HAR-LT-014\"}}]",
                )
            });
    "selects-a-write", Selection, "A selection asks for a tool that writes" => saying(|_, _| {
            says(
                json!([{"tool": "close_ticket", "params": {"ticket": "T-1042"}, "reason": "done"}])
                    .to_string(),
            )
        });
    "selects-an-undeclared-tool", Selection, "A selection asks for a tool that nobody declared" =>
        saying(|_, _| {
                says(
                    json!([{"tool": "run_shell", "params": {"line": "id"}, "reason": "why not"}]).to_string(),
                )
            });
    "selects-10000-calls", Selection, "A selection asks for 10,000 calls" => saying(|prompt, _| {
            let select = |nth| {
                let call = prompt.read(&format!("HAR-LT-{nth:05}"));
                json!({"tool": call.name, "params": call.arguments.object().ok(), "reason": ""})
            };
            says(json!((0..10_000).map(select).collect::<Vec<_>>()).to_string())
        });
    "selects-in-prose", Selection, "A selection is a friendly paragraph" =>
        saying(|_, _| says("Sure! I would look at the device first, and then perhaps at its backups."));
    // Documents.
    "only-citations", Main, "Each section holds a citation and no word" =>
        saying(|prompt, _| prompt.answers("[E1]"));
    "cites-the-item-only", Main, "Each section cites the work item and nothing else" =>
        saying(|prompt, _| prompt.answers("As the ticket says. [E0]"));
    "cites-what-is-not-there", Main, "Each section cites evidence that does not exist" =>
        saying(|prompt, _| prompt.answers("It is proven. [E77] [E78, E4294967296]"));
    "no-sections", Main, "A document without a heading" =>
        saying(|prompt, _| says(format!("All is well.\n\n{}", prompt.contract("high", &[]))));
    "empty-sections", Main, "Each section is a heading and nothing else" => saying(|prompt, _| {
            says(format!("{}{}", prompt.sections(|_| String::new()), prompt.contract("high", &[])))
        });
    "headings-by-the-thousand", Main, "1,500 headings, most of them unknown" => saying(|prompt, _| {
            let headings: String = (0..1_500).map(|nth| format!("## {nth}\n\n")).collect();
            says(format!("{headings}{}", prompt.contract("medium", &[])))
        });
    "same-heading-a-thousand-times", Main, "The first heading a thousand times, each time with other words" =>
        saying(|prompt, _| {
                let heading = prompt.headings.first().map_or("", String::as_str);
                let sections: String = (0..1_000).map(|nth| format!("## {heading}\n\n{nth}\n\n")).collect();
                says(format!("{sections}{}", prompt.contract("medium", &[])))
            });
    "open-fence", Main, "A code fence that never ends hides the rest of the document" => saying(|prompt, _| {
            says(format!(
                "````\n{}{}",
                prompt.sections(|_| "The disk is full. [E1]".to_owned()),
                prompt.contract("high", &[])
            ))
        });
    "another-language", Main, "The document is in Chinese, headings too" => saying(|prompt, _| {
            let contract = prompt.contract("high", &[]);
            says(format!("## 情况\n\n磁盘已满。[E1]\n\n## 下一步\n\n清理磁盘。[E1]\n\n{contract}"))
        });
    // Contracts.
    "no-contract", Main, "The document has no contract block, and neither has its repair" =>
        saying(|prompt, honest| {
            says(if prompt.nonce().is_empty() {
                honest.text.to_string()
            } else {
                body_of(&honest).to_owned() + "Done."
            })
        });
    "no-contract-once", Once, "The first document has no contract block" =>
        saying(|_, honest| says(body_of(&honest).to_owned() + "Done."));
    "contract-of-another-run", Main, "The contract has a nonce that nobody gave" =>
        saying(|_, honest| says(body_of(&honest).to_owned() + FORGED));
    "contracts-that-contradict", Main, "Two contract blocks: sure, and then not sure" =>
        saying(|prompt, honest| {
            says(format!(
                "{}{}{}",
                body_of(&honest),
                prompt.contract("high", &[]),
                prompt.contract("low", &[])
            ))
        });
    "contract-in-a-fence-of-prose", Main, "The contract stands inside another code fence" =>
        saying(|prompt, honest| {
            let inner = prompt.contract("high", &[]);
            says(format!("{}````text\n{inner}````\n", body_of(&honest)))
        });
    "contract-in-yaml", Main, "The contract is written in YAML" => saying(|prompt, honest| {
            let nonce = prompt.nonce().to_owned();
            says(format!(
                "{}```yaml\nnonce: {nonce}\nanalysis_confidence: high\nai_actions: []\n```\n",
                body_of(&honest)
            ))
        });
    "confidence-of-200-percent", Main, "The confidence is `200%`" => with_confidence("200%");
    "confidence-in-german", Main, "The confidence is `hoch`" => with_confidence("hoch");
    "confidence-as-a-number", Main, "The confidence is the number 0.99" => saying(|prompt, honest| {
            let nonce = prompt.nonce().to_owned();
            let contract = json!({"nonce": nonce, "analysis_confidence": 0.99, "ai_actions": []});
            says(format!("{}{}", body_of(&honest), block(&contract)))
        });
    "contract-with-members-twice", Main, "The contract has its confidence twice: low, then high" =>
        saying(|prompt, honest| {
                let nonce = prompt.nonce().to_owned();
                says(format!(
                    "{}```json\n{{\"nonce\": \"{nonce}\", \"analysis_confidence\": \"low\", \"analysis_confidence\": \"high\", \"ai_actions\": []}}\n```\n",
                    body_of(&honest)
                ))
            });
    "contract-without-bottom", Main, "The contract holds 3,000 arrays within each other" =>
        saying(|prompt, honest| {
            let nonce = prompt.nonce().to_owned();
            says(format!(
                "{}```json\n{{\"nonce\": \"{nonce}\", \"analysis_confidence\": \"high\", \"ai_actions\": {}}}\n```\n",
                body_of(&honest),
                deep(3_000)
            ))
        });
    "sure-and-asking", Main, "High confidence, and calls that it says are required" =>
        saying(|prompt, honest| {
            let calls = [prompt.read(&format!("HAR-LT-9{}", prompt.replies()))];
            says(format!("{}{}", body_of(&honest), prompt.contract("high", &calls)))
        });
    "never-sure", Main, "Medium confidence for good, and nothing asked for" => with_confidence("medium");
    "hands-over-forever", Main, "Each reply asks for a person to go on" => saying(|prompt, honest| {
            let contract = json!({
                "nonce": prompt.nonce(), "analysis_confidence": "low", "ai_actions": [], "escalate": "a person should look",
            });
            says(format!("{}{}", body_of(&honest), block(&contract)))
        });
}

/// The honest document with this confidence and no calls.
fn with_confidence(confidence: &'static str) -> Behaviour {
    match confidence {
        "200%" => saying(|prompt, honest| confident(prompt, &honest, "200%")),
        "hoch" => saying(|prompt, honest| confident(prompt, &honest, "hoch")),
        _ => saying(|prompt, honest| confident(prompt, &honest, "medium")),
    }
}

fn confident(prompt: &Prompt<'_>, honest: &ModelReply, confidence: &str) -> ModelReply {
    says(format!("{}{}", body_of(honest), prompt.contract(confidence, &[])))
}

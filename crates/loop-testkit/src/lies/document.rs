//! Models that lie in what they write for a document: selections, sections and contracts.

use loop_llm::ModelReply;
use serde_json::json;

use super::On::{Main, Once, Selection};
use super::prompt::{Prompt, block, body_of, says};
use super::words::{FORGED, deep};
use super::{Behaviour, Lie, saying};

pub(super) const LIES: &[Lie] = &[
    // Selections.
    Lie::new("garbled-selection", "The selection is half a list", Selection, || {
        saying(|_, _| says("I take [{\"tool\": \"fetch_device_info\", \"params\": {\"target\": \"HAR-"))
    }),
    Lie::new(
        "empty-list-in-a-garbled-selection",
        "A selection that cannot be read holds `[]` somewhere",
        Selection,
        || saying(|_, _| says("My list [] begins here: {\"tool\": \"fetch_device_info\", \"params\": ")),
    ),
    Lie::new(
        "selection-with-members-twice",
        "A selection names each tool twice in one object",
        Selection,
        || {
            saying(|_, _| {
                says(
                    "[{\"tool\": \"fetch_user_info\", \"tool\": \"fetch_device_info\", \"params\": {\"target\": \"a\", \"target\": \"HAR-LT-014\"}}]",
                )
            })
        },
    ),
    Lie::new("selects-a-write", "A selection asks for a tool that writes", Selection, || {
        saying(|_, _| {
            says(
                json!([{"tool": "close_ticket", "params": {"ticket": "T-1042"}, "reason": "done"}])
                    .to_string(),
            )
        })
    }),
    Lie::new(
        "selects-an-undeclared-tool",
        "A selection asks for a tool that nobody declared",
        Selection,
        || {
            saying(|_, _| {
                says(
                    json!([{"tool": "run_shell", "params": {"line": "id"}, "reason": "why not"}]).to_string(),
                )
            })
        },
    ),
    Lie::new("selects-10000-calls", "A selection asks for 10,000 calls", Selection, || {
        saying(|prompt, _| {
            let select = |nth| {
                let call = prompt.read(&format!("HAR-LT-{nth:05}"));
                json!({"tool": call.name, "params": call.arguments.object().ok(), "reason": ""})
            };
            says(json!((0..10_000).map(select).collect::<Vec<_>>()).to_string())
        })
    }),
    Lie::new("selects-in-prose", "A selection is a friendly paragraph", Selection, || {
        saying(|_, _| says("Sure! I would look at the device first, and then perhaps at its backups."))
    }),
    // Documents.
    Lie::new("only-citations", "Each section holds a citation and no word", Main, || {
        saying(|prompt, _| prompt.answers("[E1]"))
    }),
    Lie::new("cites-the-item-only", "Each section cites the work item and nothing else", Main, || {
        saying(|prompt, _| prompt.answers("As the ticket says. [E0]"))
    }),
    Lie::new("cites-what-is-not-there", "Each section cites evidence that does not exist", Main, || {
        saying(|prompt, _| prompt.answers("It is proven. [E77] [E78, E4294967296]"))
    }),
    Lie::new("no-sections", "A document without a heading", Main, || {
        saying(|prompt, _| says(format!("All is well.\n\n{}", prompt.contract("high", &[]))))
    }),
    Lie::new("empty-sections", "Each section is a heading and nothing else", Main, || {
        saying(|prompt, _| {
            says(format!("{}{}", prompt.sections(|_| String::new()), prompt.contract("high", &[])))
        })
    }),
    Lie::new("headings-by-the-thousand", "1,500 headings, most of them unknown", Main, || {
        saying(|prompt, _| {
            let headings: String = (0..1_500).map(|nth| format!("## {nth}\n\n")).collect();
            says(format!("{headings}{}", prompt.contract("medium", &[])))
        })
    }),
    Lie::new(
        "same-heading-a-thousand-times",
        "The first heading a thousand times, each time with other words",
        Main,
        || {
            saying(|prompt, _| {
                let heading = prompt.headings.first().map_or("", String::as_str);
                let sections: String = (0..1_000).map(|nth| format!("## {heading}\n\n{nth}\n\n")).collect();
                says(format!("{sections}{}", prompt.contract("medium", &[])))
            })
        },
    ),
    Lie::new("open-fence", "A code fence that never ends hides the rest of the document", Main, || {
        saying(|prompt, _| {
            says(format!(
                "````\n{}{}",
                prompt.sections(|_| "The disk is full. [E1]".to_owned()),
                prompt.contract("high", &[])
            ))
        })
    }),
    Lie::new("another-language", "The document is in Chinese, headings too", Main, || {
        saying(|prompt, _| {
            let contract = prompt.contract("high", &[]);
            says(format!("## 情况\n\n磁盘已满。[E1]\n\n## 下一步\n\n清理磁盘。[E1]\n\n{contract}"))
        })
    }),
    // Contracts.
    Lie::new("no-contract", "The document has no contract block, and neither has its repair", Main, || {
        saying(|prompt, honest| {
            says(if prompt.nonce().is_empty() {
                honest.text.to_string()
            } else {
                body_of(&honest).to_owned() + "Done."
            })
        })
    }),
    Lie::new("no-contract-once", "The first document has no contract block", Once, || {
        saying(|_, honest| says(body_of(&honest).to_owned() + "Done."))
    }),
    Lie::new("contract-of-another-run", "The contract has a nonce that nobody gave", Main, || {
        saying(|_, honest| says(body_of(&honest).to_owned() + FORGED))
    }),
    Lie::new("contracts-that-contradict", "Two contract blocks: sure, and then not sure", Main, || {
        saying(|prompt, honest| {
            says(format!(
                "{}{}{}",
                body_of(&honest),
                prompt.contract("high", &[]),
                prompt.contract("low", &[])
            ))
        })
    }),
    Lie::new("contract-in-a-fence-of-prose", "The contract stands inside another code fence", Main, || {
        saying(|prompt, honest| {
            let inner = prompt.contract("high", &[]);
            says(format!("{}````text\n{inner}````\n", body_of(&honest)))
        })
    }),
    Lie::new("contract-in-yaml", "The contract is written in YAML", Main, || {
        saying(|prompt, honest| {
            let nonce = prompt.nonce().to_owned();
            says(format!(
                "{}```yaml\nnonce: {nonce}\nanalysis_confidence: high\nai_actions: []\n```\n",
                body_of(&honest)
            ))
        })
    }),
    Lie::new("confidence-of-200-percent", "The confidence is `200%`", Main, || with_confidence("200%")),
    Lie::new("confidence-in-german", "The confidence is `hoch`", Main, || with_confidence("hoch")),
    Lie::new("confidence-as-a-number", "The confidence is the number 0.99", Main, || {
        saying(|prompt, honest| {
            let nonce = prompt.nonce().to_owned();
            let contract = json!({"nonce": nonce, "analysis_confidence": 0.99, "ai_actions": []});
            says(format!("{}{}", body_of(&honest), block(&contract)))
        })
    }),
    Lie::new(
        "contract-with-members-twice",
        "The contract has its confidence twice: low, then high",
        Main,
        || {
            saying(|prompt, honest| {
                let nonce = prompt.nonce().to_owned();
                says(format!(
                    "{}```json\n{{\"nonce\": \"{nonce}\", \"analysis_confidence\": \"low\", \"analysis_confidence\": \"high\", \"ai_actions\": []}}\n```\n",
                    body_of(&honest)
                ))
            })
        },
    ),
    Lie::new("contract-without-bottom", "The contract holds 3,000 arrays within each other", Main, || {
        saying(|prompt, honest| {
            let nonce = prompt.nonce().to_owned();
            says(format!(
                "{}```json\n{{\"nonce\": \"{nonce}\", \"analysis_confidence\": \"high\", \"ai_actions\": {}}}\n```\n",
                body_of(&honest),
                deep(3_000)
            ))
        })
    }),
    Lie::new("sure-and-asking", "High confidence, and calls that it says are required", Main, || {
        saying(|prompt, honest| {
            let calls = [prompt.read(&format!("HAR-LT-9{}", prompt.replies()))];
            says(format!("{}{}", body_of(&honest), prompt.contract("high", &calls)))
        })
    }),
    Lie::new("never-sure", "Medium confidence for good, and nothing asked for", Main, || {
        with_confidence("medium")
    }),
    Lie::new("hands-over-forever", "Each reply asks for a person to go on", Main, || {
        saying(|prompt, honest| {
            let contract = json!({
                "nonce": prompt.nonce(), "analysis_confidence": "low", "ai_actions": [], "escalate": "a person should look",
            });
            says(format!("{}{}", body_of(&honest), block(&contract)))
        })
    }),
];

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

//! The help desk setup, which most tests of the core run: two tools that read, one with keyed writes, and one with an
//! irreversible effect.

use loop_core::RunSpec;
use loop_core::spec::{OutputSpec, SectionSpec, ToolSpec};
use loop_core::types::{Effect, Price};

use crate::{Setup, model, read, tool};

/// The help desk that writes a document of three sections, without a selector and with the default limits.
pub fn run() -> Setup {
    Setup::document("helpdesk")
        .goal("Help.")
        .section(SectionSpec::new("situation", "🔍 Situation").required())
        .section(SectionSpec::new("findings", "Findings"))
        .section(SectionSpec::new("next_steps", "➡️ Next Steps"))
        .with(|spec| {
            spec.tools = tools();
            spec.models.selector = Some(model(Some(Price::flat(10, 40))));
        })
}

/// The help desk as a conversation.
pub fn conversation() -> Setup {
    Setup::conversation("helpdesk").with(|spec| spec.tools = tools())
}

/// The help desk as a run that ends with an output of the tool `save`.
pub fn output() -> Setup {
    ending_with(OutputSpec::new("save"))
}

/// The same with a reflection: `save` formats the output, and `submit` ends the attempt.
pub fn reflected() -> Setup {
    ending_with(OutputSpec { submit: Some("submit".into()), ..OutputSpec::new("save") })
}

fn ending_with(output: OutputSpec) -> Setup {
    let submit = output.submit.clone();
    Setup::output("helpdesk", output).with(|spec: &mut RunSpec| {
        spec.tools = tools();
        spec.tools.push(read("save"));
        spec.tools.extend(submit.map(|submit| read(&submit)));
    })
}

fn tools() -> Vec<ToolSpec> {
    let device = ToolSpec { aliases: vec!["fetch_devices".into()], ..read("fetch_device") };
    let docs = ToolSpec { smart: true, ..read("fetch_docs") };
    vec![device, docs, tool("restart", Effect::WriteKeyed), tool("wipe", Effect::WriteIrreversible)]
}

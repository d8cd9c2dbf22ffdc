//! How servers that speak Chat Completions differ, as data.

/// What a server and its model expect and offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Whether the limit of output tokens is called `max_completion_tokens`, and not `max_tokens`.
    pub max_completion_tokens: bool,
    /// Whether the rules come from the role `developer`, and not `system`.
    pub developer_role: bool,
    /// Whether an assistant turn of calls alone has the content `null`, and not an empty text.
    pub null_content: bool,
    /// Whether usage must be asked for in a stream.
    pub include_usage: bool,
    /// Whether the model reasons: `temperature`, `top_p` and `stop` are then taken only at the effort `none`.
    pub reasons: bool,
    /// Whether the model takes tools here.
    pub tools: ToolSupport,
    /// Whether schemas can be made binding.
    pub strict_tools: bool,
    /// Whether calls can be restricted to some of the tools.
    pub allowed_tools: bool,
    /// The most stop texts.
    pub stop_max: usize,
}

/// Whether a model takes tools on Chat Completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSupport {
    /// Always.
    Yes,
    /// At the explicit effort `none` alone.
    WithoutReasoning,
    /// Never.
    No,
}

impl Profile {
    /// A model of OpenAI's that does not reason.
    pub const OPENAI: Self = Self {
        max_completion_tokens: true,
        developer_role: true,
        null_content: true,
        include_usage: true,
        reasons: false,
        tools: ToolSupport::Yes,
        strict_tools: true,
        allowed_tools: true,
        stop_max: 4,
    };

    /// A model of OpenAI's that reasons unless it is told not to.
    pub const OPENAI_REASONING: Self =
        Self { reasons: true, tools: ToolSupport::WithoutReasoning, ..Self::OPENAI };

    /// A compatible server, such as llama.cpp, Ollama, vLLM or a gateway.
    pub const COMPATIBLE: Self = Self {
        max_completion_tokens: false,
        developer_role: false,
        null_content: false,
        strict_tools: false,
        allowed_tools: false,
        ..Self::OPENAI
    };
}

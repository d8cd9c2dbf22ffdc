//! Functions as tools: what they may take and return, and the names of their effects.

use std::any::Any;
use std::error::Error;
use std::fmt::{self, Display};
use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use loop_core::types::Effect;
use loop_tools::{ToolContext, ToolDeclaration, ToolResult};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::ser::{self, Impossible, Serialize, Serializer};
use serde_json::Value;

/// A tool that only reads.
///
/// ```
/// use loop_runtime::{read, tools::Effect};
/// assert_eq!(read("add", "Adds two numbers").effect, Some(Effect::Read));
/// ```
pub fn read(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    declared(Effect::Read, name, description)
}

/// A tool that changes something irreversibly. It is the safe choice for every tool that writes: a call whose outcome
/// is unknown is never repeated.
pub fn write(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    declared(Effect::WriteIrreversible, name, description)
}

/// A tool that changes something, where doing it twice is the same as doing it once.
pub fn write_idempotent(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    declared(Effect::WriteIdempotent, name, description)
}

/// A tool that changes something, whose receiver drops a second call with the same key
/// (see [`ToolContext`]).
pub fn write_keyed(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    declared(Effect::WriteKeyed, name, description)
}

/// A tool that sends something out: a mail, a message, a file.
pub fn send(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    declared(Effect::Egress, name, description)
}

/// A tool that runs a program.
pub fn exec(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    declared(Effect::Exec, name, description)
}

fn declared(effect: Effect, name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> ToolDeclaration {
    ToolDeclaration::new(name).description(description).effect(effect)
}

/// A function that can be a tool. It takes its arguments. Before them it may take `&Deps`, the agent's
/// [dependencies](crate::agent::AgentBuilder::with), and after them the [`ToolContext`].
///
/// The type of the arguments gives the schema that the model is shown. `Form` is inferred.
#[diagnostic::on_unimplemented(
    message = "this is not a function that can be a tool of an agent whose dependencies are `{Deps}`",
    note = "write `|args: Args| async move {{ … }}`, or `|args: Args, context: ToolContext| async move {{ … }}`, where `Args` \
            derives `serde::Deserialize` and `schemars::JsonSchema`",
    note = "with dependencies write `async |deps: &Deps, args: Args| {{ … }}`, and call `with(deps)` before `tool`"
)]
pub trait ToolFunction<Form, Deps>: Send + Sync + 'static {
    /// The type of its arguments.
    type Args: JsonSchema + DeserializeOwned + Send + 'static;
    /// What its future gives.
    type Return: 'static;

    /// Calls it.
    fn call(
        self: Arc<Self>,
        deps: Arc<Deps>,
        args: Self::Args,
        context: ToolContext,
    ) -> BoxFuture<'static, Self::Return>;
}

impl<F, Args, Fut, Deps> ToolFunction<fn(Args), Deps> for F
where
    F: Fn(Args) -> Fut + Send + Sync + 'static,
    Args: JsonSchema + DeserializeOwned + Send + 'static,
    Fut: Future + Send + 'static,
{
    type Args = Args;
    type Return = Fut::Output;

    fn call(self: Arc<Self>, _: Arc<Deps>, args: Args, _: ToolContext) -> BoxFuture<'static, Fut::Output> {
        Box::pin(self(args))
    }
}

impl<F, Args, Fut, Deps> ToolFunction<fn(Args, ToolContext), Deps> for F
where
    F: Fn(Args, ToolContext) -> Fut + Send + Sync + 'static,
    Args: JsonSchema + DeserializeOwned + Send + 'static,
    Fut: Future + Send + 'static,
{
    type Args = Args;
    type Return = Fut::Output;

    fn call(
        self: Arc<Self>,
        _: Arc<Deps>,
        args: Args,
        context: ToolContext,
    ) -> BoxFuture<'static, Fut::Output> {
        Box::pin(self(args, context))
    }
}

impl<F, Args, Return, Deps> ToolFunction<(Args, Return), Deps> for F
where
    F: for<'d> Borrowing<'d, Deps, (Args,), Return = Return> + Send + Sync + 'static,
    Args: JsonSchema + DeserializeOwned + Send + 'static,
    Return: 'static,
    Deps: Send + Sync + 'static,
{
    type Args = Args;
    type Return = Return;

    fn call(self: Arc<Self>, deps: Arc<Deps>, args: Args, _: ToolContext) -> BoxFuture<'static, Return> {
        Box::pin(async move { self.borrow(&*deps, (args,)).await })
    }
}

impl<F, Args, Return, Deps> ToolFunction<(Args, ToolContext, Return), Deps> for F
where
    F: for<'d> Borrowing<'d, Deps, (Args, ToolContext), Return = Return> + Send + Sync + 'static,
    Args: JsonSchema + DeserializeOwned + Send + 'static,
    Return: 'static,
    Deps: Send + Sync + 'static,
{
    type Args = Args;
    type Return = Return;

    fn call(
        self: Arc<Self>,
        deps: Arc<Deps>,
        args: Args,
        context: ToolContext,
    ) -> BoxFuture<'static, Return> {
        Box::pin(async move { self.borrow(&*deps, (args, context)).await })
    }
}

/// A function whose future borrows the first argument. The trait gives that future's result a name that has no lifetime.
pub trait Borrowing<'d, Deps, Args> {
    /// What its future gives.
    type Return;

    /// Calls it.
    fn borrow(&self, deps: &'d Deps, args: Args) -> BoxFuture<'d, Self::Return>;
}

impl<'d, Deps: 'd, Args, F, Fut> Borrowing<'d, Deps, (Args,)> for F
where
    F: Fn(&'d Deps, Args) -> Fut,
    Fut: Future + Send + 'd,
{
    type Return = Fut::Output;

    fn borrow(&self, deps: &'d Deps, (args,): (Args,)) -> BoxFuture<'d, Fut::Output> {
        Box::pin(self(deps, args))
    }
}

impl<'d, Deps: 'd, Args, F, Fut> Borrowing<'d, Deps, (Args, ToolContext)> for F
where
    F: Fn(&'d Deps, Args, ToolContext) -> Fut,
    Fut: Future + Send + 'd,
{
    type Return = Fut::Output;

    fn borrow(&self, deps: &'d Deps, (args, context): (Args, ToolContext)) -> BoxFuture<'d, Fut::Output> {
        Box::pin(self(deps, args, context))
    }
}

/// A value that a function tool may return.
///
/// - A value that serializes. The model receives a text unchanged, the text of a [`ToolResult`], and any other value as
///   JSON.
/// - A `Result` of one. An error is reported to the model, which may try again or explain. It is a text, another value that
///   serializes, a [`std::error::Error`], or a boxed one.
///
/// `Form` is inferred.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return a value that derives `serde::Serialize`, or a `Result` of one whose error is a text or an \
            `std::error::Error`; for other errors write `.map_err(|error| error.to_string())`"
)]
pub trait ToolReturn<Form> {
    /// The result of the tool.
    fn into_result(self, tool: &ToolDeclaration) -> ToolResult;
}

/// A value that serializes is returned, or a `Result` whose error serializes as well.
#[derive(Clone, Copy, Debug)]
pub enum Serialized {}

/// A `Result` is returned whose error is a [`std::error::Error`].
#[derive(Clone, Copy, Debug)]
pub enum Fallible {}

/// A `Result` is returned whose error is boxed.
#[derive(Clone, Copy, Debug)]
pub enum BoxedError {}

impl<T: Serialize + 'static> ToolReturn<Serialized> for T {
    fn into_result(self, tool: &ToolDeclaration) -> ToolResult {
        // Nothing is lost of a result that is one already.
        let value = match downcast::<T, ToolResult>(self).map_err(downcast::<T, Result<ToolResult, String>>) {
            Ok(made) | Err(Ok(Ok(made))) => return made,
            Err(Ok(Err(error))) => return failed(tool, error),
            Err(Err(value)) => value,
        };
        // Neither is a plain text copied to be looked at.
        let value = match downcast::<T, String>(value).map_err(downcast::<T, Result<String, String>>) {
            Ok(text) | Err(Ok(Ok(text))) => return returned(tool, Value::String(text)),
            Err(Ok(Err(error))) => return failed(tool, error),
            Err(Err(value)) => value,
        };
        let shape = value.serialize(Probe);
        let json = match serde_json::to_value(&value) {
            Ok(json) => json,
            Err(error) => return not_json(tool, &error),
        };
        match (shape, json) {
            (Err(ReturnShape::Failure), Value::Object(mut members)) => match members.remove("Err") {
                Some(Value::String(message)) => failed(tool, message),
                error => failed(tool, error.unwrap_or_default()),
            },
            (Err(ReturnShape::Success), Value::Object(mut members)) => {
                returned(tool, members.remove("Ok").unwrap_or_default())
            }
            (Err(ReturnShape::Made), Value::Object(mut members)) => {
                let made = serde_json::from_value(members.remove("Ok").unwrap_or_default());
                made.map_or_else(|error| not_json(tool, &error), |made| titled(made, tool))
            }
            (_, json) => returned(tool, json),
        }
    }
}

impl<T: Serialize + 'static, E: Error> ToolReturn<Fallible> for Result<T, E> {
    fn into_result(self, tool: &ToolDeclaration) -> ToolResult {
        match self {
            Ok(value) => ToolReturn::<Serialized>::into_result(value, tool),
            Err(error) => failed(tool, error),
        }
    }
}

impl<T: Serialize + 'static> ToolReturn<BoxedError> for Result<T, Box<dyn Error + Send + Sync>> {
    fn into_result(self, tool: &ToolDeclaration) -> ToolResult {
        match self {
            Ok(value) => ToolReturn::<Serialized>::into_result(value, tool),
            Err(error) => failed(tool, error),
        }
    }
}

fn returned(tool: &ToolDeclaration, value: Value) -> ToolResult {
    let is_blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
    // A write that has nothing to report is done, and a model that reads nothing would do it again.
    match is_blank && tool.effect.is_some_and(|effect| !effect.is_read()) {
        true => ToolResult::ok(&*tool.name, "done", "Done.", value),
        false => ToolResult::value(&*tool.name, value),
    }
}

/// A result that was JSON, which has no title: a failure by the template has that of the tool.
fn titled(made: ToolResult, tool: &ToolDeclaration) -> ToolResult {
    let template = failed(tool, made.message());
    let title = template.title.filter(|_| !made.success && made.markdown == template.markdown);
    ToolResult { title, ..made }
}

fn failed(tool: &ToolDeclaration, error: impl Display) -> ToolResult {
    ToolResult::failed(&*tool.name, &tool.title, error)
}

fn not_json(tool: &ToolDeclaration, error: &serde_json::Error) -> ToolResult {
    failed(tool, format!("its result is not JSON: {error}"))
}

/// `value` as an `As`, where that is what it is; otherwise `value`.
fn downcast<T: 'static, As: 'static>(value: T) -> Result<As, T> {
    let mut value = Some(value);
    match (&mut value as &mut dyn Any).downcast_mut::<Option<As>>().and_then(Option::take) {
        Some(own) => Ok(own),
        None => Err(value.expect("nothing was taken out")),
    }
}

/// Looks how a value serializes, and writes nothing: whether it is a `Result`, and which side of it.
struct Probe;

/// What [`Probe`] finds. It ends each look at once, so it is the probe's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReturnShape {
    Success,
    /// A success that is a [`ToolResult`].
    Made,
    Failure,
    Other,
}

impl Display for ReturnShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Error for ReturnShape {}

impl ser::Error for ReturnShape {
    fn custom<T: Display>(_: T) -> Self {
        Self::Other
    }
}

type Found<T = ()> = Result<T, ReturnShape>;
type Compound = Impossible<(), ReturnShape>;

macro_rules! other {
    ($($method:ident($($argument:ty),*) -> $given:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Found<$given> {
            Err(ReturnShape::Other)
        })*
    };
}

impl Serializer for Probe {
    type Ok = ();
    type Error = ReturnShape;
    type SerializeSeq = Compound;
    type SerializeTuple = Compound;
    type SerializeTupleStruct = Compound;
    type SerializeTupleVariant = Compound;
    type SerializeMap = Compound;
    type SerializeStruct = Compound;
    type SerializeStructVariant = Compound;

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Found {
        Err(match (name, variant) {
            ("Result", "Ok") if value.serialize(Self) == Err(ReturnShape::Made) => ReturnShape::Made,
            ("Result", "Ok") => ReturnShape::Success,
            ("Result", "Err") => ReturnShape::Failure,
            _ => ReturnShape::Other,
        })
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Found<Compound> {
        Err(if name == "ToolResult" { ReturnShape::Made } else { ReturnShape::Other })
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Found {
        Err(ReturnShape::Other)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, _: &T) -> Found {
        Err(ReturnShape::Other)
    }

    other! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_seq(Option<usize>) -> Compound;
        serialize_tuple(usize) -> Compound;
        serialize_tuple_struct(&'static str, usize) -> Compound;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Compound;
        serialize_map(Option<usize>) -> Compound;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Compound;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The result's text, with a mark before that of a failure.
    fn shown<Form>(value: impl ToolReturn<Form>, tool: &ToolDeclaration) -> String {
        let result = value.into_result(tool);
        if result.success { result.markdown } else { format!("!{}", result.error.unwrap_or_default()) }
    }

    #[test]
    fn a_value_goes_to_the_model_as_text_or_json() {
        // S2-32
        #[derive(serde::Serialize)]
        struct Point {
            x: u32,
        }
        let tool = read("look", "Looks");
        assert_eq!(shown(7, &tool), "7");
        assert_eq!(shown("seven", &tool), "seven");
        assert_eq!(shown("seven".to_owned(), &tool), "seven");
        assert_eq!(shown(vec![Point { x: 1 }], &tool), r#"[{"x":1}]"#);
        assert_eq!(shown(Some(Point { x: 1 }), &tool), r#"{"x":1}"#);
        assert_eq!(shown(ToolResult::value("look", "reported".into()), &tool), "reported");
        assert_eq!(shown(Ok::<_, String>(ToolResult::value("look", "reported".into())), &tool), "reported");
        assert_eq!(
            shown(Ok::<_, &'static str>(ToolResult::value("look", "reported".into())), &tool),
            "reported"
        );
    }

    #[test]
    fn an_error_is_a_failure_whatever_its_type() {
        // S1-29
        let tool = read("look", "Looks");
        let io = || std::io::Error::other("gone");
        assert_eq!(shown(Ok::<_, String>(7), &tool), "7");
        assert_eq!(shown(Ok::<_, std::io::Error>(7), &tool), "7");
        assert_eq!(shown(Err::<u32, _>("no"), &tool), "!no");
        assert_eq!(shown(Err::<u32, _>("no".to_owned()), &tool), "!no");
        assert_eq!(shown(Err::<ToolResult, _>("no".to_owned()), &tool), "!no");
        assert_eq!(shown(Err::<u32, _>(io()), &tool), "!gone");
        assert_eq!(shown(Err::<u32, Box<dyn Error + Send + Sync>>(io().into()), &tool), "!gone");
        assert_eq!(shown(Err::<u32, _>(serde_json::json!({"code": 4})), &tool), r#"!{"code":4}"#);
    }

    #[test]
    fn a_write_without_a_report_is_done() {
        for tool in [
            write("w", "W"),
            write_idempotent("w", "W"),
            write_keyed("w", "W"),
            send("w", "W"),
            exec("w", "W"),
        ] {
            assert_eq!(shown((), &tool), "Done.", "{:?}", tool.effect);
            assert_eq!(shown(Ok::<_, String>(" "), &tool), "Done.", "{:?}", tool.effect);
        }
        assert_ne!(shown((), &read("r", "R")), "Done.");
    }
}

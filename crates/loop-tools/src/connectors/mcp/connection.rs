//! One connection to a server: its handshake, what it lists, and its calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Credentials;
use crate::text::clean;
use loop_core::secrets::Secrets;
use loop_core::types::{Digest, TraceParent, digest};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, ErrorCode, ErrorData, GetTaskParams,
    GetTaskRequest, Implementation, ListResourcesRequest, ListToolsRequest, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ReadResourceRequest,
    ReadResourceRequestParams, RequestId, RequestMetaObject, SubscriptionFilter, TASKS_EXTENSION_ID,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, NotificationContext, Peer,
    PeerRequestOptions, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpError};
use rmcp::transport::{DynamicTransportError, Transport};
use rmcp::{ClientHandler, RoleClient};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connectors::error::short_line;
use crate::connectors::mcp::content::CallContent;
use crate::connectors::mcp::endpoint::{EndpointError, Session};
use crate::connectors::mcp::manifest::{Listing, McpManifest, needs_task};
use crate::connectors::mcp::program::Running;
use crate::connectors::mcp::server::{Origin, Plan};
use crate::connectors::mcp::wire::{Pipes, Watch, WatchedTransport, unboxed};
use crate::connectors::trouble::Trouble;

/// The most pages of a list, and the most entries of all of them.
const PAGES_MAX: usize = 100;
const ENTRIES_MAX: usize = 2_000;
/// How often the list is read anew before a call while the server says that it has changed again.
const LOOKS: usize = 3;
/// The most bytes of all entries of a list.
const LIST_BYTES_MAX: usize = 16 << 20;
/// How long a server may take to say which revisions it speaks, before it is taken for an older one.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a task is looked at: as its server says, within these bounds.
const POLLS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The same, where it does not say.
const POLL: Duration = Duration::from_secs(1);
/// How long a notice of cancellation may take to be sent.
const NOTICE: Duration = Duration::from_secs(1);
/// The most characters of what a server says of a failure.
const MESSAGE_CHARS: usize = 500;

/// What is asked of a server.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// A call of a tool, if the server still describes it so.
    Tool { name: String, arguments: Map<String, Value>, trusted: Digest, traceparent: Option<TraceParent> },
    /// What is at an address.
    Resource { uri: String, traceparent: Option<TraceParent> },
}

impl Ask {
    /// The options of its request: the span in which it is made, where there is one.
    fn options(&self) -> PeerRequestOptions {
        let (Self::Tool { traceparent, .. } | Self::Resource { traceparent, .. }) = self;
        let options = PeerRequestOptions::no_options();
        let Some(traceparent) = traceparent else { return options };
        let mut meta = RequestMetaObject::new();
        meta.insert("traceparent".to_owned(), Value::from(traceparent.to_string()));
        options.with_meta(meta)
    }
}

/// What a server answered, with the secrets that it knows.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) content: Content,
    pub(crate) mask: Secrets,
}

/// The kinds of answers.
#[derive(Debug)]
pub(crate) enum Content {
    Tool(CallContent),
    Resource(Value),
    /// The server answered a call of a tool, and nothing of its answer is a result.
    Unread,
}

/// What is said of an answer that is not a result.
pub(crate) const NO_RESULT: &str = "the server's answer is not a result";

/// Why a connection could not be made.
#[derive(Clone, Debug)]
pub(crate) struct NoConnection {
    pub(crate) message: String,
    /// Whether it may be there another time.
    pub(crate) passes: bool,
}

/// A connection after its handshake.
pub(crate) struct Live {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    running: Mutex<Option<Running>>,
    progress: Progress,
    watch: Arc<Watch>,
    masks: Masks,
    listed: Mutex<ToolList>,
    /// Whether the server has forgotten the session.
    is_forgotten: AtomicBool,
    since: Instant,
}

/// What the server listed last, and after how many notices of a change.
#[derive(Default)]
struct ToolList {
    announced: u64,
    tools: BTreeMap<String, Digest>,
    /// Those of them that are called as tasks only.
    tasks: BTreeSet<String>,
}

/// The calls that wait for a sign of life, by their tokens.
type Progress = Arc<Mutex<HashMap<ProgressToken, Arc<Notify>>>>;

enum Masks {
    Fixed(Secrets),
    OfSession(Session),
}

/// What a server may tell us: that a call goes on, and that its tools have changed.
struct Handler {
    progress: Progress,
    watch: Arc<Watch>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // A server that wants a model, a person or a folder of ours gets none. It may go on in the background.
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), Map::new())].into());
        ClientConfig::new(capabilities, Implementation::new("loopgate", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let waiting = lock(&self.progress).get(&params.progress_token).cloned();
        if let Some(waiting) = waiting {
            waiting.notify_one();
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.watch.announced.fetch_add(1, Ordering::AcqRel);
    }
}

impl Live {
    /// A connection, and what the server lists.
    ///
    /// # Errors
    /// It could not be made, in words for the operator.
    pub(crate) async fn connect(plan: &Plan, credentials: &Credentials) -> Result<Arc<Self>, NoConnection> {
        let versions = vec![ProtocolVersion::V_2026_07_28];
        let first = ClientLifecycleMode::Auto { preferred_versions: versions.clone(), legacy_version: None };
        let live = match (Self::shake_hands(plan, credentials, first).await, &plan.origin) {
            // It knows no handshake, and did not say so in time.
            (Err(Unconnected::Refused(_)), _) => {
                let discover = ClientLifecycleMode::Discover { preferred_versions: versions };
                Self::shake_hands(plan, credentials, discover).await
            }
            // Some end where the first request is not a handshake.
            (Err(Unconnected::Failed(NoConnection { passes: true, .. })), Origin::Program(_)) => {
                Self::shake_hands(plan, credentials, ClientLifecycleMode::Initialize).await
            }
            (other, _) => other,
        };
        let live = Arc::new(live.map_err(|error| error.into_failure())?);
        live.listen();
        match live.list(plan).await {
            Ok(()) => Ok(live),
            Err(trouble) => Err(NoConnection { message: trouble.message(), passes: true }),
        }
    }

    async fn shake_hands(
        plan: &Plan,
        credentials: &Credentials,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, Unconnected> {
        let (watch, progress) = (Arc::new(Watch::default()), Progress::default());
        let patience = match lifecycle {
            ClientLifecycleMode::Auto { .. } => Some(PATIENCE.min(plan.start_timeout / 3)),
            _ => None,
        };
        let handler = Handler { progress: Arc::clone(&progress), watch: Arc::clone(&watch) };
        let (served, mut running, masks) = match &plan.origin {
            Origin::Program(recipe) => {
                let begun =
                    recipe.start(credentials).map_err(|message| Unconnected::failed(message, false))?;
                let (running, (output, input)) = begun;
                let transport = Pipes::new(output, input, Arc::clone(&watch));
                let transport = WatchedTransport::new(transport, Arc::clone(&watch), patience);
                let served = serve(plan, handler, transport, lifecycle).await;
                (served, Some(running), Masks::Fixed(recipe.mask(credentials)))
            }
            Origin::Http(endpoint) => {
                let session = endpoint.session(credentials, Arc::clone(&watch));
                let config = endpoint.transport_config(plan.start_timeout);
                let transport = StreamableHttpClientTransport::with_client(session.clone(), config);
                let transport = WatchedTransport::new(transport, Arc::clone(&watch), patience);
                let served = serve(plan, handler, transport, lifecycle).await;
                (served, None, Masks::OfSession(session))
            }
        };
        let service = match served {
            Ok(service) => service,
            Err(error) => {
                let last_words = match &mut running {
                    Some(running) => Some(running.end().await),
                    None => None,
                };
                return Err(error.with(watch.reason(), last_words, &masks.mask()));
            }
        };
        let peer = service.peer().clone();
        // What a server says of how long its lists hold is not ours to believe.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(Self {
            peer,
            service: Mutex::new(Some(service)),
            running: Mutex::new(running),
            progress,
            watch,
            masks,
            listed: Mutex::default(),
            is_forgotten: AtomicBool::new(false),
            since: Instant::now(),
        })
    }

    /// Whether nothing can be asked by it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Whether the server refused what was asked, and did nothing, because it has forgotten the session.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Acquire)
    }

    /// How long there has been this connection.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends the connection, and the program behind it.
    pub(crate) async fn close(&self) {
        let service = lock(&self.service).take();
        if let Some(service) = service {
            let _ = timeout(NOTICE, service.cancel()).await;
        }
        let running = lock(&self.running).take();
        if let Some(mut running) = running {
            running.end().await;
        }
    }

    /// What the server has, asked anew.
    ///
    /// # Errors
    /// It does not answer, or its lists do not end.
    pub(crate) async fn manifest(&self, plan: &Plan) -> Result<McpManifest, Trouble> {
        let info = self.peer.peer_info();
        let tools = self.in_time(plan.start_timeout, self.tools()).await?;
        let has_resources = info.as_ref().is_some_and(|info| info.capabilities.resources.is_some());
        let resources = match has_resources {
            true => self.in_time(plan.start_timeout, self.resources()).await?,
            false => Listing::default(),
        };
        let name = info.and_then(|info| Some(info.server_info.as_ref()?.name.clone())).unwrap_or_default();
        Ok(McpManifest::new(clean(&name).0.into_owned(), tools, resources))
    }

    /// The answer to what is asked. When it is dropped, the call is cancelled at the server.
    ///
    /// # Errors
    /// What went wrong, and whether it may have been done.
    pub(crate) async fn ask(&self, ask: &Ask, plan: &Plan) -> Result<Answer, Trouble> {
        let is_task = match ask {
            Ask::Tool { name, trusted, .. } => {
                self.check(name, *trusted, plan).await?;
                lock(&self.listed).tasks.contains(name) && self.has_handshake()
            }
            Ask::Resource { .. } => false,
        };
        let request = match ask.clone() {
            Ask::Tool { name, arguments, .. } if is_task => {
                let params = json!({ "name": name, "arguments": arguments, "task": {} });
                ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
            }
            Ask::Tool { name, arguments, .. } => ClientRequest::CallToolRequest(CallToolRequest::new(
                CallToolRequestParams::new(name).with_arguments(arguments),
            )),
            Ask::Resource { uri, .. } => ClientRequest::ReadResourceRequest(ReadResourceRequest::new(
                ReadResourceRequestParams::new(uri),
            )),
        };
        let mut result = self.send(request, ask.options(), plan.idle_timeout).await?;
        if let Some(task) = Task::read(&result) {
            result = self.outcome(task, plan).await?;
        }
        if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
            return Err(Trouble::Permanent(WANTS_INPUT.to_owned()));
        }
        let content = match ask {
            Ask::Tool { .. } => CallContent::read(result).map_or(Content::Unread, Content::Tool),
            Ask::Resource { .. } => Content::Resource(result),
        };
        Ok(Answer { content, mask: self.masks.mask() })
    }

    /// The result of a task, which is looked at until it is there. When it is dropped, the task is cancelled.
    async fn outcome(&self, mut task: Task, plan: &Plan) -> Result<Value, Trouble> {
        let mut running = RunningTask { live: self, id: task.id.clone(), is_over: false };
        loop {
            match task.status {
                TaskStatus::Working => sleep(task.poll).await,
                // The task is cancelled.
                TaskStatus::InputRequired => return Err(Trouble::Permanent(WANTS_INPUT.to_owned())),
                TaskStatus::Cancelled => {
                    running.is_over = true;
                    return Err(Trouble::InDoubt("the server cancelled the task".to_owned()));
                }
                TaskStatus::Completed | TaskStatus::Failed => {
                    running.is_over = true;
                    if let Some(error) = task.error {
                        return Err(of_server(&error, &self.masks.mask()));
                    }
                    let Some(result) = task.result else {
                        let params = Some(json!({ "taskId": task.id }));
                        let request =
                            ClientRequest::CustomRequest(CustomRequest::new("tasks/result", params));
                        return self.send(request, PeerRequestOptions::no_options(), plan.idle_timeout).await;
                    };
                    return Ok(result);
                }
            }
            let request = GetTaskRequest::new(GetTaskParams::new(&task.id));
            let request = ClientRequest::GetTaskRequest(request);
            let looked = self.send(request, PeerRequestOptions::no_options(), plan.idle_timeout).await?;
            task = Task::read(&looked).unwrap_or(Task { status: TaskStatus::Working, ..task });
        }
    }

    /// Whether the server speaks a revision that begins with a handshake.
    fn has_handshake(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.protocol_version.has_initialize())
    }

    /// Whether the server still describes a tool as it was trusted.
    async fn check(&self, tool: &str, trusted: Digest, plan: &Plan) -> Result<(), Trouble> {
        for _ in 0..LOOKS {
            let announced = self.watch.announced.load(Ordering::Acquire);
            {
                let listed = lock(&self.listed);
                if listed.announced == announced {
                    return match listed.tools.get(tool) {
                        Some(digest) if *digest == trusted => Ok(()),
                        Some(_) => Err(Trouble::Permanent(format!(
                            "manifest_changed: the server `{}` no longer describes `{tool}` as it was trusted; the tool is off \
                             until a person has looked at it and trusts it again",
                            plan.name
                        ))),
                        None => Err(Trouble::Permanent(format!(
                            "manifest_changed: the server `{}` no longer has the tool `{tool}`",
                            plan.name
                        ))),
                    };
                }
            }
            self.list(plan).await?;
        }
        let message = format!("the server `{}` changes its tools again and again", plan.name);
        Err(Trouble::Retryable(message))
    }

    /// Reads the list of tools and remembers their digests.
    async fn list(&self, plan: &Plan) -> Result<(), Trouble> {
        // A notice that comes while the list is read makes it old.
        let announced = self.watch.announced.load(Ordering::Acquire);
        let tools = self.in_time(plan.start_timeout, self.tools()).await?;
        let tasks = tools.entries.iter().filter(|tool| needs_task(tool));
        let tasks = tasks.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect();
        let manifest = McpManifest::new(String::new(), tools, Listing::default());
        let digests = manifest.tools.into_iter().map(|tool| {
            let digest = tool.digest(&plan.identity);
            (tool.name, digest)
        });
        *lock(&self.listed) = ToolList { announced, tools: digests.collect(), tasks };
        Ok(())
    }

    async fn tools(&self) -> Result<Listing, Trouble> {
        let request = |page| {
            ClientRequest::ListToolsRequest(ListToolsRequest { params: Some(page), ..Default::default() })
        };
        let listed = self.pages("tools", request).await;
        let has_tools = self.peer.peer_info().is_some_and(|info| info.capabilities.tools.is_some());
        match listed {
            // It does not say that it has any.
            Err(_) if !has_tools && !self.is_closed() => Ok(Listing::default()),
            listed => listed,
        }
    }

    async fn resources(&self) -> Result<Listing, Trouble> {
        let request = |page| {
            ClientRequest::ListResourcesRequest(ListResourcesRequest {
                params: Some(page),
                ..Default::default()
            })
        };
        self.pages("resources", request).await
    }

    /// All entries of a list that comes in pages. It ends where a page has no next one, or repeats what was read.
    async fn pages(
        &self,
        what: &str,
        request: fn(PaginatedRequestParams) -> ClientRequest,
    ) -> Result<Listing, Trouble> {
        let (mut all, mut bytes, mut cursor) = (Listing::default(), 0, None::<String>);
        let (mut known, mut cursors) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..PAGES_MAX {
            let mut params = PaginatedRequestParams::default();
            params.cursor.clone_from(&cursor);
            let mut page = match self.peer.send_request(request(params)).await {
                Ok(page) => unboxed(page),
                // Some always write the member.
                Err(ServiceError::McpError(_)) if cursor.as_deref() == Some("") => return Ok(all),
                Err(ServiceError::McpError(error)) if cursor.is_some() => {
                    let says = &error.message;
                    all.notes.push(format!(
                        "the list of {what} ends with an error ({says}): it is read up to there"
                    ));
                    return Ok(all);
                }
                Err(error) => return Err(self.trouble(error).await),
            };
            let mut take = |member: &str| page.as_object_mut().and_then(|page| page.remove(member));
            let (listed, next) = (take(what), take("nextCursor"));
            // Some hand back the list as it is.
            let listed = listed.or_else(|| page.is_array().then(|| page.take()));
            let entries = match listed {
                Some(Value::Array(entries)) => entries,
                Some(Value::Null) => Vec::new(),
                Some(_) | None => {
                    let message = format!("the server's list is not one of the protocol: it has no `{what}`");
                    return Err(Trouble::Permanent(message));
                }
            };
            let (is_empty, before) = (entries.is_empty(), all.entries.len());
            for entry in entries {
                let written = entry.to_string();
                bytes += written.len();
                if all.entries.len() == ENTRIES_MAX || bytes > LIST_BYTES_MAX {
                    all.notes.push(format!("the list of {what} is too long: what comes later is not read"));
                    return Ok(all);
                }
                if known.insert(digest("mcp-entry", &entry)) {
                    all.entries.push(entry);
                }
            }
            let next = match next {
                None | Some(Value::Null) => return Ok(all),
                Some(Value::String(next)) => next,
                Some(_) => {
                    all.notes.push(format!("the list of {what} goes on at a cursor that is not a text: what comes later is not read"));
                    return Ok(all);
                }
            };
            let is_known = !cursors.insert(next.clone());
            if cursor.is_some() && all.entries.len() == before && (!is_empty || is_known) {
                all.notes.push(format!("the list of {what} repeats itself: it is read up to there"));
                return Ok(all);
            }
            cursor = Some(next);
        }
        all.notes.push(format!(
            "the list of {what} has more than {PAGES_MAX} pages: what comes later is not read"
        ));
        Ok(all)
    }

    /// Takes notices of changes from a server that sends them only to who subscribes.
    fn listen(self: &Arc<Self>) {
        let Some(info) = self.peer.peer_info() else { return };
        let tells = info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true));
        if info.protocol_version.has_initialize() || !tells {
            return;
        }
        let (peer, watch) = (self.peer.clone(), Arc::clone(&self.watch));
        tokio::spawn(async move {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut subscription) = peer.listen(filter).await else { return };
            while let Ok(Some(_)) = subscription.next().await {
                watch.announced.fetch_add(1, Ordering::AcqRel);
            }
        });
    }

    async fn in_time<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let late =
            || Trouble::Retryable(format!("the server did not answer within {} s", limit.as_secs_f32()));
        timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends a request, and waits while the server shows that it goes on.
    async fn send(
        &self,
        request: ClientRequest,
        options: PeerRequestOptions,
        idle: Duration,
    ) -> Result<Value, Trouble> {
        let silent = || {
            let message = format!(
                "the server showed no sign of life for {} s, which is the limit `idle_ms` of [servers]",
                idle.as_secs_f32()
            );
            Trouble::InDoubt(message)
        };
        let sent = self.peer.send_request_with_option(request, options);
        let mut handle = match timeout(idle, sent).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => return Err(self.trouble(error).await),
            Err(_) => return Err(silent()),
        };
        let sign = Arc::new(Notify::new());
        lock(&self.progress).insert(handle.progress_token.clone(), Arc::clone(&sign));
        let mut waiting = PendingCall {
            live: self,
            id: handle.id.clone(),
            token: handle.progress_token.clone(),
            is_over: false,
        };
        let mut deadline = Instant::now() + idle;
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => break answer,
                () = sign.notified() => deadline = Instant::now() + idle,
                () = sleep_until(deadline) => return Err(silent()),
            }
        };
        waiting.is_over = true;
        drop(waiting);
        match answer {
            Ok(Ok(result)) => Ok(unboxed(result)),
            Ok(Err(error)) => Err(self.trouble(error).await),
            Err(_) => Err(self.trouble(ServiceError::TransportClosed).await),
        }
    }

    /// What an error of the library means.
    async fn trouble(&self, error: ServiceError) -> Trouble {
        let mask = self.masks.mask();
        match error {
            ServiceError::McpError(error) => of_server(&error, &mask),
            ServiceError::TransportSend(error) => {
                let trouble = of_transport(&error);
                if matches!(http_error(&error), Some(StreamableHttpError::SessionExpired)) {
                    self.is_forgotten.store(true, Ordering::Release);
                    self.close().await;
                }
                trouble
            }
            ServiceError::UnexpectedResponse => Trouble::InDoubt(NO_RESULT.to_owned()),
            ServiceError::TransportClosed => Trouble::InDoubt(self.epitaph().await),
            other => Trouble::InDoubt(mask.mask_message(&short(&other.to_string()))),
        }
    }

    /// Why the connection is closed.
    async fn epitaph(&self) -> String {
        if let Some(reason) = self.watch.reason() {
            self.close().await;
            return format!("the connection was closed: {reason}");
        }
        let running = lock(&self.running).take();
        match running {
            Some(mut running) => running.end().await,
            None => "the server closed the connection".to_owned(),
        }
    }
}

/// A call that has no answer yet. When it is dropped, the call is cancelled at the server.
struct PendingCall<'a> {
    live: &'a Live,
    id: RequestId,
    token: ProgressToken,
    is_over: bool,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        lock(&self.live.progress).remove(&self.token);
        if self.is_over {
            return;
        }
        let peer = self.live.peer.clone();
        let cancelled = CancelledNotificationParam::new(
            Some(self.id.clone()),
            Some("the caller cancelled it".to_owned()),
        );
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { timeout(NOTICE, peer.notify_cancelled(cancelled)).await });
        }
    }
}

/// A task of a server that is not over. When it is dropped, it is cancelled at the server.
struct RunningTask<'a> {
    live: &'a Live,
    id: String,
    is_over: bool,
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        let (peer, id) = (self.live.peer.clone(), self.id.clone());
        if let (false, Ok(runtime)) = (self.is_over, tokio::runtime::Handle::try_current()) {
            let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(id)));
            runtime.spawn(async move { timeout(NOTICE, peer.send_request(request)).await });
        }
    }
}

/// A task as a server describes it, in both revisions of the protocol.
struct Task {
    id: String,
    status: TaskStatus,
    poll: Duration,
    /// What the newer revision adds to a task that is over.
    result: Option<Value>,
    error: Option<ErrorData>,
}

impl Task {
    /// The task that a result describes. `None`: it describes none.
    fn read(result: &Value) -> Option<Self> {
        let task = result.get("task").unwrap_or(result);
        let id = task.get("taskId")?.as_str()?.to_owned();
        let status = task.get("status").and_then(|status| TaskStatus::deserialize(status).ok());
        let poll = ["pollIntervalMs", "pollInterval"].iter().find_map(|name| task.get(*name)?.as_u64());
        let poll = poll.map_or(POLL, Duration::from_millis).clamp(POLLS.0, POLLS.1);
        let error = task.get("error").map(|error| {
            let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
            let said =
                error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
            ErrorData::new(
                code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode),
                said,
                error.get("data").cloned(),
            )
        });
        // A state of a later revision is not the last one.
        let status = status.unwrap_or(TaskStatus::Working);
        Some(Self { id, status, poll, result: task.get("result").cloned(), error })
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// What is said of a call in whose middle the server asks a person.
const WANTS_INPUT: &str =
    "the server wants a person's answer in the middle of the call, which a run cannot give";

impl Masks {
    fn mask(&self) -> Secrets {
        match self {
            Self::Fixed(mask) => mask.clone(),
            Self::OfSession(session) => session.mask(),
        }
    }
}

/// Why a handshake failed.
enum Unconnected {
    /// The server refused it, in a message of the protocol.
    Refused(String),
    Failed(NoConnection),
    /// The library's reason, before it is known what the program said.
    Library(Box<ClientInitializeError>),
    Late(Duration),
}

impl Unconnected {
    fn failed(message: String, passes: bool) -> Self {
        Self::Failed(NoConnection { message, passes })
    }

    fn into_failure(self) -> NoConnection {
        match self {
            Self::Failed(failure) => failure,
            Self::Refused(message) => NoConnection { message, passes: false },
            // Both were given words where they arose.
            Self::Library(error) => NoConnection { message: short(&error.to_string()), passes: true },
            Self::Late(limit) => NoConnection { message: late(limit), passes: true },
        }
    }

    /// The same in words: with why we closed the connection, and how the program ended.
    fn with(self, reason: Option<&str>, last_words: Option<String>, mask: &Secrets) -> Self {
        let passes = true;
        if let Some(reason) = reason {
            return Self::failed(format!("the connection was closed: {reason}"), passes);
        }
        match self {
            Self::Late(limit) => Self::failed(
                last_words.map_or_else(|| late(limit), |words| format!("{}; {words}", late(limit))),
                passes,
            ),
            Self::Library(error) => match *error {
                ClientInitializeError::JsonRpcError(error) => Self::Refused(format!(
                    "the server refuses: {}",
                    mask.mask_message(&short(&error.message))
                )),
                ClientInitializeError::TransportError { error, .. } => match of_transport(&error) {
                    Trouble::Permanent(message) | Trouble::Input(message) => Self::failed(message, false),
                    trouble => Self::failed(last_words.unwrap_or_else(|| trouble.message()), passes),
                },
                ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
                    let versions: Vec<String> = server_supported.iter().map(ToString::to_string).collect();
                    let versions = mask.mask_message(&short(&versions.join(", ")));
                    Self::failed(
                        format!("the server speaks only other versions of the protocol: {versions}"),
                        false,
                    )
                }
                ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                    Self::Library(fallback).with(reason, last_words, mask)
                }
                ClientInitializeError::ConnectionClosed(_) => Self::failed(
                    last_words.unwrap_or_else(|| "the server closed the connection".to_owned()),
                    passes,
                ),
                _ => Self::failed("the server does not speak the Model Context Protocol".to_owned(), passes),
            },
            other => other,
        }
    }
}

async fn serve<T: Transport<RoleClient> + 'static>(
    plan: &Plan,
    handler: Handler,
    transport: T,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, Handler>, Unconnected> {
    let served = serve_client_with_lifecycle(handler, transport, lifecycle);
    match timeout(plan.start_timeout, served).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(Unconnected::Library(Box::new(error))),
        Err(_) => Err(Unconnected::Late(plan.start_timeout)),
    }
}

fn late(limit: Duration) -> String {
    format!("the server did not start within {} s", limit.as_secs_f32())
}

/// What a failure that the server reports in a message of the protocol means.
fn of_server(error: &ErrorData, mask: &Secrets) -> Trouble {
    // The reason may be beside the message.
    let data = error.data.as_ref().filter(|data| !data.is_null()).map(|data| format!(" ({data})"));
    let says = mask.mask_message(&short(&format!("{}{}", error.message, data.unwrap_or_default())));
    let says = format!("the server reports an error: {says}");
    match error.code {
        ErrorCode::INVALID_PARAMS => Trouble::Input(says),
        ErrorCode::METHOD_NOT_FOUND | ErrorCode::RESOURCE_NOT_FOUND | ErrorCode::INVALID_REQUEST => {
            Trouble::Permanent(says)
        }
        _ => Trouble::InDoubt(says),
    }
}

/// What a failure on the way means.
fn of_transport(error: &DynamicTransportError) -> Trouble {
    match http_error(error) {
        Some(StreamableHttpError::SessionExpired) => {
            Trouble::Retryable("the server has forgotten the session".to_owned())
        }
        Some(StreamableHttpError::Client(EndpointError(why))) => why.clone(),
        _ => Trouble::InDoubt("the connection broke".to_owned()),
    }
}

fn http_error(error: &DynamicTransportError) -> Option<&StreamableHttpError<EndpointError>> {
    error.error.downcast_ref()
}

/// What a server says, on one line and short.
fn short(text: &str) -> String {
    short_line(text, MESSAGE_CHARS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Replies with the price of the moment at which their call began.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures::StreamExt;

use loop_core::secrets::Secrets;
use loop_llm::prices::ModelPrices;
use loop_llm::scripted::RequestPurpose;
use loop_llm::{ChatModel, EventStream, LlmError, ModelEvent, ModelReply, ModelRequest};

/// A model whose replies carry their cost, by the price at the moment when the call began and the class of service that
/// served it.
///
/// Use it for models whose price depends on the hour, the day or the class of service. For other models the price in
/// the run's spec gives the same cost. A cost that the provider reports is kept. If the reply names a class of service
/// without a known price, no cost is set and the reply has a warning. Put a wrapper that retries around it, so that
/// each try has its own moment.
pub struct Priced<M: ?Sized> {
    prices: Arc<ModelPrices>,
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    inner: Arc<M>,
}

impl<M: ChatModel + ?Sized> Priced<M> {
    /// The same model at these prices, by the clock of the system.
    pub fn new(inner: Arc<M>, prices: Arc<ModelPrices>) -> Self {
        Self { prices, clock: Arc::new(unix_seconds), inner }
    }

    /// The same with another clock, which gives seconds since 1970.
    pub fn with_clock(self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }
}

impl<M: ?Sized> fmt::Debug for Priced<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Priced").field("prices", &self.prices.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for Priced<M> {
    fn secrets(&self) -> Secrets {
        self.inner.secrets()
    }

    fn masks(&self) -> bool {
        self.inner.masks()
    }

    fn resumes(&self, run: &str, answered: &[RequestPurpose]) {
        self.inner.resumes(run, answered);
    }

    async fn stream(&self, request: &ModelRequest) -> Result<EventStream, LlmError> {
        let at = (self.clock)();
        let events = self.inner.stream(request).await?;
        let prices = Arc::clone(&self.prices);
        let priced = events.map(move |event| match event {
            Ok(ModelEvent::Finished(mut reply)) => {
                price(&mut reply, &prices, at);
                Ok(ModelEvent::Finished(reply))
            }
            other => other,
        });
        Ok(priced.boxed())
    }
}

fn price(reply: &mut ModelReply, prices: &ModelPrices, at: u64) {
    let (None, Some(usage)) = (reply.cost, reply.usage) else { return };
    let price = match &reply.served_tier {
        Some(tier) => prices.in_tier(tier, at),
        None => prices.at(at),
    };
    reply.cost = price.map(|price| price.of(&usage));
    if let (None, Some(tier)) = (price, &reply.served_tier) {
        let warning = format!("tier_price_unknown: no price is known of the class of service `{tier}`");
        reply.warnings.push(warning.into());
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

//! Quotes: whether a model call is granted, on which tier, with how many output tokens and which reserve.

use crate::gate::{Condition, Measure, Remedy, StopReason, TierCause};
use crate::run::Run;
use crate::run::budget::{Budget, Reserve};
use crate::run::event::{EventKind, Refusal};
use crate::run::phase::{Call, StartedCall};
use crate::run::route::Route;
use crate::spec::{CostMode, FINAL_PASS_OUTPUT_TOKENS, RunSpec, Setting, held_back, least_limit};
use crate::types::{CommandKey, Digest, Lease, PicoUsd, Price, Rates, Slot, Tier};

/// A call that could have fewer output tokens than this is refused.
const LEAST_OUTPUT_TOKENS: u64 = 256;
/// The maximum number of tokens with which providers frame the turns of a call. They are not bytes of the prompt.
pub(super) const FRAME_TOKENS: u64 = 256;

/// The size of a rendered prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PromptSize {
    /// The whole prompt, in bytes.
    pub bytes: u64,
    /// Bytes at its beginning that it shares with the main call before it on the same tier; 0 if none. For a selection:
    /// bytes of the main call after it, for which the quote leaves enough budget; 0 if they are not known.
    pub shared_bytes: u64,
}

/// The grant for a model call: tier, output tokens and reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quote {
    /// The granted tier. It differs from the due one where budget or context require it.
    pub tier: Tier,
    /// Maximum output tokens.
    pub max_output_tokens: u64,
    /// What the call reserves until it settles.
    pub reserve: Reserve,
}

impl EventKind {
    /// The event that announces a model call: it was granted ([`Run::quote`]), or refused. A driver applies it before it
    /// sends the call. `prompt_hash` is the digest of the rendered prompt; a refusal has none, because nothing is sent.
    pub fn announced(
        key: CommandKey,
        attempt: u32,
        prompt: PromptSize,
        prompt_hash: Digest,
        quoted: Result<Quote, Refusal>,
    ) -> Self {
        let PromptSize { bytes: prompt_bytes, shared_bytes } = prompt;
        match quoted {
            Ok(Quote { tier, max_output_tokens, reserve }) => Self::CallStarted {
                key,
                attempt,
                tier,
                prompt_bytes,
                shared_bytes,
                prompt_hash,
                max_output_tokens,
                reserve,
            },
            Err(refusal) => Self::CallRefused { key, attempt, prompt_bytes, shared_bytes, refusal },
        }
    }
}

/// A cost or token limit, and what a call takes from it: in pico-dollars or in tokens.
#[derive(Clone, Copy, Debug)]
struct Headroom {
    limit: u64,
    /// Used by settled calls, or reserved by calls in flight.
    taken: u64,
    /// The amount for the call's input.
    input: u64,
    /// The amount that is reserved for one granted output token.
    output_token: u64,
    /// The reserve of the final pass. 0: the call is the final pass.
    final_pass: u64,
    /// Whether it is the rest of a shared budget. That rest is covered before each call and holds the whole reserve of the
    /// final pass.
    is_shared: bool,
}

impl Headroom {
    /// The output tokens that the rest of the limit covers. `None`: fewer than `least`.
    fn output_tokens(&self, mode: CostMode, least: u64) -> Option<u64> {
        let all = self.limit.saturating_sub(self.taken);
        let for_output = match mode {
            _ if self.is_shared => all.checked_sub(self.final_pass)?.checked_sub(self.input)?,
            CostMode::Estimated | CostMode::Strict => {
                all.saturating_sub(held_back(self.limit, self.final_pass)).checked_sub(self.input)?
            }
            CostMode::After if all == 0 => return None,
            CostMode::After => all.max(least.saturating_mul(self.output_token)),
        };
        let tokens = for_output.checked_div(self.output_token).unwrap_or(u64::MAX);
        (tokens >= least).then_some(tokens)
    }

    /// The same, of a selection that leaves enough for this main call.
    fn leaving(self, main: Option<Self>) -> Self {
        let Some(main) = main else { return self };
        let input = self.input.saturating_add(main.needs(LEAST_OUTPUT_TOKENS));
        Self { input, final_pass: main.final_pass, ..self }
    }

    /// The cost of a call with `least` output tokens.
    fn needs(&self, least: u64) -> u64 {
        self.input.saturating_add(least.saturating_mul(self.output_token))
    }

    /// The smallest limit that would cover `least` output tokens.
    fn least_limit(&self, mode: CostMode, least: u64) -> u64 {
        match mode {
            _ if self.is_shared => {
                self.taken.saturating_add(self.needs(least)).saturating_add(self.final_pass)
            }
            CostMode::After => self.taken.saturating_add(1),
            CostMode::Estimated | CostMode::Strict => {
                least_limit(self.taken.saturating_add(self.needs(least)), self.final_pass)
            }
        }
    }
}

/// How much of a prompt and its reply fits into a model's context and the token limit.
#[derive(Clone, Copy, Debug)]
struct ContextFit {
    input_tokens: u64,
    /// The maximum output tokens.
    output_tokens: u64,
    /// The minimum output tokens with which the call is made.
    least: u64,
}

/// The input of a quote: the spec, the used budget, the route, and the grant of the call in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoting<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) budget: &'a Budget,
    pub(super) route: &'a Route,
    pub(super) in_flight: Option<StartedCall>,
}

impl Run {
    /// Whether the commanded call `key` is granted with a prompt of this size. It does not change the run.
    ///
    /// [`CostMode`] says how the input is estimated. Output tokens are cut to what the model, the context and the
    /// limits allow. A part of the cost and token limits is reserved for the final pass: what the same input would cost
    /// again with 1,500 output tokens, but at most a quarter of the limit. Where the cost budget does not cover 256
    /// output tokens, cheaper tiers are tried if [`cheaper_tier`](crate::spec::GateSettings::cheaper_tier) is on.
    ///
    /// # Errors
    /// Why the call is refused. Selector and repair calls leave one model call for the document.
    pub fn quote(&self, key: &CommandKey, prompt: PromptSize) -> Result<Quote, Refusal> {
        match self.state.phase.call() {
            Some(call)
                if call.key == *key
                    && self.state.phase.is_working()
                    && call.is_due(self.state.clock.now)
                    && self.state.inbox.stop_requested.is_none() =>
            {
                self.quoting().quote_call(call, prompt)
            }
            Some(_) | None => Err(Refusal::NotCommanded),
        }
    }

    /// Why the first pass of a run that has just begun cannot be paid: the limits of cost and tokens that do not cover it,
    /// each with the smallest value that does. The pass is the selection, where there is one, and the main call, both with
    /// the fewest output tokens, besides what is reserved for the final pass. Empty: it can be paid, a pass was made
    /// already, or the limits are checked after the spend.
    pub fn first_pass_unpaid(&self, select: Option<PromptSize>, main: PromptSize) -> Vec<Remedy> {
        let is_over = self.outcome().is_some() || self.totals().passes > 0;
        if is_over || self.spec.limits.cost_mode == CostMode::After {
            return Vec::new();
        }
        let quoting = self.quoting();
        let cost = quoting.least_of_first_pass(select, main, |tier, slot, input| {
            quoting.money(tier, slot, input).ok().flatten()
        });
        let tokens = quoting.least_of_first_pass(select, main, |_, slot, input| quoting.tokens(slot, input));
        let cost = cost.map(|to| Remedy { setting: Setting::Cost, to: Measure::PicoUsd(PicoUsd(to)) });
        let tokens = tokens.map(|to| Remedy { setting: Setting::Tokens, to: Measure::Count(to) });
        cost.into_iter().chain(tokens).collect()
    }

    /// What a final pass may cost after the commanded call `key` with this quote. A driver that asks a shared budget for
    /// the call holds this amount as well, so that the run can still finish its document. 0: no final pass follows, or its
    /// price is not known.
    pub fn final_pass_reserve(&self, key: &CommandKey, quote: &Quote) -> PicoUsd {
        self.quoting().final_pass_reserve(key.slot, quote)
    }

    /// What the sub-call under this key reserves until it settles: that of a smart tool, or of a check.
    pub fn sub_call_reserve(&self, key: &CommandKey) -> Reserve {
        let quoting = self.quoting();
        quoting.sub_call_reserve(quoting.sub_call_tier(key.slot))
    }

    /// The tier whose model the sub-call under this key asks.
    pub fn sub_call_tier(&self, key: &CommandKey) -> Tier {
        self.quoting().sub_call_tier(key.slot)
    }

    /// The total cost that the run may reach under the budget that it shares with other runs, in pico-dollars. `None`:
    /// that budget has refused no call since the run was last resumed.
    pub fn shared_limit(&self) -> Option<PicoUsd> {
        self.state.budget.shared
    }

    /// What the calls in flight reserve until they settle.
    pub fn reserved(&self) -> Reserve {
        self.quoting().reserved()
    }

    fn quoting(&self) -> Quoting<'_> {
        let in_flight = self.state.phase.call().and_then(|call| call.started);
        Quoting { spec: &self.spec, budget: &self.state.budget, route: &self.state.route, in_flight }
    }
}

impl Quoting<'_> {
    /// The quote of a call, on its own tier or on another.
    pub(super) fn quote_call(&self, call: &Call, prompt: PromptSize) -> Result<Quote, Refusal> {
        let wanted = match call.key.slot {
            Slot::Select | Slot::Repair => 2,
            Slot::Main | Slot::Final | Slot::Action(_) | Slot::Check | Slot::Save | Slot::Inherited(_) => 1,
        };
        let taken = self.budget.totals.model_calls.saturating_add(self.budget.leased.model_calls);
        if taken.saturating_add(wanted) > self.spec.limits.model_calls {
            return Err(Refusal::ModelCalls);
        }
        let quote = self.quote_on(call.tier, call.key.slot, prompt);
        let instead: &[Tier] = match quote {
            Err(Refusal::Cost | Refusal::UnknownPrice | Refusal::SharedBudget { .. }) => {
                self.cheaper_than(call.tier)
            }
            // The base model may have the larger context.
            Err(Refusal::Context) if call.tier == Tier::Escalated => &[Tier::Base],
            Ok(_) | Err(_) => &[],
        };
        let other = instead.iter().filter(|tier| self.is_another(**tier, call.tier));
        other.filter_map(|tier| self.quote_on(*tier, call.key.slot, prompt).ok()).next().map_or(quote, Ok)
    }

    /// The tiers that are tried when the cost budget does not cover this one.
    fn cheaper_than(&self, tier: Tier) -> &'static [Tier] {
        match tier {
            Tier::Escalated if self.spec.gate.cheaper_tier => &[Tier::Base, Tier::Selector],
            // The base model needs no setting.
            Tier::Escalated => &[Tier::Base],
            Tier::Base if self.spec.gate.cheaper_tier => &[Tier::Selector],
            Tier::Base => &[],
            // The fallback route is taken because the base model is unavailable.
            Tier::Selector | Tier::Fallback => &[],
        }
    }

    /// Why a call is granted on another tier than the commanded one.
    pub(super) fn why_elsewhere(&self, call: &Call, prompt: PromptSize) -> TierCause {
        match self.quote_on(call.tier, call.key.slot, prompt) {
            Err(Refusal::Context) => TierCause::Context,
            Ok(_) | Err(_) => TierCause::Cost,
        }
    }

    /// Whether a tier has another model than the commanded one.
    fn is_another(&self, tier: Tier, commanded: Tier) -> bool {
        self.spec.model(tier) != self.spec.model(commanded)
    }

    fn quote_on(&self, tier: Tier, slot: Slot, prompt: PromptSize) -> Result<Quote, Refusal> {
        let model = self.spec.model(tier);
        let fits = self.fits(tier, prompt)?;
        let mut max_output_tokens = fits.output_tokens;
        let mode = self.spec.limits.cost_mode;
        let after = PromptSize { bytes: prompt.shared_bytes, shared_bytes: 0 };
        let main =
            (slot == Slot::Select && after.bytes > 0).then(|| self.input_bound(self.route.tier, after));
        if let Some(headroom) = self.tokens(slot, fits.input_tokens) {
            let headroom = headroom.leaving(main.and_then(|input| self.tokens(Slot::Main, input)));
            let paid = headroom.output_tokens(mode, fits.least).ok_or(Refusal::Tokens)?;
            max_output_tokens = max_output_tokens.min(paid);
        }
        if let Some(headroom) = self.money(tier, slot, fits.input_tokens)? {
            let main = main.and_then(|input| self.money(self.route.tier, Slot::Main, input).ok().flatten());
            let headroom = headroom.leaving(main);
            let paid = headroom.output_tokens(mode, fits.least).ok_or(Refusal::Cost)?;
            max_output_tokens = max_output_tokens.min(paid);
        }
        if let Some(headroom) = self.shared(tier, slot, fits.input_tokens)? {
            let left = PicoUsd(headroom.limit.saturating_sub(headroom.taken));
            let paid = headroom.output_tokens(mode, fits.least).ok_or(Refusal::SharedBudget { left })?;
            max_output_tokens = max_output_tokens.min(paid);
        }
        let input_tokens = fits.input_tokens;
        let output_tokens = mode.reserved_output(max_output_tokens);
        let cost = model.price.as_ref().map(|price| self.price(price, input_tokens, output_tokens));
        let reserve = Reserve { input_tokens, output_tokens, cost };
        Ok(Quote { tier, max_output_tokens, reserve })
    }

    /// How much of a prompt and its reply fits into a tier's model and the token limit, regardless of cost.
    fn fits(&self, tier: Tier, prompt: PromptSize) -> Result<ContextFit, Refusal> {
        let model = self.spec.model(tier);
        let input_tokens = self.input_bound(tier, prompt);
        let wanted = self.spec.limits.output_tokens.min(model.max_output_tokens);
        let quota = model.context_tokens.saturating_sub(input_tokens);
        if quota < LEAST_OUTPUT_TOKENS {
            return Err(Refusal::Context);
        }
        let output_tokens = quota.min(wanted);
        // 256, or all that the limit or the model can grant if that is less.
        let least = LEAST_OUTPUT_TOKENS.min(wanted.max(1));
        if output_tokens < least {
            return Err(Refusal::Tokens);
        }
        Ok(ContextFit { input_tokens, output_tokens, least })
    }

    /// What the calls in flight reserve until they settle: the model call, the granted sub-calls and the leases.
    pub(super) fn reserved(&self) -> Reserve {
        let call = self.in_flight.map_or(NOTHING, |started| started.reserve);
        let with = |all: Reserve, slot: Slot, count: u32| {
            if count == 0 {
                return all;
            }
            let (one, count) = (self.sub_call_reserve(self.sub_call_tier(slot)), u64::from(count));
            Reserve {
                input_tokens: all.input_tokens.saturating_add(one.input_tokens.saturating_mul(count)),
                output_tokens: all.output_tokens.saturating_add(one.output_tokens.saturating_mul(count)),
                cost: all.cost.zip(one.cost).map(|(all, one)| all.plus(PicoUsd(one.0.saturating_mul(count)))),
            }
        };
        let tools = with(call, Slot::Action(0), self.budget.granted_sub_calls);
        let all = with(tools, Slot::Check, u32::from(self.budget.granted_check));
        let Lease { cost, tokens, .. } = self.budget.leased;
        Reserve {
            input_tokens: all.input_tokens.saturating_add(tokens.unwrap_or_default()),
            cost: all.cost.map(|all| all.plus(cost.unwrap_or_default())),
            ..all
        }
    }

    /// The tier of a sub-call: that of the second opinion for a check, else the auxiliary one.
    pub(super) fn sub_call_tier(&self, of: Slot) -> Tier {
        let opinion = self.spec.gate.second_opinion.filter(|_| of == Slot::Check);
        opinion.map_or_else(|| self.route.auxiliary_tier(self.spec), |it| it.tier)
    }

    /// The reserve of a sub-call on this tier.
    pub(super) fn sub_call_reserve(&self, tier: Tier) -> Reserve {
        let limits = &self.spec.limits;
        let input_tokens = match limits.cost_mode {
            CostMode::Strict => limits.sub_call_bytes.saturating_add(FRAME_TOKENS),
            CostMode::Estimated | CostMode::After => limits.sub_call_bytes.div_ceil(2),
        };
        let output_tokens = limits.cost_mode.reserved_output(limits.sub_call_tokens);
        let price = self.spec.model(tier).price.as_ref();
        let cost = price.map(|price| self.price(price, input_tokens, output_tokens));
        Reserve { input_tokens, output_tokens, cost }
    }

    /// Whether the cost and token budgets cover another sub-call.
    pub(super) fn pays_for_sub_call(&self, slot: Slot) -> bool {
        let tier = self.sub_call_tier(slot);
        let reserve = self.sub_call_reserve(tier);
        let pays = |headroom: Option<Headroom>| {
            headroom.is_none_or(|headroom| {
                let limits = &self.spec.limits;
                headroom.output_tokens(limits.cost_mode, limits.sub_call_tokens).is_some()
            })
        };
        pays(self.tokens(slot, reserve.input_tokens))
            && self.money(tier, slot, reserve.input_tokens).is_ok_and(pays)
            && self.shared(tier, slot, reserve.input_tokens).is_ok_and(pays)
    }

    /// The limit that refused a call, with the value that the cheapest way to make it needs.
    pub(super) fn refused_by(&self, refusal: Refusal, call: &Call, prompt: PromptSize) -> Option<Condition> {
        let slot = call.key.slot;
        let mode = self.spec.limits.cost_mode;
        if refusal == Refusal::Tokens && self.spec.limits.output_tokens == 0 {
            let setting = Setting::OutputTokens;
            return Some(Condition::at_limit(StopReason::TokenLimit, 0_u32, 0_u32, setting, 1_u32));
        }
        let reason = match refusal {
            Refusal::Cost => StopReason::BudgetExceeded,
            Refusal::Tokens => StopReason::TokenLimit,
            Refusal::SharedBudget { .. } => StopReason::SharedBudgetExceeded,
            Refusal::ModelCalls | Refusal::Context | Refusal::UnknownPrice | Refusal::NotCommanded => {
                return None;
            }
        };
        // A tier that refuses for another reason does not count: a higher limit of this kind would not open it.
        let refuses_alike = |tier: Tier| {
            let quote = self.quote_on(tier, slot, prompt);
            quote.is_err_and(|other| std::mem::discriminant(&other) == std::mem::discriminant(&refusal))
        };
        let is_money = matches!(refusal, Refusal::Cost | Refusal::SharedBudget { .. });
        let cheaper = if is_money { self.cheaper_than(call.tier) } else { &[] };
        let cheaper = cheaper.iter().filter(|tier| self.is_another(**tier, call.tier));
        let tiers = std::iter::once(&call.tier).chain(cheaper).filter(|tier| refuses_alike(**tier));
        let headrooms = tiers.filter_map(|tier| {
            let fits = self.fits(*tier, prompt).ok()?;
            let headroom = match refusal {
                Refusal::Cost => self.money(*tier, slot, fits.input_tokens).ok().flatten(),
                Refusal::SharedBudget { .. } => self.shared(*tier, slot, fits.input_tokens).ok().flatten(),
                _ => self.tokens(slot, fits.input_tokens),
            };
            headroom.map(|headroom| (headroom, fits.least))
        });
        let (headroom, least) =
            headrooms.min_by_key(|(headroom, least)| headroom.least_limit(mode, *least))?;
        let held = held_back(headroom.limit, headroom.final_pass);
        let (spent, needs, to) = (headroom.taken, headroom.needs(least), headroom.least_limit(mode, least));
        if headroom.is_shared {
            let (spent, needs) = (PicoUsd(spent), PicoUsd(needs));
            let value = Measure::NextCost { spent, needs, held: PicoUsd(headroom.final_pass) };
            return Some(Condition::new(reason, value).threshold(Measure::PicoUsd(PicoUsd(headroom.limit))));
        }
        let is_cost = refusal == Refusal::Cost;
        let measure = |n| if is_cost { Measure::PicoUsd(PicoUsd(n)) } else { Measure::Count(n) };
        let value = match mode {
            // Nothing is left, whatever the call needs.
            CostMode::After => measure(spent),
            _ if is_cost => {
                Measure::NextCost { spent: PicoUsd(spent), needs: PicoUsd(needs), held: PicoUsd(held) }
            }
            _ => Measure::NextTokens { used: spent, needs, held },
        };
        let setting = if is_cost { Setting::Cost } else { Setting::Tokens };
        Some(Condition::at_limit(reason, value, measure(headroom.limit), setting, measure(to)))
    }

    /// The smallest value of a limit that covers the first pass, whose calls have this headroom in it. `None`: the limit
    /// covers it, or something else refuses its main call.
    fn least_of_first_pass(
        &self,
        select: Option<PromptSize>,
        main: PromptSize,
        headroom: impl Fn(Tier, Slot, u64) -> Option<Headroom>,
    ) -> Option<u64> {
        let limits = &self.spec.limits;
        let call = |tier, slot, prompt| {
            let fits = self.fits(tier, prompt).ok()?;
            headroom(tier, slot, fits.input_tokens).map(|it| (it, it.needs(fits.least)))
        };
        let selecting =
            select.and_then(|prompt| call(self.route.auxiliary_tier(self.spec), Slot::Main, prompt));
        let selecting = selecting.map_or(0, |(_, needs)| needs);
        let is_last = limits.passes <= 1 || limits.model_calls <= 1 + u32::from(select.is_some());
        let slot = if is_last { Slot::Final } else { Slot::Main };
        let due = self.route.tier;
        let tiers = std::iter::once(&due).chain(self.cheaper_than(due));
        let mut refused = None;
        for (headroom, needs) in tiers.filter_map(|tier| call(*tier, slot, main)) {
            let least = least_limit(
                headroom.taken.saturating_add(selecting).saturating_add(needs),
                headroom.final_pass,
            );
            if least <= headroom.limit {
                return None;
            }
            refused = Some(refused.map_or(least, |other: u64| other.min(least)));
        }
        refused
    }

    fn tokens(&self, slot: Slot, input: u64) -> Option<Headroom> {
        let limit = self.spec.limits.tokens?;
        let reserved = self.reserved();
        let taken = self
            .budget
            .totals
            .usage
            .total()
            .saturating_add(reserved.input_tokens)
            .saturating_add(reserved.output_tokens);
        let final_pass = match slot {
            Slot::Final => 0,
            _ if !self.spec.finishes() => 0,
            _ => self.final_pass_input(input).saturating_add(self.final_pass_output()),
        };
        let output_token = self.spec.limits.cost_mode.reserved_output(1);
        Some(Headroom { limit, taken, input, output_token, final_pass, is_shared: false })
    }

    fn money(&self, tier: Tier, slot: Slot, input: u64) -> Result<Option<Headroom>, Refusal> {
        let Some(limit) = self.spec.limits.cost else { return Ok(None) };
        self.money_of(limit, tier, slot, input).map(Some)
    }

    /// What the budget that the run shares with other runs leaves it. `None`: it has refused no call.
    fn shared(&self, tier: Tier, slot: Slot, input: u64) -> Result<Option<Headroom>, Refusal> {
        let Some(limit) = self.budget.shared else { return Ok(None) };
        let headroom = self.money_of(limit, tier, slot, input)?;
        Ok(Some(Headroom { is_shared: true, ..headroom }))
    }

    fn money_of(&self, limit: PicoUsd, tier: Tier, slot: Slot, input: u64) -> Result<Headroom, Refusal> {
        let price = self.spec.model(tier).price.as_ref().ok_or(Refusal::UnknownPrice)?;
        let reserved = self.reserved().cost.unwrap_or_default();
        Ok(Headroom {
            limit: limit.0,
            taken: self.budget.totals.cost.known.plus(reserved).0,
            input: self.price(price, input, 0).0,
            output_token: self.spec.limits.cost_mode.reserved_output(self.rates(price, input).output),
            final_pass: self.final_pass_cost(price, slot, input).0,
            is_shared: false,
        })
    }

    /// What the final pass after a call with this quote may cost. 0: none is made, or its price is not known.
    pub(super) fn final_pass_reserve(&self, slot: Slot, quote: &Quote) -> PicoUsd {
        let price = self.spec.model(quote.tier).price.as_ref();
        price.map_or(PicoUsd(0), |price| self.final_pass_cost(price, slot, quote.reserve.input_tokens))
    }

    /// What the final pass after a call with this input may cost. 0: the call is the final pass, or none is made.
    fn final_pass_cost(&self, price: &Price, slot: Slot, input: u64) -> PicoUsd {
        if slot == Slot::Final || !self.spec.finishes() {
            return PicoUsd(0);
        }
        let finishes_on = self.spec.model(self.route.tier).price.as_ref().unwrap_or(price);
        self.price(finishes_on, self.final_pass_input(input), self.final_pass_output())
    }

    /// What the next final pass may use, if its input is that of the last main call. Nothing: none is made.
    pub(super) fn next_final_pass(&self) -> Reserve {
        if !self.spec.finishes() {
            return NOTHING;
        }
        let (input_tokens, output_tokens) = (self.final_pass_input(0), self.final_pass_output());
        let price = self.spec.model(self.route.tier).price.as_ref();
        let cost = price.map(|price| self.price(price, input_tokens, output_tokens));
        Reserve { input_tokens, output_tokens, cost }
    }

    /// The output tokens that are reserved for the final pass.
    fn final_pass_output(&self) -> u64 {
        self.spec.limits.cost_mode.reserved_output(FINAL_PASS_OUTPUT_TOKENS)
    }

    /// The assumed input of a final pass: that of this call, or of the last main call if it was larger.
    fn final_pass_input(&self, input: u64) -> u64 {
        self.route.last_main.map_or(input, |last| last.input_tokens.max(input))
    }

    pub(super) fn price(&self, price: &Price, input: u64, output: u64) -> PicoUsd {
        match self.spec.limits.cost_mode {
            CostMode::Strict => price.ceiling(input, output),
            CostMode::Estimated | CostMode::After => price.fresh(input, output),
        }
    }

    /// The output rates of [`Self::price`].
    fn rates(&self, price: &Price, input: u64) -> Rates {
        match self.spec.limits.cost_mode {
            CostMode::Strict => price.dearest_rates(input),
            CostMode::Estimated | CostMode::After => price.rates(input),
        }
    }

    fn input_bound(&self, tier: Tier, prompt: PromptSize) -> u64 {
        if self.spec.limits.cost_mode == CostMode::Strict {
            return prompt.bytes.saturating_add(FRAME_TOKENS);
        }
        let first = prompt.bytes.div_ceil(2);
        match self.route.last_main {
            Some(last) if prompt.shared_bytes >= last.bytes && last.bytes > 0 => {
                let added = prompt.bytes.saturating_sub(last.bytes);
                if last.tier == tier {
                    last.input_tokens.saturating_add(added)
                } else {
                    // Another model has another tokenizer, but hardly one with fewer than half the tokens.
                    first.max(last.input_tokens.saturating_add(added.div_ceil(2)))
                }
            }
            Some(_) | None => first,
        }
    }
}

const NOTHING: Reserve = Reserve { input_tokens: 0, output_tokens: 0, cost: Some(PicoUsd(0)) };

//! PostgreSQL, with a server that the tests start. All share one, except for those that stop it.

mod changes;
mod checks;
mod cost;
mod cut_off;
mod logins;
mod pooler;
mod reads;
mod values;
mod world;

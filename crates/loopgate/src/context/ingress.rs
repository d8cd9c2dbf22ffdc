//! The ingress of a durable engine.

use loop_restate::{Client, ClientError};

use crate::output::Failure;

/// A client of the ingress at this URL.
pub(crate) fn client(url: &str) -> Result<Client, Failure> {
    Client::new(url).map_err(failed)
}

/// Why the engine does not do it.
pub(crate) fn failed(error: ClientError) -> Failure {
    Failure::new(error.to_string())
}

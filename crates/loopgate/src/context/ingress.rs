//! The client of a durable engine's ingress.

use loop_restate::{Client, ClientError};

use crate::output::Failure;

/// A client of the ingress at this URL.
pub(crate) fn client(url: &str) -> Result<Client, Failure> {
    Client::new(url).map_err(failed)
}

/// The error of the engine as a failure of the command.
pub(crate) fn failed(error: ClientError) -> Failure {
    Failure::new(error.to_string())
}

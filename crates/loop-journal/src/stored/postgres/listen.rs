//! What processes tell each other through the server: which runs have new entries, and that the queue has.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loop_core::types::RunId;
use tokio::sync::broadcast;
use tokio_postgres::AsyncMessage;

use super::server::{Server, connected, spawn};
use crate::stored::changes::JournalChange;
use crate::stored::sql::Purpose;

/// The name under which all journals of a database tell.
const CHANNEL: &str = "loopgate";
/// What tells of the queue. A run has another name.
const QUEUE: &str = "queue of a server";
/// What tells of requests to runs.
const REQUESTS: &str = "requests to runs";
/// How many changes are kept for a reader that is slow.
const KEPT: usize = 1_024;
/// The most bytes of one message; the server takes less than 8,000.
const MAX_BYTES: usize = 7_000;
/// How often it is looked whether the connection is there.
const LOOK: Duration = Duration::from_secs(1);

impl Server {
    /// What is committed from now on. The connection for it is made with the first one who asks.
    pub(in super::super) fn changes(self: &Arc<Self>) -> broadcast::Receiver<JournalChange> {
        let sender = self.changes.get_or_init(|| {
            let sender = broadcast::Sender::new(KEPT);
            spawn(listen(Arc::downgrade(self), sender.clone()));
            sender
        });
        sender.subscribe()
    }
}

/// Listens as long as the journal is open.
async fn listen(server: Weak<Server>, sender: broadcast::Sender<JournalChange>) {
    loop {
        let Some((config, tls)) = server.upgrade().map(|server| server.login()) else { return };
        let receive = {
            let sender = sender.clone();
            move |message: AsyncMessage| {
                if let AsyncMessage::Notification(message) = message {
                    for name in message.payload().lines() {
                        // There may be no reader now.
                        _ = sender.send(match name {
                            QUEUE => JournalChange::Queue,
                            REQUESTS => JournalChange::Requests,
                            run => JournalChange::Run(RunId::new(run)),
                        });
                    }
                }
            }
        };
        if let Ok(client) = connected(config, tls, receive).await
            && client.batch_execute(&format!("LISTEN {CHANNEL}")).await.is_ok()
        {
            // Changes that were made before are not announced.
            _ = sender.send(JournalChange::Any);
            while !client.is_closed() {
                tokio::time::sleep(LOOK).await;
                if server.strong_count() == 0 {
                    return;
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What tells of a commit, in front of it.
pub(super) fn telling(purpose: Purpose<'_>) -> String {
    let (runs, also): (&[&RunId], Option<&str>) = match purpose {
        Purpose::Appends(runs) => (runs, None),
        Purpose::Submits => (&[], Some(QUEUE)),
        Purpose::Requests => (&[], Some(REQUESTS)),
        Purpose::Alone | Purpose::Rows | Purpose::Audits | Purpose::Budgets => (&[], None),
    };
    let (mut sql, mut names) = (String::new(), String::new());
    let mut tell = |names: &mut String| {
        if !names.is_empty() {
            let quoted = names.replace('\'', "''");
            sql.push_str(&format!("SELECT pg_notify('{CHANNEL}', '{quoted}'); "));
            names.clear();
        }
    };
    let runs = runs.iter().map(|run| run.as_str()).chain(also);
    // A name that does not fit is one that no listener waits for by name.
    for name in runs.filter(|name| name.len() < MAX_BYTES && !name.contains(['\n', '\\', '\0'])) {
        if names.len() + name.len() >= MAX_BYTES {
            tell(&mut names);
        }
        if !names.is_empty() {
            names.push('\n');
        }
        names.push_str(name);
    }
    tell(&mut names);
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_runs_and_no_name_ends_its_text() {
        let run = |name: &str| RunId::new(name);
        let (plain, quote, broken) = (run("r1"), run("r'2"), run("r\n3"));
        let sql = telling(Purpose::Appends(&[&plain, &quote, &broken]));
        assert_eq!(sql, "SELECT pg_notify('loopgate', 'r1\nr''2'); ");
        assert_eq!(telling(Purpose::Submits), "SELECT pg_notify('loopgate', 'queue of a server'); ");
        assert_eq!(telling(Purpose::Alone), "");
        let long: Vec<RunId> = (0..900).map(|nth| run(&format!("run-{nth:06}"))).collect();
        let sql = telling(Purpose::Appends(&long.iter().collect::<Vec<_>>()));
        assert_eq!(sql.matches("pg_notify").count(), 2);
    }
}

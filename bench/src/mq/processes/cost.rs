//! What a message costs, beside the time until the next.

use super::usage::Usage;
use crate::mq::MqRow;
use crate::tables::table;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// What a mount's server did.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerCost {
    /// Requests of all kinds.
    pub requests: u64,
    /// How long its threads worked on them.
    pub request_us: f64,
    /// Of its process.
    pub usage: Usage,
}

impl ServerCost {
    /// What statistics of a mount say, and its process took.
    pub fn of(statistics: &Value, usage: Usage) -> ServerCost {
        let operations = statistics["operations"].as_object();
        let operations = || operations.into_iter().flat_map(|all| all.values());
        ServerCost {
            requests: operations().filter_map(|o| o["count"].as_u64()).sum(),
            request_us: operations().filter_map(|o| o["total_us"].as_f64()).sum(),
            usage,
        }
    }

    /// What came since.
    #[must_use]
    pub fn since(self, before: ServerCost) -> ServerCost {
        ServerCost {
            requests: self.requests - before.requests,
            request_us: self.request_us - before.request_us,
            usage: self.usage.since(before.usage),
        }
    }

    fn plus(self, other: ServerCost) -> ServerCost {
        ServerCost {
            requests: self.requests + other.requests,
            request_us: self.request_us + other.request_us,
            usage: self.usage.plus(other.usage),
        }
    }
}

/// What messages cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How many came.
    pub messages: u64,
    /// Of all processes that sent or received them.
    pub clients: Usage,
    /// Where a server is between them.
    pub served: Option<ServerCost>,
}

impl Cost {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Cost) -> Cost {
        let served = match (self.served, other.served) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        Cost {
            messages: self.messages + other.messages,
            clients: self.clients.plus(other.clients),
            served,
        }
    }

    pub fn per_message(self) -> MessageCost {
        let messages = self.messages;
        MessageCost {
            requests_per_message: self.served.map(|s| over(s.requests as f64, messages)),
            server_us_per_request: self.served.map(|s| over(s.request_us, s.requests)),
            client_per_message: Shares::of(self.clients, messages),
            server_per_message: self.served.map(|s| Shares::of(s.usage, messages)),
        }
    }
}

fn over(sum: f64, n: u64) -> f64 {
    sum / n.max(1) as f64
}

/// What a message costs, over all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MessageCost {
    /// Requests that reach the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_message: Option<f64>,
    /// From when a thread of the server has read a request until it has the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_us_per_request: Option<f64>,
    /// Of sender and receiver together.
    pub client_per_message: Shares,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_per_message: Option<Shares>,
}

/// A message's share of what processes took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shares {
    /// Times that they gave up the CPU to wait.
    pub voluntary_switches: f64,
    /// Times that it was taken from them.
    pub involuntary_switches: f64,
    /// CPU time in the program.
    pub user_us: f64,
    /// CPU time in the kernel.
    pub system_us: f64,
}

impl Shares {
    fn of(usage: Usage, messages: u64) -> Shares {
        Shares {
            voluntary_switches: over(usage.voluntary_switches as f64, messages),
            involuntary_switches: over(usage.involuntary_switches as f64, messages),
            user_us: over(usage.user_us as f64, messages),
            system_us: over(usage.system_us as f64, messages),
        }
    }

    fn cells(shares: Option<Shares>) -> [String; 4] {
        let Some(s) = shares else {
            return ["-"; 4].map(str::to_owned);
        };
        let switches = [s.voluntary_switches, s.involuntary_switches];
        let [voluntary, involuntary] = switches.map(|n| format!("{n:.3}"));
        let [user, system] = [s.user_us, s.system_us].map(|us| format!("{us:.2}"));
        [voluntary, involuntary, user, system]
    }
}

/// Prints what a message costs in each row that knows it.
pub(in crate::mq) fn print(rows: &[&MqRow], out: &mut dyn Write) -> io::Result<()> {
    let header = "queues|arm|requests|us each|client vol|invol|user us|sys us|server vol|invol|user us|sys us";
    let mut lines = Vec::new();
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.queues);
    for row in sorted {
        let Some(cost) = &row.cost else {
            continue;
        };
        let shown = |n: Option<f64>| n.map_or_else(|| "-".to_owned(), |n| format!("{n:.2}"));
        let mut cells = vec![row.queues.to_string(), row.row.variant.clone()];
        cells.push(shown(cost.requests_per_message));
        cells.push(shown(cost.server_us_per_request));
        cells.extend(Shares::cells(Some(cost.client_per_message)));
        cells.extend(Shares::cells(cost.server_per_message));
        lines.push(cells);
    }
    writeln!(
        out,
        "a message costs: requests, and context switches and CPU time of both clients and of the server"
    )?;
    writeln!(out, "{}\n", table(header, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up() {
        let usage = Usage {
            voluntary_switches: 30,
            involuntary_switches: 10,
            user_us: 5,
            system_us: 40,
        };
        let statistics = serde_json::json!({"operations": {
            "ioctl": {"count": 18, "total_us": 30.0},
            "poll": {"count": 2, "total_us": 10.0},
        }});
        let served = ServerCost::of(&statistics, usage);
        let round = Cost {
            messages: 10,
            clients: usage,
            served: Some(served.since(ServerCost::default())),
        };
        let cost = Cost::default().plus(round).plus(round).per_message();
        assert_eq!(cost.requests_per_message, Some(2.0));
        assert_eq!(cost.server_us_per_request, Some(2.0));
        for shares in [Some(cost.client_per_message), cost.server_per_message] {
            let shares = shares.unwrap();
            let switches = (shares.voluntary_switches, shares.involuntary_switches);
            assert_eq!(switches, (3.0, 1.0));
            assert_eq!((shares.user_us, shares.system_us), (0.5, 4.0));
        }
    }
}

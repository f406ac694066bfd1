//! A fake cluster on the loopback, for load: the fake API server with the modelled neighbours, in real time and without
//! faults. Prints a kubeconfig for first-consumer and runs until it is killed.

use std::net::SocketAddr;

use anyhow::Result;
use clap::Parser;
use first_consumer::clock::Clock;
use first_consumer_e2e::cluster::ACCOUNT;
use first_consumer_e2e::control_plane::NodeSpec;
use first_consumer_e2e::fake_api::{FakeApi, Faults, scene, server};
use first_consumer_e2e::stand_in;
use tokio::net::TcpListener;

/// A fake cluster on the loopback.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// How many nodes there are.
    #[arg(long, default_value_t = 6, value_name = "N")]
    nodes: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let api = FakeApi::start(Clock::default(), Faults::none());
    let zones = ["zone-a", "zone-b", "zone-c"];
    let nodes: Vec<_> = (1..=arguments.nodes)
        .map(|number| NodeSpec::new(format!("node-{number}"), zones[number % zones.len()]))
        .collect();
    // Held for its end.
    let _stand_ins = scene::populate(&api, &nodes, stand_in::Options::default()).await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    println!("{}", server::kubeconfig(&listener.local_addr()?.to_string(), ACCOUNT));
    server::serve(api, listener).await;
    Ok(())
}

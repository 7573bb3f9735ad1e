//! A reverse proxy in a few lines: `cargo run --release --example reverse 127.0.0.1:8080 http://127.0.0.1:3000`.

use std::error::Error;

use comity_guard::proxy::{Bounds, Forward, Listen, Server, Settings};

// One thread, so that what it does a second is what a core does.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned()).parse()?;
    let upstream = arguments.next().unwrap_or_else(|| "http://127.0.0.1:3000".to_owned()).parse()?;

    let forward = Forward::new(upstream, Settings::default())?;
    let server = Server::bind(vec![Listen::plain(listen)], Bounds::default()).await?;
    let end = async {
        // Without the signal there is only the end of the process.
        let _ = tokio::signal::ctrl_c().await;
    };
    server.run(forward, end).await;
    Ok(())
}

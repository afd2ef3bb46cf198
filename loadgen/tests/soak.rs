//! The soak against the origin itself, and against one that lies.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use indicatif::ProgressBar;
use sprat_loadgen::origin;
use sprat_loadgen::replay::Target;
use sprat_loadgen::soak::{Failing, Mix, Soak, Tally, soak_with};

fn soak(address: SocketAddr, requests: u64) -> Tally {
    let soak = Soak {
        target: Target::plain(address),
        requests,
        clients: 16,
        http2: 2,
        mix: Mix {
            seed: 7,
            largest: 300_000,
            retries: false,
        },
        deadline: Duration::from_secs(30),
    };
    soak_with(&soak, &ProgressBar::hidden()).unwrap()
}

#[test]
fn the_origin_itself_does_what_it_has_to() {
    let address = origin::start(&Default::default()).unwrap().addresses[0];
    let tally = soak(address, 3000);
    assert_eq!(tally.failed(), 0, "{}", tally.shown());
    assert!(tally.meant > 30 && tally.left > 60, "{tally:?}");
    assert_eq!(tally.whole + tally.meant + tally.left, 3000);
}

#[test]
fn a_server_that_changes_a_byte_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                let come = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..come]).into_owned();
                let bytes: usize = head
                    .split('/')
                    .nth(2)
                    .and_then(|bytes| bytes.parse().ok())
                    .unwrap_or(0);
                let body = "~".repeat(bytes);
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n{body}"
                );
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    let tally = soak(address, 300);
    let wrong = tally.failing[&Failing::Wrong];
    assert!(wrong > 80, "{tally:?}");
}

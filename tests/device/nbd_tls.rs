//! NBD with TLS, by nbdkit.

use uext4_block::Result;
use uext4_testkit::certificates::Certificates;
use uext4_testkit::device::contract::{Length, check_bytes};
use uext4_testkit::nbd_server::{NbdServer, Over};
use uext4_testkit::prelude::*;

const LEN: u64 = 1 << 20;

fn certificates() -> Option<Certificates> {
    Certificates::new().expect("certtool")
}

fn open(name: &str) -> Result<Arc<dyn BlockDevice>> {
    open_image(Path::new(name), &OpenOptions::read_write())
}

/// The address with the certificates of a directory.
fn with(server: &NbdServer, dir: &Path, more: &str) -> String {
    let name = server.name();
    let before = if name.contains('?') { '&' } else { '?' };
    format!("{name}{before}tls-certificates={}{more}", dir.display())
}

#[test]
fn contract_over_tls() {
    let all = require!(some certificates());
    let dir = all
        .of_server("localhost", "ip_address = 127.0.0.1\n")
        .unwrap();
    for (seed, over) in [(0, Over::Tcp), (1, Over::Socket)] {
        let server = require!(some NbdServer::with_tls(LEN, &dir, over));
        let device = open(&with(&server, &all.of_client(), "")).unwrap();
        check_bytes(&*device, seed, Length::Fixed);
        let bytes = MemoryDevice::copy_of(&*device).unwrap().snapshot();
        device.flush().unwrap();
        assert!(fs::read(server.file()).unwrap() == bytes);
        // Long requests in both directions, from many threads.
        thread::scope(|scope| {
            for thread in 0..4u8 {
                let device = &device;
                scope.spawn(move || {
                    let part = LEN as usize / 4;
                    for round in 0..8u8 {
                        let (at, want) =
                            (u64::from(thread) * LEN / 4, vec![thread * 8 + round; part]);
                        device.write_at(at, &want).unwrap();
                        let mut found = vec![0xff; part];
                        device.read_at(at, &mut found).unwrap();
                        assert!(found == want);
                    }
                });
            }
        });
        device.flush().unwrap();
        let file = fs::read(server.file()).unwrap();
        assert!((0..4).all(|thread| file[thread * LEN as usize / 4] == thread as u8 * 8 + 7));
    }
}

#[test]
fn a_server_that_can_not_be_trusted_is_refused() {
    let (all, other) = (require!(some certificates()), require!(some certificates()));
    let good = all
        .of_server("localhost", "ip_address = 127.0.0.1\n")
        .unwrap();
    let server = require!(some NbdServer::with_tls(LEN, &good, Over::Tcp));
    let elsewhere = all.of_server("elsewhere", "").unwrap();
    let elsewhere = require!(some NbdServer::with_tls(LEN, &elsewhere, Over::Tcp));
    let dates = "activation_date = \"2020-01-01 00:00:00\"\nexpiration_date = \"2021-01-01 00:00:00\"\nip_address = 127.0.0.1\n";
    let expired = all.of_server("expired", dates).unwrap();
    let expired = require!(some NbdServer::with_tls(LEN, &expired, Over::Tcp));
    let plain = require!(some NbdServer::with_cache(LEN));
    let client = all.of_client();
    let downgraded = server.name().replace("nbds:", "nbd:");
    let upgraded = with(&plain, &client, "").replace("nbd:", "nbds:");
    for (name, why) in [
        (
            with(&server, &other.of_client(), ""),
            "no known CA has signed",
        ),
        (with(&elsewhere, &client, ""), "is not for 127.0.0.1"),
        (with(&expired, &client, ""), "has expired"),
        (
            with(&server, &all.of_stranger().unwrap(), ""),
            "certificate",
        ),
        (
            with(&server, Path::new("/nowhere"), ""),
            "/nowhere is not a directory",
        ),
        (downgraded, "asks for TLS"),
        (upgraded, "has no TLS"),
    ] {
        let error = open(&name).map(drop).expect_err(why).to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    open(&with(&elsewhere, &client, "&tls-hostname=elsewhere")).unwrap();
    open(&with(&server, &client, "&tls-verify-peer=1")).unwrap();
    // Half of what a client has, and a file without a certificate.
    let half = all.of_stranger().unwrap();
    fs::copy(client.join("client-key.pem"), half.join("client-key.pem")).unwrap();
    let error = open(&with(&server, &half, ""))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is there alone"), "{error}");
    fs::write(half.join("client-cert.pem"), "text").unwrap();
    let error = open(&with(&server, &half, ""))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(error.contains("client-cert.pem"), "{error}");
}

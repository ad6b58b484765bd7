use super::wire::*;
use super::*;
use crate::error::EROFS;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Bytes of an export here.
const LEN: u64 = 1 << 20;
const FLAGS: u16 = HAS_FLAGS | CAN_FLUSH | CAN_FUA | CAN_ZERO | CAN_TRIM;

fn parsed(name: &str) -> NbdAddress {
    NbdAddress::parse(name).expect(name)
}

#[test]
fn addresses_are_those_of_other_clients() {
    for (name, shown) in [
        ("nbd://host", "nbd://host/"),
        ("nbd://host:10809/disk", "nbd://host/disk"),
        ("nbd://host:7/a%2fb", "nbd://host:7/a/b"),
        ("nbd://[::1]:7/d", "nbd://[::1]:7/d"),
        ("nbd://[fe80::1]/", "nbd://[fe80::1]/"),
        ("nbd://10.0.0.1/a%20b", "nbd://10.0.0.1/a%20b"),
        ("nbd+unix:///?socket=/run/s", "nbd+unix:///?socket=/run/s"),
        ("nbd+unix:///d?socket=/a%3fb", "nbd+unix:///d?socket=/a%3Fb"),
        ("nbd+unix:///d?socket=/a:b", "nbd+unix:///d?socket=/a%3Ab"),
        ("nbd://host:/a:/b", "nbd://host/a%3A/b"),
        ("nbd+unix:///d?socket=/a%26b", "nbd+unix:///d?socket=/a%26b"),
        ("nbds://host", "nbds://host/"),
        (
            "nbds://host/d?tls-verify-peer=1&tls-type=x509",
            "nbds://host/d",
        ),
        (
            "nbds://host:7/d?tls-hostname=a.b&tls-certificates=/c%20d",
            "nbds://host:7/d?tls-certificates=/c%20d&tls-hostname=a.b",
        ),
        (
            "nbds+unix:///d?tls-hostname=h&socket=/s",
            "nbds+unix:///d?socket=/s&tls-hostname=h",
        ),
    ] {
        let address = parsed(name);
        assert_eq!(address.to_string(), shown);
        assert_eq!(parsed(shown), address);
        assert_eq!(parsed(shown).identity(), address.identity());
    }
    assert_ne!(parsed("nbd://a/x"), parsed("nbd://a//x"));
    assert_ne!(
        parsed("nbd://a/x").identity(),
        parsed("nbd://a/y").identity()
    );
    // However it connects, it is the same export.
    let (plain, secured) = (parsed("nbd://a/x"), parsed("nbds://a/x"));
    assert_ne!(plain, secured);
    assert_eq!(plain.identity(), secured.identity());
    for wrong in [
        "nbd://",
        "nbd:///x",
        "nbd://host:x/",
        "nbd://host:70000/",
        "nbd://host/a?b",
        "nbd+unix:///d",
        "nbd+unix://host/d?socket=/s",
        "nbd+unix:///d?socket=",
        "nbd://host/%ff",
        "nbd://host/%zz",
        "nbd://host/100%",
        "nbd+unix:///d?socket=/a%2",
        "nbd://[::1/x",
        "nbd://[::1]]/x",
        "nbd://host/d?tls-hostname=h",
        "nbds://host/d?tls-hostname=",
        "nbds://host/d?tls-verify-peer=0",
        "nbds://host/d?tls-type=psk",
        "nbds://host/d?tls-unknown=1",
        "nbds://host/d?socket=/s",
        "nbds+unix:///d",
        "a.img",
    ] {
        NbdAddress::parse(wrong).expect_err(wrong);
    }
}

/// A server of one client.
struct Server {
    dir: tempfile::TempDir,
    thread: Option<std::thread::JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Serves with `serve` once hands are shaken.
    fn after_handshake(
        flags: u16,
        blocks: Option<(u32, u32)>,
        serve: impl FnOnce(&mut UnixStream) -> io::Result<()> + Send + 'static,
    ) -> Server {
        Server::new(move |stream| {
            shake_hands(stream, flags, blocks)?;
            serve(stream)
        })
    }

    fn new(serve: impl FnOnce(&mut UnixStream) -> io::Result<()> + Send + 'static) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join("s")).expect("a socket");
        let thread = std::thread::spawn(move || serve(&mut listener.accept()?.0));
        Server {
            dir,
            thread: Some(thread),
        }
    }

    fn address(&self) -> NbdAddress {
        let socket = self.dir.path().join("s");
        parsed(&format!("nbd+unix:///disk?socket={}", socket.display()))
    }

    fn open(&self) -> Result<NbdDevice> {
        NbdDevice::open(&self.address(), &OpenOptions::read_write())
    }

    fn end(mut self) {
        let ended = self
            .thread
            .take()
            .expect("a server")
            .join()
            .expect("no panic");
        ended.expect("it was served");
    }
}

fn read<const N: usize>(from: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

fn answer(to: &mut UnixStream, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = ANSWER_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    to.write_all(&bytes)
}

/// An option of the client, and its data.
fn option(from: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    assert_eq!(read::<8>(from)?, OPTION_MAGIC.to_be_bytes());
    let option = u32::from_be_bytes(read(from)?);
    let mut data = vec![0; u32::from_be_bytes(read(from)?) as usize];
    from.read_exact(&mut data)?;
    Ok((option, data))
}

fn greet(to: &mut UnixStream, flags: u16) -> io::Result<()> {
    to.write_all(&MAGIC.to_be_bytes())?;
    to.write_all(&OPTION_MAGIC.to_be_bytes())?;
    to.write_all(&flags.to_be_bytes())
}

fn shake_hands(stream: &mut UnixStream, flags: u16, blocks: Option<(u32, u32)>) -> io::Result<()> {
    greet(stream, FIXED | NO_ZEROES)?;
    assert_eq!(read::<4>(stream)?, [0, 0, 0, 3]);
    assert_eq!(option(stream)?.0, OPT_STRUCTURED_REPLY);
    answer(stream, OPT_STRUCTURED_REPLY, ANSWER_ACK, &[])?;
    let (go, data) = option(stream)?;
    assert_eq!((go, &data[..8]), (OPT_GO, &b"\0\0\0\x04disk"[..]));
    let mut info = INFO_EXPORT.to_be_bytes().to_vec();
    info.extend((LEN + 7).to_be_bytes());
    info.extend(flags.to_be_bytes());
    answer(stream, OPT_GO, ANSWER_INFO, &info)?;
    if let Some((least, most)) = blocks {
        let mut info = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [least, 4096, most] {
            info.extend(size.to_be_bytes());
        }
        answer(stream, OPT_GO, ANSWER_INFO, &info)?;
    }
    answer(stream, OPT_GO, ANSWER_ACK, &[])
}

/// A request: its flags, command, cookie, offset and length.
fn request(from: &mut UnixStream) -> io::Result<(u16, u16, u64, u64, u32)> {
    assert_eq!(read::<4>(from)?, REQUEST_MAGIC.to_be_bytes());
    Ok((
        u16::from_be_bytes(read(from)?),
        u16::from_be_bytes(read(from)?),
        u64::from_be_bytes(read(from)?),
        u64::from_be_bytes(read(from)?),
        u32::from_be_bytes(read(from)?),
    ))
}

fn chunk(to: &mut UnixStream, flags: u16, kind: u16, cookie: u64, data: &[u8]) -> io::Result<()> {
    let mut bytes = CHUNK_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    to.write_all(&bytes)
}

/// What a hole or data at `offset` has.
fn at(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes()[..], rest].concat()
}

/// Serves an export in memory whose requests must be whole blocks, until the client goes.
fn serve_memory(stream: &mut UnixStream, block: u64, most: u32) -> io::Result<()> {
    let mut bytes = vec![0; LEN as usize];
    loop {
        let (_, command, cookie, offset, len) = request(stream)?;
        assert!(command > 1 || len <= most, "{len}");
        assert!(
            (offset | u64::from(len)).is_multiple_of(block),
            "{offset} {len}"
        );
        let range = offset as usize..(offset as usize + len as usize);
        match command {
            0 => {
                chunk(
                    stream,
                    CHUNK_DONE,
                    CHUNK_DATA,
                    cookie,
                    &at(offset, &bytes[range]),
                )?;
                continue;
            }
            1 => stream.read_exact(&mut bytes[range])?,
            2 => return Ok(()),
            6 => bytes[range].fill(0),
            _ => {}
        }
        chunk(stream, CHUNK_DONE, CHUNK_NONE, cookie, &[])?;
    }
}

#[test]
fn requests_are_whole_blocks_and_no_longer_than_the_server_takes() {
    let server = Server::after_handshake(FLAGS, Some((4096, 64 << 10)), |stream| {
        serve_memory(stream, 4096, 64 << 10)
    });
    let device = server.open().expect("it opens");
    assert_eq!((device.len(), device.logical_block_size()), (LEN, 4096));
    let mut model = vec![0; LEN as usize];
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..400u64 {
        let offset = rng.u64(..LEN);
        let len = rng.u64(..=(LEN - offset).min(200 << 10)) as usize;
        let range = offset as usize..offset as usize + len;
        match rng.u8(..5) {
            0 => {
                device.zero(offset, len as u64).expect("zero");
                model[range].fill(0);
            }
            1 => {
                let mut found = vec![0; len];
                device.read_at(offset, &mut found).expect("read");
                assert!(found == model[range], "round {round}");
            }
            2 => {
                let bytes = vec![round as u8; len];
                device.write_fua(offset, &bytes).expect("write");
                model[range].copy_from_slice(&bytes);
            }
            _ => {
                let bytes = vec![round as u8; len];
                let (a, b) = bytes.split_at(len / 3);
                let bufs = [IoSlice::new(a), IoSlice::new(b)];
                device.write_vectored_at(offset, &bufs).expect("write");
                model[range].copy_from_slice(&bytes);
            }
        }
    }
    drop(device);
    server.end();
}

#[test]
fn replies_come_in_any_order_and_in_pieces() {
    let server = Server::after_handshake(FLAGS, None, |stream| {
        let first = request(stream)?;
        let second = request(stream)?;
        chunk(
            stream,
            0,
            CHUNK_HOLE,
            second.2,
            &at(second.3 + 100, &412u32.to_be_bytes()),
        )?;
        chunk(stream, 0, CHUNK_DATA, first.2, &at(first.3, &[1; 512]))?;
        chunk(
            stream,
            CHUNK_DONE,
            CHUNK_DATA,
            second.2,
            &at(second.3, &[2; 100]),
        )?;
        chunk(stream, CHUNK_DONE, CHUNK_NONE, first.2, &[])?;
        assert_eq!(request(stream)?.1, 2);
        Ok(())
    });
    let device = server.open().expect("it opens");
    let (mut a, mut b) = ([7; 512], [7; 512]);
    device
        .read_batch(&mut [(0, &mut a), (4096, &mut b)])
        .expect("read");
    assert_eq!((a[0], a[511], b[99], b[100], b[511]), (1, 1, 2, 0, 0));
    drop(device);
    server.end();
}

#[test]
fn errors_are_those_of_the_server() {
    let server = Server::after_handshake(FLAGS, None, |stream| {
        for _ in 0..2 {
            let cookie = request(stream)?.2;
            let error = [&28u32.to_be_bytes()[..], b"\0\x04full"].concat();
            chunk(stream, CHUNK_DONE, CHUNK_ERROR | 1, cookie, &error)?;
        }
        let cookie = request(stream)?.2;
        let mut simple = SIMPLE_MAGIC.to_be_bytes().to_vec();
        simple.extend(5u32.to_be_bytes());
        simple.extend(cookie.to_be_bytes());
        stream.write_all(&simple)?;
        assert_eq!(request(stream)?.1, 0);
        Ok(())
    });
    let device = server.open().expect("it opens");
    let full = device.zero(0, 512).expect_err("it is full");
    assert_eq!(full.raw_os_error(), Some(28));
    // Only what was to be durable fails for good.
    device.discard(0, 512).expect_err("it fails");
    assert_eq!(
        device.flush().expect_err("it fails").raw_os_error(),
        Some(5)
    );
    let refused = device.write_at(0, &[1; 512]).expect_err("it has failed");
    assert!(matches!(refused, BlockError::Failed { .. }), "{refused}");
    // Reads go on, until the server goes.
    let gone = device.read_at(0, &mut [0; 512]).expect_err("no server");
    assert!(gone.to_string().contains("closed the connection"), "{gone}");
    assert_eq!(gone.raw_os_error(), None);
    device.read_at(0, &mut [0; 512]).expect_err("no server");
    server.end();
}

/// A server may offer what the file below it can't do.
#[test]
fn what_can_not_be_zeroed_is_written() {
    let server = Server::after_handshake(FLAGS, None, |stream| {
        let cookie = request(stream)?.2;
        let error = [&95u32.to_be_bytes()[..], b"\0\0"].concat();
        chunk(stream, CHUNK_DONE, CHUNK_ERROR | 1, cookie, &error)?;
        let (_, command, cookie, offset, len) = request(stream)?;
        assert_eq!((command, offset, len), (1, 4096, 512));
        assert_eq!(read::<512>(stream)?, [0; 512]);
        chunk(stream, CHUNK_DONE, CHUNK_NONE, cookie, &[])
    });
    let device = server.open().expect("it opens");
    device.zero(4096, 512).expect("zero");
    server.end();
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    type Reply = fn(&mut UnixStream, u64) -> io::Result<()>;
    let replies: [(&str, Reply); 9] = [
        ("a magic number", |to, _| to.write_all(&[1; 16])),
        ("no such request", |to, cookie| {
            chunk(to, 1, CHUNK_NONE, cookie + 1, &[])
        }),
        ("outside", |to, cookie| {
            chunk(to, 1, CHUNK_DATA, cookie, &at(4096, &[1; 512]))
        }),
        ("before it", |to, cookie| {
            chunk(to, 1, CHUNK_HOLE, cookie, &at(0, &[0, 0, 2, 0]))
        }),
        ("past the end", |to, cookie| {
            chunk(to, 1, CHUNK_HOLE, cookie, &at(u64::MAX, &[255; 4]))
        }),
        ("in part", |to, cookie| {
            chunk(to, 1, CHUNK_DATA, cookie, &at(512, &[1; 100]))
        }),
        ("an unknown kind", |to, cookie| {
            chunk(to, 1, 99, cookie, &[])
        }),
        ("a long message", |to, cookie| {
            chunk(to, 1, CHUNK_ERROR, cookie, &vec![0; 1 << 20])
        }),
        ("half a reply", |to, _| {
            to.write_all(&CHUNK_MAGIC.to_be_bytes())
        }),
    ];
    for (what, reply) in replies {
        let server = Server::after_handshake(FLAGS, None, move |stream| {
            let cookie = request(stream)?.2;
            // The client may have gone.
            let _ = reply(stream, cookie);
            Ok(())
        });
        let device = server.open().expect(what);
        let mut buf = [0; 512];
        device.read_at(512, &mut buf).expect_err(what);
        drop(device);
        server.end();
    }
}

#[test]
fn bytes_at_random_are_no_panic() {
    for seed in 0..300 {
        let mut server = Server::new(move |stream| {
            let mut rng = fastrand::Rng::with_seed(seed);
            if rng.bool() {
                shake_hands(stream, rng.u16(..), Some((1 << rng.u32(..18), rng.u32(..))))?;
            } else if rng.bool() {
                greet(stream, rng.u16(..))?;
                for option in [OPT_STRUCTURED_REPLY, OPT_GO] {
                    let len = rng.usize(..40);
                    let data: Vec<u8> = (0..len).map(|_| rng.u8(..4)).collect();
                    answer(stream, option, rng.u32(..5), &data)?;
                }
            }
            let bytes: Vec<u8> = (0..200).map(|_| rng.u8(..)).collect();
            stream.write_all(&bytes)
        });
        if let Ok(device) = NbdDevice::open(&server.address(), &OpenOptions::read_only())
            && device.len() >= 512
        {
            let _ = device.read_at(0, &mut [0; 512]);
        }
        // The client has gone, perhaps before all was said.
        let thread = server.thread.take().expect("a server");
        let _ = thread.join().expect("no panic");
    }
}

#[test]
fn what_a_server_can_not_do_is_said() {
    let refused = |flags, wanted: &str| {
        let server = Server::after_handshake(flags, None, |_| Ok(()));
        let why = server.open().map(drop).expect_err("it is refused");
        assert!(why.to_string().contains(wanted), "{why}");
        server.end();
        why
    };
    refused(HAS_FLAGS, "no flush");
    let why = refused(HAS_FLAGS | CAN_FLUSH | READ_ONLY, "Read-only");
    assert_eq!(why.raw_os_error(), Some(EROFS));
    for (kind, text, wanted) in [
        (ANSWER_UNKNOWN, "", "no export \"disk\""),
        (ANSWER_TLS, "", "asks for TLS"),
        (ANSWER_POLICY, "not\nyou", "(not you)"),
        (ANSWER_ERROR + 77, "", "error 77"),
    ] {
        let server = Server::new(move |stream| {
            greet(stream, FIXED)?;
            assert_eq!(read::<4>(stream)?, [0, 0, 0, 1]);
            option(stream)?;
            answer(stream, OPT_STRUCTURED_REPLY, ANSWER_UNSUPPORTED, &[])?;
            option(stream)?;
            answer(stream, OPT_GO, kind, text.as_bytes())
        });
        let why = server.open().map(drop).expect_err("it is refused");
        assert!(why.to_string().contains(wanted), "{why}");
        server.end();
    }
    let server = Server::new(|stream| {
        greet(stream, FIXED)?;
        assert_eq!(read::<4>(stream)?, [0, 0, 0, 1]);
        option(stream)?;
        answer(stream, OPT_STRUCTURED_REPLY, ANSWER_ACK, &[])?;
        option(stream)?;
        answer(stream, OPT_GO, ANSWER_INFO, &[0])
    });
    let why = server.open().map(drop).expect_err("it is refused");
    assert!(why.to_string().contains("too short"), "{why}");
    server.end();
    let nowhere = NbdAddress::parse("nbd+unix:///?socket=/nowhere").expect("an address");
    let why = NbdDevice::open(&nowhere, &OpenOptions::read_only()).expect_err("it is not there");
    assert_eq!(why.raw_os_error(), Some(2), "{why}");
    assert!(Path::new("/nowhere").metadata().is_err());
}

/// What a server does that is asked for TLS: its answer, and the bytes that follow.
#[cfg(feature = "nbd-tls")]
fn asked_for_tls(kind: u32, bytes: Vec<u8>) -> BlockError {
    let server = Server::new(move |stream| {
        greet(stream, FIXED | NO_ZEROES)?;
        assert_eq!(read::<4>(stream)?, [0, 0, 0, 3]);
        assert_eq!(option(stream)?, (OPT_STARTTLS, vec![]));
        answer(stream, OPT_STARTTLS, kind, &[])?;
        // The client may have gone.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = io::copy(stream, &mut io::sink());
        Ok(())
    });
    let name = server.address().to_string().replace("nbd+", "nbds+");
    let ca = server.dir.path().join("ca-cert.pem");
    std::fs::write(ca, include_str!("authority.pem")).expect("it is written");
    let dir = server.dir.path().display();
    let address = parsed(&format!("{name}&tls-certificates={dir}"));
    let refused = NbdDevice::open(&address, &OpenOptions::read_only());
    let refused = refused.map(drop).expect_err("it has no TLS");
    server.end();
    refused
}

#[cfg(feature = "nbd-tls")]
#[test]
fn without_tls_nothing_is_sent_that_is_secret() {
    for (kind, bytes, wanted) in [
        (ANSWER_UNSUPPORTED, vec![], "has no TLS"),
        (ANSWER_POLICY, vec![], "has no TLS"),
        (ANSWER_INFO, vec![], "breaks the protocol"),
        (ANSWER_ACK, vec![], "closed the connection"),
        // An answer to what is only asked for with TLS.
        (ANSWER_ACK, ANSWER_MAGIC.to_be_bytes().to_vec(), "TLS fails"),
        (ANSWER_ACK, vec![22, 3, 3, 0, 4, 2, 0, 0, 0], "TLS"),
        // A fatal alert: handshake_failure.
        (ANSWER_ACK, vec![21, 3, 3, 0, 2, 2, 40], "HandshakeFailure"),
    ] {
        let error = asked_for_tls(kind, bytes).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[cfg(feature = "nbd-tls")]
#[test]
fn bytes_at_random_in_tls_are_no_panic() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        // The head of a record, as often as not.
        let mut bytes = vec![22, 3, 3, 0, rng.u8(..100)];
        bytes.truncate(rng.usize(..10));
        bytes.extend((0..rng.usize(..300)).map(|_| rng.u8(..)));
        asked_for_tls(ANSWER_ACK, bytes);
    }
}

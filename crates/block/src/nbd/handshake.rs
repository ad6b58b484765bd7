//! What a client and a server agree on first.

use super::address::NbdAddress;
use super::socket::Socket;
use super::stream::Stream;
use super::tls;
use super::wire::*;
use crate::error::EROFS;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// How long a server may take to be reached, and for the handshake.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Answers to one option.
const ANSWERS_MAX: usize = 64;
/// The longest answer that is read.
const ANSWER_MAX: u32 = 64 << 10;
/// The longest read or write of a server that names none.
const PAYLOAD_MAX: u32 = 32 << 20;
/// The largest block of a server, in bytes.
const BLOCK_MAX: u32 = 64 << 10;

/// What a server says of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Bytes.
    pub len: u64,
    flags: u16,
    /// What offsets and lengths are multiples of; a power of two.
    pub block_min: u32,
    /// The longest read or write, in bytes.
    pub payload_max: u32,
    /// Whether replies are sent in chunks.
    pub is_structured: bool,
}

impl Export {
    fn can(&self, flag: u16) -> bool {
        self.flags & (HAS_FLAGS | flag) == HAS_FLAGS | flag
    }

    pub fn is_read_only(&self) -> bool {
        self.can(READ_ONLY)
    }

    pub fn can_fua(&self) -> bool {
        self.can(CAN_FUA)
    }

    pub fn can_discard(&self) -> bool {
        self.can(CAN_TRIM)
    }

    pub fn can_zero(&self) -> bool {
        self.can(CAN_ZERO)
    }

    pub fn allows_several(&self) -> bool {
        self.can(CAN_MULTI_CONN)
    }

    /// Refuses to write what can't be made durable.
    pub fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only() {
            return Err(io::Error::from_raw_os_error(EROFS));
        }
        match self.can(CAN_FLUSH) {
            true => Ok(()),
            false => Err(io::Error::new(
                ErrorKind::Unsupported,
                "the server has no flush, so nothing that is written would be durable; it can be read",
            )),
        }
    }
}

/// Connects to a server and opens the export.
///
/// # Errors
/// It is not there, speaks something else, or refuses.
pub fn open(
    address: &NbdAddress,
    security: Option<&tls::Security>,
    patience: Duration,
) -> io::Result<(Stream, Export)> {
    let socket = Socket::connect(&address.server, patience)?;
    let deadline = Instant::now() + patience;
    let (stream, export) =
        shake_hands(socket, address, security, deadline).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => io::Error::new(
                ErrorKind::TimedOut,
                "the server does not answer; it may let no more clients in",
            ),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                if security.is_some() =>
            {
                io::Error::new(
                e.kind(),
                "the server closed the connection; it may ask for a client's certificate, which tls-certificates=DIR names, or let no more clients in",
            )
            }
            ErrorKind::UnexpectedEof => io::Error::new(
                e.kind(),
                "the server closed the connection; it may let no more clients in",
            ),
            _ => tls::explained(e, address),
        })?;
    stream.set_patience(None)?;
    Ok((stream, export))
}

fn shake_hands(
    socket: Socket,
    address: &NbdAddress,
    security: Option<&tls::Security>,
    deadline: Instant,
) -> io::Result<(Stream, Export)> {
    let mut stream = Stream::Plain(socket);
    let mut handshake = Handshake(Timed(&stream, deadline));
    handshake.greet()?;
    if let Some(security) = security {
        handshake.start_tls()?;
        stream = stream.secured(security)?;
    }
    let export = Handshake(Timed(&stream, deadline)).open(&address.export)?;
    Ok((stream, export))
}

/// Reads a number.
macro_rules! get {
    ($from:expr, $number:ty) => {{
        let mut bytes = [0; size_of::<$number>()];
        $from
            .read_exact(&mut bytes)
            .map(|()| <$number>::from_be_bytes(bytes))
    }};
}
pub(super) use get;

/// Something that a server must not say.
pub fn wrong(what: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("the server breaks the protocol of NBD: {what}"),
    )
}

/// A handshake on a new connection.
struct Handshake<'a>(Timed<'a>);

/// A stream until a moment.
struct Timed<'a>(&'a Stream, Instant);

impl Timed<'_> {
    fn set_patience(&self) -> io::Result<()> {
        match self.1.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => self.0.set_patience(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.set_patience()?;
        self.0.read(buf)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.set_patience()?;
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An answer to an option.
struct Answer {
    kind: u32,
    data: Vec<u8>,
}

/// What a server says of an export.
enum Info {
    Export { len: u64, flags: u16 },
    Blocks { least: u32, most: u32 },
    Other,
}

impl Info {
    fn parse(mut data: &[u8]) -> io::Result<Info> {
        Ok(match get!(data, u16)? {
            INFO_EXPORT => Info::Export {
                len: get!(data, u64)?,
                flags: get!(data, u16)?,
            },
            INFO_BLOCK_SIZE => {
                let (least, _, most) = (get!(data, u32)?, get!(data, u32)?, get!(data, u32)?);
                Info::Blocks { least, most }
            }
            _ => Info::Other,
        })
    }
}

impl Handshake<'_> {
    fn greet(&mut self) -> io::Result<()> {
        if get!(self.0, u64)? != MAGIC || get!(self.0, u64)? != OPTION_MAGIC {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "it is not a server of NBD, or an old one",
            ));
        }
        let flags = get!(self.0, u16)?;
        if flags & FIXED == 0 {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "the server knows no options (fixed newstyle)",
            ));
        }
        let ours = u32::from(flags & (FIXED | NO_ZEROES));
        self.0.write_all(&ours.to_be_bytes())
    }

    /// Asks for TLS, which begins after the answer.
    fn start_tls(&mut self) -> io::Result<()> {
        self.option(OPT_STARTTLS, &[])?;
        match self.answer(OPT_STARTTLS)? {
            Answer { kind, .. } if kind == ANSWER_ACK => Ok(()),
            Answer { kind, .. } if kind & ANSWER_ERROR == 0 => {
                Err(wrong("an answer to TLS that is none"))
            }
            Answer { data, .. } => Err(io::Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the server has no TLS{}; begin it with some, or with nbd:// in place of nbds:// what is written can be read on the way",
                    said(&data)
                ),
            )),
        }
    }

    /// Opens the export.
    fn open(&mut self, export: &str) -> io::Result<Export> {
        self.option(OPT_STRUCTURED_REPLY, &[])?;
        let is_structured = self.answer(OPT_STRUCTURED_REPLY)?.kind == ANSWER_ACK;
        self.go(export, is_structured)
    }

    /// Asks for the export until it is open.
    fn go(&mut self, export: &str, is_structured: bool) -> io::Result<Export> {
        let name_len = u32::try_from(export.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let mut data = name_len.to_be_bytes().to_vec();
        data.extend(export.as_bytes());
        // One information is asked for: the blocks.
        data.extend(1u16.to_be_bytes());
        data.extend(INFO_BLOCK_SIZE.to_be_bytes());
        self.option(OPT_GO, &data)?;
        let (mut opened, mut blocks) = (None, (1, PAYLOAD_MAX));
        for number in 0.. {
            let Answer { kind, data } = self.answer(OPT_GO)?;
            if number == ANSWERS_MAX {
                return Err(wrong("it has no end of answers"));
            }
            match kind {
                ANSWER_INFO => match Info::parse(&data) {
                    Ok(Info::Export { len, flags }) => opened = Some((len, flags)),
                    Ok(Info::Blocks { least, most }) => blocks = (least, most.min(PAYLOAD_MAX)),
                    Ok(Info::Other) => {}
                    Err(_) => return Err(wrong("what it says of an export is too short")),
                },
                ANSWER_ACK => break,
                _ => return Err(refusal(kind, &data, export)),
            }
        }
        let (len, flags) = opened.ok_or_else(|| wrong("it opens an export without its size"))?;
        let (block_min, payload_max) = blocks;
        if !block_min.is_power_of_two() || block_min > BLOCK_MAX || payload_max < block_min {
            return Err(wrong("its blocks have no size that can be"));
        }
        Ok(Export {
            // A last block that is not whole can't be asked for.
            len: len - len % u64::from(block_min),
            flags,
            block_min,
            payload_max: payload_max - payload_max % block_min,
            is_structured,
        })
    }

    fn option(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        let len = u32::try_from(data.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.extend(data);
        self.0.write_all(&bytes)?;
        self.0.0.acknowledge();
        Ok(())
    }

    fn answer(&mut self, option: u32) -> io::Result<Answer> {
        if get!(self.0, u64)? != ANSWER_MAGIC || get!(self.0, u32)? != option {
            return Err(wrong("an answer to another option"));
        }
        let kind = get!(self.0, u32)?;
        let len = get!(self.0, u32)?;
        if len > ANSWER_MAX {
            return Err(wrong("an answer that is too long"));
        }
        let mut data = vec![0; len as usize];
        self.0.read_exact(&mut data)?;
        Ok(Answer { kind, data })
    }
}

/// Why a server does not open an export.
fn refusal(kind: u32, text: &[u8], export: &str) -> io::Error {
    let (kind, why) = match kind {
        ANSWER_UNKNOWN if export.is_empty() => (
            ErrorKind::NotFound,
            "the server has no export without a name".to_owned(),
        ),
        ANSWER_UNKNOWN => (
            ErrorKind::NotFound,
            format!("the server has no export {export:?}"),
        ),
        ANSWER_POLICY => (
            ErrorKind::PermissionDenied,
            "the server denies this client access".to_owned(),
        ),
        ANSWER_TLS => (
            ErrorKind::Unsupported,
            "the server asks for TLS, which nbds:// or nbds+unix:// in its name does".to_owned(),
        ),
        ANSWER_UNSUPPORTED => (
            ErrorKind::Unsupported,
            "the server is too old: it can't open an export by GO".to_owned(),
        ),
        _ => (
            ErrorKind::Other,
            format!("the server refuses (error {})", kind & !ANSWER_ERROR),
        ),
    };
    io::Error::new(kind, why + &said(text))
}

/// What a server says with an error, in brackets.
fn said(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace(char::is_control, " ");
    match &text[..] {
        "" => text,
        _ => format!(" ({text})"),
    }
}

//! The numbers of the protocol. All are big-endian on the wire.

/// What a server begins with.
pub const MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// What follows, and what each option of the client begins with.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
/// What an answer to an option begins with.
pub const ANSWER_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// What a request begins with.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// What a simple reply begins with.
pub const SIMPLE_MAGIC: u32 = 0x6744_6698;
/// What a chunk of a structured reply begins with.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake: the server knows options, and ends an old one without zeros.
pub const FIXED: u16 = 1;
/// See [`FIXED`].
pub const NO_ZEROES: u16 = 2;

/// Options.
pub const OPT_STARTTLS: u32 = 5;
/// See [`OPT_STARTTLS`].
pub const OPT_GO: u32 = 7;
/// See [`OPT_STARTTLS`].
pub const OPT_STRUCTURED_REPLY: u32 = 8;

/// Answers to an option; errors have [`ANSWER_ERROR`].
pub const ANSWER_ACK: u32 = 1;
/// See [`ANSWER_ACK`].
pub const ANSWER_INFO: u32 = 3;
/// See [`ANSWER_ACK`].
pub const ANSWER_ERROR: u32 = 1 << 31;
/// The option is not known.
pub const ANSWER_UNSUPPORTED: u32 = ANSWER_ERROR + 1;
/// The client may not.
pub const ANSWER_POLICY: u32 = ANSWER_ERROR + 2;
/// TLS is asked for.
pub const ANSWER_TLS: u32 = ANSWER_ERROR + 5;
/// The server has not that export.
pub const ANSWER_UNKNOWN: u32 = ANSWER_ERROR + 6;

/// Informations about an export.
pub const INFO_EXPORT: u16 = 0;
/// See [`INFO_EXPORT`].
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Flags of an export.
pub const HAS_FLAGS: u16 = 1 << 0;
/// See [`HAS_FLAGS`].
pub const READ_ONLY: u16 = 1 << 1;
/// See [`HAS_FLAGS`].
pub const CAN_FLUSH: u16 = 1 << 2;
/// See [`HAS_FLAGS`].
pub const CAN_FUA: u16 = 1 << 3;
/// See [`HAS_FLAGS`].
pub const CAN_TRIM: u16 = 1 << 5;
/// See [`HAS_FLAGS`].
pub const CAN_ZERO: u16 = 1 << 6;
/// A flush on one connection makes durable what was written on all.
pub const CAN_MULTI_CONN: u16 = 1 << 8;

/// The flag of a request that is to be durable.
pub const FUA: u16 = 1;

/// The flag of the last chunk of a reply.
pub const CHUNK_DONE: u16 = 1;
/// Kinds of chunks.
pub const CHUNK_NONE: u16 = 0;
/// See [`CHUNK_NONE`].
pub const CHUNK_DATA: u16 = 1;
/// See [`CHUNK_NONE`].
pub const CHUNK_HOLE: u16 = 2;
/// The bit of kinds that are errors.
pub const CHUNK_ERROR: u16 = 1 << 15;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    /// Durable once it is done.
    WriteFua,
    Disconnect,
    Flush,
    Discard,
    Zero,
}

impl Command {
    /// Its flags and its number.
    pub fn numbers(self) -> (u16, u16) {
        match self {
            Command::Read => (0, 0),
            Command::Write => (0, 1),
            Command::WriteFua => (FUA, 1),
            Command::Disconnect => (0, 2),
            Command::Flush => (0, 3),
            Command::Discard => (0, 4),
            Command::Zero => (0, 6),
        }
    }
}

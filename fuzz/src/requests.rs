//! Requests that a script writes, answered by the handlers of mounts.

use crate::base::bases;
use crate::input::Input;
use crate::work::{faults, on_a_servers_stack};
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_fuse::abi::{Opcode, input as abi};
use uext4_fuse::settings::{SETTINGS_BYTES, SETTINGS_IOCTL};
use uext4_fuse::{Handler, Request};
use uext4_mountd::fuzzing;
use uext4_mqueue::{Limits, MqueueType, protocol};
use uext4_testkit::image::mount;
use zerocopy::IntoBytes;

/// Room for a reply.
const OUT_BYTES: usize = 64 << 10;

const REQUESTS_MAX: usize = 60;

const NAMES: [&[u8]; 10] = [
    b"file",
    b"dir",
    b"small",
    b"a",
    b"new",
    b"tiny",
    b"value",
    b"slow",
    b"user.large",
    b"system.posix_acl_access",
];

/// Attributes of the directory of queues: its limits.
const LIMITS: [&[u8]; 3] = [b"uext4.msg_max", b"uext4.queues_max", b"uext4.none"];

/// Ioctls of an image.
const IOCTLS: [u32; 14] = [
    0x8008_6601,
    0x4008_6602,
    0x801c_581f,
    0x401c_5820,
    0x8008_7601,
    0x4008_7602,
    0x8008_6603,
    0x4008_6604,
    0x6611,
    0xc018_5879,
    0x8100_9431,
    0xc020_660b,
    0x4100_9432,
    0x8004_5878,
];

/// What the server of an image is asked for.
const QUESTIONS: [&str; 9] = [
    "freeze",
    "thaw",
    "thaw",
    "write-back ",
    "write-back 1",
    "ro",
    "rw,sync",
    "dirsync,noatime",
    "none",
];

/// Ioctls of a queue, and of the directory.
const QUEUE_IOCTLS: [(u32, protocol::Way); 13] = [
    protocol::RECEIVE,
    protocol::RECEIVE_NOWAIT,
    protocol::RECEIVE_WITH,
    protocol::SEND,
    protocol::STAGE,
    protocol::FETCH,
    protocol::GETATTR,
    protocol::SETATTR,
    protocol::NOTIFY,
    protocol::AWAIT,
    protocol::PREPARE,
    protocol::UNTIL,
    protocol::RECEIVE_UNTIL,
];

/// Requests to the server of an image.
pub fn fuse(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(base) = input.choose(bases()) else {
        return;
    };
    let device = Arc::new(base.device(&base.image.bytes));
    let Ok(fs) = mount(Arc::clone(&device) as Arc<dyn BlockDevice>) else {
        return;
    };
    let handler = fuzzing::image_handler(Arc::clone(&fs)).expect("a handler");
    on_a_servers_stack(|| answer_all(&handler, &mut input, false));
    drop(handler);
    fs.unmount().expect("an image without damage is unmounted");
    let faults = faults(&device);
    assert!(faults.is_empty(), "requests damaged an image: {faults:#?}");
}

/// Requests to the server of message queues.
pub fn queues(data: &[u8]) {
    let mut input = Input::new(data);
    let limits = Limits {
        msg_max: 20,
        msgsize_max: 70_000,
        ..Limits::default()
    };
    let namespace = MqueueType::default().create(limits);
    let handler = fuzzing::queue_handler(namespace).expect("a handler");
    on_a_servers_stack(|| answer_all(&handler, &mut input, true));
    handler.stop();
}

/// Ids and handles that replies gave.
struct Known {
    nodes: Vec<u64>,
    handles: Vec<u64>,
}

fn answer_all(handler: &impl Handler, input: &mut Input<'_>, is_queue: bool) {
    let mut known = Known {
        nodes: vec![1],
        handles: vec![0],
    };
    let mut out = vec![0; OUT_BYTES];
    for unique in 0..REQUESTS_MAX as u64 {
        if input.is_empty() {
            break;
        }
        let bytes = request(input, &known, unique, is_queue);
        let Ok(request) = Request::from_bytes(&bytes) else {
            continue;
        };
        let room = match input.u8() {
            0..=200 => OUT_BYTES,
            small => usize::from(small - 200) * 16,
        };
        if let Ok(Some(len)) = handler.handle(0, &request, &mut out[..room]) {
            assert!(len <= room, "a reply of {len} bytes in {room}");
            known.note(&request, &out[..len]);
        }
    }
}

impl Known {
    /// A reply begins with the node of an entry, or with a handle; after an entry's 128 bytes is a handle.
    fn note(&mut self, request: &Request<'_>, reply: &[u8]) {
        let number = |at: usize| {
            let bytes = reply.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        match request.opcode {
            Opcode::Lookup | Opcode::Mknod | Opcode::Mkdir | Opcode::Symlink | Opcode::Link => {
                self.nodes.extend(number(0));
            }
            Opcode::Create | Opcode::Tmpfile => {
                self.nodes.extend(number(0));
                self.handles.extend(number(128));
            }
            Opcode::Open | Opcode::Opendir => self.handles.extend(number(0)),
            _ => {}
        }
    }
}

/// A small number mostly, or one at a limit.
fn word(input: &mut Input<'_>) -> u32 {
    match input.u8() {
        kind @ 0..=99 => u32::from(kind),
        100..=179 => u32::from(input.u16()),
        180..=219 => 1 << (input.u8() % 32),
        _ => input.u32(),
    }
}

fn request(input: &mut Input<'_>, known: &Known, unique: u64, is_queue: bool) -> Vec<u8> {
    let opcode = match is_queue && input.u8().is_multiple_of(2) {
        true => Opcode::Ioctl,
        false => *input.choose(Opcode::ALL).unwrap_or(&Opcode::Lookup),
    };
    let nodeid = match input.u8() {
        255 => input.u64(),
        kind => known.nodes[usize::from(kind) % known.nodes.len()],
    };
    let mut arg = vec![0; opcode.arg_bytes()];
    let filled = input.u16();
    for (number, bytes) in arg.chunks_exact_mut(4).enumerate() {
        if filled >> (number % 15) & 1 == 1 {
            bytes.copy_from_slice(&word(input).to_le_bytes());
        }
    }
    if filled >> 15 == 0
        && let Some(first) = arg.get_mut(..8)
    {
        let handle = known.handles[input.below(known.handles.len())];
        first.copy_from_slice(&handle.to_le_bytes());
    }
    let mut payload = payload(input);
    if opcode == Opcode::Ioctl {
        payload = ioctl(input, &mut arg, is_queue);
    }
    if opcode == Opcode::Write
        && !input.u8().is_multiple_of(8)
        && let Some(size) = arg.get_mut(16..20)
    {
        size.copy_from_slice(&(payload.len() as u32).to_le_bytes());
    }
    let header = abi::Header {
        len: (size_of::<abi::Header>() + arg.len() + payload.len()) as u32,
        opcode: opcode as u32,
        unique,
        nodeid,
        uid: u32::from(input.u8() % 3) * 500,
        gid: 0,
        pid: u32::from(input.u8() % 4),
        total_extlen: u16::from(input.u8() / 250),
        padding: 0,
    };
    [header.as_bytes(), &arg, &payload].concat()
}

/// Names, each with its end, or data.
fn payload(input: &mut Input<'_>) -> Vec<u8> {
    let kind = input.u8();
    let mut payload = Vec::new();
    for _ in 0..kind % 3 {
        let name = match input.u8() {
            known @ 0..=169 => NAMES[usize::from(known) % NAMES.len()],
            known @ 170..=199 => LIMITS[usize::from(known) % LIMITS.len()],
            len => input.bytes(usize::from(len - 200) * 2),
        };
        payload.extend(name);
        payload.push(0);
    }
    match kind / 3 % 4 {
        0 => payload.extend(vec![7; usize::from(input.u16())]),
        2 => payload.extend(input.u8().to_string().into_bytes()),
        1 => payload.extend(input.bytes(48)),
        _ => {}
    }
    payload
}

/// Fills the command of an ioctl and its sizes; gives its input.
fn ioctl(input: &mut Input<'_>, arg: &mut [u8], is_queue: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..input.u8() % 12 {
        bytes.extend(word(input).to_le_bytes());
    }
    match input.u8() % 4 {
        0 => bytes.extend(vec![6; usize::from(input.u16()) % 20_000]),
        1 => {
            bytes.extend(NAMES[input.below(NAMES.len())]);
        }
        _ => {}
    }
    let mut out = u32::from(input.u16() % 20_000);
    let command = match is_queue {
        false if input.u8().is_multiple_of(3) => {
            bytes = QUESTIONS[input.below(QUESTIONS.len())].into();
            out = SETTINGS_BYTES as u32;
            SETTINGS_IOCTL
        }
        true => {
            let at = input.below(QUEUE_IOCTLS.len());
            let len = bytes.len().min(protocol::BYTES_MAX);
            protocol::number(QUEUE_IOCTLS[at], len)
        }
        false => IOCTLS[input.below(IOCTLS.len())],
    };
    let len = match input.u8() {
        255 => input.u32(),
        _ => bytes.len() as u32,
    };
    for (at, number) in [(12, command), (24, len), (28, out)] {
        if let Some(place) = arg.get_mut(at..at + 4) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
    bytes
}

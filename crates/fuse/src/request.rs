//! A request of the kernel, in parts that lie where the transport got them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used))]

use crate::abi::{Opcode, input};
use std::fmt;
use uext4_vfs::Errno;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// A request. Over `/dev/fuse` its parts follow each other; over io_uring structure and payload lie apart.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The caller, the opcode and the node.
    pub header: &'a input::Header,
    /// What is asked.
    pub opcode: Opcode,
    /// The opcode's structure.
    arg: &'a [u8],
    /// Names and data, without what extends them.
    payload: &'a [u8],
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("opcode", &self.opcode)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

impl<'a> Request<'a> {
    /// A request in one piece, of its whole length.
    ///
    /// # Errors
    /// `EIO`: shorter than it says. `ENOSYS`: an opcode that is not known here; the header is given for the reply.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Request<'a>, (Option<&'a input::Header>, Errno)> {
        let Ok((header, body)) = input::Header::ref_from_prefix(bytes) else {
            return Err((None, Errno::EIO));
        };
        if header.len as usize != bytes.len() {
            return Err((Some(header), Errno::EIO));
        }
        let Some(opcode) = Opcode::from_number(header.opcode) else {
            return Err((Some(header), Errno::ENOSYS));
        };
        let Some((arg, payload)) = body.split_at_checked(opcode.arg_bytes()) else {
            return Err((Some(header), Errno::EIO));
        };
        Request::from_parts(header, arg, payload).map_err(|e| (Some(header), e))
    }

    /// A request whose structure and payload lie apart.
    ///
    /// # Errors
    /// `ENOSYS`: an opcode that is not known here. `EIO`: shorter than it says.
    pub fn from_parts(
        header: &'a input::Header,
        arg: &'a [u8],
        payload: &'a [u8],
    ) -> Result<Request<'a>, Errno> {
        let opcode = Opcode::from_number(header.opcode).ok_or(Errno::ENOSYS)?;
        let arg = arg.get(..opcode.arg_bytes()).ok_or(Errno::EIO)?;
        // Extensions (security contexts, groups) are none that were asked for.
        let extended = usize::from(header.total_extlen) * 8;
        let kept = payload.len().checked_sub(extended).ok_or(Errno::EIO)?;
        Ok(Request {
            header,
            opcode,
            arg,
            payload: payload.get(..kept).ok_or(Errno::EIO)?,
        })
    }

    /// The opcode's structure.
    ///
    /// # Errors
    /// `EIO`: it is not one of that opcode.
    pub fn arg<T: FromBytes + Immutable + KnownLayout>(&self) -> Result<T, Errno> {
        match T::read_from_prefix(self.arg) {
            Ok((arg, _)) => Ok(arg),
            Err(_) => Err(Errno::EIO),
        }
    }

    /// The bytes of the opcode's structure.
    pub fn structure(&self) -> &'a [u8] {
        self.arg
    }

    /// Everything after the structure.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// The one name that follows the structure.
    ///
    /// # Errors
    /// `EIO`: none.
    pub fn name(&self) -> Result<&'a [u8], Errno> {
        Ok(self.split_name()?.0)
    }

    /// Both names that follow the structure.
    ///
    /// # Errors
    /// `EIO`: fewer.
    pub fn two_names(&self) -> Result<(&'a [u8], &'a [u8]), Errno> {
        let (first, rest) = self.split_name()?;
        Ok((first, split_at_nul(rest)?.0))
    }

    /// The name that follows the structure, and what follows the name.
    ///
    /// # Errors
    /// `EIO`: no name.
    pub fn split_name(&self) -> Result<(&'a [u8], &'a [u8]), Errno> {
        split_at_nul(self.payload)
    }
}

fn split_at_nul(bytes: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let nul = bytes.iter().position(|b| *b == 0).ok_or(Errno::EIO)?;
    let (name, rest) = bytes.split_at_checked(nul).ok_or(Errno::EIO)?;
    Ok((name, rest.get(1..).ok_or(Errno::EIO)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn bytes(opcode: Opcode, body: &[u8], extended: u16) -> Vec<u8> {
        let header = input::Header {
            len: (size_of::<input::Header>() + body.len()) as u32,
            opcode: opcode as u32,
            nodeid: 1,
            total_extlen: extended,
            ..Default::default()
        };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn names_follow_the_structure() {
        let renamed = bytes(Opcode::Rename, b"\x07\0\0\0\0\0\0\0old\0new\0", 0);
        let request = Request::from_bytes(&renamed).expect("whole");
        assert_eq!(request.arg::<input::Rename>().expect("there").newdir, 7);
        assert_eq!(request.two_names(), Ok((&b"old"[..], &b"new"[..])));
    }

    #[test]
    fn extensions_are_left_out() {
        let made = bytes(Opcode::Lookup, b"name\0\0\0\0eightbyt", 1);
        let request = Request::from_bytes(&made).expect("whole");
        assert_eq!(request.payload(), b"name\0\0\0\0");
        let too_long = bytes(Opcode::Lookup, b"name\0", 1);
        assert_eq!(
            Request::from_bytes(&too_long).expect_err("refused").1,
            Errno::EIO
        );
    }

    #[test]
    fn short_and_unknown_requests_are_refused() {
        assert!(Request::from_bytes(&[0; 39]).is_err());
        let mut short = bytes(Opcode::Getattr, &[0; 15], 0);
        assert_eq!(
            Request::from_bytes(&short).expect_err("short").1,
            Errno::EIO
        );
        short.push(0);
        assert_eq!(
            Request::from_bytes(&short).expect_err("length").1,
            Errno::EIO
        );
        let mut unknown = bytes(Opcode::Lookup, b"x\0", 0);
        unknown[4] = 7;
        assert_eq!(
            Request::from_bytes(&unknown).expect_err("unknown").1,
            Errno::ENOSYS
        );
        let nameless = bytes(Opcode::Lookup, b"x", 0);
        let request = Request::from_bytes(&nameless).expect("whole");
        assert_eq!(request.name(), Err(Errno::EIO));
    }
}

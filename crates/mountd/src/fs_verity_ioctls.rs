//! The ioctls of fs-verity, as FUSE passes them since Linux 6.10: salt and signature follow the structure.
//!
//! Source: Linux documentation, filesystems/fsverity, "User API".

use uext4::unstable::{Ext4, InodeRef};
use uext4::{Caller, Errno, FsVerity, HashAlgorithm, Result};
use uext4_fuse::IoctlCall;
use uext4_fuse::handler::put_bytes;
use zerocopy::{FromBytes, Immutable, KnownLayout};

pub(crate) const FS_IOC_ENABLE_VERITY: u32 = 0x4080_6685;
pub(crate) const FS_IOC_MEASURE_VERITY: u32 = 0xc004_6686;

/// `struct fsverity_enable_arg`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct EnableArg {
    version: u32,
    hash_algorithm: u32,
    block_size: u32,
    salt_size: u32,
    salt_ptr: u64,
    sig_size: u32,
    reserved1: u32,
    sig_ptr: u64,
    reserved2: [u64; 11],
}

/// The fields of `struct fsverity_digest` before the digest.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct DigestHead {
    algorithm: u16,
    bytes: u16,
}

/// `FS_IOC_ENABLE_VERITY`.
pub(crate) fn enable(
    fs: &Ext4,
    caller: &Caller,
    node: &InodeRef,
    call: &IoctlCall<'_>,
) -> Result<()> {
    let arg: EnableArg = call.argument()?;
    let behind = call.input.get(size_of::<EnableArg>()..);
    let (salt, signature) = behind
        .and_then(|bytes| bytes.split_at_checked(arg.salt_size as usize))
        .ok_or(Errno::EMSGSIZE)?;
    let signature = signature.get(..arg.sig_size as usize);
    let algorithm = u8::try_from(arg.hash_algorithm).ok();
    let is_plain = arg.version == 1 && arg.reserved1 == 0 && arg.reserved2 == [0; 11];
    let verity = FsVerity {
        algorithm: algorithm
            .and_then(HashAlgorithm::from_disk)
            .filter(|_| is_plain)
            .ok_or(Errno::EINVAL)?,
        block_bytes: arg.block_size,
        salt: salt.to_vec(),
        signature: signature.ok_or(Errno::EMSGSIZE)?.to_vec(),
    };
    fs.volume
        .report(fs.files.enable_verity(caller, node, &verity))?;
    Ok(())
}

/// `FS_IOC_MEASURE_VERITY`: the digest of the file.
pub(crate) fn measure(
    fs: &Ext4,
    node: &InodeRef,
    call: &IoctlCall<'_>,
    out: &mut [u8],
) -> Result<usize> {
    let room: DigestHead = call.argument()?;
    let descriptor = fs.volume.report(fs.files.verity(node))?;
    let descriptor = descriptor.ok_or(Errno::ENODATA)?;
    let digest = descriptor.digest();
    let digest = digest.as_bytes();
    if digest.len() > usize::from(room.bytes) {
        return Err(Errno::EOVERFLOW.into());
    }
    let algorithm = descriptor.verity.algorithm as u16;
    let head = [algorithm, digest.len() as u16].map(u16::to_le_bytes);
    Ok(put_bytes(out, &[head.as_flattened(), digest].concat())?)
}

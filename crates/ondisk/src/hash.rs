//! Hashes of names in hashed directories.
//!
//! Source: Linux documentation, filesystems/ext4, "Hash Tree Directories"; MD4 is RFC 1320, TEA is
//! Wheeler and Needham 1994, SipHash is Aumasson and Bernstein 2012.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// The value that readdir positions use for the end, never a hash.
const HASH_EOF: u32 = 0x7fff_ffff;

/// How names are hashed, as in a hash tree root.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum HashVersion {
    /// The first hash, of ext2.
    Legacy = 0,
    /// MD4 cut to half.
    HalfMd4 = 1,
    /// Tiny encryption algorithm.
    Tea = 2,
    /// [`HashVersion::Legacy`] of unsigned bytes.
    LegacyUnsigned = 3,
    /// [`HashVersion::HalfMd4`] of unsigned bytes.
    HalfMd4Unsigned = 4,
    /// [`HashVersion::Tea`] of unsigned bytes.
    TeaUnsigned = 5,
    /// Keyed, for encrypted names without case.
    SipHash = 6,
}

impl HashVersion {
    /// From the byte on disk.
    pub const fn from_disk(v: u8) -> Option<Self> {
        Some(match v {
            0 => HashVersion::Legacy,
            1 => HashVersion::HalfMd4,
            2 => HashVersion::Tea,
            3 => HashVersion::LegacyUnsigned,
            4 => HashVersion::HalfMd4Unsigned,
            5 => HashVersion::TeaUnsigned,
            6 => HashVersion::SipHash,
            _ => return None,
        })
    }

    /// The version of unsigned bytes, where the superblock says that bytes are unsigned.
    #[must_use]
    pub const fn for_bytes(self, unsigned: bool) -> Self {
        match (self, unsigned) {
            (HashVersion::Legacy, true) => HashVersion::LegacyUnsigned,
            (HashVersion::HalfMd4, true) => HashVersion::HalfMd4Unsigned,
            (HashVersion::Tea, true) => HashVersion::TeaUnsigned,
            (v, _) => v,
        }
    }
}

/// How a file system hashes names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashParams {
    /// The seed; all zeros means MD4's own.
    pub seed: [u32; 4],
    /// The version new hash trees get.
    pub version: HashVersion,
    /// Bytes are unsigned in versions that do not say.
    pub unsigned: bool,
}

impl HashParams {
    /// Hash with the version of a hash tree root.
    #[inline]
    pub fn hash(&self, version: HashVersion, name: &[u8]) -> NameHash {
        dx_hash(version.for_bytes(self.unsigned), &self.seed, name)
    }

    /// Hash with the version for new hash trees.
    #[inline]
    pub fn hash_default(&self, name: &[u8]) -> NameHash {
        self.hash(self.version, name)
    }
}

/// Hash of a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NameHash {
    /// What the tree is ordered by; the lowest bit is 0.
    pub major: u32,
    /// Orders names of the same major hash for readdir.
    pub minor: u32,
}

impl NameHash {
    fn new(major: u32, minor: u32) -> Self {
        let even = major & !1;
        // The largest value stands for the end of a directory.
        let major = if even == HASH_EOF << 1 {
            (HASH_EOF - 1) << 1
        } else {
            even
        };
        NameHash { major, minor }
    }
}

const MD4_INIT: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// Hashes a name; `version` is already the signed or unsigned one. [`HashVersion::SipHash`] needs a
/// key ([`siphash`]) and is taken as half MD4 here.
#[inline]
pub fn dx_hash(version: HashVersion, seed: &[u32; 4], name: &[u8]) -> NameHash {
    let start = if *seed == [0; 4] { MD4_INIT } else { *seed };
    match version {
        HashVersion::Legacy => NameHash::new(legacy(name, |b| b as i8 as i32), 0),
        HashVersion::LegacyUnsigned => NameHash::new(legacy(name, i32::from), 0),
        HashVersion::Tea => tea_hash(start, name, true),
        HashVersion::TeaUnsigned => tea_hash(start, name, false),
        HashVersion::HalfMd4Unsigned => half_md4_hash(start, name, false),
        HashVersion::HalfMd4 | HashVersion::SipHash => half_md4_hash(start, name, true),
    }
}

/// SipHash-2-4 with a directory's key, for directories both encrypted and without case.
pub fn siphash(key: &[u8; 16], name: &[u8]) -> NameHash {
    let mut h = SipHasher24::new_with_key(key);
    h.write(name);
    let v = h.finish();
    NameHash::new((v >> 32) as u32, v as u32)
}

fn legacy(name: &[u8], widen: impl Fn(u8) -> i32) -> u32 {
    let (mut h0, mut h1) = (0x12a3_fe2du32, 0x37ab_e8f9u32);
    for b in name {
        let mut h = h1.wrapping_add(h0 ^ widen(*b).wrapping_mul(7_152_373) as u32);
        if h & 0x8000_0000 != 0 {
            h = h.wrapping_sub(0x7fff_ffff);
        }
        h1 = h0;
        h0 = h;
    }
    h0 << 1
}

#[inline]
fn widen(b: u8, signed: bool) -> u32 {
    if signed {
        i32::from(b as i8) as u32
    } else {
        u32::from(b)
    }
}

/// Packs the next `4 * N` bytes of a name into words, most significant byte first, padded with the
/// length that is left.
#[inline]
fn pack<const N: usize>(rest: &[u8], signed: bool) -> [u32; N] {
    let len = rest.len() as u32;
    let pad = len | len << 8;
    let pad = pad | pad << 16;
    let mut out = [pad; N];
    let (words, tail) = rest.as_chunks::<4>();
    for (to, w) in out.iter_mut().zip(words) {
        *to = if signed && w.iter().any(|b| *b >= 0x80) {
            w.iter()
                .fold(pad, |v, b| widen(*b, true).wrapping_add(v << 8))
        } else {
            u32::from_be_bytes(*w)
        };
    }
    if let Some(to) = out.get_mut(words.len()) {
        *to = tail
            .iter()
            .fold(pad, |v, b| widen(*b, signed).wrapping_add(v << 8));
    }
    out
}

#[inline]
fn half_md4_hash(mut state: [u32; 4], name: &[u8], signed: bool) -> NameHash {
    let mut rest = name;
    while !rest.is_empty() {
        half_md4(&mut state, &pack::<8>(rest, signed));
        rest = rest.get(32..).unwrap_or(&[]);
    }
    NameHash::new(state[1], state[2])
}

/// MD4's rounds over half the words: eight steps each.
#[inline]
fn half_md4(state: &mut [u32; 4], m: &[u32; 8]) {
    const K2: u32 = 0x5a82_7999;
    const K3: u32 = 0x6ed9_eba1;
    let [mut a, mut b, mut c, mut d] = *state;
    macro_rules! step {
        ($f:ident, $a:ident, $b:ident, $c:ident, $d:ident, $x:expr, $s:literal) => {
            $a = $a
                .wrapping_add($f($b, $c, $d))
                .wrapping_add($x)
                .rotate_left($s);
        };
    }
    macro_rules! round {
        ($f:ident, $k:expr, [$($i:literal)*], $s0:literal $s1:literal $s2:literal $s3:literal) => {
            round!(@ $f, $k, [$($i)*], $s0 $s1 $s2 $s3)
        };
        (@ $f:ident, $k:expr, [$i0:literal $i1:literal $i2:literal $i3:literal $i4:literal $i5:literal $i6:literal $i7:literal], $s0:literal $s1:literal $s2:literal $s3:literal) => {
            step!($f, a, b, c, d, m[$i0].wrapping_add($k), $s0);
            step!($f, d, a, b, c, m[$i1].wrapping_add($k), $s1);
            step!($f, c, d, a, b, m[$i2].wrapping_add($k), $s2);
            step!($f, b, c, d, a, m[$i3].wrapping_add($k), $s3);
            step!($f, a, b, c, d, m[$i4].wrapping_add($k), $s0);
            step!($f, d, a, b, c, m[$i5].wrapping_add($k), $s1);
            step!($f, c, d, a, b, m[$i6].wrapping_add($k), $s2);
            step!($f, b, c, d, a, m[$i7].wrapping_add($k), $s3);
        };
    }
    round!(choose, 0, [0 1 2 3 4 5 6 7], 3 7 11 19);
    round!(majority, K2, [1 3 5 7 0 2 4 6], 3 5 9 13);
    round!(parity, K3, [3 7 2 6 1 5 0 4], 3 9 11 15);
    for (s, v) in state.iter_mut().zip([a, b, c, d]) {
        *s = s.wrapping_add(v);
    }
}

#[inline]
fn choose(x: u32, y: u32, z: u32) -> u32 {
    (x & y) | (!x & z)
}

#[inline]
fn majority(x: u32, y: u32, z: u32) -> u32 {
    (x & y) | (x & z) | (y & z)
}

#[inline]
fn parity(x: u32, y: u32, z: u32) -> u32 {
    x ^ y ^ z
}

fn tea_hash(state: [u32; 4], name: &[u8], signed: bool) -> NameHash {
    let (mut h0, mut h1) = (state[0], state[1]);
    let mut rest = name;
    while !rest.is_empty() {
        let key = pack::<4>(rest, signed);
        let (v0, v1) = tea_encrypt(h0, h1, &key);
        (h0, h1) = (h0.wrapping_add(v0), h1.wrapping_add(v1));
        rest = rest.get(16..).unwrap_or(&[]);
    }
    NameHash::new(h0, h1)
}

/// Sixteen cycles of TEA.
fn tea_encrypt(mut v0: u32, mut v1: u32, k: &[u32; 4]) -> (u32, u32) {
    let mut sum = 0u32;
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        let x = (v1 << 4).wrapping_add(k[0]) ^ v1.wrapping_add(sum) ^ (v1 >> 5).wrapping_add(k[1]);
        v0 = v0.wrapping_add(x);
        let x = (v0 << 4).wrapping_add(k[2]) ^ v0.wrapping_add(sum) ^ (v0 >> 5).wrapping_add(k[3]);
        v1 = v1.wrapping_add(x);
    }
    (v0, v1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_marker_is_never_a_hash() {
        assert_eq!(NameHash::new(0xffff_ffff, 1).major, 0xffff_fffc);
        assert_eq!(NameHash::new(0xffff_fffd, 1).major, 0xffff_fffc);
        assert_eq!(NameHash::new(7, 1).major, 6);
    }

    #[test]
    fn signed_and_unsigned_agree_on_ascii_only() {
        let seed = [1, 2, 3, 4];
        for (s, u) in [(0, 3), (1, 4), (2, 5)] {
            let (s, u) = (
                HashVersion::from_disk(s).unwrap(),
                HashVersion::from_disk(u).unwrap(),
            );
            assert_eq!(s.for_bytes(true), u);
            let long = [b'x'; 255];
            assert_eq!(dx_hash(s, &seed, &long), dx_hash(u, &seed, &long));
            let high = "grün".as_bytes();
            assert_ne!(dx_hash(s, &seed, high), dx_hash(u, &seed, high));
        }
    }

    #[test]
    fn siphash_known_answer() {
        // Reference vector: key 00..0f, message 00..0e.
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let msg: Vec<u8> = (0..15).collect();
        assert_eq!(siphash(&key, &msg), NameHash::new(0xa129_ca61, 0x49be_45e5));
    }
}

//! AES as fscrypt uses it: XTS, CBC, CBC with ciphertext stealing, and ECB, which derives keys.
//!
//! Source: NIST SP 800-38A with its addendum (CBC-CS3), SP 800-38E with IEEE 1619 (XTS).

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt};

/// Bytes of a block of AES.
pub(super) const BLOCK: usize = 16;
/// What a number in GF(2^128) that overflows is reduced by.
const XTS_REDUCTION: u8 = 0x87;

/// Multiplies a tweak by x.
fn double(tweak: u128) -> u128 {
    let carry = (tweak >> 127) as u8;
    (tweak << 1) ^ u128::from(carry * XTS_REDUCTION)
}

/// Decrypts a data unit of whole blocks in XTS.
pub(super) fn xts_decrypt(
    cipher: &impl BlockCipherDecrypt<BlockSize = U16>,
    tweaks: &impl BlockCipherEncrypt<BlockSize = U16>,
    iv: [u8; BLOCK],
    unit: &mut [u8],
) {
    let mut first = iv.into();
    tweaks.encrypt_block(&mut first);
    let first = u128::from_le_bytes(first.into());
    let (blocks, _) = unit.as_chunks_mut::<BLOCK>();
    let apply = |blocks: &mut [[u8; BLOCK]]| {
        let mut tweak = first;
        for block in blocks {
            *block = (u128::from_le_bytes(*block) ^ tweak).to_le_bytes();
            tweak = double(tweak);
        }
    };
    apply(blocks);
    cipher.decrypt_blocks(aes::Block::cast_slice_from_core_mut(blocks));
    apply(blocks);
}

/// Encrypts whole blocks in CBC, and returns the last.
fn cbc_encrypt(
    cipher: &impl BlockCipherEncrypt<BlockSize = U16>,
    iv: [u8; BLOCK],
    blocks: &mut [[u8; BLOCK]],
) -> [u8; BLOCK] {
    let mut before = iv;
    for block in blocks {
        let mixed = xor(*block, before);
        let mut mixed = mixed.into();
        cipher.encrypt_block(&mut mixed);
        *block = mixed.into();
        before = *block;
    }
    before
}

/// Decrypts whole blocks in CBC, and returns the last block of ciphertext.
pub(super) fn cbc_decrypt(
    cipher: &impl BlockCipherDecrypt<BlockSize = U16>,
    iv: [u8; BLOCK],
    blocks: &mut [[u8; BLOCK]],
) -> [u8; BLOCK] {
    let mut before = iv;
    for block in blocks {
        let ciphertext = *block;
        *block = xor(decrypt_one(cipher, ciphertext), before);
        before = ciphertext;
    }
    before
}

fn decrypt_one(
    cipher: &impl BlockCipherDecrypt<BlockSize = U16>,
    block: [u8; BLOCK],
) -> [u8; BLOCK] {
    let mut block = block.into();
    cipher.decrypt_block(&mut block);
    block.into()
}

fn xor(a: [u8; BLOCK], b: [u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

/// Encrypts at least one block in CBC with ciphertext stealing: the last two blocks change places.
pub(super) fn cts_encrypt(
    cipher: &impl BlockCipherEncrypt<BlockSize = U16>,
    iv: [u8; BLOCK],
    data: &mut [u8],
) {
    debug_assert!(data.len() >= BLOCK);
    let last_bytes = last_block_bytes(data.len());
    let (whole, last) = data.split_at_mut(data.len() - last_bytes);
    let (blocks, _) = whole.as_chunks_mut::<BLOCK>();
    let before = cbc_encrypt(cipher, iv, blocks);
    let mut padded = [0; BLOCK];
    for (to, byte) in padded.iter_mut().zip(&*last) {
        *to = *byte;
    }
    let stolen = cbc_encrypt(cipher, before, std::slice::from_mut(&mut padded));
    match blocks.last_mut() {
        None => last.copy_from_slice(&stolen),
        Some(block) => {
            for (to, byte) in last.iter_mut().zip(*block) {
                *to = byte;
            }
            *block = stolen;
        }
    }
}

/// Decrypts at least one block in CBC with ciphertext stealing.
pub(super) fn cts_decrypt(
    cipher: &impl BlockCipherDecrypt<BlockSize = U16>,
    iv: [u8; BLOCK],
    data: &mut [u8],
) {
    debug_assert!(data.len() >= BLOCK);
    let last_bytes = last_block_bytes(data.len());
    let (whole, last) = data.split_at_mut(data.len() - last_bytes);
    let (blocks, _) = whole.as_chunks_mut::<BLOCK>();
    let Some((stolen, blocks)) = blocks.split_last_mut() else {
        if let Some(block) = last.first_chunk_mut::<BLOCK>() {
            cbc_decrypt(cipher, iv, std::slice::from_mut(block));
        }
        return;
    };
    let before = cbc_decrypt(cipher, iv, blocks);
    // The last block of plaintext, padded with zeros, as it was encrypted.
    let mixed = decrypt_one(cipher, *stolen);
    let mut full = mixed;
    for (to, byte) in full.iter_mut().zip(&*last) {
        *to = *byte;
    }
    for (to, byte) in last.iter_mut().zip(xor(mixed, full)) {
        *to = byte;
    }
    *stolen = xor(decrypt_one(cipher, full), before);
}

/// Bytes of the last block, which is not empty.
fn last_block_bytes(len: usize) -> usize {
    match len % BLOCK {
        0 => BLOCK.min(len),
        rest => rest,
    }
}

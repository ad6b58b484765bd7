//! AES as fscrypt uses it: XTS, CBC, CBC with ciphertext stealing, and ECB, which derives keys.
//!
//! Source: NIST SP 800-38A with its addendum (CBC-CS3), SP 800-38E with IEEE 1619 (XTS).

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt};

/// Bytes of a block of AES.
pub(crate) const BLOCK: usize = 16;
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

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use aes::cipher::KeyInit;
    use aes::{Aes128, Aes256, Aes256Dec, Aes256Enc};

    fn hex(digits: &str) -> Vec<u8> {
        let digit = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (0..digits.len()).step_by(2).map(digit).collect()
    }

    /// Source: RFC 3962, appendix B.
    #[test]
    fn stealing_is_that_of_the_rfc() {
        let cipher = Aes128::new(b"chicken teriyaki".into());
        let text = b"I would like the General Gau's Chicken, please, and wonton soup.";
        for (len, ciphertext) in [
            (17, "c6353568f2bf8cb4d8a580362da7ff7f97"),
            (
                31,
                "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5",
            ),
            (
                32,
                "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584",
            ),
            (
                47,
                "97687268d6ecccc0c07b25e25ecfe584b3fffd940c16a18c1b5549d2f838029e39312523a78662d5be7fcbcc98ebf5",
            ),
            (
                48,
                "97687268d6ecccc0c07b25e25ecfe5849dad8bbb96c4cdc03bc103e1a194bbd839312523a78662d5be7fcbcc98ebf5a8",
            ),
            (
                64,
                "97687268d6ecccc0c07b25e25ecfe58439312523a78662d5be7fcbcc98ebf5a84807efe836ee89a526730dbc2f7bc8409dad8bbb96c4cdc03bc103e1a194bbd8",
            ),
        ] {
            let mut data = text[..len].to_vec();
            cts_encrypt(&cipher, [0; BLOCK], &mut data);
            assert_eq!(data, hex(ciphertext), "{len}");
            cts_decrypt(&cipher, [0; BLOCK], &mut data);
            assert_eq!(data, &text[..len]);
        }
    }

    /// One block is encrypted as it is. Source: NIST SP 800-38A, F.2.5, CBC-AES256.
    #[test]
    fn one_block_has_nothing_to_steal() {
        let key = hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4");
        let cipher = Aes256::new_from_slice(&key).expect("32 bytes");
        let iv: [u8; BLOCK] = std::array::from_fn(|i| i as u8);
        let mut data = hex("6bc1bee22e409f96e93d7e117393172a");
        cts_encrypt(&cipher, iv, &mut data);
        assert_eq!(data, hex("f58c4c04d6e5f1ba779eabfb5f7bfbd6"));
        cts_decrypt(&cipher, iv, &mut data);
        assert_eq!(data, hex("6bc1bee22e409f96e93d7e117393172a"));
    }

    /// Source: IEEE 1619-2007, annex B, vector 10: the first 64 bytes.
    #[test]
    fn xts_is_that_of_the_standard() {
        let data = hex("2718281828459045235360287471352662497757247093699959574966967627");
        let tweak = hex("3141592653589793238462643383279502884197169399375105820974944592");
        let cipher = Aes256Dec::new_from_slice(&data).expect("32 bytes");
        let tweaks = Aes256Enc::new_from_slice(&tweak).expect("32 bytes");
        let mut iv = [0; BLOCK];
        iv[0] = 0xff;
        let mut unit = hex(
            "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b5d31e276f8fe4a8d66b317f9ac683f44680a86ac35adfc3345befecb4bb188fd",
        );
        xts_decrypt(&cipher, &tweaks, iv, &mut unit);
        assert_eq!(unit, (0..64).collect::<Vec<u8>>());
    }
}

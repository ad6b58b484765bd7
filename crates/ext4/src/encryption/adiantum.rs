//! Adiantum: a data unit or a name of any length from a block on is one block, by XChaCha12, AES-256, NH and Poly1305.
//!
//! Source: Crowley and Biggers, "Adiantum: length-preserving encryption for entry-level processors", 2018.

use crate::encryption::block_modes::BLOCK;
use aes::Aes256;
use aes::cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, KeyInit, KeyIvInit, StreamCipher, array::Array,
};
use chacha20::XChaCha12;
use poly1305::Poly1305;
use zeroize::Zeroizing;

/// Bytes of a key.
const KEY: usize = 32;
/// Bytes of a vector.
pub(super) const VECTOR: usize = 32;
/// Bytes of a message that NH hashes with its key once.
const NH_MESSAGE: usize = 1024;
/// Words of the key of NH, whose four passes are a block apart.
const NH_KEY: usize = (NH_MESSAGE + 3 * BLOCK) / 4;

/// The cipher with a key.
pub(super) struct Adiantum {
    stream: Zeroizing<[u8; KEY]>,
    block: Box<Aes256>,
    of_vector: Zeroizing<[u8; BLOCK]>,
    of_message: Zeroizing<[u8; BLOCK]>,
    nh: Box<Zeroizing<[u32; NH_KEY]>>,
}

impl Adiantum {
    /// None if the key has another length.
    pub(super) fn new(key: &[u8]) -> Option<Adiantum> {
        let stream = Zeroizing::new(<[u8; KEY]>::try_from(key).ok()?);
        let mut nonce = [0; 24];
        nonce[0] = 1;
        let mut keys = XChaCha12::new(&Array(*stream), &Array(nonce));
        let mut of_block = Zeroizing::new([0; KEY]);
        keys.apply_keystream(&mut *of_block);
        let block = Box::new(Aes256::new(&Array(*of_block)));
        let mut of_vector = Zeroizing::new([0; BLOCK]);
        let mut of_message = Zeroizing::new([0; BLOCK]);
        keys.apply_keystream(&mut *of_vector);
        keys.apply_keystream(&mut *of_message);
        let mut nh = Box::new(Zeroizing::new([0; NH_KEY]));
        for word in nh.iter_mut() {
            let mut bytes = [0; 4];
            keys.apply_keystream(&mut bytes);
            *word = u32::from_le_bytes(bytes);
        }
        Some(Adiantum {
            stream,
            block,
            of_vector,
            of_message,
            nh,
        })
    }

    /// Encrypts what has a block at least.
    pub(super) fn encrypt(&self, vector: &[u8; VECTOR], data: &mut [u8]) {
        let Some((left, right)) = data.split_last_chunk_mut() else {
            return;
        };
        add(right, self.hash(vector, left));
        self.block.encrypt_block(Array::cast_from_core_mut(right));
        self.apply_stream(right, left);
        add(right, self.hash(vector, left).wrapping_neg());
    }

    /// Decrypts it.
    pub(super) fn decrypt(&self, vector: &[u8; VECTOR], data: &mut [u8]) {
        let Some((left, right)) = data.split_last_chunk_mut() else {
            return;
        };
        add(right, self.hash(vector, left));
        self.apply_stream(right, left);
        self.block.decrypt_block(Array::cast_from_core_mut(right));
        add(right, self.hash(vector, left).wrapping_neg());
    }

    fn apply_stream(&self, middle: &[u8; BLOCK], data: &mut [u8]) {
        let mut nonce = [0; 24];
        nonce[..BLOCK].copy_from_slice(middle);
        nonce[BLOCK] = 1;
        XChaCha12::new(&Array(*self.stream), &Array(nonce)).apply_keystream(data);
    }

    /// The hash of the vector and all but the last block.
    fn hash(&self, vector: &[u8; VECTOR], data: &[u8]) -> u128 {
        let mut head = [0; BLOCK + VECTOR];
        let (len, rest) = head.split_at_mut(BLOCK);
        len.copy_from_slice(&(data.len() as u128 * 8).to_le_bytes());
        rest.copy_from_slice(vector);
        let hashes: Vec<u8> = data
            .chunks(NH_MESSAGE)
            .flat_map(|part| self.nh(part))
            .collect();
        let of_vector = poly1305(&self.of_vector, &head);
        of_vector.wrapping_add(poly1305(&self.of_message, &hashes))
    }

    /// NH of a message of at most [`NH_MESSAGE`] bytes, with zeros behind it up to a block.
    fn nh(&self, message: &[u8]) -> [u8; 32] {
        let mut sums = [0_u64; 4];
        for (i, part) in message.chunks(BLOCK).enumerate() {
            let mut block = [0; BLOCK];
            block[..part.len()].copy_from_slice(part);
            let words = block
                .as_chunks()
                .0
                .iter()
                .map(|word| u32::from_le_bytes(*word));
            let words: [u32; 4] = std::array::from_fn({
                let mut words = words;
                move |_| words.next().unwrap_or_default()
            });
            for (pass, sum) in sums.iter_mut().enumerate() {
                let key = &self.nh[4 * (i + pass)..];
                let term = |at: usize| u64::from(words[at].wrapping_add(key[at]));
                let product = |one: usize, two: usize| term(one).wrapping_mul(term(two));
                *sum = sum.wrapping_add(product(0, 2)).wrapping_add(product(1, 3));
            }
        }
        let mut out = [0; 32];
        for (to, sum) in out.as_chunks_mut().0.iter_mut().zip(sums) {
            *to = sum.to_le_bytes();
        }
        out
    }
}

fn add(block: &mut [u8; BLOCK], other: u128) {
    *block = u128::from_le_bytes(*block)
        .wrapping_add(other)
        .to_le_bytes();
}

/// Poly1305 without the number that is added at its end.
fn poly1305(key: &[u8; BLOCK], data: &[u8]) -> u128 {
    let mut whole = [0; 2 * BLOCK];
    whole[..BLOCK].copy_from_slice(key);
    let tag = Poly1305::new(&Array(whole)).compute_unpadded(data);
    u128::from_le_bytes(tag.into())
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
    }

    fn is_published<const N: usize>([key, vector, clear, encrypted]: [&str; 4]) {
        let cipher = Adiantum::new(&bytes::<32>(key)).unwrap();
        let (vector, clear) = (bytes(vector), bytes::<N>(clear));
        let mut data = clear;
        cipher.encrypt(&vector, &mut data);
        assert_eq!(data, bytes::<N>(encrypted));
        cipher.decrypt(&vector, &mut data);
        assert_eq!(data, clear);
    }

    /// Source: github.com/google/adiantum, test_vectors/ours/Adiantum/Adiantum_XChaCha12_32_AES256.json: key, vector, clear text, what is encrypted.
    #[test]
    fn published_values() {
        is_published::<16>([
            "9eebb2493c1cf5f46a99c2c4dfb1f4dd752057ea2c4fcdb2a53d7b491eabfd0f",
            "df63d4abd249f3d8338137607dfa7308d8496d80e82f6254eb0ea9395b457f8a",
            "67c9f23084418e43fbf3b33e79367fe8",
            "6d32861867860f3f967c9d280d53ec9f",
        ]);
        is_published::<31>([
            "362b5797f85dcd995f1a5a441d920f27cc16d72b856399d3ba96a1dbd26068da",
            "ef5869b12c5e9a4724c1b169e112938f433d6d00db5ed8d9129afed9ff2daac4",
            "5ea8681985981223260accdb0a04b9df4db3487bb0e3c819435a4606942df2",
            "c7c6f1738fc4ff4a39be78be8d28c8894663e70c7d87e84ec9187bbe186050",
        ]);
        is_published::<128>([
            "a52824341a3cd8f705918fee851f357f803dfc9b94f6fc9e190900a904314f11",
            "a1ba4995ff346db8cd875d5efdea85db8a7b5eb25d57dd62aca98c41429475b7",
            concat!(
                "69b4e88c37e86782f1ec5d04e5149113dff2871b69811d71709e9c3bde497011a0a3db0d544f6669d7db80a7709268ce81042cc6abaee56015e96fefaa8fa7a7",
                "638ff2f077f1a8eae1b71f9eab9e4b3f07875b6fcda8afb9fa700b52b8a8a79e075fa60eb39b791379c33e8d1c2c68c8511d3c7b7d79772a5665c5542328b003"
            ),
            concat!(
                "9e16abed4ba7425ac6fb4e76ffbe03a00fe3adbae4982b0e2148a0b865482748845454b29a947be64b29e9cf0591801a3af34196851d9f74515663fa7c288549",
                "f72ff9f21846f53380a33cceb25793f5aebda9f57b30c49366e0307716e4a031ba70bc6813f5b09ac1fc7efe55805c4874a6aaa3acdcc2f58dde34867860758d"
            ),
        ]);
    }
}

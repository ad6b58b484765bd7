//! Reads of encrypted files: whole data units are read and decrypted.

use crate::attributes::encryption::not_written;
use crate::file::FileIo;
use crate::inode::Inode;
use crate::prelude::*;

/// Refuses to change the data of an encrypted file.
///
/// # Errors
/// `EOPNOTSUPP`.
pub(super) fn check_not_encrypted(inode: &Inode) -> Result<()> {
    match inode.is_encrypted() {
        true => Err(not_written(inode, "writing")),
        false => Ok(()),
    }
}

impl FileIo {
    /// Reads all of `data`, whatever the size is, and decrypts it; holes as zeros.
    ///
    /// # Errors
    /// `ENOKEY`: the key is missing. `EOPNOTSUPP`: a mode that is not supported. Damage, or the device's.
    pub(in crate::file) fn read_encrypted(
        &self,
        inode: &Inode,
        offset: u64,
        data: &mut [u8],
    ) -> Result<()> {
        let contents = self.attributes.contents_cipher(inode)?;
        if inode.is_inline() {
            return Err(not_written(inode, "data in the inode"));
        }
        let (block, unit) = (self.volume.block_size(), contents.unit);
        let mut one = Vec::new();
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (lblk, within) = (Lblk((at / block) as u32), at % block);
            let mapping = self.map_for(inode, lblk, false)?;
            let here = (u64::from(mapping.len) * block - within).min(rest.len() as u64);
            // Whole units in place; a part of one beside it.
            let here = match (at % unit, here / unit * unit) {
                (0, whole) if whole > 0 => whole,
                (before, _) => here.min(unit - before),
            };
            let (part, after) = rest.split_at_mut(here as usize);
            match mapping.pblk.filter(|_| !mapping.unwritten) {
                None => part.fill(0),
                Some(pblk) => {
                    let place = pblk.0 * block + within;
                    let before = at % unit;
                    if before == 0 && here.is_multiple_of(unit) {
                        self.read_ciphertext(inode, place, part)?;
                        for (unit, number) in part.chunks_exact_mut(unit as usize).zip(at / unit..)
                        {
                            contents.cipher.decrypt_unit(number, unit);
                        }
                    } else {
                        one.resize(unit as usize, 0);
                        self.read_ciphertext(inode, place - before, &mut one)?;
                        contents.cipher.decrypt_unit(at / unit, &mut one);
                        part.copy_from_slice(&one[before as usize..][..here as usize]);
                    }
                }
            }
            at += here;
            rest = after;
        }
        Ok(())
    }

    fn read_ciphertext(&self, inode: &Inode, place: u64, data: &mut [u8]) -> Result<()> {
        match self.mapping.journals_data(inode) {
            true => self.read_journaled(place, data, false),
            false => Ok(self.volume.device().read_at(place, data)?),
        }
    }
}

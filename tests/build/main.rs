//! Images that we make, as e2fsck, dumpe2fs and the kernel read them.

mod empty_images;
mod fsverity;
mod oracle;
mod trees;
mod verity;

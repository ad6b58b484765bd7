//! uext4 block.

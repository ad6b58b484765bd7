use crate::transcript::Case;
pub const CASES: [Case; 0] = [];

//! The planted bugs, all of which [`super::canary`] catches.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "CANARIES says what each does")]
pub enum Bug {
    NoBarrierBeforeCommit,
    CommitNotDurable,
    CommitBeforeLog,
    DataAfterCommit,
    TailBeforeCheckpoint,
    LogNeverInUse,
    TailNeverMoves,
    RevokesForgotten,
    CopyIsStale,
    CopyHasAnotherPlace,
    CheckpointLosesABlock,
    CheckpointMisplacesABlock,
    DataLost,
    DeviceLies,
    RecoveryWithoutFlush,
    RecoveryEmptiesLogFirst,
    RecoverySkipsABlock,
    RecoveryIgnoresTheLog,
    OrphansForgotten,
    BitmapBitLost,
    LinkCountOff,
    FreeBlockInLog,
    DataBlockInLog,
    SyncedByteChanged,
    NameLost,
    StaleBlockShown,
    SyncForgotten,
}

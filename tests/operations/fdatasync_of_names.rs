//! fdatasync(2) of a directory waits for its names: a database takes the removal of its journal for durable then.
use crate::*;

#[test]
fn names_are_data_of_a_directory() {
    let path = image("16M", "");
    let fs = path.mount();
    let (me, top) = (Caller::root(), fs.top());
    let durable = |what: &str| {
        fs.files.fsync(&top, true).unwrap();
        let tid = top.sync_tid(false);
        assert!(
            fs.volume.journal().is_committed(tid),
            "{what} is not durable"
        );
    };
    let file = fs.make(&top, b"a", &FILE);
    durable("a new name");
    fs.namei.link(&me, &file, &top, b"b").unwrap();
    durable("another name");
    fs.namei
        .rename(&me, &top, b"b", &top, b"c", RenameFlags::empty())
        .unwrap();
    durable("a new name for the old");
    fs.remove(&top, b"c");
    durable("a name that is gone");
}

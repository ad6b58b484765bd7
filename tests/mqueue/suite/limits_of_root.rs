//! What root may in the library: the kernel's side shows it only where root has every capability.

use uext4_mqueue::{Limits, MqOpen, MqueueType};
use uext4_vfs::{Caller, Errno};

#[test]
fn root_is_limited_by_what_there_can_be() {
    let namespace = MqueueType::default().create(Limits::default());
    let make = |name: &[u8], size| {
        let how = MqOpen::CREATE | MqOpen::READ;
        namespace.open(&Caller::root(), name, how, 0o600, Some(size))
    };
    let mut limits = namespace.limits();
    limits.queues_max = 0;
    namespace.set_limits(limits);
    make(b"/a", (11, 8193)).expect("beyond the limits");
    let errno = |size| make(b"/b", size).err().map(|e| e.errno());
    assert_eq!(errno((65_536, 1 << 24)), Some(Errno::EMFILE));
    assert_eq!(errno((65_537, 1)), Some(Errno::EINVAL));
    assert_eq!(errno((1, (1 << 24) + 1)), Some(Errno::EINVAL));
    assert_eq!(namespace.queues(), 1, "what was refused does not count");
    let charged = namespace.accounts().bytes_of(0);
    assert_eq!(charged, 11 * (8193 + 96));
    namespace.unlink(&Caller::root(), b"/a").expect("unlinks");
    assert_eq!(
        (namespace.queues(), namespace.accounts().bytes_of(0)),
        (0, 0)
    );
}

use super::*;
use uext4_block::MemoryDevice;

const BITS: u32 = 8192;

/// Runs `work` with a bitmap without a set bit, and again if the thread moved to another CPU meanwhile.
fn on_one_cpu<R>(work: impl Fn(&InodeBits) -> R) -> R {
    loop {
        let cache = BufferCache::new(Arc::new(MemoryDevice::new(1 << 16)), 4096, 8);
        let buffer = cache.get(0).expect("a block");
        let bits = InodeBits::new(buffer, &[0; BITS as usize / 8]);
        let done = work(&bits);
        if bits.cpus.iter().count() <= 1 {
            return done;
        }
    }
}

fn claim_all(bits: &InodeBits) -> Vec<u32> {
    let claim = || bits.claim_own(0, BITS, &|_| true, &mut 0);
    std::iter::from_fn(claim).collect()
}

#[test]
fn a_cpu_claims_one_line_of_the_bitmap_after_the_other() {
    let mut claimed = on_one_cpu(claim_all);
    assert_eq!(claimed.len(), BITS as usize);
    for line in claimed.chunks(LINE_BITS as usize) {
        let of_line = (line[0]..line[0] + LINE_BITS).collect::<Vec<_>>();
        assert_eq!(line, of_line);
        assert!(line[0].is_multiple_of(LINE_BITS));
    }
    claimed.sort_unstable();
    assert!(claimed.into_iter().eq(0..BITS));
}

#[test]
fn a_line_of_another_cpu_is_left_to_it() {
    let claimed = on_one_cpu(|bits| {
        bits.give_to_another_cpu(0);
        bits.give_to_another_cpu(7);
        claim_all(bits)
    });
    let lines: HashSet<u32> = claimed.iter().map(|index| index / LINE_BITS).collect();
    assert!(!lines.contains(&0) && !lines.contains(&7));
    assert_eq!(claimed.len(), (BITS - 2 * LINE_BITS) as usize);
}

#[test]
fn a_cpu_without_a_line_passes_the_group_over_for_a_while() {
    let (at_first, passed, after_release) = on_one_cpu(|bits| {
        let at_first = bits.has_line_for_claim();
        claim_all(bits);
        let passed = (0..2 * PASSES).take_while(|_| !bits.has_line_for_claim());
        let passed = passed.count();
        bits.claim_own(0, BITS, &|_| true, &mut 0);
        assert!(bitmap::clear(&bits.words, 4000));
        bits.note_released(false);
        let after_release = bits.claim_own(0, BITS, &|_| true, &mut 0);
        (at_first, passed, after_release)
    });
    assert!(at_first);
    assert_eq!(passed, PASSES as usize);
    assert_eq!(after_release, Some(4000));
}

#[test]
fn a_group_is_full_when_no_bit_is_clear() {
    on_one_cpu(|bits| {
        bitmap::assign_run(&bits.words, 0, BITS, true);
        assert!(!bits.is_full(), "no search has found that");
        bits.note_full(BITS);
        assert!(bits.is_full());
        bitmap::clear(&bits.words, BITS - 1);
        bits.note_full(BITS);
        assert!(!bits.is_full(), "a bit was cleared beside the search");
        bits.note_full(BITS - 1);
        assert!(bits.is_full());
        bits.note_released(false);
        assert!(!bits.is_full());
    });
}

#[test]
fn inodes_that_were_deleted_are_remembered() {
    on_one_cpu(|bits| {
        let now = crate::clock::now_s();
        assert!(!bits.note_all_deleted(0, BITS), "none was deleted");
        bitmap::assign_run(&bits.words, 0, BITS, true);
        for index in [3, BITS - 1] {
            bits.note_deleted(index);
            bitmap::clear(&bits.words, index);
        }
        assert!(bits.deleted_since(3, now - 1) && bits.deleted_since(BITS - 1, now - 1));
        assert!(!bits.deleted_since(4, 0), "never deleted");
        assert!(!bits.deleted_since(3, now + 1000), "deleted before");
        assert!(bits.note_all_deleted(now - 1, BITS));
        assert!(bits.first_deleted_s() >= now);
        bitmap::assign_run(&bits.words, 0, BITS, true);
        assert!(!bits.note_all_deleted(now - 1, BITS), "no bit is clear");
    });
}

#[test]
fn a_line_without_a_clear_bit_gets_no_owner() {
    on_one_cpu(|bits| {
        bitmap::assign_run(&bits.words, 0, BITS, true);
        bitmap::clear(&bits.words, 5 * LINE_BITS + 3);
        assert!(bits.is_set(5 * LINE_BITS + 2) && !bits.is_set(5 * LINE_BITS + 3));
        let claimed = bits.claim_own(0, BITS, &|_| true, &mut 0);
        assert_eq!(claimed, Some(5 * LINE_BITS + 3));
        let owned = |owner: &AtomicU32| owner.load(Relaxed) != 0;
        assert_eq!(bits.owners.iter().position(owned), Some(5));
        assert_eq!(bits.owners.iter().filter(|owner| owned(owner)).count(), 1);
    });
}

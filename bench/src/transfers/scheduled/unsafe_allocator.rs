//! An allocator that gives every object cache lines of its own, and says when they are free.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use uext4_sync::transfers;

const LINE_BYTES: usize = 64;

/// That of the system, in whole lines. All workers are tasks of one thread, so that it would place what they make side by side;
/// threads have arenas of their own.
struct WholeLines;

fn whole_lines(layout: Layout) -> Layout {
    let aligned = layout.align_to(LINE_BYTES);
    aligned.map_or(layout, |layout| layout.pad_to_align())
}

// SAFETY: the system's allocator gets the same layout for an object when it is made and when it is freed, as large and as aligned
// as the caller's at least.
unsafe impl GlobalAlloc for WholeLines {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: of this function; the layout is not smaller.
        unsafe { System.alloc(whole_lines(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(whole_lines(layout)) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        let layout = whole_lines(layout);
        transfers::forget(object.addr(), layout.size());
        // SAFETY: of this function; it was made with that layout.
        unsafe { System.dealloc(object, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: WholeLines = WholeLines;

package uext4

// #include "call.h"
import "C"

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
)

// Mkfs makes an empty image of that size in the file or block device path of the host, with options of [Set]. What a file held is replaced once the
// image is complete. With a size of 0 it is as large as what is there.
func Mkfs(path string, size int64, opts ...Option) error {
	use, err := accept(opts, setting)
	if err != nil {
		return pathError("mkfs", path, err)
	}
	return use.mkfs(path, size)
}

// BuildDir makes an image of a directory of the host: with owners, times, hard links, holes, devices and extended attributes. It is as large as its
// files need unless [Size] is among the options.
func BuildDir(path, dir string, opts ...Option) error {
	use, err := accept(opts, setting, imageSize)
	if err != nil {
		return pathError("mkfs", path, err)
	}
	from, err := accept([]Option{Set("from", dir)}, setting)
	if err != nil {
		return pathError("mkfs", path, err)
	}
	use.settings = append(use.settings, from.settings...)
	return use.mkfs(path, use.size)
}

func (o *options) mkfs(path string, size int64) error {
	host, err := hostPath(path)
	if err != nil {
		return pathError("mkfs", path, err)
	}
	if size < 0 {
		return pathError("mkfs", path, syscall.EINVAL)
	}
	if !o.has("from") && !o.has("threads") && !isDevice(path) {
		o.settings = append(o.settings, Set("threads", "1"))
	}
	settings := o.strings()
	defer settings.free()
	_, err = outcome(C.call_mkfs(host, C.uint64_t(size), settings.pointer()))
	return pathError("mkfs", path, err)
}

// isDevice reports whether path is no file: an empty image in a file is made sooner by one thread, as nothing waits for a device but the last flush.
func isDevice(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

// Report is what a check or a repair found.
type Report struct {
	// Found and Repaired count faults.
	Found, Repaired uint64
	// Clean: no fault is left, and the check reached the end.
	Clean bool
	// Incomplete: a fault ended the check.
	Incomplete bool
	// NeedsRecovery: the journal holds changes; the image is checked as recovery leaves it.
	NeedsRecovery bool
	// After a check, what is in use.
	Inodes, Files, Directories, Blocks uint64
	// Faults are at most 10,000.
	Faults []Fault
}

// Fault is a fault of an image.
type Fault struct {
	Text string
	// Inode is 0 if none is concerned.
	Inode uint64
	// Block and Group are -1 if none is concerned.
	Block, Group int64
	Repaired     bool
}

// Check checks everything of an image, which is not written. Faults are no error.
func Check(path string, opts ...Option) (*Report, error) {
	use, err := accept(opts, setting)
	if err != nil {
		return nil, pathError("check", path, err)
	}
	values, err := use.only("threads")
	if err != nil {
		return nil, pathError("check", path, err)
	}
	threads := uint64(0)
	if text, given := values["threads"]; given {
		if threads, err = strconv.ParseUint(text, 10, 32); err != nil {
			return nil, pathError("check", path, fmt.Errorf("%v: %w", err, syscall.EINVAL))
		}
	}
	return reportOf("check", path, func(path *C.char, report **C.uext4_report) C.call_result {
		return C.call_check(path, C.uint32_t(threads), report)
	})
}

// Repair repairs an image, which must not be open; with [Safe] only what loses nothing. Faults that are left are no error.
func Repair(path string, opts ...Option) (*Report, error) {
	use, err := accept(opts, setting, safeRepair)
	if err != nil {
		return nil, pathError("repair", path, err)
	}
	values, err := use.only("undo")
	if err != nil {
		return nil, pathError("repair", path, err)
	}
	var undo *C.char
	if file, given := values["undo"]; given {
		undo = cString(file)
	}
	safe := C.int(0)
	if use.safe {
		safe = 1
	}
	return reportOf("repair", path, func(path *C.char, report **C.uext4_report) C.call_result {
		return C.call_repair(path, safe, undo, report)
	})
}

// reportOf makes a call that returns a report, and reads it.
func reportOf(op, path string, call func(*C.char, **C.uext4_report) C.call_result) (*Report, error) {
	host, err := hostPath(path)
	if err != nil {
		return nil, pathError(op, path, err)
	}
	var report *C.uext4_report
	if _, err = outcome(call(host, &report)); err != nil {
		return nil, pathError(op, path, err)
	}
	defer C.uext4_report_free(report)
	to, err := readReport(report)
	return to, pathError(op, path, err)
}

func readReport(report *C.uext4_report) (*Report, error) {
	var counts C.uext4_counts
	if _, err := outcome(C.call_report_counts(report, &counts)); err != nil {
		return nil, err
	}
	to := &Report{
		Found:         uint64(counts.faults),
		Repaired:      uint64(counts.repaired),
		Clean:         counts.clean != 0,
		Incomplete:    counts.incomplete != 0,
		NeedsRecovery: counts.needs_recovery != 0,
		Inodes:        uint64(counts.inodes_used),
		Files:         uint64(counts.files),
		Directories:   uint64(counts.directories),
		Blocks:        uint64(counts.blocks_used),
	}
	for index := C.uint64_t(0); index < counts.listed; index++ {
		var fault C.uext4_fault
		if _, err := outcome(C.call_report_fault(report, index, &fault)); err != nil {
			return nil, err
		}
		to.Faults = append(to.Faults, Fault{
			Text:     C.GoString(fault.text),
			Inode:    uint64(fault.inode),
			Block:    concerned(fault.block),
			Group:    concerned(fault.group),
			Repaired: fault.repaired != 0,
		})
	}
	return to, nil
}

func concerned(number C.uint64_t) int64 {
	if number > math.MaxInt64 {
		return -1
	}
	return int64(number)
}

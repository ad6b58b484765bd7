package uext4

// #include "call.h"
import "C"

import (
	"io/fs"
	"path"
	"syscall"
	"time"
)

// info is an [fs.FileInfo], with a *syscall.Stat_t as Sys.
type info struct {
	name string
	attr C.uext4_attr
}

func newInfo(name string, attr C.uext4_attr) *info { return &info{path.Base(name), attr} }

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return int64(i.attr.size) }
func (i *info) Mode() fs.FileMode  { return fileMode(uint32(i.attr.mode)) }
func (i *info) ModTime() time.Time { return goTime(i.attr.modified) }
func (i *info) IsDir() bool        { return i.Mode().IsDir() }

// Sys returns a *syscall.Stat_t, as of a file of the host: archive/tar reads owners and devices from it.
func (i *info) Sys() any {
	stat := &syscall.Stat_t{
		Ino:    uint64(i.attr.ino),
		Mode:   uint32(i.attr.mode),
		Uid:    uint32(i.attr.uid),
		Gid:    uint32(i.attr.gid),
		Size:   int64(i.attr.size),
		Blocks: int64(i.attr.blocks),
	}
	assign(&stat.Nlink, uint64(i.attr.nlink))
	assign(&stat.Rdev, deviceNumber(uint32(i.attr.major), uint32(i.attr.minor)))
	for _, of := range []struct {
		to   *syscall.Timespec
		from C.uext4_time
	}{{&stat.Atim, i.attr.accessed}, {&stat.Mtim, i.attr.modified}, {&stat.Ctim, i.attr.changed}} {
		assign(&of.to.Sec, uint64(of.from.seconds))
		assign(&of.to.Nsec, uint64(of.from.nanoseconds))
	}
	return stat
}

// assign sets a field whose type depends on the architecture.
func assign[T ~int32 | ~int64 | ~uint32 | ~uint64](to *T, value uint64) { *to = T(value) }

// deviceNumber is a device's number as the C library of Linux composes it.
func deviceNumber(major, minor uint32) uint64 {
	high, low := uint64(major), uint64(minor)
	return (high&^0xfff)<<32 | (high&0xfff)<<8 | (low&^0xff)<<12 | low&0xff
}

// deviceParts is the reverse of deviceNumber.
func deviceParts(number uint64) (major, minor uint32) {
	return uint32(number>>32)&^0xfff | uint32(number>>8)&0xfff, uint32(number>>12)&^0xff | uint32(number)&0xff
}

func goTime(of C.uext4_time) time.Time { return time.Unix(int64(of.seconds), int64(of.nanoseconds)) }

// cTime returns nil, which leaves a time as it is, for the zero time.
func cTime(of time.Time) *C.uext4_time {
	if of.IsZero() {
		return nil
	}
	return &C.uext4_time{seconds: C.int64_t(of.Unix()), nanoseconds: C.uint32_t(of.Nanosecond())}
}

// Kinds of files, and the permissions that fs.FileMode keeps elsewhere.
var (
	kinds = map[uint32]fs.FileMode{
		syscall.S_IFREG:  0,
		syscall.S_IFDIR:  fs.ModeDir,
		syscall.S_IFLNK:  fs.ModeSymlink,
		syscall.S_IFIFO:  fs.ModeNamedPipe,
		syscall.S_IFSOCK: fs.ModeSocket,
		syscall.S_IFBLK:  fs.ModeDevice,
		syscall.S_IFCHR:  fs.ModeDevice | fs.ModeCharDevice,
	}
	moved = map[uint32]fs.FileMode{
		syscall.S_ISUID: fs.ModeSetuid,
		syscall.S_ISGID: fs.ModeSetgid,
		syscall.S_ISVTX: fs.ModeSticky,
	}
)

func fileMode(mode uint32) fs.FileMode {
	kind, known := kinds[mode&syscall.S_IFMT]
	if !known {
		kind = fs.ModeIrregular
	}
	to := kind | fs.FileMode(mode)&fs.ModePerm
	for bit, flag := range moved {
		if mode&bit != 0 {
			to |= flag
		}
	}
	return to
}

// permissions returns those of a mode as the library takes them.
func permissions(mode fs.FileMode) C.uint32_t {
	to := uint32(mode.Perm())
	for bit, flag := range moved {
		if mode&flag != 0 {
			to |= bit
		}
	}
	return C.uint32_t(to)
}

// kindBits returns S_IFMT of a mode; false for a kind that ext4 does not have.
func kindBits(mode fs.FileMode) (C.uint32_t, bool) {
	for bits, kind := range kinds {
		if kind == mode.Type() {
			return C.uint32_t(bits), true
		}
	}
	return 0, false
}

// entry is an [fs.DirEntry].
type entry struct {
	fs   *FS
	path string
	kind fs.FileMode
}

func (e *entry) Name() string               { return path.Base(e.path) }
func (e *entry) IsDir() bool                { return e.kind.IsDir() }
func (e *entry) Type() fs.FileMode          { return e.kind }
func (e *entry) Info() (fs.FileInfo, error) { return e.fs.Lstat(e.path) }

package uext4

// #include "call.h"
import "C"

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// Option changes how an image is opened, made, checked or repaired. A call fails with syscall.EINVAL if an option is not one of its own.
type Option struct {
	kind  optionKind
	flag  uint32
	name  string
	value string
}

type optionKind int

const (
	openFlag optionKind = iota + 1
	setting
	imageSize
	safeRepair
)

// Options of [Open]; without ReadWrite an image is read only and not written, even if its journal needs recovery.
var (
	// ReadWrite opens an image to be written too.
	ReadWrite = Option{kind: openFlag, flag: C.UEXT4_OPEN_READ_WRITE}
	// Shared does not keep other programs out.
	Shared = Option{kind: openFlag, flag: C.UEXT4_OPEN_SHARED}
	// Direct bypasses the host's cache (O_DIRECT).
	Direct = Option{kind: openFlag, flag: C.UEXT4_OPEN_DIRECT}
	// NoRecovery ignores the journal; read-only.
	NoRecovery = Option{kind: openFlag, flag: C.UEXT4_OPEN_NO_RECOVERY}
	// Discard discards freed blocks.
	Discard = Option{kind: openFlag, flag: C.UEXT4_OPEN_DISCARD}
	// LazyTime writes time stamps with other changes of a file.
	LazyTime = Option{kind: openFlag, flag: C.UEXT4_OPEN_LAZYTIME}
)

// Safe makes [Repair] repair only faults whose repair loses nothing.
var Safe = Option{kind: safeRepair}

// Size is the size of the image that [Build] or [BuildDir] makes. Without it an image of BuildDir is as large as its files need, and one of Build
// somewhat larger.
func Size(bytes int64) Option {
	return Option{kind: imageSize, name: "size", value: strconv.FormatInt(bytes, 10)}
}

// Set is a setting by its name:
//
//   - [Open]: journal, data, commit_interval (milliseconds), cache_bytes, caller (UID:GID)
//   - [Mkfs], [Build], [BuildDir]: label, uuid, time (seconds), features (as mke2fs -O), block_size, inode_size, cluster_size, journal_size, inodes,
//     inode_ratio, reserved_percent, owner (UID:GID), platform, format (raw, qcow2), and the others that uext4.h lists at uext4_mkfs; from may be
//     given several times
//   - [Check]: threads
//   - [Repair]: undo, a file of the host that gets what was there before
func Set(name, value string) Option {
	return Option{kind: setting, name: name, value: value}
}

// options are what a call takes of its options.
type options struct {
	flags    uint32
	safe     bool
	size     int64
	settings []Option
}

// accept takes options of the given kinds.
func accept(list []Option, kinds ...optionKind) (options, error) {
	var to options
	for _, option := range list {
		if !contains(kinds, option.kind) {
			return to, fmt.Errorf("option %q can't be used here: %w", option.name, syscall.EINVAL)
		}
		switch option.kind {
		case openFlag:
			to.flags |= option.flag
		case safeRepair:
			to.safe = true
		case imageSize:
			size, err := strconv.ParseInt(option.value, 10, 64)
			if err != nil || size <= 0 {
				return to, fmt.Errorf("size %s can't be: %w", option.value, syscall.EINVAL)
			}
			to.size = size
		case setting:
			if strings.IndexByte(option.name+option.value, 0) >= 0 {
				return to, fmt.Errorf("option %q has a 0: %w", option.name, syscall.EINVAL)
			}
			to.settings = append(to.settings, option)
		}
	}
	return to, nil
}

func contains(kinds []optionKind, kind optionKind) bool {
	for _, one := range kinds {
		if one == kind {
			return true
		}
	}
	return false
}

// has reports whether a setting is among them.
func (o *options) has(name string) bool {
	for _, option := range o.settings {
		if option.name == name {
			return true
		}
	}
	return false
}

// number is the largest value of the settings of these names, 0 without one.
func (o *options) number(names ...string) int64 {
	largest := int64(0)
	for _, option := range o.settings {
		for _, name := range names {
			// The library refuses what is no number.
			if value, err := strconv.ParseInt(option.value, 10, 64); err == nil && option.name == name {
				largest = max64(largest, value)
			}
		}
	}
	return largest
}

// only returns the values of settings, of which no other may be there; of several with the same name the last.
func (o *options) only(names ...string) (map[string]string, error) {
	values := map[string]string{}
	for _, option := range o.settings {
		known := false
		for _, name := range names {
			known = known || name == option.name
		}
		if !known {
			return nil, fmt.Errorf("option %q can't be used here: %w", option.name, syscall.EINVAL)
		}
		values[option.name] = option.value
	}
	return values, nil
}

// cSettings are settings in the memory of C.
type cSettings []*C.char

func (o *options) strings() cSettings {
	list := make(cSettings, 0, len(o.settings)+1)
	for _, option := range o.settings {
		list = append(list, C.CString(option.name+"="+option.value))
	}
	return append(list, nil)
}

func (s cSettings) pointer() **C.char { return &s[0] }

func (s cSettings) free() {
	for _, text := range s {
		C.free(unsafe.Pointer(text))
	}
}

package uext4

/*
#cgo LDFLAGS: -l:libuext4.a -Wl,--as-needed
#cgo pkg-config: --static uext4
#include "call.h"
*/
import "C"

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// Error is a failed call of the library: the Err of an [fs.PathError] or [os.LinkError].
type Error struct {
	Errno syscall.Errno
	// Message names what failed; where damage is the cause, with inode and block.
	Message string
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns Errno, so that errors.Is(err, fs.ErrNotExist) and errors.Is(err, syscall.ENOSPC) hold.
func (e *Error) Unwrap() error { return e.Errno }

// outcome returns the value of a call, or its failure.
func outcome(result C.call_result) (int64, error) {
	if result.value >= 0 {
		return int64(result.value), nil
	}
	errno := syscall.Errno(-result.value)
	if result.text == nil {
		return 0, errno
	}
	defer C.free(unsafe.Pointer(result.text))
	return 0, &Error{errno, C.GoString(result.text)}
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func linkError(op, from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: from, New: to, Err: err}
}

// cString returns text with a 0 at its end. The library keeps no string beyond the call.
func cString(text string) *C.char {
	bytes := make([]byte, len(text)+1)
	copy(bytes, text)
	return (*C.char)(unsafe.Pointer(&bytes[0]))
}

// hostPath returns a path of the host for a call.
func hostPath(path string) (*C.char, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, syscall.EINVAL
	}
	return cString(path), nil
}

// valid reports whether name is a path as [fs.ValidPath] has it, but of any bytes other than 0: names in an image need not be UTF-8.
func valid(name string) bool {
	return fs.ValidPath(strings.ToValidUTF8(name, "?")) && strings.IndexByte(name, 0) < 0
}

// imagePath returns a path of the image for a call.
func imagePath(name string) *C.char {
	if name == "." {
		name = "/"
	}
	return cString(name)
}

// start returns a pointer to the first byte.
func start(data []byte) unsafe.Pointer {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Pointer(&data[0])
}

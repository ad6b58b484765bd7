package uext4

// #include "call.h"
import "C"

import (
	"errors"
	"io/fs"
	"os"
	"sort"
	"sync"
	"syscall"
)

// FS is an open image. Any number of goroutines may use it at the same time. Names are those of [io/fs]: "etc/hostname", and "." for the root.
// Symbolic links are followed inside the image, except by Lstat, ReadLink, Lchown, Link, Remove and Rename.
type FS struct {
	// mu is held, shared, during each call, and exclusively by Close.
	mu     sync.RWMutex
	handle *C.uext4_fs // nil: closed.
	path   string
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
)

// Open opens the image path of the host, to be read unless [ReadWrite] is among the options. One program can write an image, or several read it:
// others get syscall.EBUSY.
func Open(path string, opts ...Option) (*FS, error) {
	use, err := accept(opts, openFlag, setting)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	host, err := hostPath(path)
	if err != nil {
		return nil, pathError("open", path, err)
	}
	settings := use.strings()
	defer settings.free()
	image := &FS{path: path}
	if _, err = outcome(C.call_open(host, C.uint32_t(use.flags), settings.pointer(), &image.handle)); err != nil {
		return nil, pathError("open", path, err)
	}
	return image, nil
}

// Close makes all changes durable and closes the image, after the calls that run. Files that are open can only be closed afterwards.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle == nil {
		return pathError("close", f.path, fs.ErrClosed)
	}
	handle := f.handle
	f.handle = nil
	_, err := outcome(C.call_close(handle))
	return pathError("close", f.path, err)
}

// Sync makes all changes durable.
func (f *FS) Sync() error {
	_, err := f.do(func(image *C.uext4_fs) C.call_result { return C.call_sync(image) })
	return pathError("sync", f.path, err)
}

// do makes a call while the image is open.
func (f *FS) do(call func(*C.uext4_fs) C.call_result) (int64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.handle == nil {
		return 0, fs.ErrClosed
	}
	return outcome(call(f.handle))
}

// on makes a call on a name.
func (f *FS) on(op, name string, call func(*C.uext4_fs, *C.char) C.call_result) (int64, error) {
	if !valid(name) {
		return 0, pathError(op, name, fs.ErrInvalid)
	}
	value, err := f.do(func(image *C.uext4_fs) C.call_result { return call(image, imagePath(name)) })
	return value, pathError(op, name, err)
}

// Space is what an image has, in bytes and inodes.
type Space struct {
	BlockSize             int
	Size, Free, Available int64
	Inodes, FreeInodes    int64
	ReadOnly              bool
}

// Space returns sizes and free space; Available leaves out what is reserved for the superuser.
func (f *FS) Space() (Space, error) {
	var of C.uext4_space
	_, err := f.do(func(image *C.uext4_fs) C.call_result { return C.call_statfs(image, &of) })
	if err != nil {
		return Space{}, pathError("statfs", f.path, err)
	}
	block := int64(of.block_size)
	return Space{
		BlockSize:  int(block),
		Size:       int64(of.blocks) * block,
		Free:       int64(of.blocks_free) * block,
		Available:  int64(of.blocks_available) * block,
		Inodes:     int64(of.inodes),
		FreeInodes: int64(of.inodes_free),
		ReadOnly:   of.read_only != 0,
	}, nil
}

// Open opens a file or directory to be read. The file is a *[File].
func (f *FS) Open(name string) (fs.File, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Stat describes a file.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	var attr C.uext4_attr
	_, err := f.on("stat", name, func(image *C.uext4_fs, path *C.char) C.call_result { return C.call_stat(image, path, &attr) })
	if err != nil {
		return nil, err
	}
	return newInfo(name, attr), nil
}

// Lstat describes a file, of a symbolic link itself.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	var attr C.uext4_attr
	_, err := f.on("lstat", name, func(image *C.uext4_fs, path *C.char) C.call_result { return C.call_lstat(image, path, &attr) })
	if err != nil {
		return nil, err
	}
	return newInfo(name, attr), nil
}

// ReadLink returns what a symbolic link holds.
func (f *FS) ReadLink(name string) (string, error) {
	target, err := f.sized("readlink", name, 256, func(image *C.uext4_fs, path *C.char, to []byte) C.call_result {
		return C.call_readlink(image, path, (*C.char)(start(to)), C.size_t(len(to)))
	})
	return string(target), err
}

// sized makes a call that copies bytes, at first to a buffer of that size, until the buffer is large enough.
func (f *FS) sized(op, name string, size int, call func(*C.uext4_fs, *C.char, []byte) C.call_result) ([]byte, error) {
	for {
		buffer := make([]byte, size)
		got, err := f.on(op, name, func(image *C.uext4_fs, path *C.char) C.call_result { return call(image, path, buffer) })
		if err == nil {
			return buffer[:got], nil
		}
		if !errors.Is(err, syscall.ERANGE) || size > 1<<20 {
			return nil, err
		}
		size *= 4
	}
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	list, err := file.ReadDir(-1)
	sort.Slice(list, func(a, b int) bool { return list[a].Name() < list[b].Name() })
	return list, err
}

// ReadFile returns what a file holds.
func (f *FS) ReadFile(name string) ([]byte, error) {
	file, err := f.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.readAll()
}

package uext4

// #include "call.h"
import "C"

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
)

// File is an open file or directory. Goroutines may use it at the same time; those that call Read, Write, Seek or ReadDir share the position.
type File struct {
	fs   *FS
	name string
	flag int

	// mu is held, shared, during each call, and exclusively by Close.
	mu     sync.RWMutex
	handle *C.uext4_file // nil: closed.
	dir    *C.uext4_dir  // nil: no directory.

	// position guards offset, and is taken before mu.
	position sync.Mutex
	offset   int64
}

var (
	_ fs.ReadDirFile     = (*File)(nil)
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ io.StringWriter    = (*File)(nil)
)

// OpenFile opens a file or directory with flags of package os; perm is for a file that is created: no umask applies. O_CREATE needs O_WRONLY or O_RDWR.
func (f *FS) OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	file := &File{fs: f, name: name, flag: flag}
	_, err := f.on("open", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		result := C.call_file_open(image, path, C.int(flag), permissions(perm), &file.handle)
		if result.value < 0 || flag&(os.O_WRONLY|os.O_RDWR) != 0 {
			return result
		}
		return openDir(image, path, file)
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// openDir opens the entries too if an open file is a directory.
func openDir(image *C.uext4_fs, path *C.char, file *File) C.call_result {
	var attr C.uext4_attr
	result := C.call_file_stat(file.handle, &attr)
	if result.value >= 0 && attr.mode&syscall.S_IFMT == syscall.S_IFDIR {
		result = C.call_dir_open(image, path, &file.dir)
	}
	if result.value < 0 {
		C.uext4_file_close(file.handle)
		file.handle = nil
	}
	return result
}

// Create opens a file to be read and written, with permissions 0666 if there was none, and empties it.
func (f *FS) Create(name string) (*File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// WriteFile replaces what a file holds, or creates it.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	file, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// Name returns the name that was opened.
func (f *File) Name() string { return f.name }

// do makes a call while file and image are open.
func (f *File) do(op string, call func(*C.uext4_file) C.call_result) (int64, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.handle == nil {
		return 0, pathError(op, f.name, fs.ErrClosed)
	}
	value, err := f.fs.do(func(*C.uext4_fs) C.call_result { return call(f.handle) })
	return value, pathError(op, f.name, err)
}

// Close closes the file. What was written is durable after Sync of the file or the image.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle == nil {
		return pathError("close", f.name, fs.ErrClosed)
	}
	if f.dir != nil {
		C.uext4_dir_close(f.dir)
		f.dir = nil
	}
	_, err := outcome(C.call_file_close(f.handle))
	f.handle = nil
	return pathError("close", f.name, err)
}

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) {
	var attr C.uext4_attr
	if _, err := f.do("stat", func(file *C.uext4_file) C.call_result { return C.call_file_stat(file, &attr) }); err != nil {
		return nil, err
	}
	return newInfo(f.name, attr), nil
}

// Sync makes the file's data and attributes durable.
func (f *File) Sync() error {
	_, err := f.do("sync", func(file *C.uext4_file) C.call_result { return C.call_file_sync(file) })
	return err
}

// Truncate sets the length.
func (f *File) Truncate(size int64) error {
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	_, err := f.do("truncate", func(file *C.uext4_file) C.call_result { return C.call_file_truncate(file, C.uint64_t(size)) })
	return err
}

// pread reads once.
func (f *File) pread(data []byte, offset int64) (int, error) {
	got, err := f.do("read", func(file *C.uext4_file) C.call_result {
		return C.call_file_pread(file, start(data), C.size_t(len(data)), C.uint64_t(offset))
	})
	return int(got), err
}

// pwrite writes everything.
func (f *File) pwrite(data []byte, offset int64) (int, error) {
	done := 0
	for {
		rest := data[done:]
		got, err := f.do("write", func(file *C.uext4_file) C.call_result {
			return C.call_file_pwrite(file, start(rest), C.size_t(len(rest)), C.uint64_t(offset+int64(done)))
		})
		done += int(got)
		switch {
		case err != nil || done == len(data):
			return done, err
		case got == 0:
			return done, pathError("write", f.name, io.ErrShortWrite)
		}
	}
}

// Read reads at the position.
func (f *File) Read(data []byte) (int, error) {
	f.position.Lock()
	defer f.position.Unlock()
	got, err := f.pread(data, f.offset)
	f.offset += int64(got)
	if err == nil && got == 0 && len(data) > 0 {
		err = io.EOF
	}
	return got, err
}

// ReadAt reads at an offset; the position stays.
func (f *File) ReadAt(data []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, pathError("readat", f.name, fs.ErrInvalid)
	}
	done := 0
	for done < len(data) {
		got, err := f.pread(data[done:], offset+int64(done))
		if err != nil {
			return done, err
		}
		if got == 0 {
			return done, io.EOF
		}
		done += got
	}
	return done, nil
}

// Write writes at the position, or at the end with os.O_APPEND.
func (f *File) Write(data []byte) (int, error) {
	f.position.Lock()
	defer f.position.Unlock()
	done, err := f.pwrite(data, f.offset)
	f.offset += int64(done)
	if err == nil && f.flag&os.O_APPEND != 0 {
		err = f.seekEnd(0)
	}
	return done, err
}

// WriteString is Write of a string.
func (f *File) WriteString(text string) (int, error) { return f.Write([]byte(text)) }

// WriteAt writes at an offset; the position stays. With os.O_APPEND it fails.
func (f *File) WriteAt(data []byte, offset int64) (int, error) {
	if offset < 0 || f.flag&os.O_APPEND != 0 {
		return 0, pathError("writeat", f.name, fs.ErrInvalid)
	}
	return f.pwrite(data, offset)
}

// seekEnd sets the position to that far after the end. The caller holds position.
func (f *File) seekEnd(by int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size()+by < 0 {
		return pathError("seek", f.name, fs.ErrInvalid)
	}
	f.offset = info.Size() + by
	return nil
}

// Seek sets the position of Read and Write.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.position.Lock()
	defer f.position.Unlock()
	if whence == io.SeekEnd {
		err := f.seekEnd(offset)
		return f.offset, err
	}
	if whence == io.SeekCurrent {
		offset += f.offset
	}
	if offset < 0 || whence != io.SeekStart && whence != io.SeekCurrent {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	_, err := f.do("seek", func(*C.uext4_file) C.call_result { return C.call_result{} })
	if err != nil {
		return 0, err
	}
	f.offset = offset
	return offset, nil
}

// readAll reads from the start to the end.
func (f *File) readAll() ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, pathError("read", f.name, syscall.EISDIR)
	}
	// One byte more, so that the read that fills it sees the end.
	data := make([]byte, 0, min64(info.Size(), 1<<30)+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		got, err := f.pread(data[len(data):cap(data)], int64(len(data)))
		data = data[:len(data)+got]
		if err != nil || got == 0 {
			return data, err
		}
	}
}

func max64(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}

func min64(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

// ReadDir returns up to n of the next entries of a directory, or all with n <= 0, in the order of the directory.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	list := []fs.DirEntry{}
	for n <= 0 || len(list) < n {
		next, err := f.next()
		if errors.Is(err, io.EOF) {
			if n > 0 && len(list) == 0 {
				return list, io.EOF
			}
			return list, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return list, err
		}
		list = append(list, next)
	}
	return list, nil
}

// next returns the next entry, or io.EOF. It fails with fs.ErrNotExist if the entry was removed meanwhile.
func (f *File) next() (fs.DirEntry, error) {
	var of C.uext4_dirent
	more, err := f.do("readdir", func(*C.uext4_file) C.call_result {
		if f.dir == nil {
			return C.call_result{value: -C.int64_t(syscall.ENOTDIR)}
		}
		return C.call_dir_read(f.dir, &of)
	})
	if err != nil {
		return nil, err
	}
	if more == 0 {
		return nil, io.EOF
	}
	name := C.GoStringN(&of.name[0], C.int(of.name_length))
	found := &entry{fs: f.fs, path: path.Join(f.name, name), kind: fileMode(uint32(of.kind)).Type()}
	if of.kind == 0 {
		info, err := found.Info()
		if err != nil {
			return nil, err
		}
		found.kind = info.Mode().Type()
	}
	return found, nil
}

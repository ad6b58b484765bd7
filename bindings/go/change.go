package uext4

// #include "call.h"
import "C"

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Mkdir makes a directory; no umask applies.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	_, err := f.on("mkdir", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_mkdir(image, path, permissions(perm))
	})
	return err
}

// MkdirAll makes a directory and those above it that do not exist.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	info, err := f.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return pathError("mkdir", name, syscall.ENOTDIR)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent := path.Dir(name); parent != "." {
		if err := f.MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	err = f.Mkdir(name, perm)
	// Another goroutine may have made it.
	if info, found := f.Stat(name); errors.Is(err, fs.ErrExist) && found == nil && info.IsDir() {
		return nil
	}
	return err
}

// Mknod makes an empty file, a device, a named pipe or a socket, as mode has it.
func (f *FS) Mknod(name string, mode fs.FileMode, major, minor uint32) error {
	kind, known := kindBits(mode)
	if !known {
		return pathError("mknod", name, fs.ErrInvalid)
	}
	_, err := f.on("mknod", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_mknod(image, path, kind|permissions(mode), C.uint32_t(major), C.uint32_t(minor))
	})
	return err
}

// Remove removes a file or an empty directory.
func (f *FS) Remove(name string) error {
	_, err := f.on("remove", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		result := C.call_unlink(image, path)
		if -result.value == C.int64_t(syscall.EISDIR) {
			C.free(unsafe.Pointer(result.text))
			result = C.call_rmdir(image, path)
		}
		return result
	})
	return err
}

// RemoveAll removes a file, or a directory with everything in it; a name that does not exist is no error.
func (f *FS) RemoveAll(name string) error {
	err := f.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	_, err = f.on("removeall", name, func(image *C.uext4_fs, path *C.char) C.call_result { return C.call_remove_all(image, path) })
	return err
}

// Rename gives a file another name, at once: also after a crash the name refers to the old file or to the new one.
func (f *FS) Rename(from, to string) error {
	return f.two("rename", from, to, func(image *C.uext4_fs, from, to *C.char) C.call_result { return C.call_rename(image, from, to, 0) })
}

// Link gives a file a name more.
func (f *FS) Link(original, name string) error {
	return f.two("link", original, name, func(image *C.uext4_fs, from, to *C.char) C.call_result { return C.call_link(image, from, to) })
}

// two makes a call on two names.
func (f *FS) two(op, from, to string, call func(image *C.uext4_fs, from, to *C.char) C.call_result) error {
	if !valid(from) || !valid(to) {
		return linkError(op, from, to, fs.ErrInvalid)
	}
	_, err := f.do(func(image *C.uext4_fs) C.call_result { return call(image, imagePath(from), imagePath(to)) })
	return linkError(op, from, to, err)
}

// Symlink makes a symbolic link, which holds target as it is.
func (f *FS) Symlink(target, name string) error {
	if !valid(name) || strings.IndexByte(target, 0) >= 0 {
		return linkError("symlink", target, name, fs.ErrInvalid)
	}
	_, err := f.do(func(image *C.uext4_fs) C.call_result { return C.call_symlink(image, cString(target), imagePath(name)) })
	return linkError("symlink", target, name, err)
}

// Chmod sets the permissions.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	_, err := f.on("chmod", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_chmod(image, path, permissions(mode))
	})
	return err
}

// Lchown sets owner and group, each but -1; of a symbolic link its own.
func (f *FS) Lchown(name string, uid, gid int) error {
	_, err := f.on("lchown", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_lchown(image, path, C.uint32_t(uid), C.uint32_t(gid))
	})
	return err
}

// Chtimes sets the times of last access and last change, each but the zero time.
func (f *FS) Chtimes(name string, accessed, modified time.Time) error {
	_, err := f.on("chtimes", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_utimens(image, path, cTime(accessed), cTime(modified))
	})
	return err
}

// Lchtimes is Chtimes, of a symbolic link its own.
func (f *FS) Lchtimes(name string, accessed, modified time.Time) error {
	_, err := f.on("lchtimes", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_lutimens(image, path, cTime(accessed), cTime(modified))
	})
	return err
}

// Truncate sets the length of a file.
func (f *FS) Truncate(name string, size int64) error {
	if size < 0 {
		return pathError("truncate", name, fs.ErrInvalid)
	}
	_, err := f.on("truncate", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_truncate(image, path, C.uint64_t(size))
	})
	return err
}

// Getxattr returns an extended attribute, such as "user.origin". Without it the error is syscall.ENODATA.
func (f *FS) Getxattr(name, attribute string) ([]byte, error) {
	if err := validAttribute("getxattr", name, attribute); err != nil {
		return nil, err
	}
	return f.sized("getxattr", name, 256, func(image *C.uext4_fs, path *C.char, to []byte) C.call_result {
		return C.call_xattr_get(image, path, cString(attribute), start(to), C.size_t(len(to)))
	})
}

// Setxattr sets an extended attribute.
func (f *FS) Setxattr(name, attribute string, value []byte) error {
	if err := validAttribute("setxattr", name, attribute); err != nil {
		return err
	}
	_, err := f.on("setxattr", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_xattr_set(image, path, cString(attribute), start(value), C.size_t(len(value)))
	})
	return err
}

// Listxattr returns the names of the extended attributes.
func (f *FS) Listxattr(name string) ([]string, error) {
	got, err := f.sized("listxattr", name, 1024, func(image *C.uext4_fs, path *C.char, to []byte) C.call_result {
		return C.call_xattr_list(image, path, start(to), C.size_t(len(to)))
	})
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return strings.Split(string(bytes.TrimSuffix(got, []byte{0})), "\x00"), nil
}

// Removexattr removes an extended attribute.
func (f *FS) Removexattr(name, attribute string) error {
	if err := validAttribute("removexattr", name, attribute); err != nil {
		return err
	}
	_, err := f.on("removexattr", name, func(image *C.uext4_fs, path *C.char) C.call_result {
		return C.call_xattr_remove(image, path, cString(attribute))
	})
	return err
}

func validAttribute(op, name, attribute string) error {
	if strings.IndexByte(attribute, 0) >= 0 {
		return pathError(op, name, fs.ErrInvalid)
	}
	return nil
}

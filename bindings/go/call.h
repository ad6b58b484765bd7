// The calls of uext4.h, each with the text of its failure: the library keeps it for the thread, and a goroutine may be on another one at its next call.

#include <stdlib.h>
#include <string.h>
#include <uext4.h>

typedef struct {
    int64_t value;
    char *text; // NULL, or to be freed.
} call_result;

static inline call_result call_result_of(int64_t value) {
    call_result result = {value, value < 0 ? strdup(uext4_message()) : NULL};
    return result;
}

#define CALL(name, parameters, arguments)                                                                                                          \
    static inline call_result call_##name parameters { return call_result_of(uext4_##name arguments); }

CALL(mkfs, (const char *path, uint64_t size, const char *const *options), (path, size, options))
CALL(check, (const char *path, uint32_t threads, uext4_report **report), (path, threads, report))
CALL(repair, (const char *path, int safe, const char *undo, uext4_report **report), (path, safe, undo, report))
CALL(report_counts, (const uext4_report *report, uext4_counts *counts), (report, counts))
CALL(report_fault, (const uext4_report *report, uint64_t index, uext4_fault *fault), (report, index, fault))

CALL(open, (const char *path, uint32_t flags, const char *const *options, uext4_fs **fs), (path, flags, options, fs))
CALL(close, (uext4_fs *fs), (fs))
CALL(sync, (const uext4_fs *fs), (fs))
CALL(statfs, (const uext4_fs *fs, uext4_space *space), (fs, space))

CALL(stat, (const uext4_fs *fs, const char *path, uext4_attr *to), (fs, path, to))
CALL(lstat, (const uext4_fs *fs, const char *path, uext4_attr *to), (fs, path, to))
CALL(chmod, (const uext4_fs *fs, const char *path, uint32_t mode), (fs, path, mode))
CALL(lchown, (const uext4_fs *fs, const char *path, uint32_t uid, uint32_t gid), (fs, path, uid, gid))
CALL(utimens, (const uext4_fs *fs, const char *path, const uext4_time *accessed, const uext4_time *modified), (fs, path, accessed, modified))
CALL(lutimens, (const uext4_fs *fs, const char *path, const uext4_time *accessed, const uext4_time *modified), (fs, path, accessed, modified))
CALL(truncate, (const uext4_fs *fs, const char *path, uint64_t length), (fs, path, length))

CALL(mkdir, (const uext4_fs *fs, const char *path, uint32_t mode), (fs, path, mode))
CALL(mknod, (const uext4_fs *fs, const char *path, uint32_t mode, uint32_t major, uint32_t minor), (fs, path, mode, major, minor))
CALL(symlink, (const uext4_fs *fs, const char *target, const char *path), (fs, target, path))
CALL(readlink, (const uext4_fs *fs, const char *path, char *target, size_t size), (fs, path, target, size))
CALL(link, (const uext4_fs *fs, const char *original, const char *path), (fs, original, path))
CALL(rename, (const uext4_fs *fs, const char *from, const char *to, uint32_t flags), (fs, from, to, flags))
CALL(unlink, (const uext4_fs *fs, const char *path), (fs, path))
CALL(rmdir, (const uext4_fs *fs, const char *path), (fs, path))
CALL(remove_all, (const uext4_fs *fs, const char *path), (fs, path))

CALL(xattr_get, (const uext4_fs *fs, const char *path, const char *name, void *value, size_t size), (fs, path, name, value, size))
CALL(xattr_set, (const uext4_fs *fs, const char *path, const char *name, const void *value, size_t size), (fs, path, name, value, size, 0))
CALL(xattr_list, (const uext4_fs *fs, const char *path, void *names, size_t size), (fs, path, names, size))
CALL(xattr_remove, (const uext4_fs *fs, const char *path, const char *name), (fs, path, name))

CALL(file_open, (const uext4_fs *fs, const char *path, int flags, uint32_t mode, uext4_file **file), (fs, path, flags, mode, file))
CALL(file_close, (uext4_file *file), (file))
CALL(file_pread, (const uext4_file *file, void *data, size_t size, uint64_t offset), (file, data, size, offset))
CALL(file_pwrite, (const uext4_file *file, const void *data, size_t size, uint64_t offset), (file, data, size, offset))
CALL(file_truncate, (const uext4_file *file, uint64_t length), (file, length))
CALL(file_sync, (const uext4_file *file), (file))
CALL(file_stat, (const uext4_file *file, uext4_attr *to), (file, to))

CALL(dir_open, (const uext4_fs *fs, const char *path, uext4_dir **dir), (fs, path, dir))
CALL(dir_read, (const uext4_dir *dir, uext4_dirent *to), (dir, to))
CALL(dir_close, (uext4_dir *dir), (dir))

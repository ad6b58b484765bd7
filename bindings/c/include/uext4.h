/* ext4 images in user space, from C. Generated from bindings/c/src; docs/C.md is the manual.
 *
 * Results    A call returns 0 or a count, or a negative errno, of which uext4_message() returns the text. A handle or structure that is
 *            NULL, as other arguments that can't be, is -EINVAL. No call ends the program or calls back into it.
 * Pointers   Strings end with a 0. Buffers have the size that is passed with them. A handle is from the call that opens it, and its close
 *            is its last use. Structures need no value before the call that fills them.
 * Threads    Any threads may use a handle at the same time, but nothing may use it while or after it is closed. Calls block the thread.
 * Paths      Inside an image a path is bytes, with or without a / at its start: at most 4095, and 255 for a name.
 * Crashes    A change is durable once uext4_sync, uext4_file_sync (of that file) or uext4_close returns 0. After a crash any other change
 *            of names and attributes is there as a whole or not at all.
 *
 * Example
 *
 *     uext4_fs *fs;
 *     if (uext4_mkfs("disk.img", 64 << 20, NULL) < 0 || uext4_open("disk.img", UEXT4_OPEN_READ_WRITE, NULL, &fs) < 0 ||
 *         uext4_mkdir(fs, "/etc", 0755) < 0 || uext4_close(fs) < 0)
 *         fprintf(stderr, "%s\n", uext4_message());
 */

#ifndef UEXT4_H
#define UEXT4_H

#include <stddef.h>
#include <stdint.h>

// How an image is opened.
typedef enum uext4_open_flags {
  // To be read only; the image is not written, even if its journal needs recovery.
  UEXT4_OPEN_READ_ONLY = 0,
  // To be read and written.
  UEXT4_OPEN_READ_WRITE = 1,
  // Other programs are not kept out.
  UEXT4_OPEN_SHARED = 2,
  // Past the cache of the host (O_DIRECT).
  UEXT4_OPEN_DIRECT = 4,
  // The journal is not recovered; read-only.
  UEXT4_OPEN_NO_RECOVERY = 8,
  // Freed blocks are discarded.
  UEXT4_OPEN_DISCARD = 16,
  // Time stamps are written with other changes of a file.
  UEXT4_OPEN_LAZYTIME = 32,
} uext4_open_flags;

// An open directory.
typedef struct uext4_dir uext4_dir;

// An open file.
typedef struct uext4_file uext4_file;

// An open image.
typedef struct uext4_fs uext4_fs;

// What a check or a repair found.
typedef struct uext4_report uext4_report;

// A time since 1970.
typedef struct uext4_time {
  int64_t seconds;
  // 0 to 999999999, or UTIME_NOW where a time is set.
  uint32_t nanoseconds;
  // 0.
  uint32_t reserved;
} uext4_time;

// Attributes of a file.
typedef struct uext4_attr {
  uint64_t ino;
  // Bytes.
  uint64_t size;
  // Units of 512 bytes that are allocated.
  uint64_t blocks;
  struct uext4_time accessed;
  struct uext4_time modified;
  struct uext4_time changed;
  struct uext4_time created;
  // Kind (S_IFMT) and permissions.
  uint32_t mode;
  uint32_t nlink;
  uint32_t uid;
  uint32_t gid;
  // The major number of a device.
  uint32_t major;
  // The minor number of a device.
  uint32_t minor;
  // Flags of the inode (FS_IMMUTABLE_FL ...).
  uint32_t flags;
  // Tells files apart that had the inode one after the other.
  uint32_t generation;
  // 0.
  uint64_t reserved[4];
} uext4_attr;

// What an image has.
typedef struct uext4_counts {
  // Faults of the image; after a repair, those that were found.
  uint64_t faults;
  // Faults that were repaired.
  uint64_t repaired;
  // Faults that uext4_report_fault returns, at most 10,000 of a check.
  uint64_t listed;
  // 1 if no fault is left and the check reached the end.
  uint32_t clean;
  // 1 if a fault ended the check.
  uint32_t incomplete;
  // 1 if the journal holds changes; the image is checked as recovery leaves it.
  uint32_t needs_recovery;
  // 0.
  uint32_t reserved;
  // After a check: inodes in use, regular files, directories, blocks in use.
  uint64_t inodes_used;
  uint64_t files;
  uint64_t directories;
  uint64_t blocks_used;
} uext4_counts;

// A fault of an image.
typedef struct uext4_fault {
  // What is wrong; valid until uext4_report_free.
  const char *text;
  // The inode concerned, or 0.
  uint64_t inode;
  // The block concerned, or UINT64_MAX.
  uint64_t block;
  // The group concerned, or UINT64_MAX.
  uint64_t group;
  // 1 if it was repaired.
  uint32_t repaired;
  // 0.
  uint32_t reserved;
} uext4_fault;

// An entry of a directory.
typedef struct uext4_dirent {
  uint64_t ino;
  // S_IFMT of the file, 0 if the directory does not record it.
  uint32_t kind;
  // Bytes of the name.
  uint32_t name_length;
  // The name, with a 0 at its end.
  char name[256];
} uext4_dirent;

// Sizes and free space.
typedef struct uext4_space {
  // Blocks that can hold data.
  uint64_t blocks;
  // Free blocks.
  uint64_t blocks_free;
  // Free blocks that users other than the superuser can have.
  uint64_t blocks_available;
  uint64_t inodes;
  uint64_t inodes_free;
  // Identity of the file system.
  uint64_t fsid;
  // Bytes of a block.
  uint32_t block_size;
  // The longest name, in bytes.
  uint32_t name_max;
  // 1 if writes are refused.
  uint32_t read_only;
  // 0.
  uint32_t reserved[5];
} uext4_space;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Attributes of a file; a symbolic link is followed. Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP.
int uext4_stat(const struct uext4_fs *fs, const char *path, struct uext4_attr *to);

// As uext4_stat, of a symbolic link its own.
int uext4_lstat(const struct uext4_fs *fs, const char *path, struct uext4_attr *to);

// Sets the permissions of a file; a symbolic link is followed. Returns 0 or a negative errno: -ENOENT, -EPERM, -EROFS.
int uext4_chmod(const struct uext4_fs *fs, const char *path, uint32_t mode);

// Sets the owner and the group of a file, each but UINT32_MAX; of a symbolic link its own. Returns 0 or a negative errno.
int uext4_lchown(const struct uext4_fs *fs, const char *path, uint32_t uid, uint32_t gid);

// Sets the times of last access and last change of a file, each but NULL; a symbolic link is followed. Returns 0 or a negative errno.
int uext4_utimens(const struct uext4_fs *fs, const char *path, const struct uext4_time *accessed, const struct uext4_time *modified);

// As uext4_utimens, of a symbolic link its own.
int uext4_lutimens(const struct uext4_fs *fs, const char *path, const struct uext4_time *accessed, const struct uext4_time *modified);

// Sets the length of a file; a symbolic link is followed. Returns 0 or a negative errno: -ENOENT, -EISDIR, -EFBIG, -EROFS.
int uext4_truncate(const struct uext4_fs *fs, const char *path, uint64_t length);

// Checks everything of the image `path` of the host, which is not written, on `threads` threads, or with 0 one for each CPU. Returns 0
// if it could be checked, faults or not, and puts a report in its place; or a negative errno: -EBUSY: open for writing, -EINVAL: no
// ext4, -EIO.
int uext4_check(const char *path, uint32_t threads, struct uext4_report **report);

// Repairs the image `path` of the host, which must not be open. `safe` is 1 to repair only faults whose repair loses nothing, and 0 for
// all; `undo` is NULL or a file of the host that gets what was there before. Returns 0, faults left or not, and puts a report in its
// place; or a negative errno: -EBUSY, -EINVAL, -EIO.
int uext4_repair(const char *path, int safe, const char *undo, struct uext4_report **report);

// The counts of a report. Returns 0 or -EINVAL.
int uext4_report_counts(const struct uext4_report *report, struct uext4_counts *counts);

// Fault `index` of a report, from 0. Returns 0 or -EINVAL: no such fault.
int uext4_report_fault(const struct uext4_report *report, uint64_t index, struct uext4_fault *fault);

// Frees a report and the texts of its faults. Returns 0 or -EINVAL.
int uext4_report_free(struct uext4_report *report);

// Opens a directory to be read. Returns 0 or a negative errno, and `*dir` is NULL then: -ENOENT, -ENOTDIR.
int uext4_dir_open(const struct uext4_fs *fs, const char *path, struct uext4_dir **dir);

// The next entry, without "." and "..". A name that is there from the open to the end is returned once; one that is made or removed
// meanwhile may be missing. Threads that share the handle share the position. Returns 1, 0 at the end, or a negative errno: -EUCLEAN:
// damage.
int uext4_dir_read(const struct uext4_dir *dir, struct uext4_dirent *to);

// Closes a directory. No other thread may use the handle any more. Returns 0 or -EINVAL.
int uext4_dir_close(struct uext4_dir *dir);

// The version of the library: "0.1.0".
const char *uext4_version(void);

// The text of the last call of this thread that failed, "" before the first. The string is valid until the thread's next call that
// fails.
const char *uext4_message(void);

// Opens a file; a symbolic link is followed. `flags` are those of open(2): O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC,
// O_APPEND, O_DIRECT, O_DSYNC, O_SYNC; to create a file it must be open for writing. `mode` has the permissions of a new file. Returns
// 0 or a negative errno, and `*file` is NULL then: -ENOENT, -EEXIST, -EISDIR, -EINVAL: flags that can't be, -ENOSPC, -EROFS.
int uext4_file_open(const struct uext4_fs *fs, const char *path, int flags, uint32_t mode, struct uext4_file **file);

// Closes a file. Its data is durable only after uext4_file_sync or uext4_sync. No other thread may use the handle any more. Returns 0 or
// -EINVAL.
int uext4_file_close(struct uext4_file *file);

// Reads at `offset`. Returns the bytes read, fewer than `size` at the end of the file or before data that can't be read, or a negative
// errno: -EBADF: not open for reading, -EIO.
int64_t uext4_file_pread(const struct uext4_file *file, void *data, size_t size, uint64_t offset);

// Writes at `offset`, or at the end with O_APPEND. Returns the bytes written, which may be fewer than `size`, or a negative errno:
// -EBADF: not open for writing, -ENOSPC, -EFBIG, -EIO.
int64_t uext4_file_pwrite(const struct uext4_file *file, const void *data, size_t size, uint64_t offset);

// Sets the length of a file. Returns 0 or a negative errno: -EBADF: not open for writing, -EFBIG.
int uext4_file_truncate(const struct uext4_file *file, uint64_t length);

// Makes a file's data and attributes durable, as fsync(2). Returns 0 or -EIO.
int uext4_file_sync(const struct uext4_file *file);

// Makes a file's data durable and what is needed to read it, as fdatasync(2). Returns 0 or -EIO.
int uext4_file_datasync(const struct uext4_file *file);

// Attributes of a file. Returns 0 or a negative errno.
int uext4_file_stat(const struct uext4_file *file, struct uext4_attr *to);

// Allocates, punches, zeroes, removes or inserts a range, as fallocate(2): `mode` is 0 or of FALLOC_FL_*. Returns 0 or a negative errno:
// -EOPNOTSUPP: a mode that can't be, -ENOSPC, -EFBIG, -EINVAL.
int uext4_file_fallocate(const struct uext4_file *file, int mode, uint64_t offset, uint64_t length);

// The next data (SEEK_DATA) or hole (SEEK_HOLE) at or after `offset`, as lseek(2). Returns its offset or a negative errno: -ENXIO: none.
int64_t uext4_file_seek(const struct uext4_file *file, uint64_t offset, int whence);

// Opens the image `path` of the host. `flags` are of enum uext4_open_flags; `options` is NULL or strings "name=value", of which the
// last is NULL:
//
//     journal=PATH           the file or block device of a journal outside of the image
//     data=ordered|journal|writeback
//     commit_interval=MILLISECONDS
//     cache_bytes=BYTES
//     caller=UID:GID         the user that calls act for, instead of the superuser
//
// Returns 0, or -EBUSY: another program has it open, -EUCLEAN: damage, -EINVAL: no ext4, or flags or options that can't be, -EROFS,
// or another errno of the host; `*fs` is NULL then.
int uext4_open(const char *path, uint32_t flags, const char *const *options, struct uext4_fs **fs);

// Makes all changes durable and closes the image. No other thread may use the handle any more, and it is gone even if the call fails;
// files and directories that are still open can only be closed. Returns 0 or -EIO.
int uext4_close(struct uext4_fs *fs);

// Makes all changes durable. Returns 0 or -EIO.
int uext4_sync(const struct uext4_fs *fs);

// Sizes and free space, as statvfs(3). Returns 0 or a negative errno.
int uext4_statfs(const struct uext4_fs *fs, struct uext4_space *space);

// Makes an image of `size` bytes in the file or block device `path` of the host; with a size of 0 it is as large as its files need,
// or as what is there.
//
// `options` is NULL or strings "name=value", of which the last is NULL:
//
//     from=DIR            a directory of the host whose files are copied, or an archive; may be given several times
//     features=LIST       as mke2fs -O: "64bit,^has_journal"
//     block_size=BYTES    cluster_size=BYTES    inode_size=BYTES    journal_size=BYTES
//     inodes=COUNT        inode_ratio=BYTES     reserved_percent=PERCENT
//     label=TEXT          uuid=UUID             time=SECONDS, of every time stamp
//     limit=BYTES         the most that an image without a size may need
//     owner=UID:GID       of the root directory
//     exclude=PATTERN     fsverity=PATTERN      of files; may be given several times
//     manifest=FILE       platform=NAME         threads=COUNT
//     format=raw|qcow2    partition=NUMBER
//
// Returns 0, -EINVAL: options that can't be, -ENOSPC: too small for its files, -EBUSY: in use, or another errno of the host. A file
// that held data is replaced once the new image is complete.
int uext4_mkfs(const char *path, uint64_t size, const char *const *options);

// Makes a directory with permissions `mode`, as mkdir(2). Returns 0 or a negative errno: -EEXIST, -ENOENT, -ENOSPC, -EROFS.
int uext4_mkdir(const struct uext4_fs *fs, const char *path, uint32_t mode);

// Makes a directory and those above it that do not exist, with permissions 0755. Returns 0 or a negative errno.
int uext4_mkdir_all(const struct uext4_fs *fs, const char *path);

// Makes an empty file, a device, a pipe or a socket, as mknod(2): `mode` has its kind (S_IFREG, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK)
// and its permissions; `major` and `minor` are those of a device. Returns 0 or a negative errno: -EEXIST, -ENOENT, -ENOSPC, -EINVAL.
int uext4_mknod(const struct uext4_fs *fs, const char *path, uint32_t mode, uint32_t major, uint32_t minor);

// Makes the symbolic link `path`, which holds `target`. Returns 0 or a negative errno: -EEXIST, -ENAMETOOLONG.
int uext4_symlink(const struct uext4_fs *fs, const char *target, const char *path);

// Copies what a symbolic link holds to `target`, without a 0 at its end, and returns its length; with a size of 0 the length alone.
// Otherwise a negative errno: -EINVAL: no symbolic link, -ERANGE: `size` is too small.
int64_t uext4_readlink(const struct uext4_fs *fs, const char *path, char *target, size_t size);

// Gives the file `original` the name `path` too; a symbolic link is not followed. Returns 0 or a negative errno: -EEXIST, -EPERM: a
// directory, -EMLINK.
int uext4_link(const struct uext4_fs *fs, const char *original, const char *path);

// Gives `from` the name `to`, as renameat2(2): `flags` are 0, RENAME_NOREPLACE, RENAME_EXCHANGE or RENAME_WHITEOUT. The name refers to
// the old file or to the new one at any time, also after a crash. Returns 0 or a negative errno: -ENOENT, -ENOTEMPTY, -EEXIST, -EINVAL.
int uext4_rename(const struct uext4_fs *fs, const char *from, const char *to, uint32_t flags);

// Removes a name that is not a directory's. Returns 0 or a negative errno: -ENOENT, -EISDIR, -EPERM.
int uext4_unlink(const struct uext4_fs *fs, const char *path);

// Removes an empty directory. Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ENOTEMPTY.
int uext4_rmdir(const struct uext4_fs *fs, const char *path);

// Removes a directory with everything in it; symbolic links are not followed. Returns 0 or a negative errno.
int uext4_remove_all(const struct uext4_fs *fs, const char *path);

// Copies the value of an extended attribute, `name` with its namespace, and returns its length; with a size of 0 the length alone.
// Otherwise a negative errno: -ENODATA: no such attribute, -ERANGE: `size` is too small, -EOPNOTSUPP: no such namespace.
int64_t uext4_xattr_get(const struct uext4_fs *fs, const char *path, const char *name, void *value, size_t size);

// Sets an extended attribute; `flags` are 0, XATTR_CREATE or XATTR_REPLACE. Returns 0 or a negative errno: -EEXIST, -ENODATA: as the
// flags say, -ENOSPC, -E2BIG: too large.
int uext4_xattr_set(const struct uext4_fs *fs, const char *path, const char *name, const void *value, size_t size, uint32_t flags);

// Copies the names of all extended attributes, each with a 0 at its end, and returns their length; with a size of 0 the length alone.
// Otherwise a negative errno: -ERANGE: `size` is too small.
int64_t uext4_xattr_list(const struct uext4_fs *fs, const char *path, char *names, size_t size);

// Removes an extended attribute. Returns 0 or a negative errno: -ENODATA: no such attribute.
int uext4_xattr_remove(const struct uext4_fs *fs, const char *path, const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UEXT4_H */

/* ext4 images in user space, from C.
 *
 * Calls return 0 or a count, or a negative errno; uext4_message() says more. Threads may share every handle, but
 * the call that closes it must be its last. A change is durable once uext4_sync, uext4_file_sync (of that file) or
 * uext4_close returns 0. Paths inside an image are bytes.
 */
#ifndef UEXT4_H
#define UEXT4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open image. */
typedef struct uext4_fs uext4_fs;
/* An open file. */
typedef struct uext4_file uext4_file;

/* The version of the library. */
const char *uext4_version(void);
/* The text of this thread's last failure, valid until its next one; "" before the first. */
const char *uext4_message(void);

/* Makes an image of `size` bytes in the file `path` of the host. */
int uext4_mkfs(const char *path, uint64_t size);
/* Opens an image; -EBUSY when another program has it open. */
int uext4_open(const char *path, bool writable, uext4_fs **fs);
/* Makes all changes durable and closes the image; its files are closed before. The handle is gone even on failure. */
int uext4_close(uext4_fs *fs);
/* Makes all changes durable. */
int uext4_sync(const uext4_fs *fs);

int uext4_mkdir(const uext4_fs *fs, const char *path);
int uext4_rmdir(const uext4_fs *fs, const char *path);
int uext4_unlink(const uext4_fs *fs, const char *path);
int uext4_rename(const uext4_fs *fs, const char *from, const char *to);
int uext4_link(const uext4_fs *fs, const char *from, const char *to);
/* Makes the symbolic link `to`, which says `from`. */
int uext4_symlink(const uext4_fs *fs, const char *from, const char *to);

/* Opens a file; `create` makes one with mode 0644 if there is none. */
int uext4_file_open(const uext4_fs *fs, const char *path, bool writable, bool create, uext4_file **file);
int uext4_file_close(uext4_file *file);
/* The bytes read, 0 at the end of the file. */
int64_t uext4_pread(const uext4_file *file, void *data, size_t size, uint64_t offset);
/* The bytes written. */
int64_t uext4_pwrite(const uext4_file *file, const void *data, size_t size, uint64_t offset);
int uext4_file_truncate(const uext4_file *file, uint64_t length);
/* Makes the file's data and attributes durable. */
int uext4_file_sync(const uext4_file *file);

#ifdef __cplusplus
}
#endif

#endif

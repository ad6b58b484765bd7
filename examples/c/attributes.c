/* Attributes and extended attributes: attributes IMAGE */
#include "example.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

int main(int argc, char **argv) {
    uext4_fs *fs;
    uext4_attr attr;
    char value[64];

    if (argc != 2)
        return 2;
    TRY(uext4_mkfs(argv[1], 16 << 20, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    TRY(uext4_mknod(fs, "/file", S_IFREG | 0644, 0, 0));
    TRY(uext4_symlink(fs, "file", "/link"));

    uext4_time then = {.seconds = 1000000000, .nanoseconds = 5}, now = {.nanoseconds = UTIME_NOW};
    TRY(uext4_chmod(fs, "/link", 0600));
    TRY(uext4_lchown(fs, "/file", 1000, UINT32_MAX));
    TRY(uext4_utimens(fs, "/link", &now, &then));
    TRY(uext4_lutimens(fs, "/link", NULL, &then));
    TRY(uext4_truncate(fs, "/file", 100));
    TRY(uext4_utimens(fs, "/file", NULL, &then));
    TRY(uext4_stat(fs, "/link", &attr));
    EXPECT(attr.mode == (S_IFREG | 0600) && attr.uid == 1000 && attr.gid == 0 && attr.size == 100);
    EXPECT(attr.modified.seconds == 1000000000 && attr.modified.nanoseconds == 5 && attr.accessed.seconds > 1000000000);
    TRY(uext4_lstat(fs, "/link", &attr));
    EXPECT(S_ISLNK(attr.mode) && attr.modified.seconds == 1000000000);

    TRY(uext4_xattr_set(fs, "/file", "user.colour", "red", 3, XATTR_CREATE));
    EXPECT(uext4_xattr_set(fs, "/file", "user.colour", "blue", 4, XATTR_CREATE) == -EEXIST);
    EXPECT(uext4_xattr_get(fs, "/file", "user.colour", NULL, 0) == 3);
    EXPECT(TRY(uext4_xattr_get(fs, "/file", "user.colour", value, sizeof value)) == 3 && memcmp(value, "red", 3) == 0);
    EXPECT(uext4_xattr_get(fs, "/file", "user.colour", value, 2) == -ERANGE);
    EXPECT(TRY(uext4_xattr_list(fs, "/file", value, sizeof value)) == 12 && strcmp(value, "user.colour") == 0);
    TRY(uext4_xattr_remove(fs, "/file", "user.colour"));
    EXPECT(uext4_xattr_get(fs, "/file", "user.colour", NULL, 0) == -ENODATA);
    TRY(uext4_close(fs));
    return 0;
}

/* Names of all kinds, made, moved and removed: names IMAGE */
#include "example.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
    char target[64];
    uext4_fs *fs;
    uext4_attr attr;

    if (argc != 2)
        return 2;
    TRY(uext4_mkfs(argv[1], 16 << 20, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));

    TRY(uext4_mkdir(fs, "/dev", 0755));
    TRY(uext4_mknod(fs, "/dev/null", S_IFCHR | 0666, 1, 3));
    TRY(uext4_mknod(fs, "/dev/pipe", S_IFIFO | 0600, 0, 0));
    EXPECT(uext4_mknod(fs, "/dev/dir", S_IFDIR | 0755, 0, 0) == -EINVAL);
    TRY(uext4_stat(fs, "/dev/null", &attr));
    EXPECT(S_ISCHR(attr.mode) && attr.major == 1 && attr.minor == 3);

    TRY(uext4_symlink(fs, "null", "/dev/link"));
    EXPECT(uext4_readlink(fs, "/dev/link", NULL, 0) == 4);
    EXPECT(uext4_readlink(fs, "/dev/link", target, 2) == -ERANGE);
    EXPECT(TRY(uext4_readlink(fs, "/dev/link", target, sizeof target)) == 4 && memcmp(target, "null", 4) == 0);

    TRY(uext4_mknod(fs, "/first", S_IFREG | 0644, 0, 0));
    TRY(uext4_link(fs, "/first", "/second"));
    EXPECT(uext4_rename(fs, "/first", "/dev/null", 1 /* RENAME_NOREPLACE */) == -EEXIST);
    TRY(uext4_rename(fs, "/second", "/third", 0));
    EXPECT(uext4_unlink(fs, "/second") == -ENOENT);
    TRY(uext4_unlink(fs, "/third"));

    TRY(uext4_mkdir_all(fs, "/var/lib/demo"));
    EXPECT(uext4_rmdir(fs, "/var") == -ENOTEMPTY);
    TRY(uext4_rmdir(fs, "/var/lib/demo"));
    TRY(uext4_remove_all(fs, "/var"));
    EXPECT(uext4_stat(fs, "/var", &attr) == -ENOENT);
    TRY(uext4_close(fs));
    return 0;
}

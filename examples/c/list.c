/* Lists a directory: list IMAGE */
#include "example.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int main(int argc, char **argv) {
    uext4_fs *fs;
    uext4_dir *dir;
    uext4_dirent entry;
    char path[32];
    int found = 0;

    if (argc != 2)
        return 2;
    TRY(uext4_mkfs(argv[1], 16 << 20, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    for (int n = 0; n < 1000; n++) {
        snprintf(path, sizeof path, "/file-%d", n);
        TRY(uext4_mknod(fs, path, S_IFREG | 0644, 0, 0));
    }
    EXPECT(uext4_dir_open(fs, "/file-0", &dir) == -ENOTDIR && dir == NULL);
    TRY(uext4_dir_open(fs, "/", &dir));
    while (TRY(uext4_dir_read(dir, &entry)) == 1) {
        EXPECT(strlen(entry.name) == entry.name_length && entry.ino != 0);
        if (S_ISREG(entry.kind))
            found++;
        else
            EXPECT(S_ISDIR(entry.kind) && strcmp(entry.name, "lost+found") == 0);
    }
    TRY(uext4_dir_close(dir));
    EXPECT(found == 1000);
    TRY(uext4_close(fs));
    return 0;
}

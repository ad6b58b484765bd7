/* Makes an image, and a file in it that is read back: write_file IMAGE */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uext4.h>

static int failed(const char *call) {
    fprintf(stderr, "%s: %s\n", call, uext4_message());
    return 1;
}

int main(int argc, char **argv) {
    static const char text[] = "demo\n";
    char back[sizeof text] = {0};
    uext4_fs *fs = NULL;
    uext4_file *file = NULL;

    if (argc != 2)
        return 2;
    if (uext4_mkfs(argv[1], 16 << 20) != 0)
        return failed("uext4_mkfs");
    if (uext4_open(argv[1], true, &fs) != 0)
        return failed("uext4_open");
    if (uext4_mkdir(fs, "/etc") != 0)
        return failed("uext4_mkdir");
    if (uext4_mkdir(fs, "/etc") != -EEXIST || uext4_message()[0] == '\0')
        return failed("uext4_mkdir again");
    if (uext4_mkdir(NULL, "/etc") != -EINVAL || uext4_mkdir(fs, NULL) != -EINVAL)
        return failed("uext4_mkdir of NULL");
    if (uext4_file_open(fs, "/etc/hostname", true, true, &file) != 0)
        return failed("uext4_file_open");
    if (uext4_pwrite(file, text, sizeof text, 0) != (int64_t)sizeof text)
        return failed("uext4_pwrite");
    if (uext4_pread(file, back, sizeof back, 0) != (int64_t)sizeof back || memcmp(back, text, sizeof text) != 0)
        return failed("uext4_pread");
    if (uext4_file_truncate(file, 5) != 0 || uext4_file_sync(file) != 0 || uext4_file_close(file) != 0)
        return failed("uext4_file");
    if (uext4_link(fs, "/etc/hostname", "/name") != 0 || uext4_rename(fs, "/name", "/host") != 0 ||
        uext4_symlink(fs, "/host", "/link") != 0 || uext4_unlink(fs, "/host") != 0)
        return failed("names");
    if (uext4_rmdir(fs, "/etc") != -ENOTEMPTY)
        return failed("uext4_rmdir");
    if (uext4_sync(fs) != 0 || uext4_close(fs) != 0)
        return failed("uext4_close");
    return 0;
}

/* Makes an image, and a file in it that is read back: write_file IMAGE */
#include "example.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

int main(int argc, char **argv) {
    static const char text[] = "demo\n";
    char back[16];
    uext4_fs *fs;
    uext4_file *file;

    if (argc != 2)
        return 2;
    printf("libuext4 %s\n", uext4_version());
    TRY(uext4_mkfs(argv[1], 16 << 20, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    TRY(uext4_mkdir(fs, "/etc", 0755));

    TRY(uext4_file_open(fs, "/etc/hostname", O_RDWR | O_CREAT | O_EXCL, 0644, &file));
    EXPECT(TRY(uext4_file_pwrite(file, text, strlen(text), 0)) == (int64_t)strlen(text));
    EXPECT(TRY(uext4_file_pread(file, back, sizeof back, 0)) == (int64_t)strlen(text));
    EXPECT(memcmp(back, text, strlen(text)) == 0);
    TRY(uext4_file_sync(file));
    TRY(uext4_file_close(file));

    /* Failures are negative errnos, and have a text. */
    EXPECT(uext4_file_open(fs, "/etc/hostname", O_RDWR | O_CREAT | O_EXCL, 0644, &file) == -EEXIST);
    EXPECT(file == NULL && uext4_message()[0] != '\0');
    EXPECT(uext4_mkdir(NULL, "/etc", 0755) == -EINVAL);
    EXPECT(uext4_mkdir(fs, NULL, 0755) == -EINVAL);
    EXPECT(uext4_open("/nonexistent", UEXT4_OPEN_READ_ONLY, NULL, NULL) == -EINVAL);
    EXPECT(uext4_file_pread(NULL, back, sizeof back, 0) == -EINVAL);
    EXPECT(uext4_file_close(NULL) == -EINVAL);

    TRY(uext4_close(fs));
    return 0;
}

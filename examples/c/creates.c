/* Creates files in one directory and counts those of a second, as lwext4's example `lwext4-generic -d COUNT`: creates IMAGE [COUNT] */
#include "example.h"
#include <fcntl.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    uext4_fs *fs;
    uext4_file *file;
    char path[64];

    if (argc < 2)
        return 2;
    int count = argc > 2 ? atoi(argv[2]) : 2000;
    TRY(uext4_mkfs(argv[1], 1 << 30, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    double start = seconds();
    TRY(uext4_mkdir(fs, "/dir1", 0755));
    for (int n = 0; n < count; n++) {
        snprintf(path, sizeof path, "/dir1/f%d", n);
        TRY(uext4_file_open(fs, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &file));
        TRY(uext4_file_close(file));
    }
    double created = seconds();
    TRY(uext4_sync(fs));
    double synced = seconds();
    printf("%d files: %.0f creates/s, %.0f with the sync\n", count, count / (created - start), count / (synced - start));
    TRY(uext4_close(fs));
    return 0;
}

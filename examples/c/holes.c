/* Ranges of a file, allocated, punched and found: holes IMAGE */
#include "example.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static char data[1 << 16];
    uext4_fs *fs;
    uext4_file *file;
    uext4_attr attr;

    if (argc != 2)
        return 2;
    TRY(uext4_mkfs(argv[1], 16 << 20, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    TRY(uext4_file_open(fs, "/file", O_RDWR | O_CREAT, 0600, &file));
    for (unsigned at = 0; at < sizeof data; at++)
        data[at] = 'x';
    EXPECT(TRY(uext4_file_pwrite(file, data, sizeof data, 0)) == sizeof data);
    TRY(uext4_file_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 16384, 16384));
    EXPECT(TRY(uext4_file_seek(file, 0, SEEK_HOLE)) == 16384);
    EXPECT(TRY(uext4_file_seek(file, 16384, SEEK_DATA)) == 32768);
    EXPECT(uext4_file_seek(file, 1 << 20, SEEK_DATA) == -ENXIO);
    EXPECT(uext4_file_fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 4096) == -EOPNOTSUPP);
    EXPECT(TRY(uext4_file_pread(file, data, sizeof data, 16384)) == 49152 && data[0] == 0 && data[16384] == 'x');
    TRY(uext4_file_fallocate(file, 0, 0, 1 << 20));
    TRY(uext4_file_datasync(file));
    TRY(uext4_file_stat(file, &attr));
    EXPECT(attr.size == 1 << 20 && attr.blocks >= (1 << 20) / 512);
    TRY(uext4_file_truncate(file, 10));
    TRY(uext4_file_stat(file, &attr));
    EXPECT(attr.size == 10);
    TRY(uext4_file_close(file));
    TRY(uext4_close(fs));
    return 0;
}

/* Eight threads share an image and a file, and each has a directory: threads IMAGE */
#include "example.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

enum { THREADS = 8, FILES = 40, PIECE = 4096 };

static uext4_fs *fs;
static uext4_file *shared;

static void *work(void *argument) {
    unsigned me = (unsigned)(uintptr_t)argument;
    char dir[32], path[64], moved[64], data[PIECE], back[PIECE];
    uext4_file *file;
    uext4_attr attr;

    snprintf(dir, sizeof dir, "/thread-%u", me);
    TRY(uext4_mkdir(fs, dir, 0755));
    memset(data, 'a' + (int)me, sizeof data);
    for (unsigned n = 0; n < FILES; n++) {
        snprintf(path, sizeof path, "%s/new-%u", dir, n);
        snprintf(moved, sizeof moved, "%s/file-%u", dir, n);
        TRY(uext4_file_open(fs, path, O_RDWR | O_CREAT | O_EXCL, 0644, &file));
        EXPECT(TRY(uext4_file_pwrite(file, data, sizeof data, 0)) == PIECE);
        TRY(uext4_file_close(file));
        TRY(uext4_rename(fs, path, moved, 0));
        TRY(uext4_xattr_set(fs, moved, "user.thread", &me, sizeof me, 0));
        TRY(uext4_stat(fs, moved, &attr));
        EXPECT(attr.size == PIECE);
        /* The message is that of this thread. */
        EXPECT(uext4_unlink(fs, path) == -ENOENT && strlen(uext4_message()) > 0);
        if (n % 2 == 0)
            TRY(uext4_unlink(fs, moved));
        EXPECT(TRY(uext4_file_pwrite(shared, data, sizeof data, (n * THREADS + me) * (uint64_t)PIECE)) == PIECE);
        EXPECT(TRY(uext4_file_pread(shared, back, sizeof back, (n * THREADS + me) * (uint64_t)PIECE)) == PIECE);
        EXPECT(memcmp(data, back, sizeof data) == 0);
    }
    TRY(uext4_file_sync(shared));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    uext4_dir *dir;
    uext4_dirent entry;
    char path[32];

    if (argc != 2)
        return 2;
    TRY(uext4_mkfs(argv[1], 64 << 20, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    TRY(uext4_file_open(fs, "/shared", O_RDWR | O_CREAT, 0644, &shared));
    for (uintptr_t n = 0; n < THREADS; n++)
        EXPECT(pthread_create(&threads[n], NULL, work, (void *)n) == 0);
    for (unsigned n = 0; n < THREADS; n++)
        EXPECT(pthread_join(threads[n], NULL) == 0);
    for (unsigned n = 0; n < THREADS; n++) {
        unsigned found = 0;
        snprintf(path, sizeof path, "/thread-%u", n);
        TRY(uext4_dir_open(fs, path, &dir));
        while (TRY(uext4_dir_read(dir, &entry)) == 1)
            found++;
        TRY(uext4_dir_close(dir));
        EXPECT(found == FILES / 2);
    }
    TRY(uext4_file_close(shared));
    TRY(uext4_close(fs));
    return 0;
}

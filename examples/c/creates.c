/* Creates files in one directory, as lwext4's example `lwext4-generic -d COUNT`, from one thread or several: creates IMAGE [COUNT [THREADS]].
   IMAGE is made where it is not there. */
#include "example.h"
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

static uext4_fs *fs;
static int count = 2000, threads = 1;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *work(void *argument) {
    uext4_file *file;
    char path[64];

    for (int n = (int)(intptr_t)argument; n < count; n += threads) {
        snprintf(path, sizeof path, "/dir1/f%d", n);
        TRY(uext4_file_open(fs, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &file));
        TRY(uext4_file_close(file));
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t others[THREADS_MAX];

    if (argc > 2)
        count = atoi(argv[2]);
    if (argc > 3)
        threads = atoi(argv[3]);
    if (argc < 2 || threads < 1 || threads > THREADS_MAX)
        return 2;
    if (access(argv[1], F_OK))
        TRY(uext4_mkfs(argv[1], 1 << 30, NULL));
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE, NULL, &fs));
    double start = seconds();
    TRY(uext4_mkdir(fs, "/dir1", 0755));
    for (intptr_t n = 1; n < threads; n++)
        EXPECT(pthread_create(&others[n], NULL, work, (void *)n) == 0);
    work(NULL);
    for (int n = 1; n < threads; n++)
        EXPECT(pthread_join(others[n], NULL) == 0);
    double created = seconds();
    TRY(uext4_sync(fs));
    double synced = seconds();
    printf("%d files: %.0f creates/s, %.0f with the sync\n", count, count / (created - start), count / (synced - start));
    TRY(uext4_close(fs));
    return 0;
}

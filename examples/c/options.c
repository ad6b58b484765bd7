/* Makes an image of a directory of the host, with options, and looks at its sizes: options IMAGE */
#include "example.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char tree[] = "/tmp/uext4-example-XXXXXX", file[64], from[64];
    uext4_fs *fs, *second;
    uext4_space space;
    uext4_attr attr;

    if (argc != 2 || mkdtemp(tree) == NULL)
        return 2;
    snprintf(file, sizeof file, "%s/motd", tree);
    snprintf(from, sizeof from, "from=%s", tree);
    FILE *motd = fopen(file, "w");
    EXPECT(motd != NULL && fputs("hello\n", motd) >= 0 && fclose(motd) == 0);

    const char *const options[] = {from, "label=demo", "features=^resize_inode", "block_size=1024", "owner=1000:1000", NULL};
    int made = uext4_mkfs(argv[1], 32 << 20, options);
    EXPECT(unlink(file) == 0 && rmdir(tree) == 0);
    TRY(made);
    const char *const wrong[] = {"block_size=many", NULL}, *const unknown[] = {"colour=red", NULL};
    EXPECT(uext4_mkfs(argv[1], 32 << 20, wrong) == -EINVAL);
    EXPECT(uext4_mkfs(argv[1], 32 << 20, unknown) == -EINVAL);

    const char *const opened[] = {"data=journal", "commit_interval=1000", NULL};
    TRY(uext4_open(argv[1], UEXT4_OPEN_READ_WRITE | UEXT4_OPEN_LAZYTIME, opened, &fs));
    EXPECT(uext4_open(argv[1], UEXT4_OPEN_READ_ONLY | 0x8000, NULL, &second) == -EINVAL && second == NULL);
    TRY(uext4_statfs(fs, &space));
    EXPECT(space.block_size == 1024 && space.blocks_free < space.blocks && space.read_only == 0);
    TRY(uext4_stat(fs, "/motd", &attr));
    EXPECT(S_ISREG(attr.mode) && attr.size == 6);
    TRY(uext4_sync(fs));
    TRY(uext4_close(fs));
    return 0;
}

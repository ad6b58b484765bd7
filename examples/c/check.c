/* Damages an image, checks it and repairs it: check IMAGE */
#include "example.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Faults of the image. */
static uint64_t faults(const char *image) {
    uext4_report *report;
    uext4_counts counts;
    uext4_fault fault;

    TRY(uext4_check(image, 1, &report));
    TRY(uext4_report_counts(report, &counts));
    for (uint64_t n = 0; n < counts.listed; n++) {
        TRY(uext4_report_fault(report, n, &fault));
        printf("%s\n", fault.text);
    }
    EXPECT(uext4_report_fault(report, counts.listed, &fault) < 0);
    EXPECT((counts.faults == 0) == (counts.clean == 1));
    TRY(uext4_report_free(report));
    return counts.faults;
}

int main(int argc, char **argv) {
    uext4_report *report;
    uext4_counts counts;

    if (argc != 2)
        return 2;
    TRY(uext4_mkfs(argv[1], 16 << 20, NULL));
    EXPECT(faults(argv[1]) == 0);

    /* The count of free inodes in the superblock. */
    int fd = open(argv[1], O_RDWR);
    EXPECT(fd >= 0 && pwrite(fd, "\1\0\0", 4, 1024 + 16) == 4 && close(fd) == 0);
    EXPECT(faults(argv[1]) > 0);

    TRY(uext4_repair(argv[1], 0, NULL, &report));
    TRY(uext4_report_counts(report, &counts));
    EXPECT(counts.repaired > 0 && counts.repaired == counts.faults && counts.clean == 1);
    TRY(uext4_report_free(report));
    EXPECT(faults(argv[1]) == 0);
    return 0;
}

/* What the examples do with a failure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uext4.h>

static inline int64_t tried(int64_t result, const char *call) {
    if (result < 0) {
        fprintf(stderr, "%s: %s (%" PRId64 ")\n", call, uext4_message(), result);
        exit(1);
    }
    return result;
}

/* The result of a call; a failure ends the example. */
#define TRY(call) tried(call, #call)

/* A condition that the example relies on. */
#define EXPECT(condition)                                                                                                \
    do {                                                                                                                 \
        if (!(condition)) {                                                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                              \
            exit(1);                                                                                                     \
        }                                                                                                                \
    } while (0)

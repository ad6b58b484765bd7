/* What the calls of <mqueue.h> say where there is no mount of queues. The first argument names the case; a failure is
   reported on standard error, and by the status. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int failures;

/* `call` fails with `error`. */
#define FAILS(error, call)                                                                     \
    do {                                                                                       \
        errno = 0;                                                                             \
        long result = (long)(call);                                                            \
        if (result != -1 || errno != (error)) {                                                \
            fprintf(stderr, "line %d: %s gives %ld, %s; not %s\n", __LINE__, #call, result,    \
                    strerrorname_np(errno), #error);                                           \
            failures++;                                                                        \
        }                                                                                      \
    } while (0)

/* As they are for programs that don't know them. */
static volatile int nothing = 0;
static const char *volatile null_name;
static char *volatile null_bytes;
static const struct mq_attr *volatile null_attr;

static void nowhere(void)
{
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = 100};
    static const char *const names[] = {"/new", "/file", "/dir", "/link"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = names[i];
        FAILS(ENOSYS, mq_open(name, O_RDONLY));
        FAILS(ENOSYS, mq_open(name, O_WRONLY));
        FAILS(ENOSYS, mq_open(name, O_RDWR | O_NONBLOCK));
        FAILS(ENOSYS, mq_open(name, O_RDWR | O_CREAT, 0600, NULL));
        FAILS(ENOSYS, mq_open(name, O_RDWR | O_CREAT, 0600, &attr));
        FAILS(ENOSYS, mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL));
        FAILS(ENOSYS, mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attr));
        FAILS(ENOSYS, mq_unlink(name));
    }
}

static void names(void)
{
    char longest[260] = "/";
    memset(longest + 1, 'n', 255);
    FAILS(ENOSYS, mq_open(longest, O_RDONLY));
    longest[256] = 'n';
    FAILS(ENAMETOOLONG, mq_open(longest, O_RDONLY));
    FAILS(ENAMETOOLONG, mq_unlink(longest));
    static const struct {
        const char *name;
        int error;
    } bad[] = {{"", EINVAL}, {"name", EINVAL}, {"/", ENOENT}, {"/a/b", EACCES}, {"/.", EACCES}, {"/..", EACCES}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(bad[i].error, mq_open(bad[i].name, O_RDONLY));
        FAILS(bad[i].error, mq_open(bad[i].name, O_RDWR | O_CREAT, 0600, NULL));
        FAILS(bad[i].error, mq_unlink(bad[i].name));
    }
    FAILS(EFAULT, mq_open(null_name, O_RDONLY));
    FAILS(EFAULT, mq_unlink(null_name));
    FAILS(EINVAL, mq_open("/name", O_RDWR | O_WRONLY));
}

/* A descriptor that is not a queue. */
static void bad_descriptor(mqd_t fd)
{
    char bytes[20000] = {0};
    unsigned priority;
    struct mq_attr attr = {0};
    struct timespec past = {1, 0};
    struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigevent by_nothing = {.sigev_notify = SIGEV_NONE};
    for (size_t len = 0; len <= sizeof bytes; len += 5000) {
        FAILS(EBADF, mq_send(fd, bytes, len, 0));
        FAILS(EBADF, mq_timedsend(fd, bytes, len, 0, &past));
        FAILS(EBADF, mq_receive(fd, bytes, len, &priority));
        FAILS(EBADF, mq_timedreceive(fd, bytes, len, NULL, &past));
    }
    FAILS(EBADF, mq_getattr(fd, &attr));
    FAILS(EBADF, mq_setattr(fd, &attr, NULL));
    FAILS(EBADF, mq_setattr(fd, null_attr, &attr));
    FAILS(EBADF, mq_setattr(fd, null_attr, NULL));
    FAILS(EBADF, mq_notify(fd, NULL));
    FAILS(EBADF, mq_notify(fd, &by_signal));
    FAILS(EBADF, mq_notify(fd, &by_nothing));
}

static void never(union sigval value)
{
    (void)value;
    fprintf(stderr, "a notification came\n");
    _exit(1);
}

static void descriptors(void)
{
    int pipe_fds[2], socket_fds[2];
    if (pipe(pipe_fds) || socketpair(AF_UNIX, SOCK_STREAM, 0, socket_fds))
        exit(2);
    int file = open("/proc/self/exe", O_RDONLY);
    int path = open("/", O_PATH);
    int null = open("/dev/null", O_RDWR);
    int closed = dup(0);
    close(closed);
    int fds[] = {pipe_fds[0], pipe_fds[1], socket_fds[0], file, path, null, closed, -1, -2, 1 << 20};
    struct sigevent by_thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = never};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        bad_descriptor(fds[i]);
        FAILS(EBADF, mq_notify(fds[i], &by_thread));
    }
    FAILS(EBADF, mq_close(closed));
    FAILS(EBADF, mq_close(-1));
    if (mq_close(null) != 0 || fcntl(null, F_GETFD) != -1) {
        fprintf(stderr, "mq_close does not close\n");
        failures++;
    }
    if (fcntl(pipe_fds[1], F_GETFL) & O_NONBLOCK) {
        fprintf(stderr, "mq_setattr set a flag of a pipe\n");
        failures++;
    }
}

static void arguments(void)
{
    char bytes[8] = {0};
    struct timespec bad[] = {{-1, 0}, {0, -1}, {0, 1000000000}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(EINVAL, mq_timedsend(-1, bytes, 8, 0, &bad[i]));
        FAILS(EINVAL, mq_timedreceive(-1, bytes, 8, NULL, &bad[i]));
    }
    FAILS(EINVAL, mq_send(-1, bytes, 8, 32768));
    FAILS(EBADF, mq_send(-1, bytes, 8, 32767));
    struct mq_attr attr = {.mq_flags = O_NONBLOCK | O_APPEND};
    FAILS(EINVAL, mq_setattr(-1, &attr, NULL));
    struct sigevent event = {.sigev_notify = 4711};
    FAILS(EINVAL, mq_notify(-1, &event));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = 65;
    FAILS(EINVAL, mq_notify(-1, &event));
    event.sigev_signo = -1;
    FAILS(EINVAL, mq_notify(-1, &event));
    FAILS(EFAULT, mq_send(0, null_bytes, 8, 0));
    FAILS(EFAULT, mq_receive(0, null_bytes, 8, NULL));
}

static void fortified(void)
{
    FAILS(ENOSYS, mq_open("/name", O_RDONLY + nothing));
    FAILS(EINVAL, mq_open("/name", O_CREAT + nothing));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"nowhere", nowhere}, {"names", names}, {"descriptors", descriptors}, {"arguments", arguments},
                 {"fortified", fortified}};
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return failures != 0;
        }
    }
    fprintf(stderr, "no such case\n");
    return 2;
}

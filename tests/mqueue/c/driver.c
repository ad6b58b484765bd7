/* Calls the mq_* functions of the C library on request, and reports the result.
 *
 * Standard input is a listening socket. Each connection has a thread of its own, which does one request after the
 * other: a struct request with `len` bytes after it, answered by a struct answer with `len` bytes after it, both in
 * the machine's byte order. What is a thread's own (user, umask, scheduling priority) stays with the connection.
 * The process ends when the first connection does.
 *
 * With the argument "own", it has an IPC namespace of its own; where there can be none it exits with 77.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OPEN = 1, CLOSE, UNLINK, SEND, RECEIVE, GETATTR, SETATTR, NOTIFY, TOLD, POLL, STATUS, BECOME_USER, WRITE_FILE,
    UMASK, STAT, PRIORITY, WAIT_READY, OTHER_PROCESS, THREAD, FORGET_SIGNAL, BAD_ADDRESS,
};

enum { TOLD_NONE, TOLD_SIGNAL, TOLD_THREAD, TOLD_NO_MORE };
enum { OTHER_REGISTER, OTHER_TAKE_BACK, OTHER_CLOSE };
enum { BAD_SEND, BAD_RECEIVE };

/* The numbers of each request are named where it is done. */
struct request {
    int64_t what, n[6], len;
};

struct answer {
    int64_t error, n[4], len;
};

struct connection {
    int socket;
    bool first;
};

enum { BYTES_MAX = 1 << 16 };

static atomic_int told;

/* Blocks SIGUSR1 in this thread, or no longer. */
static void mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(how, &set, NULL);
}

static void caught(int signal) {
    if (signal == SIGUSR1)
        told++;
}

static void called(union sigval value) {
    (void)value;
    told++;
}

/* Reads or writes all of it; false at the end of the connection. */
static bool transfer(int socket, bool writes, void *data, size_t len) {
    for (size_t done = 0; done < len;) {
        char *at = (char *)data + done;
        ssize_t n = writes ? send(socket, at, len - done, MSG_NOSIGNAL) : recv(socket, at, len - done, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static int do_open(const struct request *r, const char *name) {
    /* Flags, mode, whether there are attributes, messages, bytes. */
    struct mq_attr attr = {.mq_maxmsg = r->n[3], .mq_msgsize = r->n[4]};
    int flags = (int)r->n[0];
    if (!(flags & O_CREAT))
        return mq_open(name, flags);
    return mq_open(name, flags, (mode_t)r->n[1], r->n[2] ? &attr : NULL);
}

static int do_send(const struct request *r, const char *data) {
    /* Descriptor, priority, whether there is a time, seconds, nanoseconds. */
    struct timespec until = {.tv_sec = r->n[3], .tv_nsec = r->n[4]};
    size_t len = (size_t)r->len;
    if (r->n[2])
        return mq_timedsend((mqd_t)r->n[0], data, len, (unsigned)r->n[1], &until);
    return mq_send((mqd_t)r->n[0], data, len, (unsigned)r->n[1]);
}

static int do_receive(const struct request *r, struct answer *a, char *data) {
    /* Descriptor, length, whether there is a time, seconds, nanoseconds. */
    struct timespec until = {.tv_sec = r->n[3], .tv_nsec = r->n[4]};
    unsigned priority = 0;
    size_t len = (size_t)r->n[1];
    ssize_t n = r->n[2] ? mq_timedreceive((mqd_t)r->n[0], data, len, &priority, &until)
                        : mq_receive((mqd_t)r->n[0], data, len, &priority);
    a->n[0] = priority;
    a->len = n < 0 ? 0 : n;
    return n < 0 ? -1 : 0;
}

static int do_attributes(const struct request *r, struct answer *a) {
    /* Descriptor, new flags. */
    struct mq_attr old = {0}, new = {.mq_flags = r->n[1]};
    mqd_t d = (mqd_t)r->n[0];
    int result = r->what == SETATTR ? mq_setattr(d, &new, &old) : mq_getattr(d, &old);
    a->n[0] = old.mq_flags;
    a->n[1] = old.mq_maxmsg;
    a->n[2] = old.mq_msgsize;
    a->n[3] = old.mq_curmsgs;
    return result;
}

static int do_notify(const struct request *r) {
    /* Descriptor, how, signal. */
    struct sigevent event = {.sigev_signo = (int)r->n[2]};
    switch (r->n[1]) {
    case TOLD_NONE:
        event.sigev_notify = SIGEV_NONE;
        break;
    case TOLD_SIGNAL:
        event.sigev_notify = SIGEV_SIGNAL;
        break;
    case TOLD_THREAD:
        event.sigev_notify = SIGEV_THREAD;
        event.sigev_notify_function = called;
        break;
    default:
        return mq_notify((mqd_t)r->n[0], NULL);
    }
    return mq_notify((mqd_t)r->n[0], &event);
}

static int do_poll(const struct request *r, struct answer *a) {
    /* Descriptor, what is waited for: 0 for what there is at once. */
    struct pollfd poll_one = {.fd = (int)r->n[0], .events = (short)r->n[1]};
    if (poll_one.events == 0)
        poll_one.events = POLLIN | POLLOUT;
    int ready = poll(&poll_one, 1, r->n[1] ? -1 : 0);
    a->n[0] = poll_one.revents;
    return ready < 0 ? -1 : 0;
}

static int do_status(const struct request *r, struct answer *a, char *data) {
    ssize_t n = pread((int)r->n[0], data, 200, 0);
    a->len = n < 0 ? 0 : n;
    return n < 0 ? -1 : 0;
}

/* This thread alone; the real user is charged, and the saved one is the way back. */
static int become_user(long uid) {
    if (geteuid() != 0 && syscall(SYS_setresuid, 0, 0, 0) != 0)
        return -1;
    if (syscall(SYS_setgroups, 0, NULL) != 0 || syscall(SYS_setresgid, uid, uid, 0) != 0)
        return -1;
    return (int)syscall(SYS_setresuid, uid, uid, 0);
}

static int do_write_file(const struct request *r, char *data) {
    /* The path, a zero byte, the text. */
    int fd = open(data, O_WRONLY);
    size_t path = strlen(data) + 1, len = (size_t)r->len - path;
    ssize_t n = fd < 0 ? -1 : write(fd, data + path, len);
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)len ? 0 : -1;
}

static int do_umask(mode_t mask) {
    if (unshare(CLONE_FS) != 0)
        return -1;
    umask(mask);
    return 0;
}

static int do_stat(const struct request *r, struct answer *a) {
    struct stat s = {0};
    int result = fstat((int)r->n[0], &s);
    a->n[0] = s.st_mode & 07777;
    a->n[1] = (int64_t)s.st_nlink;
    a->n[2] = s.st_uid;
    a->n[3] = s.st_gid;
    return result;
}

static int do_priority(int priority) {
    struct sched_param param = {.sched_priority = priority};
    return sched_setscheduler(0, SCHED_FIFO, &param);
}

static int do_other(const struct request *r) {
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    mqd_t d = (mqd_t)r->n[0];
    switch (r->n[1]) {
    case OTHER_REGISTER:
        return mq_notify(d, &event);
    case OTHER_TAKE_BACK:
        return mq_notify(d, NULL);
    default:
        return mq_close(d);
    }
}

/* Where no memory is. */
static int do_bad_address(const struct request *r) {
    char *volatile nowhere = (char *)8;
    mqd_t d = (mqd_t)r->n[0];
    return r->n[1] == BAD_SEND ? mq_send(d, nowhere, 8, 0) : (int)mq_receive(d, nowhere, 16, NULL);
}

/* Does it in a process of its own, which may end by a signal: its number is the first of the answer. */
static int do_elsewhere(const struct request *r, struct answer *a, int (*what)(const struct request *)) {
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0)
        _exit(what(r) == 0 ? 0 : errno);
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    a->n[0] = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return errno == 0 ? 0 : -1;
}

/* Does one request; `data` is its payload, and the reply's. */
static int serve(const struct request *r, struct answer *a, char *data) {
    switch (r->what) {
    case OPEN:
        return (int)(a->n[0] = do_open(r, data));
    case CLOSE:
        return mq_close((mqd_t)r->n[0]);
    case UNLINK:
        return mq_unlink(data);
    case SEND:
        return do_send(r, data);
    case RECEIVE:
        return do_receive(r, a, data);
    case GETATTR:
    case SETATTR:
        return do_attributes(r, a);
    case NOTIFY:
        return do_notify(r);
    case TOLD:
        /* What was sent to the process is caught now, and here. */
        mask(SIG_UNBLOCK);
        mask(SIG_BLOCK);
        a->n[0] = told;
        return 0;
    case POLL:
    case WAIT_READY:
        return do_poll(r, a);
    case STATUS:
        return do_status(r, a, data);
    case BECOME_USER:
        return become_user((long)r->n[0]);
    case WRITE_FILE:
        return do_write_file(r, data);
    case UMASK:
        return do_umask((mode_t)r->n[0]);
    case STAT:
        return do_stat(r, a);
    case PRIORITY:
        return do_priority((int)r->n[0]);
    case OTHER_PROCESS:
        return do_elsewhere(r, a, do_other);
    case BAD_ADDRESS:
        return do_elsewhere(r, a, do_bad_address);
    case FORGET_SIGNAL:
        return signal((int)r->n[0], SIG_DFL) == SIG_ERR ? -1 : 0;
    case THREAD:
        if (r->n[0])
            mask(SIG_UNBLOCK);
        a->n[0] = syscall(SYS_gettid);
        return 0;
    default:
        errno = ENOSYS;
        return -1;
    }
}

static void *serve_all(void *argument) {
    struct connection *connection = argument;
    /* Names have a zero byte after them. */
    char *data = malloc(BYTES_MAX + 1);
    struct request r;
    while (data && transfer(connection->socket, false, &r, sizeof r)) {
        struct answer a = {0};
        if (r.len > BYTES_MAX || !transfer(connection->socket, false, data, (size_t)r.len))
            break;
        data[r.len] = 0;
        errno = 0;
        a.error = serve(&r, &a, data) < 0 ? errno : 0;
        if (!transfer(connection->socket, true, &a, sizeof a) ||
            !transfer(connection->socket, true, data, (size_t)a.len))
            break;
    }
    if (connection->first)
        exit(0);
    close(connection->socket);
    free(connection);
    free(data);
    return NULL;
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = caught, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "own") == 0 && (unshare(CLONE_NEWIPC) != 0 || mq_unlink("/none") == 0 || errno == ENOSYS)) {
        perror("no IPC namespace with message queues");
        return 77;
    }
    handle(SIGUSR1, SA_RESTART);
    handle(SIGUSR2, 0);
    mask(SIG_BLOCK);
    for (bool first = true;; first = false) {
        struct connection *connection = malloc(sizeof *connection);
        pthread_t thread;
        int socket = accept4(STDIN_FILENO, NULL, NULL, SOCK_CLOEXEC);
        if (socket < 0 && errno == EINTR) {
            free(connection);
            continue;
        }
        if (socket < 0 || !connection) {
            perror("driver: accept");
            return 1;
        }
        *connection = (struct connection){.socket = socket, .first = first};
        if (pthread_create(&thread, NULL, serve_all, connection) != 0) {
            perror("driver: thread");
            return 1;
        }
        pthread_detach(thread);
    }
}

/* One of many processes that send, receive, wait and are notified on the same queues, and that may be killed any time.
 *
 *     worker FILE INDEX ROLE SEED [NUMBER]
 *
 * FILE is shared memory: a page whose first word is set when senders and notified ones are to end, and for each
 * INDEX a log of slots. A message lies in its slot: a sender's before it is sent, and a receiver's is the buffer
 * that it receives into, cleared before, so that what a killed process was given is seen. Each message is unique, by
 * its sender and its number.
 *
 * Queues are /0 to /3, and with UEXT4_MQ_QUEUES more. UEXT4_MQ_NS names the IPC namespace to be in. With
 * UEXT4_MQ_DIRECT, receivers call the mount themselves, right into their slots, without a library.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 64, MESSAGES = 4, SLOTS = 1 << 16, PAGE = 4096, PRIORITIES = 4 };
enum { CALLING = 1, DONE };
enum { USER = 4750, NO_QUEUES = 77 };
/* The worker with this number stops receivers. */
#define STOPS UINT32_MAX

struct message {
    uint32_t sender, queue;
    uint64_t number;
    uint32_t priority, len;
    unsigned char filled[BYTES - 24];
};

/* `token`, `len` and `priority` lie before the message as in what a mount answers. */
struct slot {
    uint64_t token;
    uint32_t len, priority;
    struct message message;
    _Atomic uint32_t state;
    uint32_t reserved;
};

static _Atomic uint64_t *stop;
static struct slot *slots;
static uint32_t self;
static int queues = 4;
static uint64_t seed;

static void fail(const char *what) {
    fprintf(stderr, "worker %u: %s: %s\n", self, what, strerror(errno));
    exit(1);
}

static uint32_t chance(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static void map(const char *file, uint32_t index) {
    int fd = open(file, O_RDWR | O_CLOEXEC);
    size_t log = sizeof(struct slot) * SLOTS;
    if (fd < 0)
        fail(file);
    stop = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    slots = mmap(NULL, log, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(PAGE + log * index));
    if (stop == MAP_FAILED || slots == MAP_FAILED)
        fail("mmap");
    close(fd);
}

static const char *name_of(uint32_t queue) {
    static char name[12];
    snprintf(name, sizeof name, "/%u", queue);
    return name;
}

static mqd_t open_queue(uint32_t queue, int flags) {
    struct mq_attr attr = {.mq_maxmsg = MESSAGES, .mq_msgsize = BYTES};
    mqd_t d = mq_open(name_of(queue), flags, 0600, &attr);
    if (d == (mqd_t)-1)
        fail("mq_open");
    return d;
}

/* A moment from now. */
static struct timespec soon(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 100000 + (long)chance(3000000);
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

static void fill(struct message *m, uint32_t sender, uint32_t queue, uint64_t number, uint32_t priority) {
    m->sender = sender;
    m->queue = queue;
    m->number = number;
    m->priority = priority;
    m->len = 24 + (uint32_t)(number % sizeof m->filled);
    memset(m->filled, (int)(number & 0xff) ^ 0x5a, m->len - 24);
}

/* Once more in case of a time that has passed or a full queue. */
static void send_slot(struct slot *slot, mqd_t waits, mqd_t does_not) {
    const char *data = (const char *)&slot->message;
    uint32_t len = slot->len, priority = slot->priority;
    for (;;) {
        struct timespec until = soon();
        int result;
        switch (chance(3)) {
        case 0:
            result = mq_send(waits, data, len, priority);
            break;
        case 1:
            result = mq_timedsend(waits, data, len, priority, &until);
            break;
        default:
            result = mq_send(does_not, data, len, priority);
        }
        if (result == 0)
            return;
        if (errno == EAGAIN) {
            struct pollfd room = {.fd = does_not, .events = POLLOUT};
            if (poll(&room, 1, 1) < 0)
                fail("poll");
        } else if (errno != ETIMEDOUT)
            fail("send");
    }
}

/* Now and then with a pause, if it is not in a hurry. */
static void sends(uint64_t count, bool hurries) {
    mqd_t waits[16], does_not[16];
    for (int i = 0; i < queues; i++) {
        waits[i] = open_queue((uint32_t)i, O_WRONLY);
        does_not[i] = open_queue((uint32_t)i, O_WRONLY | O_NONBLOCK);
    }
    for (uint64_t n = 0; n < count && n < SLOTS && !*stop; n++) {
        struct slot *slot = &slots[n];
        uint32_t queue = chance((uint32_t)queues), priority = 1 + chance(PRIORITIES);
        fill(&slot->message, self + 1, queue, n, priority);
        slot->len = slot->message.len;
        slot->priority = priority;
        slot->state = CALLING;
        send_slot(slot, waits[queue], does_not[queue]);
        slot->state = DONE;
        if (!hurries && chance(8) == 0)
            usleep(chance(2000));
    }
}

static ssize_t receive_once(struct slot *slot, mqd_t waits, mqd_t does_not) {
    char *data = (char *)&slot->message;
    struct timespec until = soon();
    switch (chance(3)) {
    case 0:
        return mq_receive(waits, data, BYTES, &slot->priority);
    case 1:
        return mq_receive(does_not, data, BYTES, &slot->priority);
    default:
        return mq_timedreceive(waits, data, BYTES, &slot->priority, &until);
    }
}

static void receives(bool polls) {
    uint32_t queue = self % (uint32_t)queues;
    mqd_t waits = open_queue(queue, O_RDONLY), does_not = open_queue(queue, O_RDONLY | O_NONBLOCK);
    for (int n = 0; n < SLOTS;) {
        struct slot *slot = &slots[n];
        struct pollfd some = {.fd = does_not, .events = POLLIN};
        memset(slot, 0, sizeof *slot);
        slot->state = CALLING;
        if (polls && poll(&some, 1, -1) < 0)
            fail("poll");
        ssize_t len = polls ? mq_receive(does_not, (char *)&slot->message, BYTES, &slot->priority)
                            : receive_once(slot, waits, does_not);
        if (len < 0 && errno != EAGAIN && errno != ETIMEDOUT)
            fail("receive");
        if (len < 0) {
            if (errno == EAGAIN && !polls)
                poll(&some, 1, 1);
            continue;
        }
        slot->len = (uint32_t)len;
        slot->state = DONE;
        if (slot->message.sender == STOPS)
            return;
        n++;
    }
    errno = ENOSPC;
    fail("the log");
}

static void caught(int signal) {
    (void)signal;
}

static void called(union sigval value) {
    (void)value;
}

/* Stays registered until it is notified, and registers again. */
static void is_notified(void) {
    struct sigaction action = {.sa_handler = caught, .sa_flags = SA_RESTART};
    mqd_t d = open_queue(self % (uint32_t)queues, O_RDONLY);
    sigaction(SIGUSR1, &action, NULL);
    while (!*stop) {
        struct sigevent event = {.sigev_signo = SIGUSR1};
        uint32_t how = chance(3);
        event.sigev_notify = how == 0 ? SIGEV_NONE : how == 1 ? SIGEV_SIGNAL : SIGEV_THREAD;
        if (how == 2)
            event.sigev_notify_function = called;
        if (mq_notify(d, &event) != 0 && errno != EBUSY)
            fail("mq_notify");
        usleep(500 + chance(2000));
    }
}

/* Asks so many receivers of each queue to end, after all messages of a higher priority. */
static void stops(uint32_t receivers) {
    for (uint32_t i = 0; i < receivers; i++) {
        struct message m;
        uint32_t queue = i % (uint32_t)queues;
        mqd_t d = open_queue(queue, O_WRONLY);
        memset(&m, 0, sizeof m);
        fill(&m, STOPS, queue, i, 0);
        if (mq_send(d, (char *)&m, m.len, 0) != 0)
            fail("mq_send");
        mq_close(d);
    }
}

/* The queues are empty, no process is registered; they are unlinked. */
static void ends(void) {
    for (int i = 0; i < queues; i++) {
        mqd_t d = open_queue((uint32_t)i, O_RDWR);
        struct sigevent event = {.sigev_notify = SIGEV_NONE};
        struct mq_attr attr;
        if (mq_getattr(d, &attr) != 0 || attr.mq_curmsgs != 0) {
            printf("queue %d: %ld messages\n", i, attr.mq_curmsgs);
            exit(1);
        }
        if (mq_notify(d, &event) != 0)
            fail("a registration is left: mq_notify");
        mq_close(d);
        if (mq_unlink(name_of((uint32_t)i)) != 0)
            fail("mq_unlink");
    }
}

/* How many queues the user has room for. */
static void says_room(void) {
    char name[16];
    int n = 0;
    for (; n < 100; n++) {
        snprintf(name, sizeof name, "/room%d", n);
        if (mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, NULL) == (mqd_t)-1)
            break;
    }
    if (errno != EMFILE)
        fail("mq_open");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "/room%d", i);
        if (mq_unlink(name) != 0)
            fail("mq_unlink");
    }
    printf("%d\n", n);
}

/* Has a namespace that others enter, until standard input ends. */
static void keeps(void) {
    char c;
    if (unshare(CLONE_NEWIPC) != 0 || (mq_unlink("/none") != 0 && errno == ENOSYS)) {
        perror("no IPC namespace with message queues");
        exit(NO_QUEUES);
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
}

static void enter(void) {
    const char *namespace = getenv("UEXT4_MQ_NS"), *count = getenv("UEXT4_MQ_QUEUES");
    int fd = namespace ? open(namespace, O_RDONLY | O_CLOEXEC) : -1;
    if (namespace && (fd < 0 || setns(fd, CLONE_NEWIPC) != 0))
        fail("setns");
    if (fd >= 0)
        close(fd);
    if (count)
        queues = atoi(count);
    if (setgid(USER) != 0 || setuid(USER) != 0)
        fail("setuid");
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 2;
    const char *role = argv[3];
    uint64_t number = argc > 5 ? strtoull(argv[5], NULL, 10) : SLOTS;
    self = (uint32_t)strtoul(argv[2], NULL, 10);
    seed = strtoull(argv[4], NULL, 10);
    if (strcmp(role, "keep") == 0) {
        keeps();
        return 0;
    }
    map(argv[1], self);
    enter();
    if (strcmp(role, "make") == 0)
        for (int i = 0; i < queues; i++)
            open_queue((uint32_t)i, O_CREAT | O_EXCL | O_RDWR);
    else if (strcmp(role, "send") == 0)
        sends(number, true);
    else if (strcmp(role, "trickle") == 0)
        sends(number, false);
    else if (strcmp(role, "receive") == 0)
        receives(false);
    else if (strcmp(role, "poll") == 0)
        receives(true);
    else if (strcmp(role, "notify") == 0)
        is_notified();
    else if (strcmp(role, "stop") == 0)
        stops((uint32_t)number);
    else if (strcmp(role, "end") == 0)
        ends();
    else if (strcmp(role, "room") == 0)
        says_room();
    else
        return 2;
    return 0;
}

/*
 * POSIX message queues (mq_overview(7)) that live in a mounted directory.
 *
 * `uext4 mqueue mount DIR` gives a directory whose files are queues. The library uext4_mq has mq_open(3) and the other
 * calls of <mqueue.h> for them; a queue is shared by all that use the same directory, in whichever container or
 * IPC namespace they are. The environment names the directory:
 *
 *     UEXT4_MQ_DIR=/run/mq ./program             a program that was linked with -luext4_mq
 *     LD_PRELOAD=libuext4_mq.so UEXT4_MQ_DIR=/run/mq ./program         any other, unchanged
 *
 * UEXT4_MQ_DIR is read at each mq_open and mq_unlink; programs that are set-user-ID or set-group-ID ignore it. Without it,
 * or where the directory is not such a mount, mq_open and mq_unlink fail with ENOSYS, and touch nothing. A library that is
 * linked must precede the C library, which has calls of the same names.
 *
 * Differences from the kernel's queues: A queue descriptor is a descriptor of the queue's file: poll(2), select(2) and
 * epoll(7) work, fork(2) inherits it, and it is closed at exit and by execve(2), as on Linux; but it can be opened by
 * open(2) too. Limits are those of the mount, not /proc/sys/fs/mqueue and RLIMIT_MSGQUEUE. A call that waits fails with
 * EINTR only where a signal that the thread does not block has a handler without SA_RESTART, but there whichever signal
 * came, also SIGSTOP with SIGCONT.
 * The calls are not cancellation points (pthreads(7)). The function of a notification by SIGEV_THREAD runs with all
 * signals blocked, and a thread waits for it from mq_notify on. A call with a null buffer fails before anything is
 * sent or received; a bad one ends the program by SIGSEGV, and not the call with EFAULT. Making a queue with attributes needs read permission for the directory. When the mount goes while
 * queues are open, calls on them fail with ENOTCONN or ECONNABORTED.
 *
 * The declarations are those of <mqueue.h>; there are no others.
 */
#ifndef UEXT4_MQ_H
#define UEXT4_MQ_H

#include <fcntl.h>
#include <mqueue.h>

/* The environment variable that names the directory. */
#define UEXT4_MQ_DIR "UEXT4_MQ_DIR"

#endif

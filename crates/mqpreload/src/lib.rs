//! Message queues of a mount for programs that call mq_open(3).

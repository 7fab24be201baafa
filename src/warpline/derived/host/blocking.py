"""What a thread is blocked on, by the name of a function: of the C library, CUDA, or CPython."""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from warpline.lazy import lazy_pattern


class Reason(IntEnum):
    """What a thread was blocked on."""

    NONE = 0
    UNKNOWN = 1
    GIL = 2
    CUDA = 3
    LOCK = 4
    SLEEP = 5
    IO = 6
    JOIN = 7
    PAGE_FAULT = 8
    OTHER_CALL = 9


REASON_TEXTS = {
    Reason.NONE: "",
    Reason.UNKNOWN: "unknown",
    Reason.GIL: "GIL",
    Reason.CUDA: "CUDA call",
    Reason.LOCK: "lock",
    Reason.SLEEP: "sleep",
    Reason.IO: "I/O",
    Reason.JOIN: "thread or process",
    Reason.PAGE_FAULT: "page fault",
    Reason.OTHER_CALL: "other call",
}

_LOCK = (
    *("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "futex"),
    *("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "lll_lock_wait"),
    *("pthread_rwlock_rdlock", "pthread_rwlock_wrlock", "pthread_rwlock_timedrdlock"),
    *("pthread_rwlock_timedwrlock", "pthread_rwlock_clockrdlock", "pthread_rwlock_clockwrlock"),
    *("pthread_barrier_wait", "pthread_spin_lock", "pthread_once", "sem_wait", "sem_timedwait"),
    *("sem_clockwait", "semop", "semtimedop", "flock", "lockf", "acquire", "mtx_lock", "cnd_wait"),
    *("futex_abstimed_wait_common", "futex_wait", "lll_lock_wait_private", "cnd_timedwait"),
)
_SLEEP = (
    *("nanosleep", "clock_nanosleep", "usleep", "sleep", "pause", "sigsuspend", "sigwait"),
    *("sigwaitinfo", "sigtimedwait", "thrd_sleep"),
)
_IO = (
    *("read", "pread", "readv", "preadv", "fread", "fgets", "getline", "getdelim", "fgetc", "getc"),
    *("recv", "recvfrom", "recvmsg", "recvmmsg", "write", "pwrite", "writev", "pwritev", "fwrite"),
    *("fputs", "fputc", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice", "copy_file"),
    *("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "accept", "accept4"),
    *("connect", "open", "openat", "fopen", "close", "fclose", "creat", "fsync", "fdatasync"),
    *("msync", "sync", "syncfs", "fflush", "ioctl", "stat", "fstat", "lstat", "fstatat", "statx"),
    *("getdents", "readdir", "opendir", "unlink", "rename", "ftruncate", "fallocate", "readlink"),
    *("mq_receive", "mq_send", "msgrcv", "msgsnd", "getaddrinfo", "io_getevents", "recv_into"),
    *(
        "sendall",
        "aio_suspend",
        "copy_file_range",
        "fcntl",
        "access",
        "epoll_pwait2",
        "io_uring_enter",
    ),
)
_JOIN = (
    *("pthread_join", "pthread_timedjoin_np", "pthread_tryjoin_np", "pthread_clockjoin_np"),
    *("wait", "waitpid", "waitid", "wait3", "wait4", "thrd_join", "system", "pclose"),
)
_REASONS = {
    **dict.fromkeys(_LOCK, Reason.LOCK),
    **dict.fromkeys(_SLEEP, Reason.SLEEP),
    **dict.fromkeys(_IO, Reason.IO),
    **dict.fromkeys(_JOIN, Reason.JOIN),
}
# CPython waits for the GIL in these.
_GIL = frozenset(("take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "PyGILState_Ensure"))
# Memory functions of the C library never block by themselves: the kernel loads the page they use.
_MEMORY = lazy_pattern(r"(?:mem(?:cpy|move|set|cmp|chr)|str(?:len|cpy|cmp|chr))(?:$|_)")
_DRIVER = lazy_pattern(r"(?:cuda|cu|hip)[A-Z]\w")
# `__GI___clock_nanosleep`, `__read_nocancel`, `pread64`, `futex_wait_common64@@GLIBC_2.34`
_DECORATED = lazy_pattern(
    r"_*(?:GI_+)?(?:libc_|pthread_(?=clock_))?(\w+?)(?:_nocancel)?(?:64)?(?:@.*)?$"
)
# `<built-in function sleep>`, `<method 'recv' of '_socket.socket' objects>`
_PYTHON = lazy_pattern(r"<(?:built-in (?:function|method)|method) '?(\w+)")


def plain_name(name: str) -> str:
    """Return a function's name as programmers know it: ``read`` for ``__GI___libc_read``."""
    python = _PYTHON.match(name)
    if python:
        return str(python[1])
    found = _DECORATED.match(name)
    return str(found[1]) if found else name


@cache
def reason_of(name: str) -> Reason:
    """Return what a thread is blocked on while it is in a function; UNKNOWN for most functions."""
    plain = plain_name(name)
    if plain in _REASONS:
        return _REASONS[plain]
    if name in _GIL:
        return Reason.GIL
    if _DRIVER.match(name):
        return Reason.CUDA
    if _MEMORY.match(plain):
        return Reason.PAGE_FAULT
    return Reason.UNKNOWN

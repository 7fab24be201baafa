// Functions in which a thread may hold a lock that making a thread needs.
#pragma once

namespace warpline::attach {

// Making a thread allocates memory, and takes the locks of thread stacks and of thread-local storage.
// Of these the loader and `fork` hold some, too; a process that exits gets no threads.
inline constexpr const char* kForbiddenFunctions[] = {
    "malloc", "calloc", "realloc", "free", "cfree", "reallocarray", "memalign", "posix_memalign",
    "aligned_alloc", "valloc", "pvalloc", "mallopt", "mallinfo", "mallinfo2", "malloc_trim", "malloc_stats",
    "malloc_info", "malloc_usable_size",
    // new and delete, which allocators replace as well
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "pthread_create", "pthread_exit", "pthread_detach", "pthread_setattr_default_np",
    "fork", "__fork", "_Fork", "vfork", "__vfork", "__libc_fork",
    "exit", "_exit", "quick_exit", "abort", "__cxa_finalize",
    "dlopen", "dlmopen", "dlclose", "__libc_dlopen_mode", "dl_iterate_phdr",
    // all threads of the process are signalled, under the lock of their list
    "setuid", "setgid", "seteuid", "setegid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups",
};

// The same, but they wait for most of their time, and hold nothing then.
inline constexpr const char* kWaitingFunctions[] = {
    "pthread_join", "pthread_timedjoin_np", "pthread_tryjoin_np", "pthread_clockjoin_np", "thrd_join",
};

}  // namespace warpline::attach

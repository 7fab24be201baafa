// Processes and threads, as /proc has them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace warpline::sampler {

struct Image;

// What an exec changes; empty for a process that has ended.
std::string identity_of_image(pid_t pid);
std::string executable_of(pid_t pid);
std::vector<pid_t> threads_of(pid_t pid);
// The processes that a thread has forked and that live, as far as the kernel says.
std::vector<pid_t> children_of(pid_t pid, pid_t tid);
pid_t parent_of(pid_t pid);
// When a process began, monotonic ns, to some 10 ms; 0 for one that has ended.
std::uint64_t start_of(pid_t pid);
// Notes the name of a thread.
void name_thread(Image& image, pid_t tid);

}  // namespace warpline::sampler

#include "waiter.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace warpline::sampler {

Waiter::Waiter(int until, PerfEvents& events) : until_(until), set_(epoll_create1(EPOLL_CLOEXEC)) {
  for (const Ring& ring : events.rings()) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = ring.file();
    epoll_ctl(set_, EPOLL_CTL_ADD, ring.file(), &event);
  }
}

Waiter::~Waiter() {
  if (set_ >= 0) close(set_);
}

bool Waiter::wait(std::uint64_t most_ns) const {
  pollfd waited[] = {{until_, POLLIN | POLLRDHUP, 0}, {set_, POLLIN, 0}};
  const timespec timeout{0, static_cast<long>(most_ns)};
  const int found = ppoll(waited, 2, &timeout, nullptr);
  if (found < 0) return errno == EINTR;
  if (waited[1].revents != 0) {
    epoll_event events[64];  // looked at, so that only what comes later is found again
    epoll_wait(set_, events, 64, 0);
  }
  return waited[0].revents == 0;
}

}  // namespace warpline::sampler

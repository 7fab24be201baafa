#include "images.h"

#include <sys/sysmacros.h>

#include <cstring>

#include "python/remote_build.h"

namespace warpline::sampler {
namespace {

// No number of a process is used again so soon.
constexpr std::uint64_t kSameForkNs = 1'000'000;

struct MappingRecord {
  perf_event_header header;
  std::uint32_t pid, tid;
  std::uint64_t begin, bytes, file_offset;
  std::uint32_t major, minor;
  std::uint64_t file_number, file_generation;
  std::uint32_t protection, flags;
  char path[1];
};

}  // namespace

RawLog& Image::open_log(const std::string& folder) {
  if (log == nullptr) {
    log = std::make_unique<RawLog>(
        folder, LogFacts{pid, ppid, incarnation, forked_from_pid, forked_from_incarnation, executable});
  }
  return *log;
}

void Image::write_thread(const std::string& folder, std::uint32_t tid, std::uint64_t time_ns) {
  RawLog& to = open_log(folder);
  if (last_tid == tid) return;
  last_tid = tid;
  std::uint64_t name[2] = {};
  const auto found = threads.find(tid);
  if (found != threads.end()) std::memcpy(name, found->second.name, sizeof name);
  to.put(raw::Thread{.time_ns = time_ns, .tid = tid, .name_low = name[0], .name_high = name[1]});
}

void Images::on_mmap(const perf_event_header& header, std::uint64_t time_ns) {
  const auto& record = reinterpret_cast<const MappingRecord&>(header);
  constexpr std::size_t kFixed = offsetof(MappingRecord, path);
  if (header.size < kFixed + 1) return;
  CodeMapping mapping;
  mapping.begin = record.begin;
  mapping.end = record.begin + record.bytes;
  mapping.path.assign(record.path, strnlen(record.path, header.size - kFixed));
  map(of(record.pid, time_ns), std::move(mapping), record.file_offset,
      makedev(record.major, record.minor), record.file_number);
}

void Images::map(Image& image, CodeMapping mapping, std::uint64_t file_offset, dev_t device,
                 ino_t number) {
  if (mapping.path == "[vdso]") {
    mapping.file = files_.vdso();
    mapping.bias = mapping.begin;
  } else if (number != 0) {
    mapping.file = files_.find(static_cast<pid_t>(image.pid), mapping.path, device, number);
    if (mapping.file != nullptr &&
        !mapping.file->bias_of(mapping.begin, file_offset, mapping.bias)) {
      mapping.file = nullptr;
    }
    if (image.executable.empty()) image.executable = mapping.path;  // the first that exec maps
  }
  image.may_have_python |= may_have_python(mapping.path);
  has_seen_python_ |= image.may_have_python;
  image.code.add(std::move(mapping));
}

void Images::on_fork(const perf_event_header& header, std::uint64_t time_ns) {
  const auto& record = reinterpret_cast<const TaskRecord&>(header);
  Image& parent = of(record.ppid, time_ns);
  Thread thread;
  const auto forking = parent.threads.find(record.ptid);
  if (forking != parent.threads.end()) std::memcpy(thread.name, forking->second.name, 16);
  if (record.pid == record.ppid) {
    parent.threads.insert_or_assign(record.tid, thread);
    return;
  }
  // What was read from /proc, or written by two events at once, is known already.
  const auto known = images_.find(record.pid);
  if (known != images_.end()) {
    const Image& image = known->second;
    const bool is_same = image.forked_from_pid == record.ppid && time_ns < image.incarnation + kSameForkNs;
    if (time_ns <= image.read_ns || is_same) return;
    images_.erase(known);
  }
  Image child(record.pid, time_ns);
  child.ppid = record.ppid;
  child.forked_from_pid = parent.pid;
  child.forked_from_incarnation = parent.incarnation;
  child.executable = parent.executable;
  child.code = parent.code;
  child.code.forget_written();
  child.may_have_python = parent.may_have_python;
  child.threads.emplace(record.tid, thread);
  images_.emplace(record.pid, std::move(child));
}

}  // namespace warpline::sampler

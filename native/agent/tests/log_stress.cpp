// Tries a thread's log from within: many threads, forks, capture ranges, no space, signals.
// Each case makes a session in a folder of its own, and reads back what the logs hold.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "session/clock.h"
#include "session/process.h"
#include "session/thread_log.h"
#include "warpline_raw.h"

using namespace warpline;
using namespace warpline::agent;

namespace {

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                              \
    }                                                                             \
  } while (false)

std::string make_session(const std::string& conf = "", raw::State state = raw::State::kRecording,
                         raw::RangeMode mode = raw::RangeMode::kNone) {
  const char* parent = std::getenv("TMPDIR");
  std::string folder = std::string(parent == nullptr ? "/tmp" : parent) + "/log_stress_XXXXXX";
  CHECK(mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/agent.conf") << "version=1\nkeep_free_bytes=0\n" << conf;
  raw::ControlPage page{};
  page.magic = raw::kControlMagic;
  page.version = raw::kVersion;
  page.switch_word = static_cast<std::uint64_t>(state) | static_cast<std::uint64_t>(mode) << 8;
  std::vector<char> bytes(raw::kControlBytes);
  std::memcpy(bytes.data(), &page, sizeof page);
  std::ofstream(folder + "/control", std::ios::binary).write(bytes.data(), 4096);
  return folder;
}

struct Log {
  raw::LogHeader header;
  std::vector<std::uint64_t> words;
};

// One record, and the thread and names that hold for it.
struct Record {
  raw::Kind kind;
  std::uint32_t aux;
  std::uint64_t tid;
  std::string text;  // the name of an event
  std::vector<std::uint64_t> payload;
};

std::vector<Log> read_logs(const std::string& folder) {
  std::vector<Log> logs;
  DIR* files = opendir(folder.c_str());
  CHECK(files != nullptr);
  while (const dirent* entry = readdir(files)) {
    const std::string name = entry->d_name;
    if (name.find(".wlraw") == name.npos) continue;
    std::ifstream file(folder + "/" + name, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    const std::string bytes = content.str();
    CHECK(bytes.size() > raw::kHeaderBytes && bytes.size() % 8 == 0);
    Log log;
    std::memcpy(&log.header, bytes.data(), sizeof log.header);
    CHECK(std::memcmp(log.header.magic, raw::kMagic, 8) == 0);
    log.words.resize((bytes.size() - raw::kHeaderBytes) / 8);
    std::memcpy(log.words.data(), bytes.data() + raw::kHeaderBytes, log.words.size() * 8);
    logs.push_back(std::move(log));
  }
  closedir(files);
  return logs;
}

std::vector<Record> records_of(const Log& log) {
  std::vector<Record> records;
  std::map<std::uint32_t, std::string> names;
  std::uint64_t tid = 0;
  std::size_t at = 0;
  while (at < log.words.size() && log.words[at] != 0) {
    const std::uint64_t header = log.words[at];
    const std::size_t count = raw::words_of(header);
    CHECK(count >= 1 && at + count <= log.words.size());
    const raw::Kind kind = raw::kind_of(header);
    if (kind == raw::Kind::kThread) tid = log.words[at + 2];
    if (kind == raw::Kind::kString) {
      names[raw::aux_of(header)] =
          std::string(reinterpret_cast<const char*>(&log.words[at + 2]), log.words[at + 1]);
    }
    const bool is_named = kind == raw::Kind::kPush || kind == raw::Kind::kMark;
    records.push_back({kind, raw::aux_of(header), tid,
                       is_named ? names.at(raw::aux_of(header)) : std::string(),
                       {log.words.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                        log.words.begin() + static_cast<std::ptrdiff_t>(at + count)}});
    at += count;
  }
  CHECK(raw::kHeaderBytes + at * 8 == log.header.used_bytes);
  return records;
}

std::size_t count(const std::string& folder, raw::Kind kind) {
  std::size_t sum = 0;
  for (const Log& log : read_logs(folder)) {
    for (const Record& record : records_of(log)) sum += record.kind == kind ? 1 : 0;
  }
  return sum;
}

bool push(std::string_view name) {
  LogLease log = recording_log();
  std::uint32_t slot = 0;
  if (!log || !log->intern(name, slot)) return false;
  std::uint64_t* room = log->reserve(2);
  if (room == nullptr) return false;
  room[1] = static_cast<std::uint64_t>(now_ns());
  log->commit(room, raw::Kind::kPush, 0, 2, slot, true);
  return true;
}

bool pop() {
  LogLease log = recording_log();
  std::uint64_t* room = log ? log->reserve(2) : nullptr;
  if (room == nullptr) return false;
  room[1] = static_cast<std::uint64_t>(now_ns());
  log->commit(room, raw::Kind::kPop, 0, 2, 0, false);
  return true;
}

void threads() {
  const std::string folder = make_session();
  CHECK(attach(folder.c_str()) == 0);
  constexpr int kThreads = 8, kRounds = 3, kRanges = 20'000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> running;
    for (int thread = 0; thread < kThreads; ++thread) {
      running.emplace_back([thread] {
        for (int range = 0; range < kRanges; ++range) {
          CHECK(push("thread " + std::to_string(thread)));
          CHECK(pop());
        }
      });
    }
    for (std::thread& thread : running) thread.join();
  }
  CHECK(recorded_events() == std::uint64_t{kThreads} * kRounds * kRanges);
  CHECK(count(folder, raw::Kind::kPush) == std::size_t{kThreads} * kRounds * kRanges);
  CHECK(count(folder, raw::Kind::kPop) == std::size_t{kThreads} * kRounds * kRanges);
  // A thread takes over the log that another left.
  CHECK(read_logs(folder).size() <= kThreads + 1);
  std::map<std::uint64_t, std::string> name_of;
  for (const Log& log : read_logs(folder)) {
    for (const Record& record : records_of(log)) {
      if (record.kind != raw::Kind::kPush) continue;
      auto [at, is_new] = name_of.emplace(record.tid, record.text);
      CHECK(is_new || at->second == record.text);
    }
  }
  CHECK(name_of.size() == std::size_t{kThreads} * kRounds);
}

void names() {
  const std::string folder = make_session("block_bytes=131072\n");
  CHECK(attach(folder.c_str()) == 0);
  std::vector<std::string> wanted;
  for (int number = 0; number < 5000; ++number) wanted.push_back("step " + std::to_string(number));
  for (std::size_t bytes : {0, 1, 7, 8, 9, 111, 112, 113, 1000, 65535}) {
    wanted.emplace_back(bytes, 'x');
    wanted.emplace_back(bytes, 'x');
  }
  for (const std::string& name : wanted) CHECK(push(name));
  CHECK(push(std::string(65534, 'y') + "\xc3\xa9" "z"));  // cut before the character, not within
  wanted.emplace_back(65534, 'y');
  const std::vector<Log> logs = read_logs(folder);
  CHECK(logs.size() == 1 && logs[0].header.cut_texts == 1);
  std::vector<std::string> got;
  for (const Record& record : records_of(logs[0])) {
    if (record.kind == raw::Kind::kPush) got.push_back(record.text);
  }
  CHECK(got == wanted);
}

// Parent and child record at once, then the child's child; each has logs of its own.
void fork_by(const std::function<pid_t()>& make) {
  const std::string folder = make_session();
  CHECK(attach(folder.c_str()) == 0);
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    while (!stop) CHECK(push("other") && pop());
  });
  constexpr int kForks = 20;
  for (int number = 0; number < kForks; ++number) {
    CHECK(push("parent") && pop());
    const pid_t child = make();
    CHECK(child >= 0);
    if (child == 0) {
      for (int range = 0; range < 100; ++range) CHECK(push("child") && pop());
      if (number == 0) {
        const pid_t grandchild = make();
        if (grandchild == 0) {
          CHECK(push("grandchild") && pop());
          std::_Exit(0);
        }
        CHECK(waitpid(grandchild, nullptr, 0) == grandchild);
      }
      std::_Exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop = true;
  other.join();
  std::map<std::string, int> found;
  for (const Log& log : read_logs(folder)) {
    const bool is_parent = log.header.pid == static_cast<std::uint32_t>(getpid());
    CHECK((log.header.forked_from_pid == 0) == is_parent);
    for (const Record& record : records_of(log)) {
      if (record.kind != raw::Kind::kPush) continue;
      CHECK((record.text == "parent" || record.text == "other") == is_parent);
      ++found[record.text];
    }
  }
  CHECK(found["parent"] == kForks && found["child"] == kForks * 100 && found["grandchild"] == 1);
  CHECK(g_session.load()->control->attached == kForks + 2);
}

void forks() { fork_by(fork); }
void raw_fork() {
  fork_by([] { return static_cast<pid_t>(syscall(SYS_fork)); });
}

void windows() {
  const std::string folder = make_session("range_name=step\n", raw::State::kRecording,
                                          raw::RangeMode::kNvtx);
  CHECK(attach(folder.c_str()) == 0);
  raw::ControlPage& page = *g_session.load()->control;
  page.windows_wanted = 3;
  CHECK(!push("before"));
  CHECK(ranges_watched() == kWatchWindows);
  CHECK(is_capture_range("step", "") && !is_capture_range("step", "other"));
  for (int window = 0; window < 5; ++window) {
    window_begin();
    window_begin();  // nested: the outermost counts
    push("inside");
    window_end();
    pop();
    window_end();
    CHECK(!push("between"));
  }
  CHECK(page.windows_done == 3 && read_switch(page).state() == raw::State::kStopped);
  CHECK(read_switch(page).windows_open() == 0 && page.slots[0].windows_open == 0);
  std::string story;
  for (const Record& record : records_of(read_logs(folder).at(0))) {
    if (record.kind == raw::Kind::kWindow) story += record.aux == 1 ? '[' : ']';
    if (record.kind == raw::Kind::kPush) story += '(';
    if (record.kind == raw::Kind::kPop) story += ')';
  }
  CHECK(story == "()][()][()]");  // the log was opened within the first
}

// Nothing fits for a while; what was lost is told, and pairs stay pairs.
void lose_space(const std::function<void(bool)>& set_full) {
  const std::string folder = make_session("block_bytes=131072\n");
  CHECK(attach(folder.c_str()) == 0);
  int recorded = 0, lost = 0;
  for (int range = 0; range < 50'000; ++range) {
    if (range == 10'000) set_full(true);
    if (range == 40'000) {
      set_full(false);
      usleep(150'000);
    }
    const bool is_recorded = push("range");
    is_recorded ? ++recorded : ++lost;
    pop();
  }
  CHECK(lost > 10'000 && recorded > 15'000);
  const std::vector<Log> logs = read_logs(folder);
  std::uint64_t told = 0;
  int depth = 0;
  for (const Record& record : records_of(logs.at(0))) {
    if (record.kind == raw::Kind::kPush) CHECK(++depth == 1);
    if (record.kind == raw::Kind::kPop && depth > 0) --depth;
    if (record.kind == raw::Kind::kDropped) {
      told += record.payload[1];
      depth = 0;
    }
  }
  CHECK(told >= static_cast<std::uint64_t>(lost) && told == logs[0].header.dropped_records);
  CHECK(logs[0].header.records == static_cast<std::uint64_t>(recorded));
  CHECK(g_session.load()->control->out_of_space == 1);
}

void full_disk() {
  lose_space([](bool is_full) {
    g_session.load()->config.keep_free_bytes = is_full ? ~std::uint64_t{0} : 0;
  });
}

void file_limit() {
  lose_space([](bool is_full) {
    rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = is_full ? 4096 : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  });
}

std::atomic<int> g_handled{0};

// A handler that records must never touch the record that its thread is writing.
void signals() {
  const std::string folder = make_session("block_bytes=131072\n");
  CHECK(attach(folder.c_str()) == 0);
  struct sigaction action{};
  action.sa_handler = [](int) {
    const int error = errno;
    if (push("handler")) {
      pop();
      g_handled.fetch_add(1);
    }
    errno = error;
  };
  CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
  const itimerval often{{0, 100}, {0, 100}};
  CHECK(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  int recorded = 0;
  for (int range = 0; range < 300'000; ++range) {
    recorded += push("unique " + std::to_string(range)) ? 1 : 0;
    pop();
  }
  const itimerval never{};
  CHECK(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  CHECK(recorded == 300'000 && g_handled > 0);
  int handled = 0, expected = 0;
  for (const Record& record : records_of(read_logs(folder).at(0))) {
    if (record.kind != raw::Kind::kPush) continue;
    if (record.text == "handler") {
      ++handled;
    } else {
      CHECK(record.text == "unique " + std::to_string(expected++));
    }
  }
  CHECK(handled == g_handled && expected == recorded);
}

void sessions() {
  const std::string first = make_session(), second = make_session();
  CHECK(detach() == ENOTCONN);
  CHECK(attach("/no/such/folder") == ENOENT);
  CHECK(attach(first.c_str()) == 0 && attach(first.c_str()) == 0);
  CHECK(attach(second.c_str()) == EBUSY);
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    while (!stop) {
      push("other");
      pop();
    }
  });
  CHECK(push("first"));
  CHECK(detach() == 0 && !push("nowhere"));
  CHECK(attach(second.c_str()) == 0 && push("second"));
  CHECK(detach() == 0);
  stop = true;
  other.join();
  for (const auto& [folder, name] : {std::pair{first, "first"}, std::pair{second, "second"}}) {
    int found = 0;
    for (const Log& log : read_logs(folder)) {
      for (const Record& record : records_of(log)) {
        if (record.kind != raw::Kind::kPush || record.text == "other") continue;
        CHECK(record.text == name);
        ++found;
      }
    }
    CHECK(found == 1);
  }
}

const std::map<std::string, void (*)()> kCases = {
    {"threads", threads}, {"names", names},           {"forks", forks},
    {"raw_fork", raw_fork}, {"windows", windows},     {"full_disk", full_disk},
    {"file_limit", file_limit}, {"signals", signals}, {"sessions", sessions}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || kCases.count(argv[1]) == 0) {
    std::fprintf(stderr, "usage: log_stress CASE\n");
    return 2;
  }
  kCases.at(argv[1])();
  return 0;
}

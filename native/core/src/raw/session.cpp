#include "raw/session.h"

#include <sys/stat.h>

#include <algorithm>

#include "failure.h"
#include "raw/log.h"
#include "raw/os_calls.h"
#include "raw/seal.h"
#include "warpline_core.h"

namespace warpline {

void RawSession::add(const char *path, uint64_t incarnation, bool is_alive) {
  RawLogFacts facts;
  facts.path = path;
  facts.process = -1;
  facts.incarnation = incarnation;
  tables_.logs.push_back(facts);
  is_alive_.push_back(is_alive);
}

int64_t RawSession::decode(int64_t budget) {
  if (!decoder_) {
    if (next_ == tables_.logs.size()) return 0;
    begin_log();
    if (!decoder_) return 1;
  }
  const int64_t before = decoder_->position();
  const bool has_more = decoder_->step(std::max<int64_t>(budget, 1));
  const int64_t done = decoder_->position() - before;
  if (!has_more) decoder_.reset();
  return std::max<int64_t>(done, 1);
}

void RawSession::begin_log() {
  RawLogFacts &facts = tables_.logs[next_];
  try {
    decoder_ = std::make_unique<RawDecoder>(tables_, next_, is_alive_[next_]);
  } catch (const Failure &failure) {
    if (failure.status() != WL_IO && failure.status() != WL_CORRUPT) throw;
    struct stat found {};
    facts.is_damaged = !is_unwritten(facts.path);
    const bool is_missing = !facts.is_damaged || stat(facts.path.c_str(), &found) != 0;
    facts.unread_bytes = is_missing ? 0 : found.st_size;
  }
  ++next_;
}

void RawSession::finish(int64_t origin_ns, int64_t end_ns) {
  while (decode(INT64_MAX) > 0) {
  }
  origin_ns_ = origin_ns;
  settle_cuda_times(tables_);
  seal(tables_, end_ns);
  seal_cuda(tables_);
  tables_.rows.seal(tables_);
  nest_os_calls(tables_);
}

}  // namespace warpline

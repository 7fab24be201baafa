// Removes what is old from the logs of a session that goes on.
//
// In each log, the records up to the first one that is new are read; those that stand for them (LogPast) are
// written right before that one, the header's first_bytes says where they begin, and the file's space before
// is given back. The writer of a log is not concerned: it never looks back. At every moment the log is
// whole: the header's word is written when the records are there, and they never lie over those that they
// replace, so a log is left as it is until more is old than stands for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "raw/record_times.h"

namespace warpline {

// Trims the logs of a session's processes; those that cannot be read or written stay as they are. Returns how
// many bytes were given back.
int64_t trim_logs(const std::vector<std::string> &paths, const TrimPeriod &period);

}  // namespace warpline

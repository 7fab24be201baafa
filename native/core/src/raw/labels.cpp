#include "failure.h"
#include "raw/tables.h"
#include "warpline_core.h"

namespace warpline {

uint32_t RawLabels::number_of(const RawLabel &label) {
  const uint64_t mixed = (static_cast<uint64_t>(label.name) * 31 + label.thread) * 31 +
                         static_cast<uint64_t>(label.place) * 7 + label.color;
  uint32_t &recent = recent_[mixed % recent_.size()];
  if (recent != kNone && labels_[recent] == label) return recent;
  if (labels_.size() >= kNone) throw Failure(WL_TOO_MANY, "the session has too many names of ranges");
  recent = static_cast<uint32_t>(labels_.size());
  labels_.push(label);
  return recent;
}

}  // namespace warpline

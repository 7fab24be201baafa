// In which processes launches are counted.
#pragma once

#include <string>

#include "session/config.h"

namespace warpline::agent {

// Returns whether launches of this process are counted; if not, why, a tab, and what to do. Throws
// std::regex_error.
bool is_counted_process(const ProcessesConfig& config, std::string& reason);

}  // namespace warpline::agent

// An instance of NVTX, as a library of the program has one: it binds the agent at its first use.
#pragma once

#include <string>

// In a domain, which is made at its first use; the default domain has the empty name.
void nvtx_push(const std::string& domain, const std::string& name);
void nvtx_pop(const std::string& domain);
// Ranges of the process, which are told apart by their names.
void nvtx_start(const std::string& domain, const std::string& name);
void nvtx_end(const std::string& domain, const std::string& name);

// What goes wrong inside the library; c_api.cpp turns it into a status and a message.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace warpline {

class Failure : public std::runtime_error {
 public:
  Failure(int32_t status, const std::string &message)
      : std::runtime_error(message), status_(status) {}

  int32_t status() const noexcept { return status_; }

 private:
  int32_t status_;
};

}  // namespace warpline

// SPDX-License-Identifier: MIT
//
// Memory for code that this process makes and executes itself: the same pages twice, to be written
// at one place and executed at the other, so that no page is both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace shadowprof {

class OwnCode {
 public:
  // `name` is what /proc/PID/maps says. Pages that are not written to cost nothing.
  static Result<OwnCode> create(const char* name, size_t bytes);
  OwnCode(OwnCode&& other) noexcept;
  OwnCode& operator=(OwnCode&&) = delete;
  ~OwnCode();

  uint8_t* writable() { return writable_; }
  const uint8_t* executable() const { return executable_; }
  size_t size() const { return size_; }

 private:
  OwnCode(uint8_t* writable, uint8_t* executable, size_t size)
      : writable_(writable), executable_(executable), size_(size) {}

  uint8_t* writable_;
  uint8_t* executable_;
  size_t size_;
};

}  // namespace shadowprof

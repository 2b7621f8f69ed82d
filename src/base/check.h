// SPDX-License-Identifier: MIT
//
// SP_CHECK: an invariant of ours that holds or we stop, in every build type. Never for errors that
// the outside world can cause; those are Results.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

namespace shadowprof {

// Called before the abort, to say what the tracee was doing; at most one at a time.
void set_check_context(std::function<std::string()> describe);

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& detail);

}  // namespace shadowprof

#define SP_CHECK(condition, ...)                                                                 \
  do {                                                                                           \
    if (!(condition)) [[unlikely]]                                                               \
      ::shadowprof::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (0)

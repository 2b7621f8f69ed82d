// SPDX-License-Identifier: MIT
#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace shadowprof {
namespace {

std::function<std::string()>& context() {
  static std::function<std::string()> describe;
  return describe;
}

}  // namespace

void set_check_context(std::function<std::string()> describe) { context() = std::move(describe); }

void check_failed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "shadowprof: internal error: %s:%d: %s%s%s\n", file, line, condition,
               detail.empty() ? "" : ": ", detail.c_str());
  if (auto describe = std::exchange(context(), nullptr)) {
    std::fprintf(stderr, "%s\n", describe().c_str());
  }
  std::abort();
}

}  // namespace shadowprof

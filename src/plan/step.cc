// SPDX-License-Identifier: MIT
#include "plan/step.h"

#include <array>

namespace shadowprof::plan {
namespace {

struct Row {
  const char* name;      // in the profile
  const char* sentence;  // of `run -v`
};

constexpr std::array<Row, kWhys> kRows = {{
#define WHY(reason, name, sentence) {name, sentence},
#include "plan/reasons.inc"
#undef WHY
}};

}  // namespace

const char* name_of(Why why) {
  return kRows[static_cast<size_t>(why)].name;
}
const char* sentence_of(Why why) {
  return kRows[static_cast<size_t>(why)].sentence;
}

}  // namespace shadowprof::plan

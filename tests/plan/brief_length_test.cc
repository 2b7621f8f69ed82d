// SPDX-License-Identifier: MIT
#include "plan/brief_length.h"

#include <doctest/doctest.h>

namespace shadowprof::plan {
namespace {

TEST_CASE("a brief sample takes as long as stopping the program for it") {
  BriefLength length;
  CHECK(length.seconds() == BriefLength::kShortest_s);
  length.stopping_took(0.003);
  CHECK(length.seconds() == BriefLength::kShortest_s);  // one may have been kept waiting
  length.stopping_took(0.004);
  CHECK(length.seconds() == 0.003);
  length.stopping_took(0.0001);
  CHECK(length.seconds() == BriefLength::kShortest_s);
  length.stopping_took(1);
  length.stopping_took(1);
  CHECK(length.seconds() == BriefLength::kLongest_s);
}

}  // namespace
}  // namespace shadowprof::plan

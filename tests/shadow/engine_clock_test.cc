// SPDX-License-Identifier: MIT
#include "shadow/engine_clock.h"

#include <unistd.h>

#include "trace/record.h"
#include "twin.h"

#include <doctest/doctest.h>

namespace shadowprof::shadow {
namespace {

using Of = EngineClock::Of;

// The clock of a process that does nothing, which is told of what it has done.
class Told {
 public:
  explicit Told(Of of) {
    ::usleep(20000);  // until the twin sleeps
    before_ = replica_seconds(twin_.tid());
    clock_.start(of, twin_.tid(), {.copied = 0, .kept = 0, .mapped = 0, .stopped = kStop_s}, {});
  }
  static constexpr double kStop_s = 5e-6;
  double seconds(double used, const EngineClock::Work& work) const {
    return clock_.seconds(before_ + used, work);
  }

 private:
  Twin twin_;
  EngineClock clock_;
  double before_ = 0;
};

TEST_CASE("stops are no time of the program's, of which something is left natively") {
  const Told native(Of::native);
  CHECK(native.seconds(0.01, {}) == doctest::Approx(0.01));
  CHECK(native.seconds(0.01, {.stops = 500}) == doctest::Approx(0.01 - 500 * Told::kStop_s));
  // A program that does nothing but system calls.
  for (const uint64_t stops : {1500, 2000, 100000}) {
    CAPTURE(stops);
    CHECK(native.seconds(0.01, {.stops = stops}) >= 0.001);
    CHECK(native.seconds(0.01, {.stops = stops}) <= 0.005);
  }
  CHECK(native.seconds(0.01, {.stops = 100000, .answering = 0.009}) == doctest::Approx(0.0001));
}

TEST_CASE("of code that is new to the engine, what it has recorded says how long it has run") {
  const Told recorded(Of::recorded);
  CHECK(recorded.seconds(0.01, {.stops = 500}) == doctest::Approx(0.01 - 500 * Told::kStop_s));
  CHECK(recorded.seconds(0.01, {.stops = 1500}) == 0);
  // Stops for system calls tell nothing of its code.
  CHECK(recorded.seconds(0.01, {.stops = 1500, .calls = 1000}) ==
        doctest::Approx(0.01 - 1500 * Told::kStop_s));
  const uint64_t words = 100000;
  const double seconds =
      recorded.seconds(0.01, {.stops = 1500, .drained = words * sizeof(trace::Word)});
  CHECK(seconds > 0);
  CHECK(seconds < 0.001);
}

}  // namespace
}  // namespace shadowprof::shadow

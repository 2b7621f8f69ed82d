// SPDX-License-Identifier: MIT
#include "sample/wanted_part.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <ctime>
#include <optional>

#include "../child_process.h"
#include "base/pipe.h"
#include "shadow/pause.h"

volatile int wanted_part_goes_on = 1;
volatile int wanted_part_begins = -1;  // a descriptor

extern "C" {
__attribute__((noinline)) void wanted_part_inner() {
  (void)!::write(wanted_part_begins, "", 1);
  while (wanted_part_goes_on != 0) {
  }
}
__attribute__((noinline)) void wanted_part_outer() {
  wanted_part_inner();
  wanted_part_goes_on = 1;
}
__attribute__((noinline)) void wanted_part_other() {
  wanted_part_goes_on = 2;
}
}

namespace shadowprof::sample {
namespace {

// A child that executes wanted_part_inner(), called by wanted_part_outer().
class Child {
 public:
  Child() {
    Pipe begun;
    REQUIRE(begun.open());
    child_.emplace([&] {
      wanted_part_begins = begun.writer.get();
      wanted_part_outer();
      wanted_part_other();
    });
    begun.writer.reset();
    char begins = 0;
    REQUIRE(::read(begun.reader.get(), &begins, sizeof begins) == 1);
  }
  Tid pid() const { return child_->tid(); }

 private:
  std::optional<test::ChildProcess> child_;
};

TEST_CASE("a part is found where its code is executed, or called from") {
  Child child;
  auto program = shadow::Program::attach(child.pid(), shadow::Follow::no);
  if (!program) {
    MESSAGE("skip: ", program.error().message);
    return;
  }
  shadow::Pause stopped(*program);
  REQUIRE(stopped.threads().size() == 1);
  const auto executes = [&](const char* part, bool is_known = true) {
    WantedPart wanted(part, ::time(nullptr));
    if (is_known) wanted.learn_code(child.pid());
    return wanted.is_executed(child.pid(), stopped.threads());
  };
  CHECK(executes("wanted_part_inner"));
  CHECK(executes("wanted_part_outer"));
  CHECK_FALSE(executes("wanted_part_other"));
  CHECK(executes("sample_test!wanted_part_inner"));
  CHECK(executes("sample_test!"));
  CHECK_FALSE(executes("libzstd*!"));
  CHECK_FALSE(executes("wanted_part_inner", false));
}

TEST_CASE("looks that repeat one which found nothing say nothing about time") {
  Child child;
  auto program = shadow::Program::attach(child.pid(), shadow::Follow::no);
  if (!program) {
    MESSAGE("skip: ", program.error().message);
    return;
  }
  WantedPart wanted("wanted_part_other", ::time(nullptr));
  wanted.learn_code(child.pid());
  CHECK(wanted.share_of_time() == 1);
  shadow::Pause stopped(*program);
  for (int i = 0; i < 5; i++) CHECK_FALSE(wanted.is_executed(child.pid(), stopped.threads()));
  CHECK(wanted.share_of_time() == 0);
}

}  // namespace
}  // namespace shadowprof::sample

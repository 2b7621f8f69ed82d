// SPDX-License-Identifier: MIT
#include "sample/own_copy.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../temporary_folder.h"

namespace shadowprof {
namespace {

using sample::OwnCopy;

constexpr double kLong_s = 60;

TEST_CASE("a copy's answer is what its work returned") {
  collect::Pipeline pipeline({});
  OwnCopy copy;
  CHECK(!copy.take_answer());
  REQUIRE(copy.start(pipeline, [] { return std::string("found"); }));
  CHECK(copy.is_at_work());
  CHECK(copy.take_answer(kLong_s) == "found");
  CHECK(!copy.is_at_work());
  copy.stop();
}

TEST_CASE("a copy that ends without an answer has none") {
  collect::Pipeline pipeline({});
  OwnCopy copy;
  REQUIRE(copy.start(pipeline, []() -> std::string { ::_exit(1); }));
  CHECK(copy.take_answer(kLong_s) == "");
}

TEST_CASE("a copy that is stopped does nothing any more") {
  const test::TemporaryFolder folder;
  const std::string fifo = folder / "fifo";
  const std::string file = folder / "file";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  collect::Pipeline pipeline({});
  OwnCopy copy;
  REQUIRE(copy.start(pipeline, [&] {
    const int other_end = ::open(fifo.c_str(), O_RDONLY);  // waits for a writer
    std::ofstream(file) << other_end;
    return std::string();
  }));
  CHECK(!copy.take_answer(0.01));
  copy.stop();
  CHECK(!copy.is_at_work());
  // Nobody waits in the FIFO any more.
  const int end = ::open(fifo.c_str(), O_WRONLY | O_NONBLOCK);
  CHECK(end < 0);
  if (end >= 0) ::close(end);
  CHECK(!std::filesystem::exists(file));
}

}  // namespace
}  // namespace shadowprof

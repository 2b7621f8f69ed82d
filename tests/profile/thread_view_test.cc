// SPDX-License-Identifier: MIT
#include "profile/thread_view.h"

#include <doctest/doctest.h>

namespace shadowprof::profile {
namespace {

// Threads 1 and 2 are workers and have 60 of 100 instructions, thread 3 has 30.
Profile three_threads() {
  Profile p;
  p.run.mode = "full";
  p.modules = {{"/bin/app", "00ff", 0x400000, 7, 8}};
  p.tables.blocks = {{{0, 0x10}, 8, 2, 35}, {{0, 0x40}, 4, 1, 20}, {{0, 0x90}, 4, 1, 10}};
  p.coverage.instructions_profiled = p.coverage.instructions_total = p.coverage.attributed = 100;
  p.confidence.exact = true;
  p.threads = {{1, 1, "worker", 0, 0, 0, 40, 0, 1},
               {2, 1, "worker", 0, 0, 0, 20, 0, 1},
               {3, 1, "other", 0, 0, 0, 30, 0, 1}};
  p.tables.thread_code = {{{0, 0x12}, 0, 40}, {{0, 0x14}, 1, 10}, {{0, 0x40}, 1, 10},
                          {{0, 0x10}, 2, 20}, {{0, 0x91}, 2, 4},  {{0, 0x90}, 2, 6}};
  attribute_functions(p, {{{0, 0x10}, 0x10, "hot", "", "", 3}, {{0, 0x40}, 0x10, "rest", "", ""}});
  p.hotlists = compute_hotlists(p, 10);
  return p;
}

TEST_CASE("code by thread becomes that of functions, and what is in none is one row") {
  const Profile p = three_threads();
  REQUIRE(check_consistency(p));
  REQUIRE(p.tables.thread_code.size() == 5);
  CHECK(p.tables.thread_code[0].at == CodeRef{0, 0x10});
  CHECK(p.tables.thread_code[0].instructions == 40);
  CHECK(p.tables.thread_code.back().instructions == 10);
}

TEST_CASE("threads are found by name, and by id where none has that name") {
  Profile p = three_threads();
  CHECK(*find_threads(p, "worker") == std::vector<uint32_t>{0, 1});
  CHECK(*find_threads(p, "3") == std::vector<uint32_t>{2});
  p.threads[0].name = "3";
  CHECK(*find_threads(p, "3") == std::vector<uint32_t>{0});
  for (const char* wanted : {"work", "0", "3x", "-1", ""}) {
    const auto none = find_threads(p, wanted);
    REQUIRE(!none);
    CHECK(none.error().message.find("3, other, worker") != std::string::npos);
  }
  p.threads.clear();
  CHECK(!find_threads(p, "worker"));
}

TEST_CASE("of some threads there is what they executed, in parts of that") {
  Profile p = three_threads();
  const ThreadPart part = keep_threads(p, *find_threads(p, "worker"), 10);
  CHECK(part.instructions == 60);
  CHECK(part.instruction_share == doctest::Approx(0.6));
  CHECK(part.threads.size() == 2);
  REQUIRE(p.hotlists.methods.size() == 2);
  CHECK(p.hotlists.methods[0].at.function == "hot");
  CHECK(p.hotlists.methods[0].self == 50);
  CHECK(p.hotlists.methods[0].self_share == doctest::Approx(50.0 / 60));
  CHECK(p.hotlists.methods[1].self == 10);
  Profile q = three_threads();
  (void)keep_threads(q, *find_threads(q, "other"), 10);
  REQUIRE(q.hotlists.methods.size() == 2);
  CHECK(q.hotlists.methods[1].at.function == "[unknown code of app]");
  CHECK(q.hotlists.methods[1].self == 10);
}

TEST_CASE("a thread that no sample met may have a share that few samples miss") {
  Profile p = three_threads();
  p.threads.push_back({4, 1, "rare", 0, 0, 0, 0, 0, 1});
  CHECK(thread_share_error(p, p.threads[3]) == Margin(0));
  p.confidence.exact = false;
  p.confidence.groups = 10;
  CHECK(*thread_share_error(p, p.threads[3]) == doctest::Approx(0.259).epsilon(0.01));
  p.confidence.groups = 30;
  CHECK(*thread_share_error(p, p.threads[3]) == doctest::Approx(0.095).epsilon(0.01));
  CHECK(*thread_share_error(p, p.threads[0]) == 0);
  p.confidence.groups = 1;
  CHECK(!thread_share_error(p, p.threads[3]));
}

TEST_CASE("a thread that all samples met may not be all of the program") {
  Profile p = three_threads();
  p.confidence = {.exact = false, .groups = 4};
  ThreadRow all = p.threads[0];
  all.instructions = p.coverage.attributed;
  CHECK(*thread_share_error(p, all) == doctest::Approx(0.527).epsilon(0.01));
  p.threads.resize(1);
  CHECK(*thread_share_error(p, all) == 0);
}

TEST_CASE("the time of some threads is theirs, known as well as their ticks say") {
  Profile p = three_threads();
  p.time.source = "cpu-clock";
  p.time.user_s = 1;
  p.time.ticks = 50;  // of 100 that differ in weight
  p.threads[0].user_ns = 600'000'000;
  p.threads[0].ticks = 60;
  p.threads[2].user_ns = 400'000'000;
  p.threads[2].ticks = 40;
  p.tables.time = {{{0, 0x12}, 0, 600'000'000, 0}, {{0, 0x12}, 2, 400'000'000, 0}};
  const ThreadPart part = keep_threads(p, {2}, 10);
  CHECK(part.time_share == doctest::Approx(0.4));
  CHECK(p.time.ticks == 20);
  CHECK(p.time.seconds() == doctest::Approx(0.4));
  REQUIRE(!p.hotlists.methods.empty());
  CHECK(p.hotlists.methods[0].time.share == doctest::Approx(1));
}

TEST_CASE("what a thread has and its code are the same, and never more than there was") {
  Profile p = three_threads();
  p.threads[1].instructions++;
  CHECK(!check_consistency(p));
  p = three_threads();
  p.tables.thread_code[0].instructions = ~uint64_t{0};
  CHECK(!check_consistency(p));
  p = three_threads();
  p.tables.thread_code[0].thread = 3;
  CHECK(!check_consistency(p));
}

TEST_CASE("rows of one thread from several sources become one, by its id and process") {
  Profile p = three_threads();
  p.threads.push_back({2, 1, "renamed", 5, 6, 7});
  p.threads.push_back({2, 9, "elsewhere", 1, 1, 1});
  p.tables.time = {{{0, 0x12}, 3, 5, 6}, {{0, 0x12}, 4, 1, 1}};
  join_threads_by_id(p);
  REQUIRE(p.threads.size() == 4);
  CHECK(p.threads[1].name == "renamed");
  CHECK(p.threads[1].instructions == 20);
  CHECK(p.threads[1].ticks == 7);
  REQUIRE(p.tables.time.size() == 2);
  CHECK(p.tables.time[0].thread == 1);
  CHECK(p.tables.time[1].thread == 3);
}

}  // namespace
}  // namespace shadowprof::profile

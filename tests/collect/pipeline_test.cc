// SPDX-License-Identifier: MIT
#include "collect/pipeline.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

namespace shadowprof {
namespace {

using collect::Collector;
using collect::Pipeline;
using collect::Ticket;
using trace::Word;

class Adder final : public Collector {
 public:
  explicit Adder(std::atomic<bool>* gate = nullptr) : gate_(gate) {}
  void consume(const trace::Chunk& chunk) override {
    while (gate_ != nullptr && !*gate_) std::this_thread::yield();
    for (const Word w : chunk.words) {
      in_order_ &= w >= last_;
      last_ = w;
      sum_ += w;
    }
  }
  void finish(profile::Profile& into) override {
    into.coverage.instructions_profiled += sum_;
    into.coverage.samples += in_order_ ? 1 : 0;
  }

 private:
  std::atomic<bool>* gate_;
  uint64_t sum_ = 0;
  Word last_ = 0;
  bool in_order_ = true;
};

std::vector<std::unique_ptr<Collector>> adders(size_t n, std::atomic<bool>* gate = nullptr) {
  std::vector<std::unique_ptr<Collector>> result;
  for (size_t i = 0; i < n; i++) result.push_back(std::make_unique<Adder>(gate));
  return result;
}

TEST_CASE("a buffer may be written again when its ticket is done, and every chunk counts once") {
  Pipeline pipeline(adders(2));
  constexpr size_t kBuffers = 3;
  std::vector<std::vector<Word>> buffers(kBuffers, std::vector<Word>(100));
  std::vector<Ticket> tickets(kBuffers);
  uint64_t sum = 0;
  for (Word i = 0; i < 2000; i++) {
    const size_t b = i % kBuffers;
    pipeline.wait(tickets[b]);
    CHECK(pipeline.done(tickets[b]));
    for (Word& w : buffers[b]) {
      w = i;
      sum += i;
    }
    tickets[b] = pipeline.submit({Tid(1), buffers[b]});
  }
  profile::Profile profile;
  pipeline.finish(profile);
  CHECK(profile.coverage.instructions_profiled == 2 * sum);
  CHECK(profile.coverage.samples == 2);
  CHECK(pipeline.cpu_seconds() > 0);
}

TEST_CASE("a full queue makes the submitter wait") {
  std::atomic<bool> gate = false;
  Pipeline pipeline(adders(1, &gate), 2);
  const std::vector<Word> words = {1, 2, 3};
  const Ticket first = pipeline.submit({Tid(1), words});
  pipeline.submit({Tid(1), words});
  CHECK(!pipeline.done(first));
  std::atomic<bool> submitted = false;
  std::thread submitter([&] {
    pipeline.submit({Tid(1), words});
    submitted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!submitted);
  gate = true;
  submitter.join();
  profile::Profile profile;
  pipeline.finish(profile);
  CHECK(profile.coverage.instructions_profiled == 18);
}

TEST_CASE("without collectors nothing waits") {
  Pipeline pipeline({});
  const std::vector<Word> words = {1};
  for (int i = 0; i < 100; i++) pipeline.wait(pipeline.submit({Tid(1), words}));
  profile::Profile profile;
  pipeline.finish(profile);
  CHECK(profile.coverage.instructions_profiled == 0);
}

TEST_CASE("a pipeline that is never finished ends") {
  const std::vector<Word> words = {1};  // outlives the pipeline, which may still read it
  Pipeline pipeline(adders(1));
  pipeline.submit({Tid(1), words});
}

}  // namespace
}  // namespace shadowprof

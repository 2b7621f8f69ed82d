// SPDX-License-Identifier: MIT
#include "sample/verifier.h"

#include "shadow/emulator_executor.h"
#include "shadow/executor.h"

namespace shadowprof::sample {
namespace {

constexpr emu::CapturePlan kEverything{.values = true, .addresses = true};
// What is kept is some twenty bytes for each instruction.
constexpr uint64_t kMostInstructions = 3'000'000;

shadow::Budget budget_of(uint64_t instructions) {
  return {.instructions = std::min(instructions, kMostInstructions), .plan = kEverything};
}

// What the program, other processes and the kernel may write while the engines are at work.
std::vector<GuestRange> memory_of_several(Tid process) {
  std::vector<GuestRange> ranges;
  for (const kernel::Mapping& m :
       kernel::read_maps(process).value_or(std::vector<kernel::Mapping>{}))
    if (m.shared || m.is_vvar()) ranges.push_back(m.range);
  return ranges;
}

}  // namespace

uint64_t RecordingSink::take(const trace::Chunk& chunk) {
  if (!stream_) stream_ = chunk.thread;
  if (chunk.thread == *stream_) {
    words_.insert(words_.end(), chunk.words.begin(), chunk.words.end());
  }
  return 0;
}

void RecordingSink::clear() {
  stream_.reset();
  words_.clear();
}

Verifier::Verifier()
    : emulator_space_(emulator_table_), comparison_(translator_table_, emulator_table_) {}

Result<std::unique_ptr<Verifier>> Verifier::create() {
  std::unique_ptr<Verifier> verifier(new Verifier);
  SP_ASSIGN(verifier->translator_space_,
            shadow::ShadowSpace::create(verifier->translator_table_, {{.through_jumps = false}}));
  return verifier;
}

std::unique_ptr<shadow::Execution> Verifier::translator_side(shadow::Replica replica,
                                                             shadow::Identity identity,
                                                             uint64_t instructions) {
  translated_.clear();
  return std::make_unique<shadow::Executor>(translator_table_, *translator_space_, translated_,
                                            std::move(replica), identity, budget_of(instructions));
}

std::unique_ptr<shadow::Execution> Verifier::emulator_side(shadow::Replica replica,
                                                           shadow::Identity identity,
                                                           uint64_t instructions) {
  interpreted_.clear();
  comparison_.set_shared(memory_of_several(replica.tracee.tid()));
  return std::make_unique<shadow::EmulatorExecutor>(
      emulator_space_, interpreted_, std::move(replica), identity, budget_of(instructions));
}

std::optional<std::string> Verifier::conclude() {
  emu::Comparison result =
      comparison_.compare("translator", translated_.words(), "emulator", interpreted_.words());
  counts_.samples++;
  counts_.instructions += result.instructions;
  if (result.difference) counts_.diverged++;
  return std::move(result.difference);
}

}  // namespace shadowprof::sample

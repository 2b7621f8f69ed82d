// SPDX-License-Identifier: MIT
#include "collect/regions/region_filter.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "collect/regions/region_marks.h"
#include "collect/regions/stack_region.h"
#include "decoder/insn.h"
#include "trace/special_record.h"

namespace shadowprof::collect {
namespace {

using trace::Word;

// What a run is for the filter, found out when it is first met.
struct RunFacts {
  uint64_t executions;  // within
  uint32_t insns;
  uint16_t words;  // 0: not met yet
  uint16_t return_bytes;
  Mark mark;  // that it ends with
  bool tells_stack;
  bool opens;
  bool closes;
  bool moves_stack;
  bool calls_system;
};

struct Thread {
  StackRegion stack;
  uint64_t marks = 0;  // that are open
  bool open = false;   // as the collectors were told
};

// Pushes, pops, calls and additions of constants count it up or down, and so does `leave`, if not
// in a function that has changed rbp. Others put another one in its place, or make room.
bool loads_stack_pointer(const decoder::Insn& insn, std::span<const uint8_t> code) {
  using decoder::kRbp, decoder::kRsp;
  if (insn.kind != decoder::InsnKind::ordinary) return false;
  if ((insn.writes & decoder::gpr_bit(kRsp)) == 0) return false;
  if (insn.sum.to == kRsp && (insn.sum.from == kRsp || insn.sum.from == kRbp)) return false;
  const std::string text = decoder::disassemble(code, insn.address);
  return !text.starts_with("sub ") && !text.starts_with("and ") && !text.starts_with("enter");
}

class RegionFilter final : public Collector {
 public:
  RegionFilter(const trace::BlockTable& table, RegionFilterOptions options,
               std::vector<std::unique_ptr<Collector>> collectors, RegionCounts& counts)
      : table_(table),
        options_(options),
        collectors_(std::move(collectors)),
        counts_(counts),
        runs_(limits::kMaxRuns) {
    runs_.prefer_huge_pages();
  }

  void consume(const trace::Chunk& chunk) override;
  void finish(profile::Profile& into) override;

 private:
  // Each returns the words of the record; 0: it is corrupt.
  size_t take(Thread& thread, std::span<const Word> words);
  size_t take_special(Thread& thread, std::span<const Word> words);
  void take_run(Thread& thread, RunFacts& run, std::span<const Word> record);
  void step(Thread& thread, const RunFacts& run, std::span<const Word> record);
  void pass_border(Thread& thread, const RunFacts& run);
  void pass_mark(Thread& thread, Mark mark);
  void on(Thread& thread, trace::GapReason reason);
  void on(Thread& thread, const trace::SampleStart& start);
  void on(Thread& thread, const trace::SampleEnd& end);
  void meet(RunId id);
  void look_at_code(const trace::Run& run, RunFacts& facts) const;

  void open(Thread& thread);
  void close(Thread& thread);
  void pass(std::span<const Word> words) {
    within_.insert(within_.end(), words.begin(), words.end());
  }

  const trace::BlockTable& table_;
  const RegionFilterOptions options_;
  std::vector<std::unique_ptr<Collector>> collectors_;
  RegionCounts& counts_;
  ReservedArray<RunFacts> runs_;
  std::map<Tid, Thread> threads_;
  std::vector<Word> within_;  // of the chunk that is being read
  uint64_t stretches_ = 0;    // an entry has several where its stack is left and come back to
};

void RegionFilter::look_at_code(const trace::Run& run, RunFacts& facts) const {
  uint32_t left = run.insns;
  for (const BlockId b : table_.blocks(run)) {
    const trace::Block& block = table_.block(b);
    const auto code = table_.code(block);
    size_t at = 0;
    for (uint32_t i = 0; i < block.insns && left > 0 && at < code.size(); i++, left--) {
      const decoder::Insn insn = decoder::decode(code.subspan(at), block.start + at);
      facts.moves_stack |= loads_stack_pointer(insn, code.subspan(at));
      if (insn.kind == decoder::InsnKind::ret)
        facts.return_bytes = static_cast<uint16_t>(insn.ret_pop_bytes + sizeof(uint64_t));
      at += std::max<size_t>(insn.length, 1);
    }
  }
}

void RegionFilter::meet(RunId id) {
  if (id.value >= table_.run_count()) return;
  const trace::Run& run = table_.run(id);
  if (run.words == 0 || run.block_count == 0) return;
  RunFacts& facts = runs_[id.value];
  facts.words = run.words;
  facts.insns = run.insns;
  facts.calls_system = run.exit == trace::RunExit::syscall;
  const auto slots = table_.slots(run);
  facts.tells_stack = !slots.empty() && slots[0].kind == trace::SlotKind::base &&
                      slots[0].reg == decoder::kRsp && slots[0].insn == 0;
  if (options_.kind == RegionKind::marks) {
    const trace::Block& last = table_.block(table_.blocks(run).back());
    if (run.exit == trace::RunExit::jump) facts.mark = mark_at_end(table_.code(last));
    return;
  }
  const uint8_t entry = (*options_.entries)[run.first_block.value];
  facts.opens = (entry & kOpensRegion) != 0;
  facts.closes = (entry & kClosesRegion) != 0;
  if (options_.kind == RegionKind::function) look_at_code(run, facts);
}

void RegionFilter::open(Thread& thread) {
  pass(trace::sample_start(++stretches_));
  thread.open = true;
}

void RegionFilter::close(Thread& thread) {
  if (thread.open) pass(trace::sample_end(trace::EndReason::left_region));
  thread.open = false;
}

void RegionFilter::step(Thread& thread, const RunFacts& run, std::span<const Word> record) {
  RegionStep step{{}, run.opens, run.moves_stack, run.return_bytes};
  if (run.tells_stack) step.stack = record[1] | static_cast<uint64_t>(record[2]) << 32;
  const uint64_t before = thread.stack.entries();
  thread.stack.step(step);
  counts_.entries += thread.stack.entries() - before;
  if (!thread.stack.is_open() || thread.stack.entries() != before) close(thread);
  if (thread.stack.is_open() && !thread.open) open(thread);
}

void RegionFilter::pass_border(Thread& thread, const RunFacts& run) {
  if (run.closes && run.opens && thread.open) {
    counts_.entries++;  // by a call that is within, so the stretch goes on
    return;
  }
  if (run.closes) close(thread);
  if (!run.opens || thread.open) return;
  counts_.entries++;
  open(thread);
}

void RegionFilter::pass_mark(Thread& thread, Mark mark) {
  if (mark == Mark::begin && thread.marks++ == 0) {
    counts_.entries++;
    open(thread);
  }
  if (mark == Mark::end && thread.marks == 0) counts_.unmatched_marks++;
  if (mark == Mark::end && thread.marks != 0 && --thread.marks == 0) close(thread);
}

void RegionFilter::take_run(Thread& thread, RunFacts& run, std::span<const Word> record) {
  counts_.program_instructions += run.insns;
  if (options_.kind == RegionKind::function) step(thread, run, record);
  if (options_.kind == RegionKind::between) pass_border(thread, run);
  if (thread.open) {
    run.executions++;
    counts_.instructions += run.insns;
    counts_.system_calls += run.calls_system ? 1 : 0;
    pass(record);
  }
  if (run.mark != Mark::none) pass_mark(thread, run.mark);
}

void RegionFilter::on(Thread& thread, trace::GapReason reason) {
  switch (reason) {
    case trace::GapReason::signal_delivered:
      return thread.stack.signal_delivered();
    case trace::GapReason::signal_returned:
      thread.stack.signal_returned();
      if (options_.kind == RegionKind::function && !thread.stack.is_open()) close(thread);
      return;
    case trace::GapReason::native:
    case trace::GapReason::lost:
      return thread.stack.gap();
  }
}

void RegionFilter::on(Thread& thread, const trace::SampleStart&) {
  close(thread);
  thread = {};
}

// What comes next is another thread, or another program.
void RegionFilter::on(Thread& thread, const trace::SampleEnd&) {
  close(thread);
  thread = {};
}

size_t RegionFilter::take_special(Thread& thread, std::span<const Word> words) {
  const auto say = [&](const auto& what) { on(thread, what); };
  const size_t length = trace::take_special(words, say);
  if (length != 0 && thread.open) pass(words.first(length));
  return length;
}

size_t RegionFilter::take(Thread& thread, std::span<const Word> words) {
  if (trace::is_special(words[0])) return take_special(thread, words);
  if (words[0] >= limits::kMaxRuns) return 0;
  RunFacts& run = runs_[words[0]];
  if (run.words == 0) [[unlikely]]
    meet(RunId(words[0]));
  if (run.words == 0 || run.words > words.size()) return 0;
  if (run.tells_stack && run.words < 3) return 0;
  take_run(thread, run, words.first(run.words));
  return run.words;
}

void RegionFilter::consume(const trace::Chunk& chunk) {
  Thread& thread = threads_[chunk.thread];
  within_.clear();
  for (std::span<const Word> left = chunk.words; !left.empty();) {
    const size_t words = take(thread, left);
    if (words == 0) {
      counts_.corrupt_chunks++;
      break;
    }
    left = left.subspan(words);
  }
  if (within_.empty()) return;
  trace::Chunk part = chunk;
  part.words = within_;
  for (const auto& collector : collectors_) collector->consume(part);
}

void RegionFilter::finish(profile::Profile& into) {
  counts_.executions.resize(table_.run_count());
  for (size_t i = 0; i < counts_.executions.size(); i++)
    counts_.executions[i] = runs_[i].executions;
  for (auto& collector : collectors_) {
    collector->finish(into);
    collector.reset();  // before the next one makes its tables
  }
  if (counts_.unmatched_marks != 0)
    into.coverage.events["unmatched_marks"] += counts_.unmatched_marks;
  if (counts_.corrupt_chunks != 0)
    into.coverage.events["corrupt_chunks"] += counts_.corrupt_chunks;
}

}  // namespace

std::unique_ptr<Collector> make_region_filter(const trace::BlockTable& table,
                                              RegionFilterOptions options,
                                              std::vector<std::unique_ptr<Collector>> collectors,
                                              RegionCounts& counts) {
  return std::make_unique<RegionFilter>(table, options, std::move(collectors), counts);
}

}  // namespace shadowprof::collect

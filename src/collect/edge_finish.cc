// SPDX-License-Identifier: MIT
//
// From counts of runs and pairs to the profile's tables.
#include <algorithm>
#include <optional>
#include <utility>

#include "collect/edge_state.h"
#include "profile/canonical.h"

namespace shadowprof::collect {

using profile::CodeRef;
using profile::EdgeKind;
using trace::RunExit;
using trace::Terminator;

namespace {

EdgeKind kind_of(RunExit exit) {
  switch (exit) {
    case RunExit::not_taken:
      return EdgeKind::not_taken;
    case RunExit::taken:
      return EdgeKind::taken;
    case RunExit::jump:
      return EdgeKind::jump;
    case RunExit::call:
      return EdgeKind::call;
    case RunExit::indirect_jump:
      return EdgeKind::indirect_jump;
    case RunExit::indirect_call:
      return EdgeKind::indirect_call;
    case RunExit::ret:
      return EdgeKind::ret;
    default:
      break;
  }
  CHECK(false, "no edge at exit {}", trace::to_string(exit));
  return EdgeKind::taken;
}

constexpr bool makes_direct_edge(RunExit e) {
  return e == RunExit::not_taken || e == RunExit::taken || e == RunExit::jump || e == RunExit::call;
}

// Builds the tables of one address space.
class TableBuilder {
 public:
  TableBuilder(const trace::BlockTable& table, profile::Profile& out) : table_(table), out_(out) {
    for (size_t i = 0; i < table.module_count(); i++) {
      const trace::Module& m = table.module(ModuleId(static_cast<uint32_t>(i)));
      modules_.push_back(profile::find_or_add_module(
          out.modules, {m.path, "", m.file_start.value, m.inode, m.device}));
    }
    whole_.assign(table.block_count(), 0);
    for (uint32_t i = 0; i < table.block_count(); i++)
      starts_.push_back({table.block(BlockId(i)).start.value, i});
    std::sort(starts_.begin(), starts_.end());
  }

  // All blocks of a run that executed `count` times, and the edges that lie within it or that it
  // ends with.
  void add_run(const trace::Run& run, uint64_t count) {
    const auto blocks = table_.blocks(run);
    for (size_t i = 0; i + 1 < blocks.size(); i++) {
      const trace::Block& b = table_.block(blocks[i]);
      const trace::Block& next = table_.block(blocks[i + 1]);
      whole_[blocks[i].value] += count;
      if (b.terminator == Terminator::conditional)
        add_edge(b, next.start, next.start == b.end ? EdgeKind::not_taken : EdgeKind::taken, count);
      else if (b.terminator == Terminator::jump)
        add_edge(b, next.start, EdgeKind::jump, count);
      else if (b.terminator == Terminator::call)
        add_edge(b, next.start, EdgeKind::call, count);
    }
    const trace::Block& last = table_.block(blocks.back());
    if (run.exit != RunExit::interrupted || run.last_block_insns >= last.insns)
      whole_[blocks.back().value] += count;
    else
      pieces_.push_back(piece(last, run.last_block_insns, count));
    if (!makes_direct_edge(run.exit)) return;
    const bool falls = run.exit == RunExit::not_taken;
    add_edge(last, falls ? last.end : run.target, kind_of(run.exit), count);
  }

  void add_edge(const trace::Block& from, GuestAddr to, EdgeKind kind, uint64_t count) {
    if (const auto target = resolve(to, from.module))
      add_edge(from, *target, kind, count);
    else
      edges_without_module += count;
  }

  void add_edge(const trace::Block& from, CodeRef to, EdgeKind kind, uint64_t count) {
    out_.tables.edges.push_back({at(from.last_insn, from.module), to, kind, count});
    leaders_.push_back(to);
  }

  void add_call(const trace::Block& from, CodeRef callee, bool indirect, uint64_t count,
                uint64_t inclusive) {
    if (count == 0) return;
    out_.tables.calls.push_back(
        {at(from.last_insn, from.module), callee, indirect, count, inclusive});
    add_entry(callee, count, 0);
  }

  void add_entry(CodeRef callee, uint64_t invocations, uint64_t inclusive) {
    out_.tables.entries.push_back({callee, invocations, inclusive});
    leaders_.push_back(callee);
  }

  CodeRef at(const trace::Block& block) const { return at(block.start, block.module); }

  // Where a direct branch leads. Code that was executed there says which module it is in; else the
  // modules' ranges do, and at equal addresses the branch's own module or the latest one.
  std::optional<CodeRef> resolve(GuestAddr to, ModuleId own) const {
    auto it = std::lower_bound(starts_.begin(), starts_.end(), std::pair(to.value, 0u));
    std::optional<CodeRef> found;
    for (; it != starts_.end() && it->first == to.value; ++it) {
      const trace::Block& b = table_.block(BlockId(it->second));
      if (b.module == own) return at(b);
      found = at(b);
    }
    if (found) return found;
    if (table_.module(own).range.contains(to)) return at(to, own);
    for (size_t i = table_.module_count(); i-- > 0;) {
      const ModuleId id(static_cast<uint32_t>(i));
      if (table_.module(id).range.contains(to)) return at(to, id);
    }
    return std::nullopt;
  }

  // After all runs: the block table.
  void finish_blocks(bool calls) {
    for (uint32_t i = 0; i < whole_.size(); i++) {
      const trace::Block& b = table_.block(BlockId(i));
      if (whole_[i] != 0) pieces_.push_back(piece(b, b.insns, whole_[i]));
    }
    std::sort(leaders_.begin(), leaders_.end());
    leaders_.erase(std::unique(leaders_.begin(), leaders_.end()), leaders_.end());
    profile::CanonicalBlocks canonical = profile::canonical_blocks(std::move(pieces_), &leaders_);
    out_.tables.blocks = std::move(canonical.blocks);
    out_.tables.interruptions = std::move(canonical.interruptions);
    out_.coverage.attributed =
        profile::executed_instructions(out_.tables.blocks, out_.tables.interruptions);
    if (!calls) {
      out_.tables.calls.clear();
      out_.tables.entries.clear();
    }
    profile::normalise(out_.tables);
  }

  uint64_t edges_without_module = 0;

 private:
  CodeRef at(GuestAddr address, ModuleId module) const {
    return {modules_[module.value], address.value - table_.module(module).file_start.value};
  }
  profile::Piece piece(const trace::Block& b, uint32_t executed, uint64_t count) const {
    const bool branch = b.terminator != Terminator::none && b.terminator != Terminator::native;
    return {at(b), static_cast<uint32_t>(b.end - b.start), b.insns, executed, branch, count};
  }

  const trace::BlockTable& table_;
  profile::Profile& out_;
  std::vector<uint32_t> modules_;  // index in out_.modules
  std::vector<uint64_t> whole_;    // full executions by block id
  std::vector<std::pair<uint64_t, uint32_t>> starts_;
  std::vector<profile::Piece> pieces_;
  std::vector<CodeRef> leaders_;
};

}  // namespace

void EdgeCollector::State::finish(profile::Profile& into) {
  for (auto& [tid, thread] : threads) {
    make_current(thread);
    if (thread.has_pending && needs_pair(Facts::follow(cells.data()[thread.pending.run].facts)))
      edges_without_target++;
    pop_to(thread, 0, thread.clock);
  }

  profile::Profile mine;
  TableBuilder builder(table, mine);
  std::unordered_map<uint32_t, uint64_t> through_stubs;  // by run: calls that its stub passed on
  pairs.for_each([&](const PairTable::Slot& slot, uint64_t inclusive) {
    const uint32_t id = PairTable::run_of(slot.key);
    const trace::Run& run = table.run(RunId(id));
    const trace::Block& from = table.block(table.blocks(run).back());
    const trace::Block& to = table.block(BlockId(PairTable::block_of(slot.key)));
    if (run.exit == RunExit::call)
      through_stubs[id] += slot.count;
    else
      builder.add_edge(from, builder.at(to), kind_of(run.exit), slot.count);
    if (trace::is_call(run.exit))
      builder.add_call(from, builder.at(to), run.exit != RunExit::call, slot.count, inclusive);
  });
  for (uint32_t id = 0; id < table.run_count(); id++) {
    const uint64_t count = cells.data()[id].count;
    if (count == 0) continue;
    const trace::Run& run = table.run(RunId(id));
    builder.add_run(run, count);
    if (run.exit != RunExit::call || !options.calls) continue;
    const trace::Block& from = table.block(table.blocks(run).back());
    const auto callee = builder.resolve(run.target, from.module);
    if (!callee || run.target == from.end) continue;
    const auto stub = through_stubs.find(id);
    const uint64_t passed_on = stub == through_stubs.end() ? 0 : stub->second;
    if (passed_on != 0) builder.add_entry(*callee, passed_on, 0);
    builder.add_call(from, *callee, false, count - passed_on, sites.data()[id].inclusive);
  }
  for (uint32_t id = 0; options.calls && id < table.block_count(); id++) {
    const EntryState& entry = entries.data()[id];
    if (entry.inclusive == 0 && entry.other_invocations == 0) continue;
    builder.add_entry(builder.at(table.block(BlockId(id))), entry.other_invocations,
                      entry.inclusive);
  }
  builder.finish_blocks(options.calls);

  profile::Coverage& coverage = mine.coverage;
  coverage.samples = samples;
  for (const auto& [tid, thread] : threads) coverage.instructions_profiled += thread.clock;
  const std::pair<const char*, uint64_t> events_seen[] = {
      {"returns_without_call", returns_without_call},
      {"calls_too_deep", calls_too_deep},
      {"edges_without_target", edges_without_target},
      {"edges_without_module", builder.edges_without_module},
      {"corrupt_chunks", corrupt_chunks}};
  for (const auto& [what, count] : events_seen)
    if (count != 0) coverage.events[what] += count;
  profile::add_tables(into, mine);
}

}  // namespace shadowprof::collect

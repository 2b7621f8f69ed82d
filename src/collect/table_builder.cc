// SPDX-License-Identifier: MIT
#include "collect/table_builder.h"

#include <algorithm>

namespace shadowprof::collect {

using profile::CodeRef;
using profile::EdgeKind;
using trace::RunExit;
using trace::Terminator;

namespace {

constexpr bool makes_direct_edge(RunExit e) {
  return e == RunExit::not_taken || e == RunExit::taken || e == RunExit::jump || e == RunExit::call;
}

}  // namespace

EdgeKind edge_kind_of(RunExit exit) {
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
  SP_CHECK(false, "no edge at exit {}", trace::to_string(exit));
  return EdgeKind::taken;
}

TableBuilder::TableBuilder(const trace::BlockTable& table, profile::Profile& out)
    : table_(table), out_(out) {
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

void TableBuilder::add_run(const trace::Run& run, uint64_t count) {
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
  add_edge(last, falls ? last.end : run.target, edge_kind_of(run.exit), count);
}

void TableBuilder::add_edge(const trace::Block& from, GuestAddr to, EdgeKind kind, uint64_t count) {
  if (const auto target = resolve(to, from.module))
    add_edge(from, *target, kind, count);
  else
    edges_without_module += count;
}

void TableBuilder::add_edge(const trace::Block& from, CodeRef to, EdgeKind kind, uint64_t count) {
  out_.tables.edges.push_back({at(from.last_insn, from.module), to, kind, count});
  leaders_.push_back(to);
}

void TableBuilder::add_call(const trace::Block& from, CodeRef callee, bool indirect, uint64_t count,
              uint64_t inclusive) {
  if (count == 0) return;
  out_.tables.calls.push_back(
      {at(from.last_insn, from.module), callee, indirect, count, inclusive});
  add_entry(callee, count, 0);
}

void TableBuilder::add_entry(CodeRef callee, uint64_t invocations, uint64_t inclusive) {
  out_.tables.entries.push_back({callee, invocations, inclusive});
  leaders_.push_back(callee);
}


std::optional<CodeRef> TableBuilder::resolve(GuestAddr to, ModuleId own) const {
  auto it = std::lower_bound(starts_.begin(), starts_.end(), std::pair(to.value, 0u));
  std::optional<CodeRef> found;
  for (; it != starts_.end() && it->first == to.value; ++it) {
    const trace::Block& b = table_.block(BlockId(it->second));
    if (b.module == own) return at(b);
    found = at(b);
  }
  if (found) return found;
  if (table_.module(own).range.contains(to)) return at(to, own);
  return locate(to);
}

std::optional<CodeRef> TableBuilder::locate(GuestAddr address) const {
  for (size_t i = table_.module_count(); i-- > 0;) {
    const ModuleId id(static_cast<uint32_t>(i));
    if (table_.module(id).range.contains(address)) return at(address, id);
  }
  return std::nullopt;
}

void TableBuilder::finish_blocks(bool calls) {
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

CodeRef TableBuilder::at(GuestAddr address, ModuleId module) const {
  return {modules_[module.value], address.value - table_.module(module).file_start.value};
}
profile::Piece TableBuilder::piece(const trace::Block& b, uint32_t executed, uint64_t count) const {
  const bool branch = b.terminator != Terminator::none && b.terminator != Terminator::native;
  return {at(b), static_cast<uint32_t>(b.end - b.start), b.insns, executed, branch, count};
}

}  // namespace shadowprof::collect

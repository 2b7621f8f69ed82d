// SPDX-License-Identifier: MIT
#include "sample/inlined_code.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "decoder/insn.h"

namespace shadowprof::sample {
namespace {

using profile::BlockCount;
using profile::CodeRef;
using profile::Function;
using profile::InlinedFunction;
using profile::InlinedPlace;
using profile::Interruption;
using profile::Profile;
using symbols::InlinedStretch;
using symbols::kNoInlinedCall;

// A share of all instructions. In C++ half of all inlined functions only call others.
constexpr double kLeastInclusiveShare = 1e-4;
// Calls that were inlined into one another: notes of earlier runs that were tampered with may go
// round in circles.
constexpr size_t kDeepest = 4096;

constexpr const char* kUnnamed = "(unnamed)";

// Rows of one block; `rows` are sorted by blocks.
template <typename Row>
std::span<const Row> rows_of(const std::vector<Row>& rows, size_t block) {
  return {std::ranges::lower_bound(rows, block, {}, &Row::block),
          std::ranges::upper_bound(rows, block, {}, &Row::block)};
}

std::span<const Interruption> interruptions_of(const profile::Tables& tables, size_t block) {
  return rows_of(tables.interruptions, block);
}

uint64_t executed_in(const profile::Tables& tables, size_t block) {
  const BlockCount& b = tables.blocks[block];
  uint64_t sum = b.count * b.insns;
  for (const Interruption& i : interruptions_of(tables, block))
    sum -= i.count * (b.insns - i.executed);
  return sum;
}

// Where the block's instructions begin, as distances from its start; empty where the bytes are not
// those that executed.
std::vector<uint32_t> instructions_of(const BlockCount& block, int file) {
  std::vector<uint8_t> bytes(block.size);
  if (::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(block.at.offset)) !=
      static_cast<ssize_t>(bytes.size()))
    return {};
  std::vector<uint32_t> starts;
  for (uint32_t at = 0; at < block.size;) {
    const decoder::Insn insn =
        decoder::decode(std::span(bytes).subspan(at), GuestAddr(block.at.offset + at));
    if (insn.length == 0) return {};
    starts.push_back(at);
    at += insn.length;
  }
  if (starts.size() != block.insns) starts.clear();
  return starts;
}

// The row of the table of blocks that has `at`, or blocks.size().
size_t row_with(const profile::BlockTable& blocks, CodeRef at) {
  auto after = std::ranges::upper_bound(blocks, at, {}, &BlockCount::at);
  if (after == blocks.begin()) return blocks.size();
  --after;
  const bool inside = after->at.module == at.module && at.offset - after->at.offset < after->size;
  return inside ? static_cast<size_t>(after - blocks.begin()) : blocks.size();
}

}  // namespace

const InlinedCode::Call& InlinedCode::call(uint32_t number) {
  if (number >= calls_.size()) calls_.resize(number + size_t{1});
  if (calls_[number].resolved) return calls_[number];
  symbols::InlinedCall known = symbols_.inlined_call(number);
  InlinedFunction f;
  f.module = module_;
  f.name = known.function.empty() ? kUnnamed : std::move(known.function);
  if (known.linkage_name != f.name) f.linkage_name = std::move(known.linkage_name);
  f.file = std::move(known.file);
  f.line = known.line;
  const auto [entry, is_new] =
      index_.try_emplace({f.name, f.file, f.line}, static_cast<uint32_t>(functions_.size()));
  if (is_new) functions_.push_back(std::move(f));
  calls_[number] = {true, entry->second, known.outer, std::move(known.call_file), known.call_line};
  return calls_[number];
}

uint32_t InlinedCode::call_at(CodeRef at) const {
  const std::vector<InlinedStretch> stretches = symbols_.inlined(at.offset, 1);
  return stretches.empty() ? kNoInlinedCall : stretches[0].call;
}

void InlinedCode::add_part(size_t block, uint32_t number, uint64_t instructions) {
  if (number == kNoInlinedCall || instructions == 0) return;
  functions_[call(number).function].self += instructions;
  parts_.push_back({static_cast<uint32_t>(block), number, instructions});
}

void InlinedCode::count_shared(const Profile& profile, size_t block,
                               std::span<const InlinedStretch> stretches, int file) {
  const BlockCount& b = profile.tables.blocks[block];
  const std::vector<uint32_t> starts = instructions_of(b, file);
  std::vector<uint64_t> counts(starts.size(), b.count);
  if (starts.empty()) return;
  for (const Interruption& i : interruptions_of(profile.tables, block))
    for (size_t k = i.executed; k < counts.size(); k++) counts[k] -= i.count;
  std::map<uint32_t, uint64_t> sums;
  auto stretch = stretches.begin();
  for (size_t k = 0; k < starts.size(); k++) {
    while (b.at.offset + starts[k] >= stretch->end) ++stretch;
    if (!stretch->known) continue;
    known_ += counts[k];
    sums[stretch->call] += counts[k];
  }
  for (const auto& [number, instructions] : sums) add_part(block, number, instructions);
}

void InlinedCode::count(const Profile& profile, size_t first, size_t end, int file) {
  for (size_t i = first; i < end; i++) {
    const BlockCount& block = profile.tables.blocks[i];
    const std::vector<InlinedStretch> stretches = symbols_.inlined(block.at.offset, block.size);
    if (stretches.size() > 1) {
      count_shared(profile, i, stretches, file);
    } else if (!stretches.empty() && stretches[0].known) {
      const uint64_t executed = executed_in(profile.tables, i);
      known_ += executed;
      add_part(i, stretches[0].call, executed);
    }
  }
}

std::span<const InlinedCode::Part> InlinedCode::parts_of(size_t block) const {
  return rows_of(parts_, block);
}

void InlinedCode::fill_errors(const Profile& profile, std::span<InlinedCode* const> modules) {
  if (profile.groups.empty()) return;
  std::vector<size_t> first;  // of each module, among all functions
  size_t functions = 0;
  for (const InlinedCode* module : modules) {
    first.push_back(functions);
    if (module != nullptr) functions += module->functions_.size();
  }
  std::vector<profile::ErrorSum> sums(functions);
  std::vector<double> in_group(functions), in_all(functions);
  profile::GroupSizes sizes;
  for (const profile::SampleGroup& group : profile.groups) {
    const profile::GroupSize size{static_cast<double>(group.instructions), group.by_time};
    for (const profile::GroupedCode& code : group.code) {
      InlinedCode* const module = modules[code.at.module];
      const size_t block = row_with(profile.tables.blocks, code.at);
      if (module == nullptr || block == profile.tables.blocks.size()) continue;
      const auto executed = static_cast<double>(executed_in(profile.tables, block));
      for (const Part& part : module->parts_of(block))
        in_group[first[code.at.module] + module->call(part.call).function] +=
            static_cast<double>(code.instructions) * static_cast<double>(part.instructions) /
            executed;
    }
    for (size_t f = 0; f < functions; f++) {
      if (in_group[f] == 0) continue;
      sums[f].add(in_group[f], size);
      in_all[f] += in_group[f];
      in_group[f] = 0;
    }
    sizes.add(size);
  }
  if (sizes.all() == 0) return;
  for (size_t m = 0; m < modules.size(); m++) {
    if (modules[m] == nullptr) continue;
    for (size_t f = 0; f < modules[m]->functions_.size(); f++) {
      const size_t i = first[m] + f;
      modules[m]->functions_[f].self_error =
          sums[i].error(profile.confidence.groups, sizes, in_all[i] / sizes.all());
    }
  }
}

profile::InlinedTable InlinedCode::rows(const Profile& profile) {
  using Key = std::pair<uint32_t, uint64_t>;  // and where the function begins that it is in
  std::map<Key, uint64_t> inclusive;          // by function
  std::map<Key, uint64_t> places;             // by call
  std::map<uint64_t, uint64_t> most;          // of each function that something was inlined into
  // The calls that `at` is in, from the innermost outwards. Instructions in a function that was
  // inlined into itself are in it once.
  const auto add = [&](CodeRef at, uint32_t innermost, uint64_t self, uint64_t below) {
    const Function* f = find_function(profile.functions, at);
    const uint64_t outside = f == nullptr ? 0 : f->at.offset;
    most[outside] = f == nullptr ? profile.coverage.instructions_profiled : f->inclusive;
    std::vector<uint32_t> seen;
    size_t depth = 0;
    for (uint32_t number = innermost; number != kNoInlinedCall && depth < kDeepest; depth++) {
      const Call& one = call(number);
      places[{number, outside}] += self;
      if (std::ranges::find(seen, one.function) == seen.end()) {
        seen.push_back(one.function);
        inclusive[{one.function, outside}] += self + below;
      }
      below += std::exchange(self, 0);
      number = one.outer;
    }
  };
  const profile::Tables& t = profile.tables;
  for (const Part& part : parts_) add(t.blocks[part.block].at, part.call, part.instructions, 0);
  for (const profile::CallPair& pair : t.calls)
    if (pair.site.module == module_) add(pair.site, call_at(pair.site), 0, pair.inclusive);
  for (const profile::TimeRow& row : t.time) {
    if (row.at.module != module_) continue;
    const uint32_t innermost = call_at(row.at);
    add(row.at, innermost, 0, 0);
    if (innermost == kNoInlinedCall) continue;
    InlinedFunction& f = functions_[call(innermost).function];
    f.user_ns += row.user_ns;
    f.kernel_ns += row.kernel_ns;
  }
  for (const auto& [key, self] : places) {
    const Call& one = call(key.first);
    functions_[one.function].places.push_back({key.second, one.file, one.line, self});
  }
  for (const auto& [key, instructions] : inclusive)
    functions_[key.first].inclusive += std::min(instructions, most[key.second]);
  for (InlinedFunction& f : functions_)
    f.inclusive = std::min(f.inclusive, profile.coverage.instructions_profiled);
  const auto least = kLeastInclusiveShare * static_cast<double>(profile.coverage.attributed);
  std::erase_if(functions_, [&](const InlinedFunction& f) {
    return f.self + f.user_ns + f.kernel_ns == 0 && static_cast<double>(f.inclusive) < least;
  });
  profile::normalise_inlined(functions_);
  return std::move(functions_);
}

}  // namespace shadowprof::sample

// SPDX-License-Identifier: MIT
//
// Profiles have up to some hundred thousand blocks, and a program's symbol tables as many names. So
// a function is looked up per block, but demangled only once, and only if it executed.
#include "sample/name_functions.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <span>
#include <thread>

#include "base/log.h"
#include "base/start_thread.h"
#include "profile/hidden_values.h"
#include "profile/hotlists/called_code.h"
#include "profile/hotlists/inclusive_estimate.h"
#include "profile/tables/append_rows.h"
#include "sample/inlined_code.h"
#include "sample/module_files.h"
#include "symbols/module_symbols.h"

namespace shadowprof::sample {
namespace {

using profile::BlockCount;
using profile::CodeRef;
using symbols::ModuleSymbols;
using symbols::SourceFrame;

// What one module contributes. Modules are worked on in parallel, each by one thread.
struct NamedModule {
  std::unique_ptr<ModuleSymbols> symbols;  // null: nothing is known about it
  UniqueFd file;
  profile::FunctionTable functions;
  std::unique_ptr<InlinedCode> inlined;
};

profile::Function describe(const ModuleSymbols& symbols, uint32_t module, size_t index) {
  symbols::Symbol symbol = symbols.function(index);
  profile::Function f;
  f.at = {module, symbol.offset};
  f.size = symbol.size;
  f.name = std::move(symbol.name);
  if (symbol.linkage_name != f.name) f.linkage_name = std::move(symbol.linkage_name);
  const std::vector<SourceFrame> frames = symbols.lines(symbol.offset);
  if (!frames.empty()) {
    const SourceFrame& own = frames.back();
    f.file = own.file;
    f.line = own.function_line != 0 ? own.function_line : own.line;
  }
  return f;
}

// Places of contexts and of processor time, by module: code that no sample has executed.
std::vector<std::vector<uint64_t>> callers_of(const profile::Profile& profile) {
  std::vector<std::vector<uint64_t>> places(profile.modules.size());
  for (const profile::ContextRow& row : profile.tables.contexts)
    if (row.kind == profile::ContextKind::code) places[row.at.module].push_back(row.at.offset);
  for (const profile::TimeRow& row : profile.tables.time)
    places[row.at.module].push_back(row.at.offset);
  return places;
}

std::vector<std::vector<uint64_t>> callees_of(const profile::Profile& profile) {
  std::vector<std::vector<uint64_t>> places(profile.modules.size());
  for (const profile::CallPair& call : profile.tables.calls)
    places[call.callee.module].push_back(call.callee.offset);
  return places;
}

// `blocks` are the module's, sorted by offset; `callers` are places of it that need a name, too.
void name_module(NamedModule& named, uint32_t module, std::span<const BlockCount> blocks,
                 const std::vector<uint64_t>& callers) {
  std::vector<size_t> executed;
  for (const BlockCount& block : blocks) {
    const auto index = named.symbols->function_index(block.at.offset);
    if (index && (executed.empty() || executed.back() != *index)) executed.push_back(*index);
  }
  for (const uint64_t offset : callers)
    if (const auto index = named.symbols->function_index(offset)) executed.push_back(*index);
  std::sort(executed.begin(), executed.end());
  executed.erase(std::unique(executed.begin(), executed.end()), executed.end());
  for (size_t index : executed) named.functions.push_back(describe(*named.symbols, module, index));
}

// What an instruction loads from where the program cannot write to is in the code already, like an
// immediate.
void find_constants(std::span<const NamedModule> named, profile::ValueTable& values) {
  for (profile::ValueRow& row : values) {
    const ModuleSymbols* symbols = named[row.at.module].symbols.get();
    if (row.loads_static != 0 && symbols != nullptr)
      row.constant |= symbols->addresses().is_constant(row.at.offset, row.loads_static);
  }
}

// Code without a file. Several programs may have had other code at one address: the first wins.
void name_generated(NamedModule& named, uint32_t module, uint64_t address,
                    std::span<const BlockCount> blocks, const std::vector<uint64_t>& callers,
                    std::span<const symbols::PerfMap> maps) {
  std::map<uint64_t, profile::Function> functions;
  const auto name = [&](uint64_t offset) {
    for (const symbols::PerfMap& map : maps) {
      auto symbol = map.find(GuestAddr(address + offset));
      if (!symbol || symbol->offset < address) continue;
      profile::Function& f = functions[symbol->offset - address];
      f.at = {module, symbol->offset - address};
      f.size = symbol->size;
      f.name = std::move(symbol->name);
      return;
    }
  };
  for (const BlockCount& block : blocks) name(block.at.offset);
  for (const uint64_t offset : callers) name(offset);
  for (auto& [offset, function] : functions) named.functions.push_back(std::move(function));
}

std::vector<symbols::PerfMap> load_all(std::span<const symbols::PerfMapPlace> places) {
  std::vector<symbols::PerfMap> maps;
  for (const symbols::PerfMapPlace& place : places) {
    auto map = place.load();
    if (map)
      maps.push_back(std::move(*map));
    else if (map.error().errno_value != ENOENT)
      detail("{}", map.error().message);
  }
  return maps;
}

std::span<const BlockCount> blocks_of(const profile::BlockTable& blocks, uint32_t module) {
  const auto first =
      std::lower_bound(blocks.begin(), blocks.end(), module,
                       [](const BlockCount& b, uint32_t wanted) { return b.at.module < wanted; });
  const auto last =
      std::upper_bound(first, blocks.end(), module,
                       [](uint32_t wanted, const BlockCount& b) { return wanted < b.at.module; });
  return {first, last};
}

// Calls work(i) for every i below `count`, on as many threads as there are cores.
template <typename Work>
void in_parallel(size_t count, Work work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t i; (i = next.fetch_add(1)) < count;) work(i);
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(cores, count); i++) {
    std::thread helper;
    if (!start_thread(helper, take)) break;  // we do it alone
    helpers.push_back(std::move(helper));
  }
  take();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

void name_functions(profile::Profile& profile, const trace::BlockTable& code,
                    const Naming& naming) {
  const CacheFolder notes = CacheFolder::of_user().inside("names");
  std::vector<NamedModule> named(profile.modules.size());
  const std::vector<std::vector<uint64_t>> callers = callers_of(profile);
  const std::vector<std::vector<uint64_t>> callees = callees_of(profile);
  const std::vector<symbols::PerfMap> maps = load_all(naming.generated);
  in_parallel(named.size(), [&](size_t i) {
    const auto module = static_cast<uint32_t>(i);
    const auto blocks = blocks_of(profile.tables.blocks, module);
    if (blocks.empty() && callers[i].empty()) return;
    if (profile.modules[i].inode == 0 && profile.modules[i].path != "[vdso]" && !maps.empty())
      return name_generated(named[i], module, profile.modules[i].address, blocks, callers[i], maps);
    auto symbols = load_symbols(profile.modules[i], code, naming.started, notes, named[i].file);
    if (!symbols) {
      if (!profile.modules[i].path.empty()) detail("{}", symbols.error().message);
      return;
    }
    named[i].symbols = std::move(*symbols);
    profile.modules[i].build_id = named[i].symbols->build_id();
    name_module(named[i], module, blocks, callers[i]);
    profile::append_rows(named[i].functions,
                         profile::functions_by_calls(blocks, callees[i], named[i].functions),
                         [](auto&) {});
    if (!named[i].file.valid()) return;
    const auto first = static_cast<size_t>(blocks.data() - profile.tables.blocks.data());
    named[i].inlined = std::make_unique<InlinedCode>(*named[i].symbols, module);
    named[i].inlined->count(profile, first, first + blocks.size(), named[i].file.get());
    profile.modules[i].inlining_known = named[i].inlined->known();
  });

  find_constants(named, profile.tables.values);

  profile::FunctionTable functions;
  std::vector<InlinedCode*> inlined;
  for (NamedModule& module : named) {
    std::move(module.functions.begin(), module.functions.end(), std::back_inserter(functions));
    inlined.push_back(module.inlined.get());
  }
  InlinedCode::fill_errors(profile, inlined);
  profile::attribute_functions(profile, std::move(functions));
  if (naming.inclusive == Inclusive::estimate) profile::estimate_inclusive(profile);
  for (InlinedCode* const module : inlined) {
    if (module == nullptr) continue;
    profile::append_rows(profile.inlined, module->rows(profile), [](auto&) {});
  }
  const auto line_of = [&](CodeRef at) -> std::optional<profile::SourceLine> {
    if (named[at.module].symbols == nullptr) return std::nullopt;
    for (SourceFrame& frame : named[at.module].symbols->lines(at.offset))
      if (frame.line != 0) return profile::SourceLine{std::move(frame.file), frame.line};
    return std::nullopt;
  };
  profile.hotlists = profile::compute_hotlists(profile, naming.top, line_of);
  if (naming.hide_values) profile::hide_values(profile);
  for (const NamedModule& module : named)
    if (module.symbols != nullptr) module.symbols->keep_notes();
}

std::vector<symbols::PerfMapPlace> perf_maps_of(const std::vector<Tid>& programs) {
  std::vector<symbols::PerfMapPlace> places;
  for (const Tid program : programs)
    if (auto place = symbols::PerfMapPlace::of(program.value)) places.push_back(std::move(*place));
  return places;
}

}  // namespace shadowprof::sample

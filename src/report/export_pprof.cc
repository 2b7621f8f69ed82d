// SPDX-License-Identifier: MIT
//
// pprof's protobuf (report/pprof.proto), uncompressed; whoever writes it compresses it. A sample is
// one place in code with the instructions executed there, and its callers where the profile has
// calling contexts; inlined calls are lines of its location.
#include <algorithm>
#include <limits>
#include <map>

#include <pprof.pb.h>
#include "base/printable.h"
#include "report/export.h"
#include "report/stacks.h"

namespace shadowprof::report {
namespace {

class Builder {
 public:
  explicit Builder(const ExportInput& input) : input_(input) { string_index(""); }

  Result<std::string> build() {
    const profile::Profile& p = input_.profile;
    pprof::ValueType* type = out_.add_sample_type();
    type->set_type(string_index("instructions"));
    type->set_unit(string_index("count"));
    out_.mutable_period_type()->CopyFrom(*type);
    out_.set_period(1);
    out_.set_duration_nanos(static_cast<int64_t>(std::clamp(p.run.duration_s, 0.0, 1e9) * 1e9));
    std::string command;
    for (const std::string& word : p.run.command) command += (command.empty() ? "" : " ") + word;
    if (!command.empty()) out_.add_comment(string_index(command));
    const std::vector<Stack> all = stacks(p, input_.modules);
    add_mappings(all);
    for (const Stack& stack : all) add_sample(stack);
    std::string bytes;
    if (!out_.SerializeToString(&bytes)) return fail("the profile is too large for pprof");
    return bytes;
  }

 private:
  // Strings of this format are UTF-8, and what shows them prints them as they are.
  int64_t string_index(const std::string& text) {
    const auto [at, added] = strings_.try_emplace(text, static_cast<int64_t>(strings_.size()));
    if (added) out_.add_string_table(printable(text));
    return at->second;
  }

  // Pprof finds the mapping of an address by its range: the profile knows where code was executed.
  void add_mappings(const std::vector<Stack>& all) {
    const auto& modules = input_.profile.modules;
    std::vector<uint64_t> end(modules.size(), 1);
    for (const profile::BlockCount& b : input_.profile.tables.blocks)
      end[b.at.module] = std::max(end[b.at.module], b.at.offset + b.size);
    for (const profile::ContextRow& c : input_.profile.tables.contexts)
      end[c.at.module] = std::max(end[c.at.module], c.at.offset + 1);
    std::vector<bool> has_lines(modules.size());
    for (const Stack& s : all)
      if (s.frames[0].line != 0) has_lines[s.at.module] = true;
    for (size_t i = 0; i < modules.size(); i++) {
      pprof::Mapping* m = out_.add_mapping();
      m->set_id(i + 1);
      m->set_memory_start(modules[i].address);
      m->set_memory_limit(modules[i].address + end[i]);
      m->set_filename(string_index(modules[i].path.empty() ? "[anonymous]" : modules[i].path));
      m->set_build_id(string_index(modules[i].build_id));
      m->set_has_functions(true);
      m->set_has_filenames(has_lines[i]);
      m->set_has_line_numbers(has_lines[i]);
      m->set_has_inline_frames(has_lines[i]);
    }
  }

  uint64_t function_id(const StackFrame& f) {
    const std::tuple key(f.name, f.linkage_name, f.file, f.function_line);
    const auto [at, added] = functions_.try_emplace(key, functions_.size() + 1);
    if (added) {
      pprof::Function* out = out_.add_function();
      out->set_id(at->second);
      out->set_name(string_index(f.name));
      out->set_system_name(string_index(f.linkage_name));
      out->set_filename(string_index(f.file));
      out->set_start_line(f.function_line);
    }
    return at->second;
  }

  // A caller is a function: which line of it calls is not known.
  uint64_t caller_location(const Caller& caller) {
    const std::pair key(caller.at, caller.frame.name);
    if (const auto known = callers_.find(key); known != callers_.end()) return known->second;
    const auto id = static_cast<uint64_t>(out_.location_size()) + 1;
    pprof::Location* location = out_.add_location();
    location->set_id(id);
    if (caller.at) {
      location->set_mapping_id(caller.at->module + 1);
      location->set_address(input_.profile.modules[caller.at->module].address + caller.at->offset);
    }
    pprof::Line* line = location->add_line();
    line->set_function_id(function_id(caller.frame));
    line->set_line(caller.frame.function_line);
    return callers_[key] = id;
  }

  void add_sample(const Stack& stack) {
    const auto id = static_cast<uint64_t>(out_.location_size()) + 1;
    pprof::Location* location = out_.add_location();
    location->set_id(id);
    location->set_mapping_id(stack.at.module + 1);
    location->set_address(input_.profile.modules[stack.at.module].address + stack.at.offset);
    for (auto f = stack.frames.rbegin(); f != stack.frames.rend(); ++f) {
      pprof::Line* line = location->add_line();
      line->set_function_id(function_id(*f));
      line->set_line(f->line);
    }
    pprof::Sample* sample = out_.add_sample();
    sample->add_location_id(id);
    for (auto c = stack.callers.rbegin(); c != stack.callers.rend(); ++c)
      sample->add_location_id(caller_location(*c));
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    sample->add_value(static_cast<int64_t>(std::min(stack.instructions, kMost)));
  }

  const ExportInput& input_;
  pprof::Profile out_;
  std::map<std::string, int64_t> strings_;
  std::map<std::tuple<std::string, std::string, std::string, uint32_t>, uint64_t> functions_;
  std::map<std::pair<std::optional<profile::CodeRef>, std::string>, uint64_t> callers_;
};

}  // namespace

Result<std::string> export_pprof(const ExportInput& input) {
  return Builder(input).build();
}

}  // namespace shadowprof::report

// SPDX-License-Identifier: MIT
//
// OpenTelemetry's profiles (report/otlp.proto), uncompressed: the message that files have. A
// profile has values of one kind, so there are two: processor time, where it was measured, whose
// samples have their threads as attributes, and instructions, which are not known by thread.
#include <map>

#include <otlp.pb.h>
#include "base/printable.h"
#include "report/export.h"
#include "report/run_facts.h"
#include "report/time_stacks.h"

namespace shadowprof::report {
namespace {

// Strings of this format are UTF-8, and what shows them prints them as they are.
otlp::AnyValue text_value(const std::string& text) {
  otlp::AnyValue value;
  value.set_string_value(printable(text));
  return value;
}

otlp::AnyValue number_value(int64_t number) {
  otlp::AnyValue value;
  value.set_int_value(number);
  return value;
}

// The tables that all profiles share. Index 0 is nothing in each of them.
class Dictionary {
 public:
  Dictionary(const profile::Profile& profile, otlp::ProfilesDictionary* out)
      : profile_(profile), out_(*out), module_ends_(module_ends(profile)) {
    out_.add_mapping_table();
    out_.add_location_table();
    out_.add_function_table();
    otlp::Link* link = out_.add_link_table();
    link->set_trace_id(std::string(16, '\0'));
    link->set_span_id(std::string(8, '\0'));
    out_.add_attribute_table();
    out_.add_stack_table();
    string_index("");
  }

  int32_t string_index(const std::string& text) {
    const auto [at, added] = strings_.try_emplace(text, out_.string_table_size());
    if (added) out_.add_string_table(printable(text));
    return at->second;
  }

  // `leaf` are the calls inlined at a place, outermost first.
  int32_t stack_index(std::optional<profile::CodeRef> at, const std::vector<StackFrame>& leaf,
                      const std::vector<Caller>& callers, bool kernel) {
    std::vector<int32_t> locations;
    if (kernel) locations.push_back(location_index(std::nullopt, {{kKernelFrame, "", "", 0, 0}}));
    locations.push_back(location_index(at, leaf));
    for (auto c = callers.rbegin(); c != callers.rend(); ++c)
      locations.push_back(location_index(c->at, {c->frame}));
    const auto [known, added] = stacks_.try_emplace(locations, out_.stack_table_size());
    if (added) {
      otlp::Stack* stack = out_.add_stack_table();
      for (int32_t location : locations) stack->add_location_indices(location);
    }
    return known->second;
  }

  int32_t attribute_index(const std::string& key, const otlp::AnyValue& value) {
    const std::pair id(key, value.SerializeAsString());
    const auto [at, added] = attributes_.try_emplace(id, out_.attribute_table_size());
    if (added) {
      const int32_t name = string_index(key);
      otlp::KeyValueAndUnit* attribute = out_.add_attribute_table();
      attribute->set_key_strindex(name);
      *attribute->mutable_value() = value;
    }
    return at->second;
  }

 private:
  int32_t mapping_index(uint32_t module) {
    const auto [at, added] = mappings_.try_emplace(module, out_.mapping_table_size());
    if (!added) return at->second;
    const profile::Module& m = profile_.modules[module];
    otlp::Mapping* mapping = out_.add_mapping_table();
    mapping->set_memory_start(m.address);
    mapping->set_memory_limit(m.address + module_ends_[module]);
    mapping->set_filename_strindex(string_index(m.path.empty() ? "[anonymous]" : m.path));
    if (!m.build_id.empty())
      mapping->add_attribute_indices(
          attribute_index("process.executable.build_id.gnu", text_value(m.build_id)));
    return at->second;
  }

  int32_t function_index(const StackFrame& f) {
    const std::tuple key(f.name, f.linkage_name, f.file, f.function_line);
    const auto [at, added] = functions_.try_emplace(key, out_.function_table_size());
    if (added) {
      otlp::Function* function = out_.add_function_table();
      function->set_name_strindex(string_index(f.name));
      function->set_system_name_strindex(string_index(f.linkage_name));
      function->set_filename_strindex(string_index(f.file));
      function->set_start_line(f.function_line);
    }
    return at->second;
  }

  // A caller is a function: which line of it calls is not known. Without a place there is the
  // kernel, or a name for callers that are not known.
  int32_t location_index(std::optional<profile::CodeRef> at,
                         const std::vector<StackFrame>& frames) {
    const std::pair key(at ? int64_t{at->module} : -1, frames);
    const auto [known, added] = locations_.try_emplace(key, out_.location_table_size());
    if (!added) return known->second;
    otlp::Location* location = out_.add_location_table();
    if (at) {
      location->set_mapping_index(mapping_index(at->module));
      location->set_address(profile_.modules[at->module].address + at->offset);
    }
    for (auto f = frames.rbegin(); f != frames.rend(); ++f) {
      otlp::Line* line = location->add_lines();
      line->set_function_index(function_index(*f));
      line->set_line(f->line);
    }
    const bool kernel = frames[0].name == kKernelFrame;
    if (at || kernel)
      location->add_attribute_indices(
          attribute_index("profile.frame.type", text_value(kernel ? "kernel" : "native")));
    return known->second;
  }

  const profile::Profile& profile_;
  otlp::ProfilesDictionary& out_;
  std::vector<uint64_t> module_ends_;
  std::map<std::string, int32_t> strings_;
  std::map<uint32_t, int32_t> mappings_;
  std::map<std::tuple<std::string, std::string, std::string, uint32_t>, int32_t> functions_;
  std::map<std::pair<int64_t, std::vector<StackFrame>>, int32_t> locations_;  // by module
  std::map<std::vector<int32_t>, int32_t> stacks_;
  std::map<std::pair<std::string, std::string>, int32_t> attributes_;
};

class Builder {
 public:
  explicit Builder(const ExportInput& input)
      : input_(input), dictionary_(input.profile, out_.mutable_dictionary()) {}

  Result<std::string> build() {
    otlp::ResourceProfiles* resource = out_.add_resource_profiles();
    describe(resource->mutable_resource());
    otlp::ScopeProfiles* scope = resource->add_scope_profiles();
    scope->mutable_scope()->set_name("shadowprof");
    scope->mutable_scope()->set_version(printable(input_.profile.tool_version));
    // Readers show the first one.
    if (const auto times = time_stacks(input_.profile, input_.modules); !times.empty())
      add_times(scope->add_profiles(), times);
    add_instructions(scope->add_profiles());
    std::string bytes;
    if (!out_.SerializeToString(&bytes)) return fail("the profile is too large for OTLP");
    return bytes;
  }

 private:
  using Key = std::pair<int32_t, uint32_t>;  // stack, thread

  static void add(otlp::Resource* resource, const char* key, const otlp::AnyValue& value) {
    otlp::KeyValue* attribute = resource->add_attributes();
    attribute->set_key(key);
    *attribute->mutable_value() = value;
  }

  void describe(otlp::Resource* resource) {
    const profile::Run& run = input_.profile.run;
    const std::string service = input_.service.empty() ? program_name(run) : input_.service;
    if (!service.empty()) add(resource, "service.name", text_value(service));
    if (!input_.host.empty()) add(resource, "host.name", text_value(input_.host));
    if (!run.host.cpu.empty()) add(resource, "host.cpu.model.name", text_value(run.host.cpu));
    if (!run.host.kernel.empty()) add(resource, "os.version", text_value(run.host.kernel));
    add(resource, "os.type", text_value("linux"));
    if (run.pid != 0 && run.merged.empty()) add(resource, "process.pid", number_value(run.pid));
    if (run.command.empty()) return;
    otlp::AnyValue words;
    for (const std::string& word : run.command)
      *words.mutable_array_value()->add_values() = text_value(word);
    add(resource, "process.command_args", words);
  }

  void set_type(otlp::ValueType* type, const char* name, const char* unit) {
    type->set_type_strindex(dictionary_.string_index(name));
    type->set_unit_strindex(dictionary_.string_index(unit));
  }

  void set_facts(otlp::Profile* profile, const char* type, const char* unit, uint64_t period) {
    set_type(profile->mutable_sample_type(), type, unit);
    set_type(profile->mutable_period_type(), type, unit);
    profile->set_period(as_signed(period));
    const profile::Run& run = input_.profile.run;
    profile->set_time_unix_nano(static_cast<uint64_t>(started_us(run.started)) * 1000);
    profile->set_duration_nano(duration_ns(run));
  }

  void add_times(otlp::Profile* profile, const std::vector<ThreadStack>& stacks) {
    set_facts(profile, "cpu", "nanoseconds", tick_ns(input_.profile.time));
    std::map<Key, uint64_t> sums;
    for (const ThreadStack& s : stacks)
      sums[{dictionary_.stack_index(s.at, s.frames, s.callers, s.kernel), s.thread}] += s.amount;
    for (const auto& [key, ns] : sums) {
      otlp::Sample* sample = profile->add_samples();
      sample->set_stack_index(key.first);
      sample->add_values(as_signed(ns));
      const profile::ThreadRow& thread = input_.profile.threads[key.second];
      add_attribute(sample, "thread.name", text_value(thread.name));
      // 0 is what threads of several runs have.
      if (thread.tid != 0) add_attribute(sample, "thread.id", number_value(thread.tid));
      if (thread.process != 0) add_attribute(sample, "process.pid", number_value(thread.process));
    }
  }

  void add_instructions(otlp::Profile* profile) {
    set_facts(profile, "instructions", "count", 1);
    std::map<int32_t, uint64_t> sums;
    for (const Stack& s : stacks(input_.profile, input_.modules))
      sums[dictionary_.stack_index(s.at, s.frames, s.callers, false)] += s.instructions;
    for (const auto& [stack, instructions] : sums) {
      otlp::Sample* sample = profile->add_samples();
      sample->set_stack_index(stack);
      sample->add_values(as_signed(instructions));
    }
  }

  void add_attribute(otlp::Sample* sample, const char* key, const otlp::AnyValue& value) {
    sample->add_attribute_indices(dictionary_.attribute_index(key, value));
  }

  const ExportInput& input_;
  otlp::ProfilesData out_;
  Dictionary dictionary_;
};

}  // namespace

Result<std::string> export_otlp(const ExportInput& input) {
  return Builder(input).build();
}

}  // namespace shadowprof::report

// SPDX-License-Identifier: MIT
//
// pprof's protobuf (report/pprof.proto), uncompressed; whoever writes it compresses it. A sample is
// one place in code with the instructions executed there, and its callers where the profile has
// calling contexts; inlined calls are lines of its location. Where time was measured there are more
// samples, whose second value it is, and whose labels are thread, thread_id and process_id:
// instructions are not known by thread.
#include <map>

#include <pprof.pb.h>
#include "base/printable.h"
#include "report/export.h"
#include "report/run_facts.h"
#include "report/time_stacks.h"

namespace shadowprof::report {
namespace {

class PprofBuilder {
 public:
  explicit PprofBuilder(const ExportInput& input) : input_(input) { string_index(""); }

  Result<std::string> build() {
    const profile::Profile& p = input_.profile;
    const std::vector<Stack> all = stacks(p, input_.modules);
    const std::vector<ThreadStack> times = time_stacks(p, input_.modules);
    has_time_ = !times.empty();
    add_types();
    out_.set_time_nanos(started_us(p.run.started) * 1000);
    out_.set_duration_nanos(static_cast<int64_t>(duration_ns(p.run)));
    const std::string command = command_line(p.run.command);
    if (!command.empty()) out_.add_comment(string_index(command));
    add_mappings(all);
    for (const Stack& stack : all) add_instructions(stack);
    for (const ThreadStack& stack : times) add_time(stack);
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

  void set_type(pprof::ValueType* type, const char* name, const char* unit) {
    type->set_type(string_index(name));
    type->set_unit(string_index(unit));
  }

  void add_types() {
    set_type(out_.add_sample_type(), "instructions", "count");
    pprof::ValueType* period = out_.mutable_period_type();
    if (has_time_) {
      set_type(out_.add_sample_type(), "cpu", "nanoseconds");
      set_type(period, "cpu", "nanoseconds");
      out_.set_period(static_cast<int64_t>(tick_ns(input_.profile.time)));
      out_.set_default_sample_type(string_index("cpu"));
    } else {
      set_type(period, "instructions", "count");
      out_.set_period(1);
    }
  }

  // Pprof finds the mapping of an address by its range: the profile knows where code was executed.
  void add_mappings(const std::vector<Stack>& all) {
    const auto& modules = input_.profile.modules;
    const std::vector<uint64_t> end = module_ends(input_.profile);
    std::vector<bool> has_lines(modules.size());
    for (const Stack& s : all)
      if (s.at && s.frames[0].line != 0) has_lines[s.at->module] = true;
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

  // `frames` are the function and the calls inlined at a place, outermost first. A caller is a
  // function: which line of it calls is not known.
  uint64_t location_id(std::optional<profile::CodeRef> at, const std::vector<StackFrame>& frames) {
    const std::pair key(at ? int64_t{at->module} : -1, frames);
    if (const auto known = locations_.find(key); known != locations_.end()) return known->second;
    const auto id = static_cast<uint64_t>(out_.location_size()) + 1;
    pprof::Location* location = out_.add_location();
    location->set_id(id);
    if (at) {
      location->set_mapping_id(at->module + 1);
      location->set_address(input_.profile.modules[at->module].address + at->offset);
    }
    for (auto f = frames.rbegin(); f != frames.rend(); ++f) {
      pprof::Line* line = location->add_line();
      line->set_function_id(function_id(*f));
      line->set_line(f->line);
    }
    return locations_[key] = id;
  }

  void add_callers(pprof::Sample* sample, const std::vector<Caller>& callers) {
    for (auto c = callers.rbegin(); c != callers.rend(); ++c)
      sample->add_location_id(location_id(c->at, {c->frame}));
  }

  void add_instructions(const Stack& stack) {
    pprof::Sample* sample = out_.add_sample();
    sample->add_location_id(location_id(stack.at, stack.frames));
    add_callers(sample, stack.callers);
    sample->add_value(as_signed(stack.instructions));
    if (has_time_) sample->add_value(0);
  }

  void add_time(const ThreadStack& stack) {
    pprof::Sample* sample = out_.add_sample();
    if (stack.kernel)
      sample->add_location_id(location_id(std::nullopt, {{kKernelFrame, kKernelFrame, "", 0, 0}}));
    sample->add_location_id(location_id(stack.at, stack.frames));
    add_callers(sample, stack.callers);
    sample->add_value(0);
    sample->add_value(as_signed(stack.amount));
    const profile::ThreadRow& thread = input_.profile.threads[stack.thread];
    pprof::Label* name = sample->add_label();
    name->set_key(string_index("thread"));
    name->set_str(string_index(thread.name));
    add_number(sample, "thread_id", thread.tid);
    add_number(sample, "process_id", thread.process);
  }

  // 0 is what threads of several runs have.
  void add_number(pprof::Sample* sample, const char* key, int64_t number) {
    if (number == 0) return;
    pprof::Label* label = sample->add_label();
    label->set_key(string_index(key));
    label->set_num(number);
  }

  const ExportInput& input_;
  pprof::Profile out_;
  std::map<std::string, int64_t> strings_;
  std::map<std::tuple<std::string, std::string, std::string, uint32_t>, uint64_t> functions_;
  std::map<std::pair<int64_t, std::vector<StackFrame>>, uint64_t> locations_;  // by module
  bool has_time_ = false;
};

}  // namespace

Result<std::string> export_pprof(const ExportInput& input) {
  return PprofBuilder(input).build();
}

}  // namespace shadowprof::report

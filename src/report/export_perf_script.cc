// SPDX-License-Identifier: MIT
//
// Text as `perf script` prints it: processor time by thread where the profile has it, else
// instructions.
//
// Readers differ in what they count: stackcollapse-perf.pl sums up periods, the Firefox profiler
// counts events, and speedscope takes the time from one event of a thread to the next. So that all
// of them see the same, a stack is as many events as it has of one period; together these have
// exactly what the stack has. Stacks with less than half a period are one stack of their thread.
// The profile does not know when each stack was there: the events of a thread follow one another,
// each in the middle of its period, by how much the thread had used until then.
#include <algorithm>

#include "report/columns.h"
#include "report/export.h"
#include "report/time_stacks.h"

namespace shadowprof::report {
namespace {

constexpr uint64_t kPeriods = 10'000;
constexpr size_t kMostNameCharacters = 1000;

// Without what would end it for a reader: a blank or a parenthesis.
std::string perf_word(const std::string& text) {
  std::string result = printable(text);
  for (char& c : result)
    if (c == ' ' || c == '(' || c == ')') c = '_';
  return result;
}

// A line that begins with these is no event.
std::string command(const std::string& name) {
  std::string result = name.empty() ? "unknown" : perf_word(name);
  if (result[0] == '#' || result[0] == '{') result[0] = '_';
  return result;
}

// What begins with a parenthesis is skipped by readers, which takes it for the name of a process.
std::string symbol(const std::string& name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  // What is cut off is not looked at: a character has four bytes at most.
  std::string text = printable(std::string_view(name).substr(0, 4 * kMostNameCharacters + 4));
  for (size_t at = text.find(kAnonymous); at != std::string::npos; at = text.find(kAnonymous, at))
    text.replace(at, kAnonymous.size(), "{anonymous}");
  if (text.empty() || text[0] == '(') text.insert(0, "_");
  return fit(text, kMostNameCharacters);
}

class Writer {
 public:
  explicit Writer(const ExportInput& input) : profile_(input.profile) {
    StacksOfThreads all = stacks_of_threads(profile_, input.modules);
    stacks_ = std::move(all.stacks);
    threads_ = std::move(all.threads);
    if (!all.is_time) event_ = "instructions";
    for (const ThreadStack& stack : stacks_) all_ += stack.amount;
    period_ = std::max<uint64_t>(1, all_ / kPeriods);
  }

  Result<std::string> write() {
    if (stacks_.empty()) return fail("there is no code in the profile");
    for (size_t i = 0; i < stacks_.size(); i++) {
      const ThreadStack& stack = stacks_[i];
      const uint64_t events = (stack.amount + period_ / 2) / period_;
      if (events == 0)
        small_ += stack.amount;
      else
        add(stack.thread, stack.amount, events, lines(stack));
      if (i + 1 == stacks_.size() || stacks_[i + 1].thread != stack.thread)
        end_thread(stack.thread);
    }
    return std::move(text_);
  }

 private:
  std::string lines(const ThreadStack& stack) const {
    std::string text;
    if (stack.kernel) text += line(~0ull, kKernelFrame, "[kernel.kallsyms]");
    for (size_t i = stack.frames.size() - 1; i > 0; i--)
      text += line(address(*stack.at), symbol(stack.frames[i].name), "inlined");
    text += any_line(stack.at, stack.frames[0]);
    for (auto c = stack.callers.rbegin(); c != stack.callers.rend(); ++c)
      text += any_line(c->at, c->frame);
    return text;
  }

  uint64_t address(profile::CodeRef at) const {
    return profile_.modules[at.module].address + at.offset;
  }

  std::string any_line(std::optional<profile::CodeRef> at, const StackFrame& frame) const {
    return at ? code_line(*at, frame) : line(0, symbol(frame.name), "[unknown]");
  }

  std::string code_line(profile::CodeRef at, const StackFrame& frame) const {
    const profile::Module& module = profile_.modules[at.module];
    const profile::Function* f = find_function(profile_.functions, at);
    std::string name = symbol(frame.name);
    if (f != nullptr) name += fmt::format("+{:#x}", at.offset - f->at.offset);
    return line(address(at), name,
                perf_word(module.path.empty() ? module_label(module) : module.path));
  }

  static std::string line(uint64_t address, const std::string& name, const std::string& file) {
    return fmt::format("{:>20x} {} ({})\n", address, name, file);
  }

  void add(uint32_t thread, uint64_t amount, uint64_t events, const std::string& lines) {
    const profile::ThreadRow& row = threads_[thread];
    for (uint64_t i = 0; i < events; i++) {
      const uint64_t period = amount / events + (i < amount % events ? 1 : 0);
      const uint64_t middle = used_ + period / 2;
      text_ +=
          fmt::format("{}  {}/{} {}.{:09}: {} {}:\n{}\n", command(row.name), row.process, row.tid,
                      middle / 1'000'000'000, middle % 1'000'000'000, period, event_, lines);
      used_ += period;
    }
  }

  void end_thread(uint32_t thread) {
    const uint64_t events = std::max<uint64_t>(1, (small_ + period_ / 2) / period_);
    if (small_ != 0) add(thread, small_, events, line(0, "[other stacks]", "[unknown]"));
    small_ = used_ = 0;
  }

  const profile::Profile& profile_;
  std::vector<ThreadStack> stacks_;
  profile::ThreadTable threads_;
  const char* event_ = "cpu-clock";
  uint64_t all_ = 0;
  uint64_t period_ = 1;
  uint64_t small_ = 0;  // of this thread: in stacks too small for an event
  uint64_t used_ = 0;   // by this thread until now
  std::string text_;
};

}  // namespace

Result<std::string> export_perf_script(const ExportInput& input) {
  return Writer(input).write();
}

}  // namespace shadowprof::report

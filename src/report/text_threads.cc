// SPDX-License-Identifier: MIT
//
// The list of threads, and what is said of some of them alone (profile/thread_view.h).
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "profile/hotlists/unnamed_code.h"
#include "report/short_names.h"
#include "report/text_renderer.h"

namespace shadowprof::report {
namespace {

// Where a thread was most of the time, or what it executed most of where time was not measured, and
// how much of it.
std::string busiest(const profile::Profile& profile, uint32_t thread, size_t columns) {
  std::map<std::string, uint64_t> spent;  // by name
  uint64_t all = 0;
  const auto add = [&](profile::CodeRef at, uint64_t cost) {
    const profile::Function* f = profile::find_function(profile.functions, at);
    spent[f != nullptr ? short_name(f->name)
                       : profile::unknown_code_name(profile.modules[at.module])] += cost;
  };
  const profile::ThreadRow& row = profile.threads[thread];
  if (profile.time.is_known()) {
    for (const profile::TimeRow& time : profile.tables.time)
      if (time.thread == thread) add(time.at, time.user_ns + time.kernel_ns);
    all = row.user_ns + row.kernel_ns;
  } else {
    for (const profile::ThreadCodeRow& code : profile.tables.thread_code)
      if (code.thread == thread) add(code.at, code.instructions);
    all = row.instructions;
  }
  const auto most = std::ranges::max_element(spent, {}, [](const auto& f) { return f.second; });
  if (most == spent.end() || most->second == 0 || all == 0) return "";
  const double share = static_cast<double>(most->second) / static_cast<double>(all);
  return percent(std::min(1.0, share)) + " " +
         fit_name(printable(most->first), columns - std::min<size_t>(columns, 7));
}

std::string id_of(int64_t id) {
  return id == 0 ? "-" : std::to_string(id);
}

// Where all that are known are one, nobody needs its number.
bool has_processes(const profile::ThreadTable& threads) {
  std::set<int64_t> processes;
  for (const profile::ThreadRow& t : threads)
    if (t.process != 0) processes.insert(t.process);
  return processes.size() > 1;
}

std::string words_of(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

}  // namespace

std::vector<uint32_t> Renderer::threads_in_order() const {
  const profile::ThreadTable& all = profile_.threads;
  std::vector<uint32_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](uint32_t i) {
    return std::pair(all[i].user_ns + all[i].kernel_ns, all[i].instructions);
  });
  return order;
}

// Its share of all time, with what of it the kernel had.
std::string Renderer::time_of_thread(const profile::ThreadRow& t) const {
  const double all_ns = 1e9 * profile_.time.seconds();
  const auto part = [&](uint64_t ns) { return all_ns > 0 ? static_cast<double>(ns) / all_ns : 0; };
  const double share = part(t.user_ns + t.kernel_ns);
  return fmt::format("{:>7} {:<5} {:>7}", percent(share),
                     fmt::format("{:.1f}", 100 * profile_.time.error_of(share)),
                     percent(part(t.kernel_ns)));
}

double Renderer::share_of_thread(const profile::ThreadRow& t) const {
  if (profile_.time.is_known())
    return profile_.time.seconds() > 0
               ? 1e-9 * static_cast<double>(t.user_ns + t.kernel_ns) / profile_.time.seconds()
               : 0;
  return static_cast<double>(t.instructions) /
         static_cast<double>(std::max<uint64_t>(profile_.coverage.attributed, 1));
}

// One alone is the whole program.
void Renderer::threads() {
  const profile::ThreadTable& all = profile_.threads;
  const bool by_time = profile_.time.is_known();
  if ((!by_time && profile_.tables.thread_code.empty()) || all.size() < 2 || options_.filtered)
    return;
  heading(by_time ? "Threads (by processor time)" : "Threads (by instructions)");
  line(by_time ? "   time ±      kernel      tid  name             most of it in"
               : "  instr    count      tid  name             most of it in");
  const std::vector<uint32_t> order = threads_in_order();
  const size_t shown = std::min(options_.limit, all.size());
  for (size_t k = 0; k < shown; k++) {
    const profile::ThreadRow& t = all[order[k]];
    const double share = share_of_thread(t);
    const std::string figures =
        by_time ? time_of_thread(t)
                : fmt::format("{:>7} {:>8}", percent(share), short_count(t.instructions));
    line(colored(share, figures + fmt::format(" {:>8}", id_of(t.tid))) + "  " +
         left(printable(t.name), 16) + " " +
         busiest(profile_, order[k], columns_ - (by_time ? 50 : 45)));
  }
  more(shown, all.size(), all.size());
}

// With all that is known of each, as far as there is room.
std::string Renderer::render_threads() {
  constexpr size_t kName = 16, kLeastWhere = 15;
  const profile::ThreadTable& all = profile_.threads;
  const bool by_time = profile_.time.is_known();
  const bool by_code = !profile_.tables.thread_code.empty();
  const bool in_processes = has_processes(all);
  const bool has_samples = !in_processes || columns_ >= 90;
  heading(by_time ? "Threads (by processor time)" : "Threads (by instructions)");
  std::string head = by_time ? "   time ±      kernel" : "";
  if (by_code) head += margins_ ? "   instr ±        count" : "   instr    count";
  head += has_samples ? "  samples      tid" : "      tid";
  if (in_processes) head += "  process";
  const size_t used = width(head) + 2 + kName + 1;
  const size_t room = columns_ - std::min(columns_, used);
  line(head + "  " + left("name", kName) + (room >= kLeastWhere ? " most of it in" : ""));
  const std::vector<uint32_t> order = threads_in_order();
  const size_t shown = std::min(options_.limit, all.size());
  for (size_t k = 0; k < shown; k++) {
    const profile::ThreadRow& t = all[order[k]];
    std::string figures = by_time ? time_of_thread(t) : "";
    if (by_code) figures += code_of_thread(t);
    if (has_samples) figures += fmt::format(" {:>8}", short_count(t.samples));
    figures += fmt::format(" {:>8}", id_of(t.tid));
    if (in_processes) figures += fmt::format(" {:>8}", id_of(t.process));
    line(colored(share_of_thread(t), figures) + "  " + left(printable(t.name), kName) + " " +
         (room >= kLeastWhere ? busiest(profile_, order[k], room) : ""));
  }
  more(shown, all.size(), all.size());
  if (!by_code) sentence("instructions are not known by thread");
  return std::move(text_);
}

std::string Renderer::code_of_thread(const profile::ThreadRow& t) const {
  const double share = static_cast<double>(t.instructions) /
                       static_cast<double>(std::max<uint64_t>(profile_.coverage.attributed, 1));
  return fmt::format(" {:>7}{} {:>8}", percent(share),
                     margin(profile::thread_share_error(profile_, t)), short_count(t.instructions));
}

// What was profiled, before it is said of which threads.
std::string Renderer::render_head() {
  warn();
  who_and_how();
  return std::move(text_);
}

void Renderer::whose(const profile::ThreadPart& part) {
  const profile::ThreadRow& first = part.threads.front();
  std::string text = fmt::format("thread {}", printable(first.name));
  if (part.threads.size() > 1)
    text = fmt::format("{} threads {}", part.threads.size(), printable(first.name));
  else if (first.tid != 0)
    text += fmt::format(" ({})", first.tid);
  const auto plus_minus = [](const profile::Margin& error) {
    return error && *error > 0 ? fmt::format(" ±{:.1f}", 100 * *error) : "";
  };
  text += ":";
  if (part.knows_code)
    text += fmt::format(" {}{} of the instructions", percent(part.instruction_share),
                        plus_minus(part.instruction_error));
  if (profile_.time.is_known())
    text += fmt::format("{} {}{} of the time", part.knows_code ? "," : "", percent(part.time_share),
                        plus_minus(part.time_error));
  sentence(text + "; shares below are parts of that");
}

// `profile_` is what the part has.
std::string Renderer::render_part(const profile::ThreadPart& part) {
  if (options_.summary) whose(part);
  methods();
  if (profile_.threads.size() > 1) threads();
  std::string unknown;
  for (const std::string& list : part.unknown)
    unknown += (unknown.empty() ? "" : ", ") + words_of(list);
  if (!unknown.empty()) {
    text_ += '\n';
    sentence("known of all threads together only: " + unknown);
  }
  return std::move(text_);
}

void Renderer::methods_of_threads() {
  const auto& all = profile_.hotlists.methods;
  const size_t shown = std::min(options_.limit, all.size());
  heading("Hot functions (by instructions of their own)");
  line("   self    instr  function");
  for (size_t i = 0; i < shown; i++) {
    const profile::HotMethod& m = all[i];
    line(colored(m.self_share,
                 fmt::format("{:>7} {:>8}", percent(m.self_share), short_count(m.self))) +
         "  " + named(m.at, columns_ - 18));
  }
  more(shown, all.size(), profile_.functions.size());
}

}  // namespace shadowprof::report

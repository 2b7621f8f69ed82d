// SPDX-License-Identifier: MIT
#include "report/text_report.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "profile/evidence.h"
#include "report/columns.h"

namespace shadowprof::report {

using profile::Place;
using profile::Profile;

namespace {

// From here on what ended samples early is worth a line: results lean to what could be sampled.
constexpr double kManyEndedEarly = 0.2;
constexpr double kWorthNaming = 0.05;  // of what sampling has cost

constexpr const char* kBeyond = "(beyond: slower than memory; a page fault, or an interruption)";

class Renderer {
 public:
  Renderer(const Profile& profile, const TextOptions& options)
      : profile_(profile),
        options_(options),
        offsets_(profile),
        columns_(std::max<size_t>(options.columns, 80)),
        margins_(profile.confidence.groups >= 2) {}

  bool estimated() const {
    const auto option = profile_.run.options.find("inclusive");
    return option != profile_.run.options.end() && option->second == "estimated";
  }

  std::string render() {
    if (options_.summary) {
      warn();
      summary();
    }
    methods();
    call_pairs();
    contexts();
    edges();
    paths();
    loads();
    memory();
    values();
    arguments();
    targets();
    if (options_.summary && !options_.filtered) not_collected();
    return std::move(text_);
  }

 private:
  void line(std::string_view content) {
    text_ += content;
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }

  // Rows that matter stand out: 10 % and more, 1 % and more.
  std::string colored(double share, const std::string& content) const {
    if (!options_.color || share < 0.01) return content;
    return fmt::format("\x1b[{}m{}\x1b[0m", share >= 0.1 ? "1;31" : "33", content);
  }
  // Half of the interval behind a share, in a column of its own.
  size_t margin_columns() const { return margins_ ? 6 : 0; }
  std::string margin(const profile::Margin& error) const {
    if (!margins_) return "";
    return error ? fmt::format(" {:<5}",
                               fmt::format("{:.{}f}", 100 * *error, *error < 0.00995 ? 2 : 1))
                 : std::string(6, ' ');
  }
  void heading(std::string_view title) {
    text_ += '\n';
    line(options_.color ? fmt::format("\x1b[1m{}\x1b[0m", title) : std::string(title));
  }
  std::string point_of(const Place& place, size_t columns) const {
    return point(place, columns, offsets_.of(place));
  }
  std::string load_text(const profile::HotLoad& load, size_t columns) const;
  std::string of_load(std::string what, const std::optional<Place>& load) const;
  std::string beside(const Place& place, const std::string& behind, size_t room) const;
  std::string position_after(const Place& before, const Place& at) const;
  std::string route(const std::vector<Place>& blocks) const;
  void warn();
  void summary();
  void sampling();
  void processor_time();
  void methods();
  void methods_by_time();
  double time_share(const profile::HotMethod& m) const;
  void call_pairs();
  void contexts();
  void edges();
  void paths();
  void loads();
  void memory();
  void values();
  void arguments();
  void targets();
  void not_collected();
  // Of `have` rows; the file's tables may hold more of them than its hotlists.
  void more(size_t shown, size_t have, size_t all, size_t uncertain = 0) {
    if (options_.filtered) all = have;
    const std::string rest =
        shown + uncertain < all ? fmt::format("... and {} more", all - shown - uncertain) : "";
    if (uncertain == 0) return rest.empty() ? void() : line("  " + rest);
    line(fmt::format("  {}{}{} more row{} not certain", rest, rest.empty() ? "" : "; ", uncertain,
                     uncertain == 1 ? " is" : "s are"));
  }
  // Those that are worth a line each (profile/evidence.h).
  template <typename Row>
  std::vector<const Row*> certain(const std::vector<Row>& rows, double Row::*share,
                                  profile::Margin Row::*error) const {
    std::vector<const Row*> all;
    for (const Row& row : rows)
      if (!margins_ || profile::is_certain(row.*share, row.*error)) all.push_back(&row);
    return all;
  }

  const Profile& profile_;
  const TextOptions& options_;
  FunctionOffsets offsets_;
  size_t columns_;
  bool margins_;  // shares have errors
  std::string text_;
};

// Before anything else: what all the rest has to be read with.
void Renderer::warn() {
  const auto part = profile::why_incomplete(profile_);
  const profile::Evidence evidence = profile::evidence_of(profile_);
  if (!part && evidence.enough) return;
  const std::string text = printable(part ? *part : evidence.advice);
  for (std::string_view rest = text; !rest.empty();) {
    size_t end = rest.size() <= columns_ ? rest.size() : rest.rfind(' ', columns_);
    if (end == rest.npos || end == 0) end = std::min(rest.find(' ', 1), rest.size());
    const std::string row = fit(rest.substr(0, end), columns_);
    line(options_.color ? fmt::format("\x1b[1;31m{}\x1b[0m", row) : row);
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
}

void Renderer::summary() {
  const profile::Run& run = profile_.run;
  const profile::Coverage& c = profile_.coverage;
  std::string command;
  for (const std::string& word : run.command)
    command += (command.empty() ? "" : " ") + printable(word);
  line(fit(command, columns_));
  for (size_t i = 1; i < run.images.size(); i++) {
    std::string words;
    for (const std::string& word : run.images[i].command) words += " " + printable(word);
    line(fit(fmt::format("then, after {:.2f} s:{}", run.images[i].at_s, words), columns_));
  }
  std::string end = "still running";
  if (run.exit)
    end = fmt::format("{} {}", run.exit->signalled ? "killed by signal" : "exit status",
                      run.exit->value);
  line(fit(fmt::format("{} mode, {} engine, {:.2f} s, {}", printable(run.mode),
                       printable(run.engine), run.duration_s, end),
           columns_));
  const auto share = c.share();
  line(fmt::format("{} instructions{}, {} of them profiled ({}{})", c.instructions_total,
                   !share ? " or more" : c.estimated ? " (estimated)" : "",
                   share ? percent(*share) : "an unknown share",
                   profile_.confidence.exact ? "exact, " : "",
                   c.dropped_instructions() == 0
                       ? "none dropped"
                       : fmt::format("{} dropped", c.dropped_instructions())));
  if (run.mode != "full" && c.samples != 0) sampling();
  processor_time();
  line(fmt::format("{} functions, {} blocks, {} edges, {} call pairs", profile_.functions.size(),
                   profile_.tables.blocks.size(), profile_.tables.edges.size(),
                   profile_.tables.calls.size()));
}

// The dearest causes, each that is a twentieth of all or more.
std::string costs_of(const std::map<std::string, double>& by_cause) {
  double all = 0;
  std::vector<std::pair<double, std::string>> causes;
  for (const auto& [cause, seconds] : by_cause) {
    all += seconds;
    causes.emplace_back(seconds, cause);
  }
  std::sort(causes.rbegin(), causes.rend());
  std::string text;
  for (auto& [seconds, cause] : causes) {
    if (all <= 0 || seconds < kWorthNaming * all) break;
    std::replace(cause.begin(), cause.end(), '_', ' ');
    text += fmt::format("{}{} {:.1f} ms", text.empty() ? "" : ", ", printable(cause), 1e3 * seconds);
  }
  return text;
}

// What a sampled profile stands on, and what it cost.
void Renderer::sampling() {
  const profile::Coverage& c = profile_.coverage;
  const profile::Overhead& o = profile_.overhead;
  line(fit(fmt::format("{} sample{}; overhead {} (budget {}); pauses {:.1f} ms in all, longest "
                       "{:.1f} ms",
                       c.samples, c.samples == 1 ? "" : "s", percent(o.estimated_share),
                       percent(o.budget_share), o.pause_s.total * 1e3, o.pause_s.max * 1e3),
           columns_));
  if (const std::string causes = costs_of(o.by_cause); !causes.empty())
    line(fit("what it cost: " + causes, columns_));
  if (margins_)
    line(
        fmt::format("± is half of the {:.0f} % interval, in percentage points, from {} groups of "
                    "samples",
                    100 * profile::kConfidenceLevel, profile_.confidence.groups));
  if (c.assumed_speeds)
    line(fit("shares of instructions take the program for equally fast everywhere: no sample tells",
             columns_));
  uint64_t all = 0, early = 0;
  std::vector<std::pair<uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : c.ended) {
    all += count;
    if (reason == "budget") continue;
    early += count;
    reasons.emplace_back(count, reason);
  }
  if (static_cast<double>(early) < kManyEndedEarly * static_cast<double>(all)) return;
  std::sort(reasons.rbegin(), reasons.rend());
  std::string text = fmt::format("{} of {} samples ended before their budget:", early, all);
  for (auto& [count, reason] : reasons) std::replace(reason.begin(), reason.end(), '_', ' ');
  for (size_t i = 0; i < std::min<size_t>(3, reasons.size()); i++)
    text += fmt::format("{} {} by {}", i == 0 ? "" : ",", reasons[i].first,
                        printable(reasons[i].second));
  line(fit(text, columns_));
}

// Where all of it was, before it is said which function had how much.
void Renderer::processor_time() {
  const profile::ProcessorTime& time = profile_.time;
  if (!time.is_known()) return;
  line(fit(fmt::format("{:.2f} s of processor time ({:.2f} the kernel's), {:.2f} s waiting; {} ticks{}",
                       time.seconds(), time.kernel_s, time.waiting_s, time.ticks,
                       time.lost == 0 ? "" : fmt::format(", {} lost", time.lost)),
           columns_));
}

// With the kernel's for it.
double Renderer::time_share(const profile::HotMethod& m) const {
  const double all_s = profile_.time.seconds();
  return all_s > 0 ? m.time.share + m.time.kernel_s / all_s : 0;
}

// Time first: instructions say how often, time says how long. A row is worth its line if it is certain
// by either.
void Renderer::methods_by_time() {
  const auto& all = profile_.hotlists.methods;
  std::vector<const profile::HotMethod*> rows;
  for (const profile::HotMethod& m : all) {
    const double share = time_share(m);
    const bool by_time = share > 0 && profile::is_certain(share, profile_.time.error_of(share));
    if (by_time || !margins_ || profile::is_certain(m.self_share, m.self_share_error))
      rows.push_back(&m);
  }
  const size_t shown = std::min(options_.limit, rows.size());
  heading(options_.sort.empty() || options_.sort == "time"
              ? "Hot functions (by processor time of their own)"
              : fmt::format("Hot functions (by {})", options_.sort));
  line("   time ±     kernel   instr  cyc/in    calls  function");
  const size_t room = columns_ - 51;
  const bool wide = columns_ >= 110;
  const size_t name_columns = wide ? room - 48 : room;
  for (size_t i = 0; i < shown; i++) {
    const profile::HotMethod& m = *rows[i];
    const double kernel = time_share(m) - m.time.share;
    const std::string cycles =
        m.time.cycles_per_insn > 0 ? fmt::format("{:.1f}", m.time.cycles_per_insn) : "-";
    const std::string figures = fmt::format(
        "{:>7} {:<5} {:>7} {:>7} {:>7} {:>8}", percent(m.time.share),
        fmt::format("{:.1f}", 100 * m.time.error), kernel > 0 ? percent(kernel) : "-",
        percent(m.self_share), cycles, short_count(m.invocations));
    std::string name = left(function_or_address(m.at), name_columns);
    if (wide) name += "  " + left(source(m.at), 24) + " " + fit(module_name(m.at), 20);
    line(colored(time_share(m), figures) + "  " + name);
  }
  more(shown, all.size(), profile_.functions.size(), all.size() - rows.size());
}

// A list that is missing says nothing; one that was not asked for is something else.
void Renderer::not_collected() {
  const auto asked = profile_.run.options.find("profile");
  if (asked == profile_.run.options.end()) return;
  const std::string had = "," + asked->second + ",";
  std::string missing;
  for (const char* kind : {"edge", "call", "method", "path", "value", "latency"})
    if (had.find(fmt::format(",{},", kind)) == std::string::npos)
      missing += (missing.empty() ? "" : ",") + std::string(kind);
  if (missing.empty()) return;
  text_ += '\n';
  line(fit(fmt::format("not collected: {} (--profile all, or +KIND)", missing), columns_));
}

void Renderer::methods() {
  if (profile_.time.is_known()) return methods_by_time();
  const auto& all = profile_.hotlists.methods;
  const auto rows = certain(all, &profile::HotMethod::self_share, &profile::HotMethod::self_share_error);
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot functions (by instructions of their own)");
  if (estimated()) line("(total: estimated from calls)");
  line(margins_ ? "   self ±       total    instr    calls    loops  function"
                : "   self   total    instr    calls    loops  function");
  // What is left for names; wide terminals have the source line and the file too.
  const size_t room = columns_ - 44 - margin_columns();
  const bool wide = columns_ >= 110;
  const size_t name_columns = wide ? room - 48 : room;
  for (size_t i = 0; i < shown; i++) {
    const profile::HotMethod& m = *rows[i];
    const std::string figures =
        fmt::format("{:>7}{} {:>7} {:>8} {:>8} {:>8}", percent(m.self_share),
                    margin(m.self_share_error), percent(m.inclusive_share), short_count(m.self),
                    short_count(m.invocations), short_count(m.loop_iterations));
    std::string name = left(function_or_address(m.at), name_columns);
    if (wide) name += "  " + left(source(m.at), 24) + " " + fit(module_name(m.at), 20);
    line(colored(m.self_share, figures) + "  " + name);
  }
  more(shown, all.size(), profile_.functions.size(), all.size() - rows.size());
}

// A place that shares `room` columns with what stands behind it: gets what that leaves over, since
// names that are cut off say little, and is filled up to half of it.
std::string Renderer::beside(const Place& place, const std::string& behind, size_t room) const {
  const size_t half = room - room / 2;
  const std::string text = point_of(place, std::max(half, room - std::min(room, behind.size())));
  return text.size() < half ? left(text, half) : text;
}

// A place in the same function as `before`: what differs of its line, or its address.
std::string Renderer::position_after(const Place& before, const Place& at) const {
  if (at.file.empty()) return fmt::format("+{:#x}", offsets_.of(at).value_or(at.offset));
  if (at.file == before.file) return fmt::format("line {}", at.line);
  return source(at);
}

void Renderer::call_pairs() {
  const auto& all = profile_.hotlists.call_pairs;
  const auto rows = certain(all, &profile::HotCallPair::share, &profile::HotCallPair::share_error);
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot calls (by count; * the callee is computed)");
  line(margins_ ? "  share ±       count    instr  call site -> callee"
                : "  share    count    instr  call site -> callee");
  const size_t room = columns_ - 27 - 6 - margin_columns();
  for (size_t i = 0; i < shown; i++) {
    const profile::HotCallPair& c = *rows[i];
    const std::string figures =
        fmt::format("{:>7}{} {:>8} {:>8}", percent(c.share), margin(c.share_error),
                    short_count(c.count), short_count(c.inclusive));
    const std::string callee = fit(function_or_address(c.callee), room / 2);
    line(colored(c.share, figures) + "  " + beside(c.site, callee, room) +
         (c.indirect ? " *> " : " -> ") + callee);
  }
  more(shown, all.size(), profile_.tables.calls.size(), all.size() - rows.size());
}

// "main > parse > read_line": the innermost frames are those that tell rows apart, so what there is
// no room for is left out at the other end.
std::string chain(const std::vector<Place>& frames, size_t columns) {
  std::string text;
  for (size_t i = frames.size(); i-- > 0;) {
    const std::string name = function_or_address(frames[i]);
    const std::string longer = text.empty() ? name : name + " > " + text;
    constexpr size_t kMark = 6;  // "... > "
    if (!text.empty() && longer.size() + (i > 0 ? kMark : 0) > columns) return "... > " + text;
    text = fit(longer, columns);
  }
  return text;
}

void Renderer::contexts() {
  const auto& listed = profile_.hotlists.contexts;
  if (listed.empty()) return;
  const auto rows = certain(listed, &profile::HotContext::share, &profile::HotContext::share_error);
  heading("Hot contexts (by instructions in just that chain of calls)");
  line(margins_ ? "  share ±       instr    calls  callers > function"
                : "  share    instr    calls  callers > function");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotContext& c = *rows[i];
    const std::string figures =
        fmt::format("{:>7}{} {:>8} {:>8}", percent(c.share), margin(c.share_error),
                    short_count(c.instructions), short_count(c.calls));
    line(colored(c.share, figures) + "  " + chain(c.frames, columns_ - 27 - margin_columns()));
  }
  const auto& all = profile_.tables.contexts;
  const auto executed = std::count_if(all.begin(), all.end(),
                                      [](const profile::ContextRow& c) { return c.self != 0; });
  more(std::min(options_.limit, rows.size()), listed.size(), static_cast<size_t>(executed),
       listed.size() - rows.size());
}

void Renderer::edges() {
  const auto& all = profile_.hotlists.edges;
  const auto rows = certain(all, &profile::HotEdge::share, &profile::HotEdge::share_error);
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot edges (by count)");
  line(margins_ ? "  share ±       count  kind           from -> to"
                : "  share    count  kind           from -> to");
  const size_t room = columns_ - 33 - 6 - margin_columns();
  for (size_t i = 0; i < shown; i++) {
    const profile::HotEdge& e = *rows[i];
    const std::string figures =
        fmt::format("{:>7}{} {:>8}", percent(e.share), margin(e.share_error), short_count(e.count));
    const bool within = !e.from.function.empty() && e.from.function == e.to.function &&
                        e.from.module == e.to.module;
    const std::string to =
        within ? fit(position_after(e.from, e.to), room / 2) : point_of(e.to, room / 2);
    line(colored(e.share, figures) + "  " + left(profile::to_string(e.kind), 13) + "  " +
         beside(e.from, to, room) + " -> " + to);
  }
  more(shown, all.size(), profile_.tables.edges.size(), all.size() - rows.size());
}

// A single time is not known more exactly than the clock's step.
std::string cycles_text(uint64_t cycles, const std::optional<profile::LatencyCalibration>& clock) {
  if (clock && static_cast<double>(cycles) < clock->resolution)
    return fmt::format("<{:.0f}", clock->resolution);
  return fmt::format("{}", cycles);
}

std::string Renderer::load_text(const profile::HotLoad& load, size_t columns) const {
  if (load.by == profile::LoadKind::move) return point_of(load.at, columns);
  const std::string kind = fmt::format(" ({})", profile::to_string(load.by));
  return point_of(load.at, columns - kind.size()) + kind;
}

void Renderer::loads() {
  const auto& rows = profile_.hotlists.load_latency;
  if (rows.empty()) return;
  heading("Slow loads (by cycles lost)");
  const auto& clock = profile_.run.host.latency;
  if (const auto& c = clock)
    line(fmt::format(
        "(on this host L1 {:.0f}, L2 {:.0f}, L3 {:.0f}, DRAM {:.0f} cycles; clock steps "
        "{:.0f})",
        c->typical[0], c->typical[1], c->typical[2], c->typical[3], c->resolution));
  if (clock && clock->is_doubtful())
    line("(others kept the host busy when that was measured: L3 and DRAM are not told apart well)");
  constexpr size_t kFigures = 73;
  const bool narrow = columns_ < kFigures + 32;  // places have lines of their own
  line("     lost    count   mean     +-    p50    p99  L1,L2     L3   DRAM  load");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotLoad& l = rows[i];
    const double cached = l.classes[0] + l.classes[1];
    line(colored(l.classes[3],
                 fmt::format("{:>9} {:>8} {:>6.0f} {:>6.1f} {:>6} {:>6} {:>6} {:>6} {:>6}",
                             short_count(static_cast<uint64_t>(l.lost_cycles)),
                             short_count(l.executions), l.mean_cycles,
                             std::max(l.mean_error, l.cold_error), cycles_text(l.p50, clock),
                             cycles_text(l.p99, clock), percent(cached), percent(l.classes[2]),
                             percent(l.classes[3]))) +
         (narrow ? "" : "  " + load_text(l, columns_ - kFigures)));
    if (narrow) line("           " + load_text(l, columns_ - 11));
    if (l.classes[3] > 0.3 && l.stride != 0)
      line(fit(fmt::format("           DRAM in {}: {} at stride {}; prefetch", percent(l.classes[3]),
                           profile::to_string(l.kind), l.stride),
               columns_));
  }
  more(std::min(options_.limit, rows.size()), rows.size(), profile_.tables.latencies.size());
}

// A page or value in a column of its own, and the load behind it.
std::string Renderer::of_load(std::string what, const std::optional<Place>& load) const {
  constexpr size_t kColumn = 20, kFigures = 26;
  if (!load) return what;
  what.resize(std::max(what.size(), kColumn), ' ');
  const size_t used = kFigures + what.size() + 2;
  return what + "  " + point_of(*load, columns_ - std::min(columns_, used));
}

std::string value_text(uint64_t value) {
  return value < 1'000'000 ? fmt::format("{}", value) : fmt::format("{:#x}", value);
}

std::string data_text(const profile::DataPlace& place, size_t columns) {
  if (place.module.empty()) return fmt::format("{:#x}", place.offset);
  return fit(printable(file_name(place.module)) + fmt::format("+{:#x}", place.offset), columns);
}

void Renderer::memory() {
  const auto& pages = profile_.hotlists.latency_pages;
  if (!pages.empty()) {
    heading("Pages of slow loads (slowest class first)");
    if (pages.front().level == profile::LatencyClass::beyond) line(kBeyond);
    line("  class    count   share  page                  load");
    for (size_t i = 0; i < std::min(options_.limit, pages.size()); i++)
      line(fmt::format("{:>7} {:>8} {:>7}  {}", profile::to_string(pages[i].level),
                       short_count(pages[i].count), percent(pages[i].share),
                       of_load(data_text(pages[i].page, columns_ - 26), pages[i].load)));
    more(std::min(options_.limit, pages.size()), pages.size(),
         profile_.tables.latency_pages.size());
  }
  const auto& values = profile_.hotlists.latency_values;
  if (!values.empty()) {
    heading("Values of slow loads (slowest class first)");
    if (values.front().level == profile::LatencyClass::beyond) line(kBeyond);
    line("  class    count   share  value                 load");
    for (size_t i = 0; i < std::min(options_.limit, values.size()); i++)
      line(fmt::format("{:>7} {:>8} {:>7}  {}", profile::to_string(values[i].level),
                       short_count(values[i].count), percent(values[i].share),
                       of_load(value_text(values[i].value), values[i].load)));
    more(std::min(options_.limit, values.size()), values.size(),
         profile_.tables.latency_values.size());
  }
  const auto& lines = profile_.hotlists.cache_lines;
  if (lines.empty()) return;
  heading("Cache lines (by accesses)");
  line("  share    loads   stores  line");
  for (size_t i = 0; i < std::min(options_.limit, lines.size()); i++)
    line(colored(lines[i].share,
                 fmt::format("{:>7} {:>8} {:>8}", percent(lines[i].share),
                             short_count(lines[i].loads), short_count(lines[i].stores))) +
         "  " + data_text(lines[i].line, columns_ - 27));
  more(std::min(options_.limit, lines.size()), lines.size(), profile_.tables.cache_lines.size());
}

bool is_difference(const profile::HotValue& v) {
  return v.part == profile::ValuePart::comparison && v.disassembly.starts_with("cmp");
}

// Of a difference, with its sign.
std::string value_text(const profile::HotValue& of, uint64_t value) {
  const auto unused = 64 - std::clamp<unsigned>(of.bits, 1, 64);
  const auto signed_value = static_cast<int64_t>(value << unused) >> unused;
  const bool negative = is_difference(of) && signed_value < 0;
  return negative ? "-" + value_text(-static_cast<uint64_t>(signed_value)) : value_text(value);
}

std::string value_text(const profile::HotArgument& of, uint64_t value) {
  return of.is_double() ? fmt::format("{}", std::bit_cast<double>(value)) : value_text(value);
}

std::string top_values(const profile::HotValue& v, size_t columns) {
  const profile::HotFigures& f = v.figures;
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, f.values.size()); i++)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", percent(f.values[i].share),
                        value_text(v, f.values[i].value));
  return fit(text, columns);
}

// A path as the functions that it goes through, each with its lines; a block without is named by
// its offset. "hash_word hotspots.cc 54 55 54 -> find_slot 60".
std::string Renderer::route(const std::vector<Place>& blocks) const {
  std::string text, function, file;
  for (const Place& b : blocks) {
    const std::string name = function_or_address(b);
    if (text.empty() || name != function) {
      text += (text.empty() ? "" : " -> ") + name;
      file.clear();
    }
    function = name;
    if (b.file.empty()) {
      text += fmt::format(" +{:#x}", offsets_.of(b).value_or(b.offset));
      continue;
    }
    if (b.file != file) text += " " + printable(file_name(b.file)) + ":";
    file = b.file;
    text += fmt::format("{}{}", text.ends_with(':') ? "" : ",", b.line);
  }
  return text;
}

void Renderer::paths() {
  const auto& all = profile_.hotlists.paths;
  if (all.empty()) return;
  const auto rows = certain(all, &profile::HotPath::share, &profile::HotPath::share_error);
  heading("Hot paths (by instructions)");
  // Routes are long: where the terminal is not, they have the second line, else the first.
  const bool narrow = columns_ < 98;
  line(fmt::format("{}flow    count    instr  blocks  {}",
                   margins_ ? "  share ±       " : "  share    ", narrow ? "from; route" : "route"));
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotPath& p = *rows[i];
    const std::string figures = fmt::format(
        "{:>7}{} {:>7} {:>8} {:>8} {:>7}", percent(p.share), margin(p.share_error), percent(p.flow),
        short_count(p.count), short_count(p.instructions), p.blocks.size());
    const size_t room = columns_ - 43 - margin_columns();
    const std::string from = p.from ? point_of(*p.from, narrow ? room : columns_ - 15) : "";
    line(colored(p.share, figures) + "  " + (narrow ? from : fit(route(p.blocks), room)));
    if (narrow)
      line("          " + fit(route(p.blocks), columns_ - 10));
    else if (p.from)
      line("          from " + from);
  }
  more(std::min(options_.limit, rows.size()), all.size(), profile_.tables.paths.size(),
       all.size() - rows.size());
}

// What of the instruction a row is about, where it is not the result that it names.
const char* part_text(const profile::HotValue& v) {
  if (v.part == profile::ValuePart::result) return "";
  if (v.part == profile::ValuePart::second) return " (2nd result)";
  return is_difference(v) ? " (difference)" : " (common bits)";
}

void Renderer::values() {
  const auto& rows = profile_.hotlists.values;
  if (rows.empty()) return;
  heading("Values (* semi-invariant: hot, and mostly one value)");
  line(margins_ ? "    count  top value ±      zero   same  stride distinct  instruction"
                : "    count  top value  zero   same  stride distinct  instruction");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotValue& v = rows[i];
    const profile::HotFigures& f = v.figures;
    line(colored(f.invariance, fmt::format("{:>8} {}{:>6}{} {:>7} {:>7} {:>7} {:>7}",
                                           short_count(f.count), v.semi_invariant ? '*' : ' ',
                                           percent(f.invariance), margin(f.invariance_error),
                                           percent(f.zero_share), percent(f.last_value_share),
                                           percent(f.stride_share), short_count(f.distinct))) +
         "  " + point_of(v.at, columns_ - 52 - margin_columns()));
    if (v.context) line("           returning to " + point_of(*v.context, columns_ - 24));
    const std::string code = printable(v.disassembly) + part_text(v);
    const size_t code_columns = std::clamp<size_t>(code.size(), 30, 38);
    std::string detail = "           " + left(code, code_columns) + " " +
                         top_values(v, columns_ - 14 - code_columns);
    line(fit(detail, columns_));
    if (v.semi_invariant && !f.values.empty())
      line(fit(fmt::format("           semi-invariant: {} are {}{}{}", percent(f.invariance),
                           value_text(v, f.values[0].value),
                           v.is_address        ? ", an address of this run"
                           : v.advice.empty() ? ""
                                              : "; ",
                           v.is_address ? "" : printable(v.advice)),
               columns_));
  }
  more(std::min(options_.limit, rows.size()), rows.size(), profile_.tables.values.size());
}

void Renderer::arguments() {
  const auto& rows = profile_.hotlists.arguments;
  if (rows.empty()) return;
  heading("Arguments (by calls with the top value)");
  line("    count  top value             call site -> function, register");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotArgument& a = rows[i];
    const std::string top =
        a.figures.values.empty() ? "" : value_text(a, a.figures.values[0].value);
    const std::string what = ", " + printable(a.reg) + (a.is_size ? " size" : "") +
                             (a.advice.empty() ? "" : "; " + printable(a.advice));
    const size_t room = columns_ - 33 - 4 - what.size();
    const std::string callee = fit(function_or_address(a.callee), room / 2);
    line(colored(a.figures.invariance,
                 fmt::format("{:>8} {:>7} {:<14}", short_count(a.figures.count),
                             percent(a.figures.invariance), fit(top, 14))) +
         "  " + beside(a.site, callee, room) + " -> " + callee + what);
  }
  more(std::min(options_.limit, rows.size()), rows.size(), profile_.tables.arguments.size());
}

void Renderer::targets() {
  const auto& rows = profile_.hotlists.targets;
  if (rows.empty()) return;
  heading("Indirect branches (by count)");
  line("    count  targets  top    branch -> most frequent target");
  const size_t room = columns_ - 27 - 4;
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotTargets& t = rows[i];
    if (t.targets.empty()) continue;
    const std::string to = fit(function_or_address(t.targets[0].to), room / 2);
    line(colored(t.targets[0].share,
                 fmt::format("{:>8} {:>7} {:>7}", short_count(t.count), short_count(t.distinct),
                             percent(t.targets[0].share))) +
         "  " + beside(t.at, to, room) + " -> " + to);
  }
}

}  // namespace

bool use_color(std::string_view when, int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  return when == "always" || (when == "auto" && ::isatty(fd) == 1);
}

size_t terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) return size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    const long n = std::strtol(columns, nullptr, 10);
    if (n > 0 && n < 10'000) return static_cast<size_t>(n);
  }
  return 80;
}

std::string render_text(const Profile& profile, const TextOptions& options) {
  return Renderer(profile, options).render();
}

}  // namespace shadowprof::report

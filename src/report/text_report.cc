// SPDX-License-Identifier: MIT
//
// What was profiled, the findings, functions and calls. The other lists: text_lists.cc.
#include "report/text_report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "profile/compare/same_region.h"
#include "profile/hotlists/unnamed_code.h"
#include "profile/precision.h"
#include "report/leads.h"
#include "report/text_renderer.h"

namespace shadowprof::report {

using profile::Place;
using profile::Profile;

namespace {

// What the figures of time stand on.
std::string_view observations(const profile::ProcessorTime& time) {
  return time.source == "looks"   ? "looks at threads"
         : time.source == "mixed" ? "ticks and looks at threads"
                                  : "ticks";
}

// From here on what ended samples early is worth a line: results lean to what could be sampled.
constexpr double kManyEndedEarly = 0.2;
constexpr size_t kMostLeads = 8;
constexpr size_t kFoldedIndent = 2;
constexpr size_t kMostRegionFunctions = 3;
constexpr double kMuchUnmetShare = 0.05;
constexpr double kMuchUntimedShare = 0.3;
// What the clock may miss by chance.
constexpr double kMuchUnseenShare = 0.3;
constexpr double kMuchUnseen_s = 0.1;
constexpr double kWorthNaming = 0.05;  // of what sampling has cost

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
    text +=
        fmt::format("{}{} {:.1f} ms", text.empty() ? "" : ", ", printable(cause), 1e3 * seconds);
  }
  return text;
}

}  // namespace

// At blanks, where there are any.
std::vector<std::string_view> Renderer::folded(std::string_view text, size_t columns) const {
  std::vector<std::string_view> lines;
  for (std::string_view rest = text; !rest.empty();) {
    size_t end = rest.size() <= columns ? rest.size() : rest.rfind(' ', columns);
    if (end == rest.npos || end == 0) end = std::min(rest.find(' ', 1), rest.size());
    lines.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return lines;
}

// A sentence that says nothing if it is cut off: the rest is in further lines.
void Renderer::sentence(std::string_view text) {
  std::string before;
  for (const std::string_view words : folded(text, columns_ - kFoldedIndent)) {
    line(before + fit(words, columns_ - kFoldedIndent));
    before = std::string(kFoldedIndent, ' ');
  }
}

// Before anything else: what all the rest has to be read with.
void Renderer::warn() {
  const auto part = profile::why_incomplete(profile_);
  const profile::Evidence evidence = profile::evidence_of(profile_);
  if (!part && evidence.enough) return;
  const std::string text = printable(part ? *part : evidence.advice);
  for (const std::string_view words : folded(text, columns_)) {
    const std::string row = fit(words, columns_);
    line(options_.color ? fmt::format("\x1b[1;31m{}\x1b[0m", row) : row);
  }
}

void Renderer::leads() {
  const std::vector<Lead> leads =
      find_leads(profile_, std::min(kMostLeads, options_.limit), options_.files);
  if (leads.empty()) return;
  heading(fmt::format("Findings (by the share of the {} at stake)", unit_of_stakes(profile_)));
  for (const Lead& lead : leads) {
    constexpr size_t kIndent = 9;
    const std::string where = lead.at ? point_of(*lead.at, columns_ - kIndent - 1) + ": " : "";
    std::string before = fmt::format("{:>7}{} ", percent(lead.stake), lead.is_maybe ? "?" : " ");
    const std::string text = where + lead.text;
    for (const std::string_view words : folded(text, columns_ - kIndent)) {
      line(before + fit(words, columns_ - kIndent));
      before = std::string(kIndent, ' ');
    }
  }
}

void Renderer::who_and_how() {
  const profile::Run& run = profile_.run;
  std::string command;
  for (const std::string& word : run.command)
    command += (command.empty() ? "" : " ") + printable(word);
  if (run.command.empty() && run.merged.size() > 1) command = "(several commands)";
  line(fit(command, columns_));
  for (size_t i = 1; i < run.images.size(); i++) {
    std::string words;
    for (const std::string& word : run.images[i].command) words += " " + printable(word);
    line(fit(fmt::format("then, after {:.2f} s:{}", run.images[i].at_s, words), columns_));
  }
  std::string end = "still running";
  if (run.merged.size() > 1) {
    end = fmt::format("{} runs merged", run.merged.size());
    const auto is_plain = [](const profile::MergedRun& m) { return m.weight == 1; };
    if (!std::ranges::all_of(run.merged, is_plain)) end += ", some of them several times";
  } else if (run.exit)
    end = fmt::format("{} {}", run.exit->signalled ? "killed by signal" : "exit status",
                      run.exit->value);
  line(fit(fmt::format("{} mode, {} engine, {:.2f} s, {}", printable(run.mode),
                       printable(run.engine), run.duration_s, end),
           columns_));
}

void Renderer::summary() {
  who_and_how();
  const profile::Run& run = profile_.run;
  const profile::Coverage& c = profile_.coverage;
  const auto share = c.share();
  const std::string dropped = c.dropped_instructions() == 0
                                  ? "none dropped"
                                  : fmt::format("{} dropped", c.dropped_instructions());
  if (c.assumed_total)
    sentence(fmt::format("{} instructions profiled ({}): too few to estimate of how many",
                         short_count(c.instructions_profiled), dropped));
  else
    sentence(fmt::format(
        "{} instructions{}, {} of them profiled ({}{})",
        c.estimated ? short_count(c.instructions_total) : fmt::format("{}", c.instructions_total),
        !share        ? " or more"
        : c.estimated ? " (roughly estimated)"
                      : "",
        share ? percent(*share) : "an unknown share", profile_.confidence.exact ? "exact, " : "",
        dropped));
  if (run.region) region(*run.region);
  if (run.mode != "full" && c.samples != 0) sampling();
  processor_time();
  line(fmt::format("{} functions, {} blocks, {} edges, {} call pairs", profile_.functions.size(),
                   profile_.tables.blocks.size(), profile_.tables.edges.size(),
                   profile_.tables.calls.size()));
}

// What was profiled of the program, where that is not all of it.
void Renderer::region(const profile::Region& region) {
  std::string text = "only ";
  text += printable(profile::described_region(profile_.run));
  for (size_t i = 0; i < std::min(region.functions.size(), kMostRegionFunctions); i++)
    text += (i == 0 ? " (" : ", ") + printable(region.functions[i]);
  if (region.functions.size() > kMostRegionFunctions) text += ", ...";
  if (!region.functions.empty()) text += ")";
  const double share = static_cast<double>(profile_.coverage.instructions_profiled) /
                       static_cast<double>(std::max<uint64_t>(region.program_instructions, 1));
  sentence(fmt::format("{}: entered {} time{}, {} of the program's {} instructions", text,
                       region.entries, region.entries == 1 ? "" : "s", percent(share),
                       region.program_instructions));
}

// What a sampled profile stands on, and what it cost.
void Renderer::sampling() {
  const profile::Coverage& c = profile_.coverage;
  const profile::Overhead& o = profile_.overhead;
  sentence(fmt::format(
      "{} sample{}; overhead {} (budget {}); pauses {:.1f} ms in all, longest {:.1f} ms", c.samples,
      c.samples == 1 ? "" : "s", percent(o.estimated_share), percent(o.budget_share),
      o.pause_s.total * 1e3, o.pause_s.max * 1e3));
  if (const auto part = profile::part_sampled(profile_)) sentence(printable(*part));
  if (const std::string causes = costs_of(o.by_cause); !causes.empty())
    sentence("what it cost: " + causes);
  if (margins_)
    line(
        fmt::format("± is half of the {:.0f} % interval, in percentage points, from {} groups of "
                    "samples",
                    100 * profile::kConfidenceLevel, profile_.confidence.groups));
  if (const auto others = profile::what_others_did(profile_)) sentence(*others);
  if (const auto uneven = profile::uneven_runs(profile_)) sentence(*uneven);
  if (const auto& start = profile_.run.start_at)
    sentence(start->at_s ? fmt::format("sampling began after {:.2f} s, when {} was first seen",
                                       *start->at_s, printable(start->function))
                         : fmt::format("sampling never began: {} was not seen",
                                       printable(start->function)));
  for (const profile::SettingChange& change : profile_.run.changes)
    line(fit(fmt::format("told after {:.2f} s: {}={}", change.at_s, printable(change.setting),
                         printable(change.value)),
             columns_));
  if (const auto& until = profile_.run.until_error)
    sentence(fmt::format(
        "sampling ended as the {} function{} with the first {:.0f} % of the {} {} known to ±{:.1f} "
        "(--until-error {:.3g}%)",
        until->functions, until->functions == 1 ? "" : "s", 100 * profile::kShareThatMatters,
        until->by_time ? "time" : "instructions", until->functions == 1 ? "was" : "were",
        100 * until->reached, 100 * until->limit));
  error_not_reached();
  what_samples_missed();
  samples_that_ended_early();
}

// What --until-error was to wait for, where the run was over before.
void Renderer::error_not_reached() {
  const auto wanted = profile_.run.options.find("until_error");
  if (wanted == profile_.run.options.end() || profile_.run.until_error) return;
  const auto precision = profile::precision_of(profile_);
  sentence(fmt::format(
      "the error of --until-error {} was not reached: {}", printable(wanted->second),
      precision
          ? fmt::format("functions are known to ±{:.1f} percentage points", 100 * precision->widest)
          : "it is not known how exactly functions are known"));
}

// Code of which only the time is known, or less than of the rest.
void Renderer::what_samples_missed() {
  const bool is_part = profile::part_sampled(profile_).has_value();
  const double unmet = profile::unmet_time_share(profile_);
  if (!is_part && unmet >= kMuchUnmetShare)
    sentence(
        fmt::format("no sample met the code that had {} of the time in user mode: of it only the "
                    "time is known, and shares of instructions are of the rest",
                    percent(unmet)));
  const double untimed = collects("latency") ? 1 - profile::timed_loads_time_share(profile_) : 0;
  if (!is_part && untimed >= kMuchUntimedShare)
    sentence(
        fmt::format("no load was timed in functions that had {} of the time: brief samples time "
                    "none; profile for longer, or use --mode full",
                    percent(untimed)));
  if (const double generated = profile::generated_share(profile_); generated >= kMuchUnmetShare)
    sentence(
        fmt::format("{} of the {} went to generated code without names: a program that writes "
                    "/tmp/perf-PID.map (node --perf-basic-prof) gives them",
                    percent(generated), profile_.time.is_known() ? "time" : "instructions"));
  if (profile_.coverage.assumed_speeds)
    sentence(
        "no sample tells how fast the program is where: shares of instructions take it for equally "
        "fast everywhere, and cycles per instruction are not known");
}

void Renderer::samples_that_ended_early() {
  uint64_t all = 0, early = 0;
  std::vector<std::pair<uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : profile_.coverage.ended) {
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
  sentence(text);
}

// Where all of it was, before it is said which function had how much.
void Renderer::processor_time() {
  const profile::ProcessorTime& time = profile_.time;
  if (!time.is_known()) return;
  sentence(
      fmt::format("{:.2f} s on processors ({:.2f} kernel), {:.2f} s waiting ({:.2f} for one); {} "
                  "{}{}",
                  time.seconds(), time.kernel_s, time.waiting_s, time.queued_s, time.ticks,
                  observations(time), time.lost == 0 ? "" : fmt::format(", {} lost", time.lost)));
  const profile::Overhead& o = profile_.overhead;
  const double own_s = o.program_cpu_s - o.unfollowed_cpu_s;
  const double unseen_s = own_s - time.seconds();
  if (unseen_s >= kMuchUnseen_s && unseen_s > kMuchUnseenShare * own_s)
    sentence(fmt::format(
        "the clock has not seen {:.2f} s more: processes and threads that end within one period of "
        "it, or work in step with it; nothing below has them",
        unseen_s));
}

// Instructions say how often, time, where it is known, how long: a row is worth its line if it is
// certain by either.
template <typename Row>
std::vector<const Row*> Renderer::certain_by_self(const std::vector<Row>& all) const {
  std::vector<const Row*> rows;
  for (const Row& row : all) {
    const double share = row.time.whole_share(profile_.time);
    const bool by_time = share > 0 && profile::is_certain(share, profile_.time.error_of(share));
    // What no sample met is a name in calls and no more.
    const bool is_met = row.self != 0 || !profile_.coverage.estimated;
    if (by_time || (is_met && is_certain(row.self_share, row.self_share_error)))
      rows.push_back(&row);
  }
  return rows;
}

template <typename Row>
std::string Renderer::time_figures(const Row& row, uint64_t count) const {
  const double kernel = row.time.kernel_share(profile_.time);
  const std::string cycles =
      row.time.cycles_per_insn > 0 ? fmt::format("{:.1f}", row.time.cycles_per_insn) : "-";
  return fmt::format("{:>7} {:<5} {:>7} {:>7} {:>7} {:>8}", percent(row.time.share),
                     fmt::format("{:.1f}", 100 * row.time.error),
                     kernel > 0 ? percent(kernel) : "-",
                     row.self != 0 ? percent(row.self_share) : "-", cycles,
                     count != 0 ? short_count(count) : "-");
}

// A function's name; wide terminals have the source line and the file too.
std::string Renderer::named(const Place& at, size_t room) const {
  const bool wide = columns_ >= 110;
  std::string name =
      left(function_or_address(at, wide ? room - 48 : room), wide ? room - 48 : room);
  if (wide) name += "  " + left(source(at), 24) + " " + fit(module_name(at), 20);
  return name;
}

void Renderer::methods_by_time() {
  const auto& all = profile_.hotlists.methods;
  const auto rows = certain_by_self(all);
  const size_t shown = std::min(options_.limit, rows.size());
  heading(options_.sort.empty() || options_.sort == "time"
              ? "Hot functions (by processor time of their own)"
              : fmt::format("Hot functions (by {})", options_.sort));
  line("   time ±     kernel   instr  cyc/in    calls  function");
  for (size_t i = 0; i < shown; i++)
    line(colored(rows[i]->time.whole_share(profile_.time),
                 time_figures(*rows[i], rows[i]->invocations)) +
         "  " + named(rows[i]->at, columns_ - 51));
  more(shown, all.size(), profile_.functions.size(), all.size() - rows.size());
}

// They have no instructions beside those of the functions above.
void Renderer::inlined() {
  const auto& all = profile_.hotlists.inlined;
  if (all.empty()) return;
  const bool by_time = profile_.time.is_known();
  const auto rows = certain_by_self(all);
  if (is_left_out("inlined functions", all.size(), rows.size())) return;
  const size_t shown = std::min(options_.limit, rows.size());
  heading(fmt::format("Inlined functions (by {} of their own)",
                      by_time ? "processor time" : "instructions"));
  uint64_t known = 0;
  for (const profile::Module& m : profile_.modules) known += m.inlining_known;
  const double share = static_cast<double>(known) /
                       static_cast<double>(std::max<uint64_t>(profile_.coverage.attributed, 1));
  line(fmt::format("(parts of the functions above; known of {} of the instructions)",
                   percent(share)));
  line(by_time    ? "   time ±     kernel   instr  cyc/in   places  function"
       : margins_ ? "   self ±       total    instr   places  function"
                  : "   self   total    instr   places  function");
  for (size_t i = 0; i < shown; i++) {
    const profile::HotInlined& f = *rows[i];
    if (by_time) {
      line(colored(f.time.whole_share(profile_.time), time_figures(f, f.places)) + "  " +
           named(f.at, columns_ - 51));
      continue;
    }
    const std::string figures =
        fmt::format("{:>7}{} {:>7} {:>8} {:>8}", percent(f.self_share), margin(f.self_share_error),
                    percent(f.inclusive_share), short_count(f.self), short_count(f.places));
    line(colored(f.self_share, figures) + "  " + named(f.at, columns_ - 35 - margin_columns()));
  }
  more(shown, all.size(), profile_.inlined.size(), all.size() - rows.size());
}

void Renderer::tell_of_left_out() {
  text_ += '\n';
  sentence(fmt::format("left out, as no row is certain: {}", left_out_));
}

bool Renderer::collects(std::string_view kind) const {
  return profile::was_asked_for(profile_.run, kind);
}

// A list that is missing says nothing; one that was not asked for is something else.
void Renderer::not_collected() {
  if (!profile_.run.options.contains("profile")) return;
  std::string missing;
  for (const char* kind : {"edge", "call", "method", "path", "value", "latency"})
    if (!collects(kind)) missing += (missing.empty() ? "" : ",") + std::string(kind);
  if (missing.empty()) return;
  text_ += '\n';
  sentence(fmt::format("not collected: {} (--profile all, or +KIND)", missing));
}

void Renderer::methods() {
  if (profile_.time.is_known()) return methods_by_time();
  if (options_.of_threads) return methods_of_threads();
  const auto& all = profile_.hotlists.methods;
  const auto rows = certain_by_self(all);
  const size_t shown = std::min(options_.limit, rows.size());
  heading("Hot functions (by instructions of their own)");
  if (estimated()) line("(total: estimated from calls)");
  line(margins_ ? "   self ±       total    instr    calls    loops  function"
                : "   self   total    instr    calls    loops  function");
  for (size_t i = 0; i < shown; i++) {
    const profile::HotMethod& m = *rows[i];
    const std::string figures =
        fmt::format("{:>7}{} {:>7} {:>8} {:>8} {:>8}", percent(m.self_share),
                    margin(m.self_share_error), percent(m.inclusive_share), short_count(m.self),
                    short_count(m.invocations), short_count(m.loop_iterations));
    line(colored(m.self_share, figures) + "  " + named(m.at, columns_ - 44 - margin_columns()));
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

void Renderer::call_pairs() {
  const auto& all = profile_.hotlists.call_pairs;
  const auto rows = certain(all, &profile::HotCallPair::share, &profile::HotCallPair::share_error);
  if (all.empty() || is_left_out("calls", all.size(), rows.size())) return;
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
    const std::string callee = function_or_address(c.callee, room / 2);
    line(colored(c.share, figures) + "  " + beside(c.site, callee, room) +
         (c.indirect ? " *> " : " -> ") + callee);
  }
  more(shown, all.size(), profile_.tables.calls.size(), all.size() - rows.size());
}

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

std::string Renderer::render(TextList list) {
  switch (list) {
    case TextList::functions:
      methods();
      break;
    case TextList::edges:
      edges();
      break;
    case TextList::paths:
      paths();
      break;
    case TextList::values:
      values();
      break;
    case TextList::loads:
      loads();
      break;
    case TextList::threads:
      threads();
      break;
  }
  return std::move(text_);
}

std::vector<Place> Renderer::functions() const {
  const auto rows = certain_by_self(profile_.hotlists.methods);
  std::vector<Place> places;
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) places.push_back(rows[i]->at);
  return places;
}

std::string render_list(const Profile& profile, TextList list, const TextOptions& options) {
  return Renderer(profile, options).render(list);
}

std::vector<Place> functions_listed(const Profile& profile, const TextOptions& options) {
  return Renderer(profile, options).functions();
}

std::string render_head(const Profile& profile, const TextOptions& options) {
  return Renderer(profile, options).render_head();
}

std::string render_threads(const Profile& profile, const TextOptions& options) {
  return Renderer(profile, options).render_threads();
}

std::string render_part(const Profile& profile, const profile::ThreadPart& part,
                        const TextOptions& options) {
  return Renderer(profile, options).render_part(part);
}

std::string render_text(const Profile& profile, const TextOptions& options) {
  return Renderer(profile, options).render();
}

}  // namespace shadowprof::report

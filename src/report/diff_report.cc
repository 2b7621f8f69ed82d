// SPDX-License-Identifier: MIT
#include "report/diff_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/columns.h"
#include "report/diff_rows.h"
#include "report/text_page.h"

namespace shadowprof::report {

using profile::Change;
using profile::Diff;
using profile::FunctionChange;
using profile::InlinedChange;
using profile::LineChange;
using profile::LoadChange;
using profile::PathChange;
using profile::Place;
using profile::Presence;
using profile::SyscallChange;
using profile::TransferChange;
using profile::ValueChange;

namespace {

class DiffRenderer : private TextPage {
 public:
  DiffRenderer(const Diff& diff, const TextOptions& options)
      : TextPage(options.color),
        diff_(diff),
        options_(options),
        columns_(std::max<size_t>(options.columns, 80)) {}

  std::string render() {
    if (diff_.knows_totals)
      total("instructions", diff_.instructions);
    else
      line(kNoTotal);
    total("calls", diff_.calls);
    if (diff_.exact)
      total("system calls", diff_.syscalls);
    else
      line(
          "(not exact: changes within the noise are marked ~, but for lines and values; system "
          "calls are not compared)");
    if (diff_.hides_values) line("(values are hidden, so they are not compared)");
    functions();
    inlined();
    lines();
    calls();
    edges();
    paths();
    loads();
    values();
    syscalls();
    return std::move(text_);
  }

 private:
  void total(std::string_view what, const Change& c) {
    line(fmt::format("{} {}: {} before, {} now ({})", change_ratio(c), what, c.base, c.now,
                     signed_count(c.delta())));
  }
  void heading(std::string_view title, std::string_view columns) {
    TextPage::heading(title);
    line(columns);
  }
  void more(size_t shown, size_t all) {
    if (shown < all) line(fmt::format("  ... and {} more", all - shown));
  }
  // More is red, less is green.
  std::string colored(int64_t delta, const std::string& content) const {
    if (!options_.color || delta == 0) return content;
    return fmt::format("\x1b[{}m{}\x1b[0m", delta > 0 ? "31" : "32", content);
  }
  std::string figures(const Change& c) const {
    return colored(c.delta(), fmt::format("{:>9} {:>8}", signed_count(c.delta()), change_ratio(c)));
  }
  // What may be noise.
  const char* mark(const Change& c, double error) const {
    return may_be_chance(diff_, c, error) ? "~" : " ";
  }
  // A share of the program's instructions before.
  std::string effect(const Change& c) const {
    if (diff_.instructions.base == 0) return "";
    return fmt::format("{:+.2f}%", 100 * static_cast<double>(c.delta()) /
                                       static_cast<double>(diff_.instructions.base));
  }

  void functions() {
    const auto rows = changed(diff_.functions);
    if (rows.empty()) return;
    heading("Functions (instructions of their own; effect on the program)",
            "   change    ratio   effect    calls  function");
    const size_t shown = std::min(options_.limit, rows.size());
    const size_t room = columns_ - 38;
    for (size_t i = 0; i < shown; i++) {
      const FunctionChange& c = *rows[i];
      const std::string where = source(c.at);
      const size_t name = room - std::min(room / 2, where.empty() ? 0 : where.size() + 1);
      line(fmt::format("{} {:>8} {:>8}{} {}{}", figures(c.self), effect(c.self),
                       signed_count(c.invocations.delta()), mark(c.self, c.error),
                       function_or_address(c.at, name), where.empty() ? "" : " " + where));
      if (!c.reason.text.empty())
        line("            " + fit(printable(c.reason.text), columns_ - 12));
    }
    more(shown, rows.size());
  }
  void inlined() {
    const auto rows = changed(diff_.inlined);
    if (rows.empty()) return;
    heading("Inlined functions (parts of the functions above; effect on the program)",
            "   change    ratio   effect   places  function");
    const size_t shown = std::min(options_.limit, rows.size());
    const size_t room = columns_ - 38;
    for (size_t i = 0; i < shown; i++) {
      const InlinedChange& c = *rows[i];
      const std::string where = source(c.at);
      const size_t name = room - std::min(room / 2, where.empty() ? 0 : where.size() + 1);
      line(fmt::format("{} {:>8} {:>8}{} {}{}", figures(c.self), effect(c.self),
                       signed_count(c.places.delta()), mark(c.self, c.error),
                       function_or_address(c.at, name), where.empty() ? "" : " " + where));
    }
    more(shown, rows.size());
  }
  void lines() {
    const auto rows = changed(diff_.lines);
    if (rows.empty()) return;
    heading("Lines (instructions)", "   change    ratio   effect  line");
    const size_t shown = std::min(options_.limit, rows.size());
    for (size_t i = 0; i < shown; i++) {
      const LineChange& c = *rows[i];
      const Place place{"", 0, c.function, c.file, c.line};
      line(fmt::format("{} {:>8}  {}", figures(c.instructions), effect(c.instructions),
                       point(place, columns_ - 29)));
    }
    more(shown, rows.size());
  }
  void calls() {
    const auto rows = changed(diff_.call_pairs);
    if (rows.empty()) return;
    heading("Calls (by count; * the callee is computed)",
            "   change    ratio  call site -> callee");
    const size_t shown = std::min(options_.limit, rows.size());
    const size_t room = columns_ - 20 - 4;
    for (size_t i = 0; i < shown; i++) {
      const TransferChange& c = *rows[i];
      const bool indirect = c.kind == profile::EdgeKind::indirect_call;
      line(fmt::format("{} {}{} {} {}", figures(c.count), mark(c.count, c.error),
                       left(point(c.from, room - room / 2), room - room / 2),
                       indirect ? "*>" : "->", function_or_address(c.to, room / 2)));
    }
    more(shown, rows.size());
  }
  void edges() {
    const auto rows = changed(diff_.edges);
    if (rows.empty()) return;
    heading("Edges (by count)", "   change    ratio  kind           from -> to");
    const size_t shown = std::min(options_.limit, rows.size());
    const size_t room = columns_ - 35 - 4;
    for (size_t i = 0; i < shown; i++) {
      const TransferChange& c = *rows[i];
      line(fmt::format("{} {}{} {} -> {}", figures(c.count), mark(c.count, c.error),
                       left(profile::to_string(c.kind), 13),
                       left(point(c.from, room - room / 2), room - room / 2),
                       point(c.to, room / 2)));
    }
    more(shown, rows.size());
  }
  void paths() {
    const auto rows = changed(diff_.paths);
    if (rows.empty()) return;
    heading("Paths (instructions; effect on the program)",
            "   change    ratio   effect   count  blocks, functions, lines");
    const size_t shown = std::min(options_.limit, rows.size());
    for (size_t i = 0; i < shown; i++) {
      const PathChange& c = *rows[i];
      line(fmt::format("{} {:>8} {:>7}{} {}", figures(c.instructions), effect(c.instructions),
                       signed_count(c.count.delta()), mark(c.instructions, c.error),
                       fit(path_text(c), columns_ - 38)));
    }
    more(shown, rows.size());
  }
  static std::string path_text(const PathChange& c) {
    std::string text = fmt::format("{}", c.blocks);
    for (size_t i = 0; i < c.functions.size(); i++)
      text += (i == 0 ? " " : " -> ") + function_or_address(c.functions[i]);
    for (size_t i = 0; i < c.lines.size(); i++)
      text += fmt::format("{}{}", i == 0 ? ":" : ",", c.lines[i].line);
    return text;
  }
  void values() {
    const auto rows = changed(diff_.values);
    if (rows.empty()) return;
    heading("Values (share of executions that compute it)",
            "executed   before      now               value  instruction");
    const size_t shown = std::min(options_.limit, rows.size());
    for (size_t i = 0; i < shown; i++) {
      const ValueChange& c = *rows[i];
      const auto share = [](uint64_t n) {
        return fmt::format("{:.2f}%", static_cast<double>(n) / 1e4);
      };
      const std::string value = c.type == profile::ValueType::integer
                                    ? fmt::format("{:#x}", c.value)
                                    : profile::value_text(c.type, c.value);
      const size_t room = columns_ - 50;
      line(fmt::format("{:>8} {:>8} {:>8}  {:>18}  {} {}",
                       short_count(std::max(c.executions.base, c.executions.now)),
                       share(c.invariance.base), share(c.invariance.now), fit(value, 18),
                       point(c.at, room), printable(c.instruction)));
    }
    more(shown, rows.size());
  }
  void loads() {
    const auto rows = changed(diff_.loads);
    if (rows.empty()) return;
    heading("Loads (cycles lost; mean cycles and share that missed the second level cache)",
            "   change    ratio cycles:  before      now misses: before     now  load");
    const size_t shown = std::min(options_.limit, rows.size());
    for (size_t i = 0; i < shown; i++) {
      const LoadChange& c = *rows[i];
      const auto share = [](uint64_t n) {
        return fmt::format("{:.1f}%", static_cast<double>(n) / 1e4);
      };
      line(fmt::format("{}         {:>7.1f} {:>8.1f}         {:>6} {:>7} {}{}",
                       figures(c.lost_cycles), c.base_mean, c.new_mean, share(c.misses.base),
                       share(c.misses.now), mark(c.lost_cycles, c.error),
                       point(c.at, std::max<size_t>(columns_, 100) - 69)));
    }
    more(shown, rows.size());
  }
  void syscalls() {
    const auto rows = changed(diff_.syscall_names);
    if (rows.empty() || !diff_.exact) return;
    heading("System calls", "   change    ratio  name");
    const size_t shown = std::min(options_.limit, rows.size());
    for (size_t i = 0; i < shown; i++) {
      const SyscallChange& c = *rows[i];
      line(fmt::format("{}  {}", figures(c.count), printable(c.name)));
    }
    more(shown, rows.size());
  }

  const Diff& diff_;
  const TextOptions& options_;
  size_t columns_;
};

using Json = nlohmann::ordered_json;

Json change_json(const Change& c) {
  Json j = {{"base", c.base}, {"new", c.now}, {"delta", c.delta()}, {"ratio", nullptr}};
  if (c.base != 0) j["ratio"] = c.ratio();
  return j;
}

Json place_json(const Place& p) {
  Json j = {{"module", p.module}, {"offset", p.offset}};
  if (!p.function.empty()) j["function"] = p.function;
  if (!p.file.empty()) j["file"] = p.file;
  if (p.line != 0) j["line"] = p.line;
  return j;
}

Json noise_json(const Diff& diff, double error) {
  const double noise = noise_of(diff, error);
  return std::isfinite(noise) ? Json(noise) : Json();
}

Json row_json(const Diff& diff, const FunctionChange& c) {
  Json j = place_json(c.at);
  j["linkage_name"] = c.linkage_name;
  j["presence"] = to_string(c.presence);
  j["self_instructions"] = change_json(c.self);
  j["inclusive_instructions"] = change_json(c.inclusive);
  j["invocations"] = change_json(c.invocations);
  j["loop_iterations"] = change_json(c.loop_iterations);
  j["noise"] = noise_json(diff, c.error);
  if (!c.reason.text.empty())
    j["reason"] = {{"kind", to_string(c.reason.kind)}, {"text", c.reason.text}};
  return j;
}

Json row_json(const Diff& diff, const InlinedChange& c) {
  Json j = {{"module", c.at.module}, {"function", c.at.function}};
  if (!c.at.file.empty()) j["file"] = c.at.file;
  if (c.at.line != 0) j["line"] = c.at.line;
  j["linkage_name"] = c.linkage_name;
  j["presence"] = to_string(c.presence);
  j["self_instructions"] = change_json(c.self);
  j["inclusive_instructions"] = change_json(c.inclusive);
  j["places"] = change_json(c.places);
  j["noise"] = noise_json(diff, c.error);
  return j;
}

Json row_json(const Diff&, const LineChange& c) {
  return {{"function", c.function},
          {"file", c.file},
          {"line", c.line},
          {"instructions", change_json(c.instructions)}};
}

Json row_json(const Diff& diff, const TransferChange& c) {
  return {{"from", place_json(c.from)},
          {"to", place_json(c.to)},
          {"kind", profile::to_string(c.kind)},
          {"count", change_json(c.count)},
          {"instructions", change_json(c.instructions)},
          {"noise", noise_json(diff, c.error)}};
}

Json row_json(const Diff& diff, const PathChange& c) {
  Json j = place_json(c.at);
  j["blocks"] = c.blocks;
  for (const Place& f : c.functions) j["functions"].push_back(place_json(f));
  j["lines"] = Json::array();
  for (const profile::SourceLine& l : c.lines)
    j["lines"].push_back({{"file", l.file}, {"line", l.line}});
  j["count"] = change_json(c.count);
  j["instructions"] = change_json(c.instructions);
  j["noise"] = noise_json(diff, c.error);
  return j;
}

double share(uint64_t millionths) {
  return static_cast<double>(millionths) / 1e6;
}

Json row_json(const Diff&, const ValueChange& c) {
  Json j = place_json(c.at);
  if (!c.instruction.empty()) j["disassembly"] = c.instruction;
  j["value"] = c.value;
  j["type"] = profile::to_string(c.type);
  j["executions"] = change_json(c.executions);
  j["share"] = {{"base", share(c.invariance.base)}, {"new", share(c.invariance.now)}};
  return j;
}

Json row_json(const Diff& diff, const LoadChange& c) {
  Json j = place_json(c.at);
  j["executions"] = change_json(c.executions);
  j["lost_cycles"] = change_json(c.lost_cycles);
  j["mean_cycles"] = {{"base", c.base_mean}, {"new", c.new_mean}};
  j["miss_share"] = {{"base", share(c.misses.base)}, {"new", share(c.misses.now)}};
  j["noise"] = noise_json(diff, c.error);
  return j;
}

Json row_json(const Diff&, const SyscallChange& c) {
  return {{"name", c.name}, {"count", change_json(c.count)}};
}

template <typename Row>
Json rows_json(const Diff& diff, const std::vector<Row>& all, size_t limit) {
  const auto rows = changed(all);
  Json result = Json::array();
  for (size_t i = 0; i < std::min(limit, rows.size()); i++)
    result.push_back(row_json(diff, *rows[i]));
  return result;
}

}  // namespace

std::string signed_count(int64_t delta) {
  if (delta == 0) return "0";
  const auto size =
      delta < 0 ? uint64_t{0} - static_cast<uint64_t>(delta) : static_cast<uint64_t>(delta);
  return (delta < 0 ? "-" : "+") + short_count(size);
}

std::string change_ratio(const Change& c) {
  if (c.base == c.now) return "0%";
  if (c.base == 0) return "new";
  if (c.now == 0) return "gone";
  const double percent = 100 * c.ratio();
  if (percent >= 1000) return fmt::format("x{:.1f}", percent / 100 + 1);
  return fmt::format("{:+.{}f}%", percent, std::abs(percent) < 10 ? 2 : 1);
}

std::string render_diff(const Diff& diff, const TextOptions& options) {
  return DiffRenderer(diff, options).render();
}

std::string diff_json(const Diff& diff, size_t limit) {
  const Json j = {{"exact", diff.exact},
                  {"instructions", change_json(diff.instructions)},
                  {"calls", change_json(diff.calls)},
                  {"syscalls", change_json(diff.syscalls)},
                  {"functions", rows_json(diff, diff.functions, limit)},
                  {"inlined", rows_json(diff, diff.inlined, limit)},
                  {"lines", rows_json(diff, diff.lines, limit)},
                  {"call_pairs", rows_json(diff, diff.call_pairs, limit)},
                  {"edges", rows_json(diff, diff.edges, limit)},
                  {"paths", rows_json(diff, diff.paths, limit)},
                  {"values", rows_json(diff, diff.values, limit)},
                  {"loads", rows_json(diff, diff.loads, limit)},
                  {"syscall_names", rows_json(diff, diff.syscall_names, limit)}};
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report

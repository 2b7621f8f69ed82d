// SPDX-License-Identifier: MIT
//
// The lists of contexts, edges, paths, loads, values and targets.
#include <functional>

#include "report/short_names.h"
#include "report/text_renderer.h"
#include "report/value_text.h"

namespace shadowprof::report {

using profile::Place;

namespace {

constexpr const char* kBeyond = "(beyond: slower than memory; a page fault, or an interruption)";

// "main > parse > read_line": the innermost frames are those that tell rows apart, so what there is
// no room for is left out at the other end.
std::string chain(const std::vector<Place>& frames, size_t columns) {
  std::string text;
  for (size_t i = frames.size(); i-- > 0;) {
    const std::string name = function_or_address(frames[i]);
    const std::string longer = text.empty() ? name : name + " > " + text;
    constexpr size_t kMark = 6;  // "... > "
    if (!text.empty() && width(longer) + (i > 0 ? kMark : 0) > columns) return "... > " + text;
    text = text.empty() ? fit_name(name, columns - std::min(columns, i > 0 ? kMark : 0)) : longer;
  }
  return text;
}

// A single time is not known more exactly than the clock's step.
std::string cycles_text(uint64_t cycles, const std::optional<profile::LatencyCalibration>& clock) {
  if (clock && static_cast<double>(cycles) < clock->resolution)
    return fmt::format("<{:.0f}", clock->resolution);
  return fmt::format("{}", cycles);
}

std::string data_text(const profile::DataPlace& place, size_t columns) {
  if (place.module.empty()) return fmt::format("{:#x}", place.offset);
  return fit(printable(file_name(place.module)) + fmt::format("+{:#x}", place.offset), columns);
}

std::string value_text(const profile::HotArgument& of, uint64_t value) {
  return profile::value_text(of.type(), value);
}

std::string top_values(const profile::HotValue& v, size_t columns) {
  const profile::HotFigures& f = v.figures;
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, f.values.size()); i++)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", percent(f.values[i].share),
                        hot_value_text(v, f.values[i].value));
  return fit(text, columns);
}

std::string stride_text(const profile::HotValue& v) {
  return profile::is_float(v.type) ? "-" : percent(v.figures.stride_share);
}

}  // namespace

void Renderer::contexts() {
  const auto& listed = profile_.hotlists.contexts;
  if (listed.empty()) return;
  const auto rows = certain(listed, &profile::HotContext::share, &profile::HotContext::share_error);
  if (is_left_out("contexts", listed.size(), rows.size())) return;
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

// A place in the same function as `before`: what differs of its line, or its address.
std::string Renderer::position_after(const Place& before, const Place& at) const {
  if (at.file.empty()) return fmt::format("+{:#x}", offsets_.of(at).value_or(at.offset));
  if (at.file == before.file) return fmt::format("line {}", at.line);
  return source(at);
}

void Renderer::edges() {
  const auto& all = profile_.hotlists.edges;
  const auto rows = certain(all, &profile::HotEdge::share, &profile::HotEdge::share_error);
  if (all.empty() || is_left_out("edges", all.size(), rows.size())) return;
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

std::string Renderer::load_text(const profile::HotLoad& load, size_t columns) const {
  if (load.by == profile::LoadKind::move) return point_of(load.at, columns);
  const std::string kind = fmt::format(" ({})", profile::to_string(load.by));
  return point_of(load.at, columns - kind.size()) + kind;
}

void Renderer::loads() {
  const auto& all = profile_.hotlists.load_latency;
  if (all.empty()) return;
  const auto& clock = profile_.run.host.latency;
  std::vector<const profile::HotLoad*> rows;
  // What others lose may be nothing, by what is known of their times.
  for (const profile::HotLoad& load : all)
    if (load.lost_cycles > 0) rows.push_back(&load);
  if (is_left_out("slow loads", all.size(), rows.size())) return;
  heading("Slow loads (by cycles lost)");
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
    const profile::HotLoad& l = *rows[i];
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
      line(fit(fmt::format("           DRAM in {}: {} at stride {}; prefetch",
                           percent(l.classes[3]), profile::to_string(l.kind), l.stride),
               columns_));
  }
  more(std::min(options_.limit, rows.size()), all.size(), profile_.tables.latencies.size(),
       all.size() - rows.size());
}

// A page or value in a column of its own, and the load behind it.
std::string Renderer::of_load(std::string what, const std::optional<Place>& load) const {
  constexpr size_t kColumn = 20, kFigures = 26;
  if (!load) return what;
  what.resize(std::max(what.size(), kColumn), ' ');
  const size_t used = kFigures + what.size() + 2;
  return what + "  " + point_of(*load, columns_ - std::min(columns_, used));
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
      line(fmt::format(
          "{:>7} {:>8} {:>7}  {}", profile::to_string(values[i].level),
          short_count(values[i].count), percent(values[i].share),
          of_load(profile::value_text(values[i].type, values[i].value), values[i].load)));
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

// Each pair has a second line: the earlier access, where there is one.
void Renderer::access_pairs(std::string_view title, const std::vector<profile::HotAccessPair>& rows,
                            size_t all) {
  if (rows.empty()) return;
  heading(title);
  constexpr size_t kFigures = 43, kKind = 25;
  line(fmt::format("   count   share{}  insns  kind              access",
                   margins_ ? " +-   " : ""));
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotAccessPair& p = rows[i];
    const auto access = [&](const Place& place, const std::string& instruction, size_t used) {
      const size_t room = columns_ - std::min(columns_, used);
      const std::string at = point_of(place, room);
      if (instruction.empty() || at.size() + 4 > room) return at;
      return at + "  " + fit(printable(instruction), room - at.size() - 2);
    };
    const std::string distance = p.from ? fmt::format("{:.0f}", p.mean_distance) : "";
    line(colored(p.share, fmt::format("{:>8} {:>7}{} {:>6}  {:<16}", short_count(p.count),
                                      percent(p.share), margin(p.share_error), distance,
                                      profile::to_string(p.kind))) +
         "  " + access(p.to, p.to_instruction, kFigures + margin_columns()));
    if (p.from)
      line(std::string(kKind + margin_columns(), ' ') + fmt::format("{:<16}  ", "after") +
           access(*p.from, p.from_instruction, kFigures + margin_columns()));
  }
  more(std::min(options_.limit, rows.size()), rows.size(), all);
}

// "0-7, 16".
std::string ranges_of(const std::vector<uint32_t>& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    size_t end = i + 1;
    while (end < bytes.size() && bytes[end] == bytes[end - 1] + 1) end++;
    text += text.empty() ? "" : ", ";
    text +=
        end == i + 1 ? fmt::format("{}", bytes[i]) : fmt::format("{}-{}", bytes[i], bytes[end - 1]);
    i = end;
  }
  return text;
}

// Each pair has a second line for the other thread's access, and a third one for the cache line.
void Renderer::sharing() {
  const auto& rows = profile_.hotlists.sharing;
  if (rows.empty()) return;
  heading("Cache lines shared by threads (by hand-overs, at most)");
  constexpr size_t kFigures = 41;
  line("   count stretches  lines  kind   access");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotSharing& s = rows[i];
    const size_t room = columns_ - std::min(columns_, kFigures);
    const auto access = [&](const Place& place, const std::string& instruction) {
      const std::string at = point_of(place, room);
      if (instruction.empty() || at.size() + 4 > room) return at;
      return at + "  " + fit(printable(instruction), room - at.size() - 2);
    };
    const std::string lines =
        fmt::format("{}{}", s.lines, s.lines == profile::kMostSharedLines ? "+" : "");
    line(fmt::format("{:>8} {:>9} {:>6}  {:<6} ", short_count(s.count), short_count(s.stretches),
                     lines, s.kind == profile::SharingKind::true_sharing ? "true" : "false") +
         access(s.from, s.from_instruction));
    line(fmt::format("{:>34}", "and ") + access(s.to, s.to_instruction));
    line(fmt::format("{:>34}", "in ") +
         fit(fmt::format("{}, bytes {} and {}", data_text(s.line, room), ranges_of(s.from_bytes),
                         ranges_of(s.to_bytes)),
             room));
  }
  more(std::min(options_.limit, rows.size()), rows.size(), profile_.tables.sharing.size());
}

// What is to be done with a stream, and what its loads take; "" where nothing is known.
std::string Renderer::stream_advice(const profile::HotDataStream& s) const {
  std::string text = printable(s.advice);
  if (!s.mean_cycles) return text;
  return text + fmt::format("{}its loads take {:.0f} cycles", text.empty() ? "" : "; ",
                            *s.mean_cycles);
}

// Below the figures the instructions with most of the references have a line each, and the advice.
void Renderer::data_streams() {
  constexpr size_t kMostInsns = 6, kIndent = 11;
  const auto& all = profile_.hotlists.data_streams;
  if (all.empty()) return;
  const auto rows =
      certain(all, &profile::HotDataStream::share, &profile::HotDataStream::share_error);
  heading("Hot data streams (by references)");
  if (const auto part = streams_seen(profile_.coverage.streams)) sentence(*part);
  line(margins_ ? "  share ±      streams    times  length   lines  within  order"
                : "  share  streams    times  length   lines  within  order");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotDataStream& s = *rows[i];
    const std::string stride = s.order == profile::StreamOrder::strided
                                   ? fmt::format(" by {} lines", s.stride_lines)
                                   : "";
    line(colored(s.share, fmt::format("{:>7}{} {:>8} {:>8} {:>7} {:>7} {:>7}", percent(s.share),
                                      margin(s.share_error), short_count(s.streams),
                                      short_count(s.occurrences), s.length, s.lines,
                                      short_count(s.span_lines))) +
         "  " + profile::to_string(s.order) + fit(stride, 16));
    std::vector<profile::HotDataStream::Instruction> insns = s.instructions;
    std::ranges::stable_sort(insns, std::greater{},
                             &profile::HotDataStream::Instruction::references);
    for (size_t k = 0; k < std::min(kMostInsns, insns.size()); k++) {
      const auto& insn = insns[k];
      const std::string at = point_of(insn.at, columns_ - kIndent);
      const size_t room = columns_ - kIndent - std::min(columns_ - kIndent, width(at));
      const bool fits = !insn.disassembly.empty() && room >= 8;
      line(std::string(kIndent, ' ') + at +
           (fits ? "  " + fit(printable(insn.disassembly), room - 2) : ""));
    }
    if (s.instructions.size() > kMostInsns)
      line(fmt::format("{:{}}and {} more instructions", "", kIndent,
                       s.instructions.size() - kMostInsns));
    if (const std::string advice = stream_advice(s); !advice.empty())
      line(fit(std::string(kIndent, ' ') + advice, columns_));
  }
  more(std::min(options_.limit, rows.size()), all.size(), profile_.tables.streams.size(),
       all.size() - rows.size());
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

// Time is what the paths are in the order of, where it is known.
void Renderer::paths() {
  const auto& all = profile_.hotlists.paths;
  if (all.empty()) return;
  const bool by_time = profile_.time.is_known();
  std::vector<const profile::HotPath*> rows;
  for (const profile::HotPath& p : all)
    if ((by_time && p.time.share > 0 && profile::is_certain(p.time.share, p.time.error)) ||
        is_certain(p.share, p.share_error))
      rows.push_back(&p);
  if (is_left_out("paths", all.size(), rows.size())) return;
  heading(fmt::format("Hot paths (by {})", by_time ? "processor time" : "instructions"));
  // Routes are long: where the terminal is not, they have the second line, else the first.
  const bool narrow = columns_ < 98;
  line(fmt::format("{}{}flow    count    instr  blocks  {}", by_time ? "   time " : "",
                   margins_ ? "  share ±       " : "  share    ",
                   narrow ? "from; route" : "route"));
  const size_t room = columns_ - 43 - margin_columns() - (by_time ? 8 : 0);
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotPath& p = *rows[i];
    const std::string figures =
        fmt::format("{}{:>7}{} {:>7} {:>8} {:>8} {:>7}",
                    by_time ? fmt::format("{:>7} ", percent(p.time.share)) : "", percent(p.share),
                    margin(p.share_error), percent(p.flow), short_count(p.count),
                    short_count(p.instructions), p.blocks.size());
    const std::string from = p.from ? point_of(*p.from, narrow ? room : columns_ - 15) : "";
    line(colored(by_time ? p.time.share : p.share, figures) + "  " +
         (narrow ? from : fit(route(p.blocks), room)));
    if (narrow)
      line("          " + fit(route(p.blocks), columns_ - 10));
    else if (p.from)
      line("          from " + from);
  }
  more(std::min(options_.limit, rows.size()), all.size(), profile_.tables.paths.size(),
       all.size() - rows.size());
}

void Renderer::values() {
  const auto& all = profile_.hotlists.values;
  const auto rows = certain_figures(all);
  if (all.empty() || is_left_out("values", all.size(), rows.size())) return;
  heading("Values (* semi-invariant: hot, and mostly one value)");
  line(margins_ ? "    count  top value ±      zero   same  stride distinct  instruction"
                : "    count  top value  zero   same  stride distinct  instruction");
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotValue& v = *rows[i];
    const profile::HotFigures& f = v.figures;
    line(colored(f.invariance, fmt::format("{:>8} {}{:>6}{} {:>7} {:>7} {:>7} {:>7}",
                                           short_count(f.count), v.semi_invariant ? '*' : ' ',
                                           percent(f.invariance), margin(f.invariance_error),
                                           percent(f.zero_share), percent(f.last_value_share),
                                           stride_text(v), short_count(f.distinct))) +
         "  " + point_of(v.at, columns_ - 52 - margin_columns()));
    if (v.context) line("           returning to " + point_of(*v.context, columns_ - 24));
    const std::string code = printable(v.disassembly) + part_text(v);
    const size_t code_columns = std::clamp<size_t>(code.size(), 30, 38);
    std::string detail = "           " + left(code, code_columns) + " " +
                         top_values(v, columns_ - 14 - code_columns);
    line(fit(detail, columns_));
    if (v.semi_invariant && !f.values.empty())
      line(fit(fmt::format("           semi-invariant: {} are {}{}{}", percent(f.invariance),
                           hot_value_text(v, f.values[0].value),
                           v.is_address       ? ", an address of this run"
                           : v.advice.empty() ? ""
                                              : "; ",
                           v.is_address ? "" : printable(v.advice)),
               columns_));
  }
  more(std::min(options_.limit, rows.size()), all.size(), profile_.tables.values.size(),
       all.size() - rows.size());
}

void Renderer::arguments() {
  const auto& all = profile_.hotlists.arguments;
  const auto rows = certain_figures(all);
  if (all.empty() || is_left_out("arguments", all.size(), rows.size())) return;
  heading("Arguments (by calls with the top value)");
  line("    count  top value             call site -> function, register");
  constexpr size_t kFigures = 37, kLeastNames = 16;  // columns, the arrow included
  for (size_t i = 0; i < std::min(options_.limit, rows.size()); i++) {
    const profile::HotArgument& a = *rows[i];
    const std::string top =
        a.figures.values.empty() ? "" : value_text(a, a.figures.values[0].value);
    const std::string what = fit(", " + printable(a.reg) + (a.is_size ? " size" : "") +
                                     (a.advice.empty() ? "" : "; " + printable(a.advice)),
                                 columns_ - kFigures - kLeastNames);
    const size_t room = columns_ - kFigures - width(what);
    const std::string callee = function_or_address(a.callee, room / 2);
    line(colored(a.figures.invariance,
                 fmt::format("{:>8} {:>7} {:<14}", short_count(a.figures.count),
                             percent(a.figures.invariance), fit(top, 14))) +
         "  " + beside(a.site, callee, room) + " -> " + callee + what);
  }
  more(std::min(options_.limit, rows.size()), all.size(), profile_.tables.arguments.size(),
       all.size() - rows.size());
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
    const std::string to = function_or_address(t.targets[0].to, room / 2);
    line(colored(t.targets[0].share,
                 fmt::format("{:>8} {:>7} {:>7}", short_count(t.count), short_count(t.distinct),
                             percent(t.targets[0].share))) +
         "  " + beside(t.at, to, room) + " -> " + to);
  }
}

}  // namespace shadowprof::report

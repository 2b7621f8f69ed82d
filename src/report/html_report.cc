// SPDX-License-Identifier: MIT
#include "report/html_report.h"

#include <algorithm>
#include <string_view>

#include "profile/evidence.h"
#include "report/columns.h"
#include "report/html_assets.h"
#include "report/html_data.h"
#include "report/leads.h"
#include "report/plugin_text.h"
#include "report/probe_text.h"
#include "report/value_text.h"

namespace shadowprof::report {

using profile::Place;
using profile::Profile;

namespace {

constexpr size_t kLongestText = 400;
constexpr size_t kMostBlocks = 120;  // of a path
constexpr size_t kMostCalls = 80;    // kinds of system calls
constexpr size_t kMostThreads = 1000;
constexpr size_t kMostOfThread = 8;  // functions
constexpr size_t kMostFindings = 8;

HtmlJson pairs_of(const std::map<std::string, uint64_t>& counts) {
  HtmlJson json = HtmlJson::array();
  for (const auto& [name, count] : counts) json.push_back({page_text(name), count});
  return json;
}

HtmlJson timeline_of(const profile::Timeline& timeline) {
  HtmlJson json = HtmlJson::array();
  for (const profile::TimelineRow& row : timeline)
    json.push_back({row.at_us, row.samples, row.instructions, row.paused_us});
  return json;
}

std::string place_text(const Place& p, const FunctionOffsets& offsets) {
  if (const auto into = offsets.of(p)) return page_text(point(p, kLongestText, into));
  const std::string line = source(p);
  const std::string where = line.empty() ? fmt::format("{}+{:#x}", module_name(p), p.offset) : line;
  if (p.function.empty()) return page_text(where);
  return page_text(function_or_address(p)) + "  " + page_text(where);
}

// As text: the script's numbers have 53 bits.
HtmlJson shares_of(const profile::HotArgument& a) {
  HtmlJson json = HtmlJson::array();
  for (const profile::ValueShare& v : a.figures.values)
    json.push_back({profile::value_text(a.type(), v.value), v.share});
  return json;
}

HtmlJson shares_of(const profile::HotValue& of) {
  HtmlJson json = HtmlJson::array();
  for (const profile::ValueShare& v : of.figures.values)
    json.push_back({hot_value_text(of, v.value), v.share});
  return json;
}

HtmlJson histogram_of(const Profile& profile, const profile::HotLoad& load) {
  HtmlJson json = HtmlJson::array();
  for (const profile::LatencyRow& row : profile.tables.latencies) {
    if (row.at.offset != load.at.offset || profile.modules[row.at.module].path != load.at.module)
      continue;
    for (const auto& [bucket, count] : row.histogram)
      json.push_back({profile::bucket_begin(bucket), count});
    break;
  }
  return json;
}

void put(std::string& page, std::string_view mark, std::string_view content) {
  const size_t at = page.find(mark);
  page.replace(at, mark.size(), content);
}

// In a script element only "<" could end the data or begin a comment.
std::string embedded(const HtmlJson& json) {
  const std::string text = json.dump(-1, ' ', false, HtmlJson::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string page_text(std::string_view text) {
  return fit(printable(text.substr(0, 4 * kLongestText)), kLongestText);
}

std::string page_name(const std::string& name) {
  return page_text(function_or_address({"", 0, name, "", 0}));
}

namespace {

// Null: not known.
HtmlJson summary_of(const profile::Coverage& c) {
  const bool is_share_known = c.share() && !c.assumed_total;
  return {{"samples", c.samples},
          {"profiled", c.instructions_profiled},
          {"total", c.assumed_total ? HtmlJson(nullptr) : HtmlJson(c.instructions_total)},
          {"estimated", c.estimated},
          {"share", is_share_known ? HtmlJson(*c.share()) : HtmlJson(nullptr)},
          {"attributed", c.attributed},
          {"ended", pairs_of(c.ended)},
          {"dropped", pairs_of(c.dropped)},
          {"events", pairs_of(c.events)}};
}

HtmlJson summary_of(const profile::Overhead& o) {
  return {{"budget", o.budget_share},
          {"share", o.estimated_share},
          {"pause", {o.pause_s.total, o.pause_s.max, o.pause_s.p50, o.pause_s.p99}},
          {"forks", o.forks},
          {"faults", o.extra_faults},
          {"engine_cpu_s", o.engine_cpu_s},
          {"collector_cpu_s", o.collector_cpu_s},
          {"program_cpu_s", o.program_cpu_s},
          {"blocks", o.translated_blocks},
          {"translation_s", o.translation_s},
          {"stops", pairs_of(o.stops)},
          {"timeline", timeline_of(o.timeline)}};
}

// Where the time of each thread went, the most first.
HtmlJson threads_of(const Profile& p) {
  std::vector<std::map<std::string, uint64_t>> times(p.threads.size());
  for (const profile::TimeRow& row : p.tables.time)
    if (const profile::Function* f = profile::find_function(p.functions, row.at))
      times[row.thread][f->name] += row.user_ns + row.kernel_ns;
  const auto in_seconds = [](uint64_t ns) { return 1e-9 * static_cast<double>(ns); };
  HtmlJson json = HtmlJson::array();
  if (p.threads.size() < 2) return json;
  for (size_t i = 0; i < std::min(p.threads.size(), kMostThreads); i++) {
    std::vector<std::pair<uint64_t, std::string>> order;
    for (const auto& [name, ns] : times[i]) order.emplace_back(ns, name);
    std::sort(order.rbegin(), order.rend());
    if (order.size() > kMostOfThread) order.resize(kMostOfThread);
    HtmlJson functions = HtmlJson::array();
    for (const auto& [ns, name] : order) functions.push_back({page_name(name), in_seconds(ns)});
    const profile::ThreadRow& t = p.threads[i];
    json.push_back({t.tid, t.process, page_text(t.name), in_seconds(t.user_ns),
                    in_seconds(t.kernel_ns), std::move(functions)});
  }
  return json;
}

}  // namespace

HtmlJson page_summary(const Profile& p) {
  std::string command;
  for (const std::string& word : p.run.command)
    command += (command.empty() ? "" : " ") + page_text(word);
  std::string end = "still running when the profile was written";
  if (p.run.exit)
    end = fmt::format("{} {}", p.run.exit->signalled ? "killed by signal" : "exit status",
                      p.run.exit->value);
  if (!p.run.merged.empty()) end = fmt::format("{} runs merged", p.run.merged.size());
  if (const auto part = profile::part_sampled(p)) end += "; " + page_text(*part);
  if (const auto part = profile::why_incomplete(p)) end += "; " + page_text(*part);
  HtmlJson options = HtmlJson::array(), calls = HtmlJson::array();
  for (const auto& [name, value] : p.run.options)
    options.push_back({page_text(name), page_text(value)});
  for (const auto& [name, c] : p.syscalls.by_name)
    if (calls.size() < kMostCalls) calls.push_back({page_text(name), c.count, c.ended});
  HtmlJson json = {{"tool", page_text(p.tool_version)}, {"exact", p.confidence.exact}};
  json["advice"] = page_text(profile::evidence_of(p).advice);
  json["notes"] = HtmlJson::object();
  if (const auto part = streams_seen(p.coverage.streams)) json["notes"]["Data streams"] = *part;
  json["run"] = {{"command", fit(command, 2000)},          {"mode", page_text(p.run.mode)},
                 {"engine", page_text(p.run.engine)},      {"started", page_text(p.run.started)},
                 {"duration_s", p.run.duration_s},         {"end", end},
                 {"options", std::move(options)},          {"cpu", page_text(p.run.host.cpu)},
                 {"kernel", page_text(p.run.host.kernel)}, {"cores", p.run.host.cores}};
  if (const auto& latency = p.run.host.latency) {
    json["run"]["typical_cycles"] = latency->typical;
    json["run"]["clock_step"] = latency->resolution;
    json["run"]["doubtful_cycles"] = latency->is_doubtful();
  }
  json["time"] = nullptr;
  if (p.time.is_known())
    json["time"] = {{"total_s", std::max(1e-9, p.time.seconds())},
                    {"kernel_s", p.time.kernel_s},
                    {"waiting_s", p.time.waiting_s},
                    {"queued_s", p.time.queued_s},
                    {"ticks", p.time.ticks}};
  json["threads"] = threads_of(p);
  json["coverage"] = summary_of(p.coverage);
  json["overhead"] = summary_of(p.overhead);
  json["syscalls"] = {{"classes", pairs_of(p.syscalls.by_class)}, {"names", std::move(calls)}};
  json["sizes"] = {{"functions", p.functions.size()},
                   {"blocks", p.tables.blocks.size()},
                   {"inlined", p.inlined.size()},
                   {"edges", p.tables.edges.size()},
                   {"calls", p.tables.calls.size()},
                   {"contexts", p.tables.contexts.size()},
                   {"paths", p.tables.paths.size()},
                   {"loads", p.tables.latencies.size()},
                   {"values", p.tables.values.size()},
                   {"load_pages", p.tables.latency_pages.size()},
                   {"load_values", p.tables.latency_values.size()},
                   {"hazards", p.tables.hazards.size()},
                   {"waste", p.tables.waste.size()},
                   {"sharing", p.tables.sharing.size()},
                   {"data_streams", p.tables.streams.size()},
                   {"probes", p.tables.probes.size()},
                   {"plugins", p.tables.plugins.size()},
                   {"arguments", p.tables.arguments.size()},
                   {"targets", p.hotlists.targets.size()}};
  return json;
}

namespace {

// "" of an integer in a general-purpose register.
std::string type_text(const profile::HotValue& v) {
  const bool number = profile::is_float(v.type);
  if (!number && v.elements == 0) return "";
  const std::string type = number ? profile::to_string(v.type) : fmt::format("i{}", v.bits);
  return v.elements == 0 ? type : fmt::format("{}, 1st of {}", type, v.elements);
}

std::string data_text(const profile::DataPlace& place) {
  if (place.module.empty()) return fmt::format("{:#x}", place.offset);
  return page_text(fmt::format("{}+{:#x}", place.module, place.offset));
}

// A page that the loads of one class and instruction went to, or a value that they got.
template <typename Row>
HtmlJson slow_loads(const Row& row, const std::string& what, const FunctionOffsets& offsets) {
  return {profile::to_string(row.level), row.count, row.share, what,
          row.load ? place_text(*row.load, offsets) : ""};
}

HtmlJson inlined_function(const profile::HotInlined& f) {
  return {page_text(function_or_address(f.at)),
          page_text(module_name(f.at)),
          page_text(source(f.at)),
          f.self,
          f.inclusive,
          f.places,
          page_text(f.at.function),
          f.time.user_s,
          f.time.kernel_s};
}

HtmlJson data_stream(const profile::HotDataStream& s, const FunctionOffsets& offsets) {
  HtmlJson insns = HtmlJson::array();
  for (const auto& i : s.instructions)
    insns.push_back({place_text(i.at, offsets), page_text(i.disassembly), i.references});
  return {s.share,    s.streams,           s.occurrences, s.length,
          s.lines,    s.span_lines,        profile::to_string(s.order),
          s.together, page_text(s.advice), insns};
}

HtmlJson shared_line(const profile::HotSharing& s, const FunctionOffsets& offsets) {
  return {profile::to_string(s.kind),
          s.count,
          s.stretches,
          s.lines,
          place_text(s.from, offsets),
          page_text(s.from_instruction),
          place_text(s.to, offsets),
          page_text(s.to_instruction),
          data_text(s.line),
          s.from_bytes,
          s.to_bytes};
}

// "copy  a.c:12 < main  a.c:30".
std::string probe_stack_text(const std::vector<profile::HotProbe::Number>& calls,
                             const FunctionOffsets& offsets) {
  std::string text;
  for (const profile::HotProbe::Number& call : calls) {
    if (!text.empty()) text += " < ";
    text += call.place                ? place_text(*call.place, offsets)
            : is_unknown_caller(call) ? std::string(kUnknownCaller)
                                      : probe_number(call);
  }
  return text.empty() ? kNoCaller : text;
}

// The numbers with what they are: "caller = main.c:12".
HtmlJson probe_row(const Profile& p, const profile::HotProbe& row, const FunctionOffsets& offsets) {
  HtmlJson numbers = HtmlJson::array();
  const auto probe = std::ranges::find(p.probes, row.probe, &profile::ProbeInfo::name);
  for (size_t i = 0; i < row.numbers.size(); i++) {
    const auto& number = row.numbers[i];
    const bool named = probe != p.probes.end() && i < probe->columns.size();
    const bool is_stack = probe != p.probes.end() && i + 1 == probe->stack;
    numbers.push_back({named ? page_text(probe->columns[i]) : "",
                       is_stack       ? probe_stack_text(row.stack, offsets)
                       : number.place ? place_text(*number.place, offsets)
                                      : probe_number(number)});
  }
  return {page_text(row.probe), row.share, row.share_error.value_or(0), row.count, numbers};
}

// The cells with their columns' names, and what one unit of the weight is.
HtmlJson plugin_row(const Profile& p, const profile::HotPlugin& row,
                    const FunctionOffsets& offsets) {
  HtmlJson cells = HtmlJson::array();
  const auto plugin = std::ranges::find(p.plugins, row.plugin, &profile::PluginInfo::name);
  const bool is_known = plugin != p.plugins.end();
  for (size_t i = 0; is_known && i < std::min(row.cells.size(), plugin->columns.size()); i++) {
    const auto& cell = row.cells[i];
    cells.push_back({page_text(plugin->columns[i].name),
                     cell.place ? place_text(*cell.place, offsets)
                                : page_text(plugin_cell(plugin->columns[i], cell))});
  }
  return {page_text(row.plugin), row.share, row.weight, is_known ? page_text(plugin->weight) : "",
          cells};
}

HtmlJson value_row(const profile::HotValue& v, const FunctionOffsets& offsets) {
  const profile::HotFigures& f = v.figures;
  return {place_text(v.at, offsets),
          v.context ? place_text(*v.context, offsets) : "",
          page_text(v.disassembly + (type_text(v).empty() ? part_text(v) : "")),
          f.count,
          f.invariance,
          f.zero_share,
          f.last_value_share,
          f.stride_share,
          f.distinct,
          v.semi_invariant,
          shares_of(v),
          page_text(v.advice),
          type_text(v)};
}

}  // namespace

HtmlJson page_lists(const Profile& p, const HtmlOptions& options) {
  const FunctionOffsets offsets(p);
  const auto place = [&](const Place& at) { return place_text(at, offsets); };
  HtmlJson json;
  const auto list = [&](const char* name, const auto& rows, auto make) {
    HtmlJson& out = json[name] = HtmlJson::array();
    for (const auto& row : rows)
      if (out.size() < options.rows) out.push_back(make(row));
  };
  const profile::Hotlists& h = p.hotlists;
  list("inlined", h.inlined, inlined_function);
  list("edges", h.edges, [&](const profile::HotEdge& e) -> HtmlJson {
    return {place(e.from), place(e.to), profile::to_string(e.kind), e.count, e.share};
  });
  list("calls", h.call_pairs, [&](const profile::HotCallPair& c) -> HtmlJson {
    return {place(c.site), page_text(function_or_address(c.callee)), c.indirect, c.count, c.share,
            c.inclusive};
  });
  list("contexts", h.contexts, [](const profile::HotContext& c) -> HtmlJson {
    HtmlJson frames = HtmlJson::array();
    for (const Place& f : c.frames) frames.push_back(page_text(function_or_address(f)));
    return {c.share, c.instructions, c.calls, frames};
  });
  list("paths", h.paths, [&](const profile::HotPath& x) -> HtmlJson {
    HtmlJson blocks = HtmlJson::array();
    for (const Place& b : x.blocks)
      if (blocks.size() < kMostBlocks) blocks.push_back(place(b));
    if (x.blocks.size() > kMostBlocks)
      blocks.push_back(fmt::format("and {} more", x.blocks.size() - kMostBlocks));
    return {x.share, x.flow, x.count, x.instructions, x.from ? place(*x.from) : "", blocks};
  });
  list("loads", h.load_latency, [&](const profile::HotLoad& l) -> HtmlJson {
    return {place(l.at), l.executions,      l.mean_cycles, l.p50,
            l.p99,       l.classes,         l.lost_cycles, profile::to_string(l.kind),
            l.stride,    histogram_of(p, l), std::max(l.mean_error, l.cold_error),
            profile::to_string(l.by)};
  });
  list("load_pages", h.latency_pages,
       [&](const auto& row) { return slow_loads(row, data_text(row.page), offsets); });
  list("load_values", h.latency_values, [&](const auto& row) {
    return slow_loads(row, profile::value_text(row.type, row.value), offsets);
  });
  const auto access_pair = [&](const profile::HotAccessPair& x) -> HtmlJson {
    return {profile::to_string(x.kind), x.count, x.executions, x.share, x.mean_distance,
            place(x.to), page_text(x.to_instruction), x.from ? place(*x.from) : "",
            page_text(x.from_instruction)};
  };
  list("hazards", h.hazards, access_pair);
  list("waste", h.waste, access_pair);
  list("sharing", h.sharing, [&](const auto& row) { return shared_line(row, offsets); });
  list("data_streams", h.data_streams, [&](const auto& row) { return data_stream(row, offsets); });
  list("probes", h.probes, [&](const auto& row) { return probe_row(p, row, offsets); });
  list("plugins", h.plugins, [&](const auto& row) { return plugin_row(p, row, offsets); });
  list("values", h.values, [&](const auto& row) { return value_row(row, offsets); });
  list("arguments", h.arguments, [&](const profile::HotArgument& a) -> HtmlJson {
    return {place(a.site),    page_text(function_or_address(a.callee)),
            page_text(a.reg), a.is_size,
            a.figures.count,  a.figures.invariance,
            shares_of(a),     page_text(a.advice)};
  });
  list("targets", h.targets, [&](const profile::HotTargets& t) -> HtmlJson {
    HtmlJson to = HtmlJson::array();
    for (const profile::TargetShare& s : t.targets) to.push_back({place(s.to), s.share});
    return {place(t.at), profile::to_string(t.kind), t.count, t.distinct, to};
  });
  return json;
}

HtmlJson page_findings(const Profile& p, const symbols::ModuleSet& modules) {
  const FunctionOffsets offsets(p);
  HtmlJson rows = HtmlJson::array();
  for (const Lead& lead : find_leads(p, kMostFindings, &modules))
    rows.push_back({lead.stake, lead.at ? place_text(*lead.at, offsets) : "",
                    lead.at ? page_text(lead.at->function) : "",
                    page_text((lead.is_maybe ? "maybe: " : "") + lead.text)});
  return {{"of", unit_of_stakes(p)}, {"rows", std::move(rows)}};
}

std::string page_with(const HtmlJson& data, std::string_view script) {
  std::string page = html::kPage;
  put(page, "@STYLE@", html::kStyle);
  // The data last: it may hold the other marks.
  put(page, "@SCRIPT@", fmt::format("{}{}{}{}", html::kCore, html::kLists, html::kFlames, script));
  put(page, "@DATA@", embedded(data));
  return page;
}

std::string render_html(const Profile& profile, const symbols::ModuleSet& modules,
                        const HtmlOptions& options) {
  HtmlJson json = page_summary(profile);
  json.update(page_functions(profile, modules, options));
  json["findings"] = page_findings(profile, modules);
  json["contexts"] = page_contexts(profile);
  json["time_contexts"] = page_time_contexts(profile, modules);
  json["lists"] = page_lists(profile, options);
  return page_with(json, fmt::format("{}{}", html::kMoments, html::kReport));
}

}  // namespace shadowprof::report

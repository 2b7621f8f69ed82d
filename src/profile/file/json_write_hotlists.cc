// SPDX-License-Identifier: MIT
//
// The hotlists of a profile file: a row is an object.
#include <cmath>

#include "profile/file/json_writer.h"

namespace shadowprof::profile::json {
namespace {

using Json = OrderedJson;

Json place_json(const Place& p) {
  Json j = {{"module", p.module}, {"offset", p.offset}};
  if (!p.function.empty()) j["function"] = p.function;
  if (!p.file.empty()) j["file"] = p.file;
  if (p.line != 0) j["line"] = p.line;
  return j;
}

void add_margin(Json& j, const char* name, const Margin& margin) {
  if (margin) j[name] = *margin;
}

void add_time(Json& j, const RowTime& t) {
  if (t.user_s + t.kernel_s == 0 && t.error == 0) return;
  j["time_s"] = t.user_s;
  j["time_share"] = t.share;
  j["time_error"] = t.error;
  j["kernel_s"] = t.kernel_s;
  if (t.cycles_per_insn > 0) j["cycles_per_instruction"] = t.cycles_per_insn;
}

Json row_json(const HotMethod& m) {
  Json j = {{"rank", m.rank}};
  j.update(place_json(m.at));
  j["self_instructions"] = m.self;
  j["inclusive_instructions"] = m.inclusive;
  j["self_share"] = m.self_share;
  add_margin(j, "self_share_error", m.self_share_error);
  j["inclusive_share"] = m.inclusive_share;
  j["invocations"] = m.invocations;
  j["loop_iterations"] = m.loop_iterations;
  add_time(j, m.time);
  return j;
}

Json row_json(const HotInlined& f) {
  Json j = {{"rank", f.rank}, {"module", f.at.module}, {"function", f.at.function}};
  if (!f.at.file.empty()) j["file"] = f.at.file;
  if (f.at.line != 0) j["line"] = f.at.line;
  j["self_instructions"] = f.self;
  j["inclusive_instructions"] = f.inclusive;
  j["self_share"] = f.self_share;
  add_margin(j, "self_share_error", f.self_share_error);
  j["inclusive_share"] = f.inclusive_share;
  j["places"] = f.places;
  add_time(j, f.time);
  return j;
}

Json row_json(const HotCallPair& c) {
  Json j = {{"rank", c.rank},
            {"from", place_json(c.site)},
            {"to", place_json(c.callee)},
            {"indirect", c.indirect},
            {"count", c.count},
            {"share", c.share},
            {"inclusive_instructions", c.inclusive}};
  add_margin(j, "share_error", c.share_error);
  return j;
}

Json row_json(const HotContext& c) {
  Json j = {
      {"rank", c.rank}, {"instructions", c.instructions}, {"share", c.share}, {"calls", c.calls}};
  add_margin(j, "share_error", c.share_error);
  Json& frames = j["frames"] = Json::array();
  for (const Place& frame : c.frames) frames.push_back(place_json(frame));
  return j;
}

Json row_json(const HotEdge& e) {
  Json j = {{"rank", e.rank},         {"from", place_json(e.from)},
            {"to", place_json(e.to)}, {"kind", to_string(e.kind)},
            {"count", e.count},       {"share", e.share}};
  add_margin(j, "share_error", e.share_error);
  return j;
}

void add_figures_json(Json& j, const HotFigures& f, ValueType type) {
  j["count"] = f.count;
  j["invariance"] = f.invariance;
  add_margin(j, "invariance_error", f.invariance_error);
  j["zero_share"] = f.zero_share;
  j["last_value_share"] = f.last_value_share;
  j["stride_share"] = f.stride_share;
  j["distinct"] = f.distinct;
  if (f.distinct_error != 0) j["distinct_error"] = f.distinct_error;
  if (f.estimated) j["estimated"] = true;
  Json& values = j["values"] = Json::array();
  for (const ValueShare& v : f.values) {
    values.push_back({{"value", v.value}, {"count", v.count}, {"share", v.share}});
    const auto number = number_from(type, v.value);
    if (number && std::isfinite(*number)) values.back()["as_double"] = *number;
  }
}

Json row_json(const HotValue& v) {
  Json j = {{"rank", v.rank}};
  j.update(place_json(v.at));
  if (v.context) j["context"] = place_json(*v.context);
  if (!v.disassembly.empty()) j["disassembly"] = v.disassembly;
  j["part"] = to_string(v.part);
  j["bits"] = v.bits;
  j["type"] = to_string(v.type);
  if (v.elements != 0) j["elements"] = v.elements;
  j["semi_invariant"] = v.semi_invariant;
  if (v.is_address) j["is_address"] = true;
  if (!v.advice.empty()) j["advice"] = v.advice;
  add_figures_json(j, v.figures, v.type);
  return j;
}

Json row_json(const HotArgument& a) {
  Json j = {{"rank", a.rank},
            {"from", place_json(a.site)},
            {"to", place_json(a.callee)},
            {"register", a.reg},
            {"is_size", a.is_size}};
  if (a.is_address) j["is_address"] = true;
  if (!a.advice.empty()) j["advice"] = a.advice;
  add_figures_json(j, a.figures, a.type());
  return j;
}

Json row_json(const HotTargets& t) {
  Json j = {{"rank", t.rank}};
  j.update(place_json(t.at));
  j["kind"] = to_string(t.kind);
  j["count"] = t.count;
  j["distinct"] = t.distinct;
  Json& targets = j["targets"] = Json::array();
  for (const TargetShare& to : t.targets)
    targets.push_back({{"to", place_json(to.to)}, {"count", to.count}, {"share", to.share}});
  return j;
}

void add_data_place(Json& j, const DataPlace& p) {
  if (!p.module.empty()) j["module"] = p.module;
  j[p.module.empty() ? "address" : "offset"] = p.offset;
}

Json row_json(const HotLatencyPage& p) {
  Json j = {{"rank", p.rank}, {"class", to_string(p.level)}};
  add_data_place(j, p.page);
  j["count"] = p.count;
  j["share"] = p.share;
  if (p.load) j["load"] = place_json(*p.load);
  return j;
}

Json row_json(const HotLatencyValue& v) {
  Json j = {{"rank", v.rank},
            {"class", to_string(v.level)},
            {"value", v.value},
            {"count", v.count},
            {"share", v.share}};
  if (v.load) j["load"] = place_json(*v.load);
  return j;
}

Json row_json(const HotCacheLine& l) {
  Json j = {{"rank", l.rank}};
  add_data_place(j, l.line);
  j["loads"] = l.loads;
  j["stores"] = l.stores;
  j["share"] = l.share;
  return j;
}

Json row_json(const HotAccessPair& p) {
  Json j = {{"rank", p.rank}, {"kind", to_string(p.kind)}};
  if (p.from) j["from"] = place_json(*p.from);
  j["to"] = place_json(p.to);
  if (!p.from_instruction.empty()) j["from_instruction"] = p.from_instruction;
  if (!p.to_instruction.empty()) j["to_instruction"] = p.to_instruction;
  j["count"] = p.count;
  j["executions"] = p.executions;
  j["share"] = p.share;
  add_margin(j, "share_error", p.share_error);
  j["mean_distance"] = p.mean_distance;
  j["unknown"] = p.unknown;
  return j;
}

Json probe_numbers_json(const std::vector<HotProbe::Number>& all) {
  Json numbers = Json::array();
  for (const HotProbe::Number& number : all) {
    Json one = {{"number", number.number}};
    if (number.is_range) one["range"] = true;
    if (number.place) one["place"] = place_json(*number.place);
    numbers.push_back(std::move(one));
  }
  return numbers;
}

Json row_json(const HotProbe& p) {
  Json j = {{"rank", p.rank}, {"probe", p.probe}, {"count", p.count}, {"share", p.share}};
  add_margin(j, "share_error", p.share_error);
  j["numbers"] = probe_numbers_json(p.numbers);
  if (!p.stack.empty()) j["stack"] = probe_numbers_json(p.stack);
  return j;
}

Json row_json(const HotPlugin& p) {
  Json j = {{"rank", p.rank}, {"plugin", p.plugin}, {"weight", p.weight}, {"share", p.share}};
  Json& cells = j["cells"] = Json::array();
  for (const HotPlugin::Cell& cell : p.cells) {
    Json one = Json::object();
    if (cell.place)
      one["place"] = place_json(*cell.place);
    else if (cell.text)
      one["text"] = *cell.text;
    else
      one["number"] = cell.number;
    cells.push_back(std::move(one));
  }
  return j;
}

Json row_json(const HotSharing& s) {
  Json j = {{"rank", s.rank}, {"kind", to_string(s.kind)}};
  j["from"] = place_json(s.from);
  j["to"] = place_json(s.to);
  if (!s.from_instruction.empty()) j["from_instruction"] = s.from_instruction;
  if (!s.to_instruction.empty()) j["to_instruction"] = s.to_instruction;
  j["count"] = s.count;
  j["stretches"] = s.stretches;
  j["lines"] = s.lines;
  j["from_executions"] = s.from_executions;
  j["to_executions"] = s.to_executions;
  add_data_place(j, s.line);
  j["line_share"] = s.line_share;
  j["from_bytes"] = s.from_bytes;
  j["to_bytes"] = s.to_bytes;
  return j;
}

Json instruction_json(const HotDataStream::Instruction& i) {
  Json j = place_json(i.at);
  if (!i.disassembly.empty()) j["disassembly"] = i.disassembly;
  j["references"] = i.references;
  return j;
}

Json row_json(const HotDataStream& s) {
  Json j = {{"rank", s.rank}, {"heat", s.heat}, {"share", s.share}};
  add_margin(j, "share_error", s.share_error);
  j["occurrences"] = s.occurrences;
  j["streams"] = s.streams;
  j["length"] = s.length;
  j["lines"] = s.lines;
  j["span_lines"] = s.span_lines;
  j["order"] = to_string(s.order);
  if (s.order == StreamOrder::strided) j["stride_lines"] = s.stride_lines;
  j["cycle"] = s.is_cycle;
  j["together"] = s.together;
  if (!s.advice.empty()) j["advice"] = s.advice;
  if (s.mean_cycles) j["mean_cycles"] = *s.mean_cycles;
  j["instructions"] = Json::array();
  for (const auto& i : s.instructions) j["instructions"].push_back(instruction_json(i));
  j["references"] = Json::array();
  for (const StreamReference& r : s.references)
    j["references"].push_back({{"instruction", r.insn}, {"line", r.line}});
  return j;
}

Json row_json(const HotPath& p) {
  Json j = {{"rank", p.rank},
            {"count", p.count},
            {"flow", p.flow},
            {"instructions", p.instructions},
            {"share", p.share}};
  add_margin(j, "share_error", p.share_error);
  if (p.from) j["from"] = place_json(*p.from);
  Json& blocks = j["blocks"] = Json::array();
  for (const Place& block : p.blocks) blocks.push_back(place_json(block));
  add_time(j, p.time);
  return j;
}

Json row_json(const HotLoad& l) {
  Json j = {{"rank", l.rank}};
  j.update(place_json(l.at));
  j["executions"] = l.executions;
  j["timed"] = l.timed;
  j["mean_cycles"] = l.mean_cycles;
  j["mean_error"] = l.mean_error;
  j["cold_error"] = l.cold_error;
  j["instruction"] = to_string(l.by);
  j["p50"] = l.p50;
  j["p90"] = l.p90;
  j["p99"] = l.p99;
  for (size_t c = 0; c < kLatencyClasses; c++)
    j["classes"][to_string(static_cast<LatencyClass>(c))] = l.classes[c];
  j["lost_cycles"] = l.lost_cycles;
  j["address_kind"] = to_string(l.kind);
  j["stride"] = l.stride;
  return j;
}

}  // namespace

void write_hotlists(Writer& w, const char* name, const Hotlists& h) {
  w.open(name);
  for_each_hotlist([&](const char* list, auto rows, Stored, auto) {
    w.rows(list, h.*rows, [](const auto& row) { return row_json(row); });
  });
  w.close();
}

}  // namespace shadowprof::profile::json

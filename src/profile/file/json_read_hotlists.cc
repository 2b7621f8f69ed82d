// SPDX-License-Identifier: MIT
//
// The hotlists of a profile file: json_write_hotlists.cc writes them.
#include "profile/file/json_object.h"

namespace shadowprof::profile::json {
namespace {

Place read_place(const Object& o) {
  return {o.text("module"), o.count("offset"), o.text_or_empty("function"), o.text_or_empty("file"),
          o.small_or_zero("line")};
}

Margin read_margin(const Object& o, const char* name) {
  if (!o.has(name)) return std::nullopt;
  return o.number(name);
}

RowTime read_row_time(const Object& o) {
  if (!o.has("time_s")) return {};
  return {o.number("time_s"), o.number("kernel_s"), o.number("time_share"), o.number("time_error"),
          o.has("cycles_per_instruction") ? o.number("cycles_per_instruction") : 0};
}

void read_row(const Object& r, HotMethod& m) {
  m = {r.small("rank"),
       read_place(r),
       r.count("self_instructions"),
       r.count("inclusive_instructions"),
       r.number("self_share"),
       r.number("inclusive_share"),
       r.count("invocations"),
       r.count("loop_iterations"),
       read_margin(r, "self_share_error"),
       read_row_time(r)};
}

void read_row(const Object& r, HotInlined& f) {
  f.rank = r.small("rank");
  f.at.module = r.text("module");
  f.at.function = r.text("function");
  f.at.file = r.text_or_empty("file");
  if (r.has("line")) f.at.line = r.small("line");
  f.self = r.count("self_instructions");
  f.inclusive = r.count("inclusive_instructions");
  f.self_share = r.number("self_share");
  f.inclusive_share = r.number("inclusive_share");
  f.places = r.count("places");
  f.self_share_error = read_margin(r, "self_share_error");
  f.time = read_row_time(r);
}

void read_row(const Object& r, HotCallPair& c) {
  c = {r.small("rank"),
       read_place(r.object("from")),
       read_place(r.object("to")),
       r.boolean("indirect"),
       r.count("count"),
       r.number("share"),
       r.count("inclusive_instructions"),
       read_margin(r, "share_error")};
}

void read_row(const Object& r, HotContext& c) {
  c = {r.small("rank"),
       r.count("instructions"),
       r.number("share"),
       r.count("calls"),
       read_rows<Place>(r, "frames", read_place),
       read_margin(r, "share_error")};
}

void read_row(const Object& r, HotEdge& e) {
  e = {r.small("rank"),
       read_place(r.object("from")),
       read_place(r.object("to")),
       read_kind(r.text("kind"), r.where("kind")),
       r.count("count"),
       r.number("share"),
       read_margin(r, "share_error")};
}

void read_row(const Object& r, HotPath& p) {
  p = {r.small("rank"),
       r.count("count"),
       r.number("flow"),
       r.count("instructions"),
       r.number("share"),
       {},
       read_rows<Place>(r, "blocks", read_place),
       read_margin(r, "share_error"),
       read_row_time(r)};
  if (r.has("from")) p.from = read_place(r.object("from"));
}

void read_row(const Object& r, HotLoad& l) {
  l = {r.small("rank"),
       read_place(r),
       r.count("executions"),
       r.count("timed"),
       r.number("mean_cycles"),
       r.count("p50"),
       r.count("p90"),
       r.count("p99"),
       {},
       r.number("lost_cycles"),
       read_address_kind(r.text("address_kind"), r.where("address_kind")),
       0};
  const Object classes = r.object("classes");
  for (size_t c = 0; c < kLatencyClasses; c++)
    l.classes[c] = classes.number(to_string(static_cast<LatencyClass>(c)));
  l.stride = r.integer("stride");
  if (r.has("mean_error")) l.mean_error = r.number("mean_error");
  if (r.has("cold_error")) l.cold_error = r.number("cold_error");
  if (r.has("instruction")) {
    const auto by = load_kind_from(r.text("instruction"));
    if (!by) throw Bad{r.where("instruction") + " is no kind of load"};
    l.by = *by;
  }
}

LatencyClass read_class_name(const Object& r) {
  for (size_t c = 0; c < kLatencyClasses; c++)
    if (r.text("class") == to_string(static_cast<LatencyClass>(c)))
      return static_cast<LatencyClass>(c);
  throw Bad{r.where("class") + " is no class of latency"};
}

DataPlace read_data_place(const Object& r) {
  if (r.has("module")) return {r.text("module"), r.count("offset")};
  return {"", r.count("address")};
}

std::optional<Place> read_load_of(const Object& r) {
  if (!r.has("load")) return std::nullopt;
  return read_place(r.object("load"));
}

void read_row(const Object& r, HotLatencyPage& p) {
  p = {r.small("rank"),  read_class_name(r), read_data_place(r),
       r.count("count"), r.number("share"),  read_load_of(r)};
}

void read_row(const Object& r, HotLatencyValue& v) {
  v = {r.small("rank"),  read_class_name(r), r.count("value"),
       r.count("count"), r.number("share"),  read_load_of(r)};
}

void read_row(const Object& r, HotCacheLine& l) {
  l = {r.small("rank"), read_data_place(r), r.count("loads"), r.count("stores"), r.number("share")};
}

void read_row(const Object& r, HotAccessPair& p) {
  const auto kind = pair_kind_from(r.text("kind"));
  if (!kind) throw Bad{r.where("kind") + " is no kind of access"};
  p = {r.small("rank"),
       *kind,
       std::nullopt,
       read_place(r.object("to")),
       r.text_or_empty("from_instruction"),
       r.text_or_empty("to_instruction"),
       r.count("count"),
       r.count("executions"),
       r.number("share"),
       read_margin(r, "share_error"),
       r.number("mean_distance"),
       r.count("unknown")};
  if (r.has("from")) p.from = read_place(r.object("from"));
}

HotProbe::Number read_probe_number(const Object& o) {
  HotProbe::Number number;
  number.number = o.count("number");
  if (o.has("range")) number.is_range = o.boolean("range");
  if (o.has("place")) number.place = read_place(o.object("place"));
  return number;
}

void read_row(const Object& r, HotProbe& p) {
  p.rank = r.small("rank");
  p.probe = r.text("probe");
  p.count = r.count("count");
  p.share = r.number("share");
  p.share_error = read_margin(r, "share_error");
  p.numbers = read_rows<HotProbe::Number>(r, "numbers", read_probe_number);
  if (r.has("stack")) p.stack = read_rows<HotProbe::Number>(r, "stack", read_probe_number);
}

HotPlugin::Cell read_plugin_cell(const Object& o) {
  if (o.has("place")) return {.place = read_place(o.object("place"))};
  if (o.has("text")) return {.text = o.text("text")};
  return {.number = o.count("number")};
}

void read_row(const Object& r, HotPlugin& p) {
  p.rank = r.small("rank");
  p.plugin = r.text("plugin");
  p.weight = r.count("weight");
  p.share = r.number("share");
  p.cells = read_rows<HotPlugin::Cell>(r, "cells", read_plugin_cell);
}

std::vector<uint32_t> read_bytes(const Object& r, const char* name) {
  std::vector<uint32_t> bytes;
  const Numbers& numbers = r.column(name);
  for (size_t i = 0; i < numbers.size(); i++) {
    if (numbers[i] >= kCacheLineBytes) throw Bad{r.where(name) + " has a byte that no line has"};
    bytes.push_back(static_cast<uint32_t>(numbers[i]));
  }
  return bytes;
}

void read_row(const Object& r, HotSharing& s) {
  const auto kind = sharing_kind_from(r.text("kind"));
  if (!kind) throw Bad{r.where("kind") + " is no kind of sharing"};
  s = {r.small("rank"),
       *kind,
       read_place(r.object("from")),
       read_place(r.object("to")),
       r.text_or_empty("from_instruction"),
       r.text_or_empty("to_instruction"),
       r.count("count"),
       r.count("stretches"),
       r.count("lines"),
       r.count("from_executions"),
       r.count("to_executions"),
       read_data_place(r),
       r.number("line_share"),
       read_bytes(r, "from_bytes"),
       read_bytes(r, "to_bytes")};
}

HotDataStream::Instruction read_stream_instruction(const Object& o) {
  return {read_place(o), o.text_or_empty("disassembly"), o.count("references")};
}

StreamReference read_stream_reference(const Object& o) {
  return {o.small("instruction"), o.integer("line")};
}

void read_row(const Object& r, HotDataStream& s) {
  s.rank = r.small("rank");
  s.heat = r.count("heat");
  s.share = r.number("share");
  s.share_error = read_margin(r, "share_error");
  s.occurrences = r.count("occurrences");
  s.streams = r.count("streams");
  s.length = r.count("length");
  s.lines = r.count("lines");
  s.span_lines = r.count("span_lines");
  const auto order = stream_order_from(r.text("order"));
  if (!order) throw Bad{r.where("order") + " is no order of lines"};
  s.order = *order;
  if (r.has("stride_lines")) s.stride_lines = r.integer("stride_lines");
  s.is_cycle = r.boolean("cycle");
  s.together = r.number("together");
  s.advice = r.text_or_empty("advice");
  if (r.has("mean_cycles")) s.mean_cycles = r.number("mean_cycles");
  s.instructions =
      read_rows<HotDataStream::Instruction>(r, "instructions", read_stream_instruction);
  s.references = read_rows<StreamReference>(r, "references", read_stream_reference);
}

HotFigures read_hot_figures(const Object& r) {
  return {r.count("count"),
          r.number("invariance"),
          r.number("zero_share"),
          r.number("last_value_share"),
          r.number("stride_share"),
          r.count("distinct"),
          read_rows<ValueShare>(r, "values",
                                [](const Object& v) -> ValueShare {
                                  return {v.count("value"), v.count("count"), v.number("share")};
                                }),
          read_margin(r, "invariance_error"),
          r.has("estimated") && r.boolean("estimated"),
          r.count_or_zero("distinct_error")};
}

void read_row(const Object& r, HotValue& v) {
  v.rank = r.small("rank");
  v.at = read_place(r);
  if (r.has("context")) v.context = read_place(r.object("context"));
  v.disassembly = r.text_or_empty("disassembly");
  if (r.has("part")) {
    const auto part = value_part_from(r.text("part"));
    if (!part) throw Bad{r.where("part") + " is no part of an instruction"};
    v.part = *part;
  }
  v.bits = static_cast<uint8_t>(r.small("bits"));
  if (r.has("type")) {
    const auto type = value_type_from(r.text("type"));
    if (!type) throw Bad{r.where("type") + " is no type of a value"};
    v.type = *type;
  }
  if (r.has("elements")) v.elements = static_cast<uint8_t>(r.small("elements"));
  v.semi_invariant = r.boolean("semi_invariant");
  v.is_address = r.has("is_address") && r.boolean("is_address");
  v.advice = r.text_or_empty("advice");
  v.figures = read_hot_figures(r);
}

void read_row(const Object& r, HotArgument& a) {
  a = {r.small("rank"),
       read_place(r.object("from")),
       read_place(r.object("to")),
       r.text("register"),
       r.boolean("is_size"),
       r.has("is_address") && r.boolean("is_address"),
       r.text_or_empty("advice"),
       read_hot_figures(r)};
}

void read_row(const Object& r, HotTargets& t) {
  t = {r.small("rank"),
       read_place(r),
       read_kind(r.text("kind"), r.where("kind")),
       r.count("count"),
       r.count("distinct"),
       read_rows<TargetShare>(r, "targets", [](const Object& to) -> TargetShare {
         return {read_place(to.object("to")), to.count("count"), to.number("share")};
       })};
}

template <typename Row>
Row row_of(const Object& o) {
  Row row;
  read_row(o, row);
  return row;
}

template <typename Row>
void read_list(const Object& o, const char* name, Stored stored, std::vector<Row>& rows) {
  if (stored == Stored::always || o.has(name)) rows = read_rows<Row>(o, name, row_of<Row>);
}

}  // namespace

Hotlists read_hotlists(const Object& o) {
  Hotlists lists;
  for_each_hotlist([&](const char* name, auto list, Stored stored, auto) {
    read_list(o, name, stored, lists.*list);
  });
  return lists;
}

}  // namespace shadowprof::profile::json

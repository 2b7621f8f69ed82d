// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include <cmath>

#include "report/annotation.h"

namespace shadowprof::report {
namespace {

using Json = nlohmann::ordered_json;

Json value_json(const profile::ValueRow& row) {
  Json top = Json::array();
  for (const profile::ValueCount& v : row.figures.top) {
    top.push_back({{"value", v.value}, {"count", v.count}});
    const auto number = profile::number_from(row.type, v.value);
    if (number && std::isfinite(*number)) top.back()["as_double"] = *number;
  }
  Json j = {{"count", row.figures.count},
            {"invariance", row.figures.invariance()},
            {"type", profile::to_string(row.type)}};
  if (row.elements != 0) j["elements"] = row.elements;
  j["values"] = std::move(top);
  return j;
}

Json load_json(const profile::LatencyRow& row) {
  Json classes = Json::object();
  for (size_t i = 0; i < profile::kLatencyClasses; i++)
    classes[profile::to_string(static_cast<profile::LatencyClass>(i))] = row.classes[i];
  return {{"timed", row.timed},
          {"mean_cycles", row.mean()},
          {"p50", row.quantile(0.5)},
          {"p99", row.quantile(0.99)},
          {"classes", std::move(classes)}};
}

Json insn_json(const Annotation& a, const AnnotatedInsn& insn) {
  Json j = {{"handle", a.handle(insn)},
            {"offset", insn.at.offset},
            {"length", insn.length},
            {"text", insn.text},
            {"count", insn.count}};
  if (insn.line != 0) {
    j["file"] = insn.file;
    j["line"] = insn.line;
  }
  if (!insn.inlined.empty()) j["inlined"] = insn.inlined;
  if (insn.conditional()) j["taken_share"] = insn.taken_share();
  if (!insn.outcomes.empty()) {
    Json outcomes = Json::array();
    for (const Outcome& o : insn.outcomes)
      outcomes.push_back({{"kind", profile::to_string(o.kind)},
                          {"to", o.name},
                          {"offset", o.to.offset},
                          {"count", o.count}});
    j["outcomes"] = std::move(outcomes);
  }
  if (insn.load != nullptr) j["load"] = load_json(*insn.load);
  if (insn.value != nullptr) j["value"] = value_json(*insn.value);
  return j;
}

}  // namespace

std::string annotation_json(const Annotation& a) {
  Json j = {{"function", a.function.name}};
  if (!a.function.linkage_name.empty()) j["linkage_name"] = a.function.linkage_name;
  j["module"] = a.module;
  j["build_id"] = a.build_id;
  if (a.inlined) {
    j["inlined"] = true;
    if (!a.function.file.empty()) j["file"] = a.function.file;
    if (a.function.line != 0) j["line"] = a.function.line;
  } else {
    j["offset"] = a.function.at.offset;
    j["size"] = a.function.size;
  }
  j["exact"] = a.exact;
  j["instructions_executed"] = a.executed;
  if (a.inlined)
    j["self_instructions"] = a.function.self;
  else
    j["invocations"] = a.function.invocations;
  j["notes"] = a.notes;
  Json lines = Json::array();
  for (const AnnotatedLine& line : a.lines) {
    if (!line.has_code) continue;
    Json row = {{"file", line.file},
                {"line", line.line},
                {"instructions", line.instructions},
                {"executions", line.executions}};
    if (line.text) row["text"] = *line.text;
    lines.push_back(std::move(row));
  }
  j["lines"] = std::move(lines);
  for (const AnnotatedPlace& p : a.places) {
    Json place = {{"function", p.function}, {"offset", p.at.offset}};
    if (!p.file.empty()) place["file"] = p.file;
    if (p.line != 0) place["line"] = p.line;
    place["instructions"] = p.instructions;
    j["places"].push_back(std::move(place));
  }
  Json instructions = Json::array();
  for (const AnnotatedInsn& insn : a.instructions) instructions.push_back(insn_json(a, insn));
  j["instructions"] = std::move(instructions);
  return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shadowprof::report

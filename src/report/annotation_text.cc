// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/annotation.h"
#include "report/columns.h"
#include "report/text_page.h"

namespace shadowprof::report {
namespace {

using profile::EdgeKind;

// Shorter stretches without a count are shown: they say more than the sentence that replaces them.
constexpr size_t kLongStretch = 6;
constexpr size_t kMostOutcomes = 4;

std::string counted(size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// "2.0", and of a vector register what it is of: "2.0 (f64, 1st of 2)".
std::string top_value_text(const profile::ValueRow& row) {
  std::string text = profile::value_text(row.type, row.figures.top[0].value);
  if (row.elements != 0) {
    const bool number = profile::is_float(row.type);
    text += fmt::format(" ({}, 1st of {})",
                        number ? profile::to_string(row.type) : fmt::format("i{}", row.bits),
                        row.elements);
  }
  return text;
}

class AnnotationRenderer : private TextPage {
 public:
  AnnotationRenderer(const Annotation& annotation, const AnnotateOptions& options)
      : TextPage(options.color),
        a_(annotation),
        options_(options),
        columns_(std::max<size_t>(options.columns, 80)) {}

  std::string render() {
    summary();
    if (options_.view != AnnotationView::code) source_lines();
    if (options_.view != AnnotationView::source) a_.inlined ? places() : code();
    return std::move(text_);
  }

 private:
  std::string faint(const std::string& content) const {
    return options_.color ? fmt::format("\x1b[2m{}\x1b[0m", content) : content;
  }
  size_t functions() const;
  double share(uint64_t part) const {
    return a_.executed == 0 ? 0 : static_cast<double>(part) / static_cast<double>(a_.executed);
  }

  void summary();
  void source_lines();
  void places();
  void code();
  void instruction(const AnnotatedInsn& insn);
  void details(const AnnotatedInsn& insn);
  size_t idle_from(size_t i) const;

  const Annotation& a_;
  const AnnotateOptions& options_;
  size_t columns_;
};

void AnnotationRenderer::summary() {
  const profile::Function& f = a_.function;
  line(fit(printable(f.name), columns_));
  std::string where = a_.module.empty() ? "[anonymous]" : printable(a_.module);
  where += a_.inlined ? ", inlined" : fmt::format("+{:#x}, {} bytes", f.at.offset, f.size);
  if (!f.file.empty()) where += fmt::format(", {}:{}", printable(file_name(f.file)), f.line);
  line(fit(where, columns_));
  const double of_all = a_.attributed == 0
                            ? 0
                            : static_cast<double>(a_.executed) / static_cast<double>(a_.attributed);
  const std::string more = a_.inlined
                               ? fmt::format("{} of its own", short_count(f.self))
                               : fmt::format("{} calls, {} loops", short_count(f.invocations),
                                             short_count(f.loop_iterations));
  line(fit(fmt::format("{} instructions {} ({} of the profile), {}", short_count(a_.executed),
                       a_.exact ? "executed" : "profiled", percent(of_all), more),
           columns_));
  if (a_.inlined)
    line(fmt::format("in {} of {}", counted(a_.places.size(), "place"),
                     counted(functions(), "function")));
  for (const std::string& note : a_.notes) line(printable("note: " + note));
}

// That it is in.
size_t AnnotationRenderer::functions() const {
  std::set<uint64_t> offsets;
  for (const AnnotatedPlace& place : a_.places) offsets.insert(place.at.offset);
  return offsets.size();
}

void AnnotationRenderer::places() {
  heading("Places");
  line("    instr   share  function, call");
  for (const AnnotatedPlace& p : a_.places)
    line(colored(share(p.instructions), fmt::format("{:>9} {:>7}", short_count(p.instructions),
                                                    percent(share(p.instructions)))) +
         "  " + point({a_.module, p.at.offset, p.function, p.file, p.line}, columns_ - 19));
}

void AnnotationRenderer::source_lines() {
  if (a_.lines.empty()) return;
  std::string file;
  uint32_t last = 0;
  heading("Source");
  line("    instr   share    count   line");
  for (const AnnotatedLine& row : a_.lines) {
    // What ran says enough of what was inlined.
    if (row.instructions == 0 && row.file != a_.function.file && !options_.all) continue;
    if (row.file != file) {
      line(fit("  " + printable(row.file), columns_));
      file = row.file;
      last = 0;
    }
    if (last != 0 && row.line > last + 1) line(faint("                                 ..."));
    last = row.line;
    const std::string text = row.text.value_or("(not on this host)");
    if (!row.has_code) {
      line(faint(fmt::format("{:>33}  {}", row.line, fit(text, columns_ - 35))));
      continue;
    }
    const std::string figures =
        fmt::format("{:>9} {:>7} {:>8}", short_count(row.instructions),
                    percent(share(row.instructions)), short_count(row.executions));
    line(colored(share(row.instructions), figures) + fmt::format(" {:>6}  ", row.line) +
         fit(text, columns_ - 35));
  }
}

// Behind the stretch of instructions that did not execute and that begins at `i`.
size_t AnnotationRenderer::idle_from(size_t i) const {
  while (i < a_.instructions.size() && a_.instructions[i].count == 0) i++;
  return i;
}

void AnnotationRenderer::code() {
  heading("Code");
  line("    count   taken  offset  instruction");
  std::map<std::pair<std::string, uint32_t>, std::string> text_of;
  for (const AnnotatedLine& l : a_.lines)
    if (l.text) text_of[{l.file, l.line}] = *l.text;
  std::string file;
  uint32_t number = 0;
  for (size_t i = 0; i < a_.instructions.size(); i++) {
    const AnnotatedInsn& insn = a_.instructions[i];
    const size_t idle = idle_from(i);
    if (!options_.all && idle - i > kLongStretch) {
      line(faint(fmt::format("        -       {:>8}  ({} instructions that did not execute)",
                             fmt::format("+{:#x}", insn.at.offset - a_.function.at.offset),
                             idle - i)));
      i = idle - 1;
      continue;
    }
    if (insn.line != 0 && (insn.line != number || insn.file != file)) {
      file = insn.file;
      number = insn.line;
      const auto known = text_of.find({file, number});
      std::string text = fmt::format("{}:{}", printable(file_name(file)), number);
      if (known != text_of.end()) {
        const size_t begin = known->second.find_first_not_of(' ');
        if (begin != std::string::npos) text += "  " + known->second.substr(begin);
      }
      const std::string shown = fit(text, columns_);
      line(options_.color ? fmt::format("\x1b[36m{}\x1b[0m", shown) : shown);
    }
    instruction(insn);
  }
}

void AnnotationRenderer::instruction(const AnnotatedInsn& insn) {
  const std::string count = insn.count == 0 ? "-" : short_count(insn.count);
  const std::string taken = insn.conditional() ? percent(insn.taken_share()) : "";
  const std::string figures = fmt::format("{:>9} {:>7}", count, taken);
  line(colored(share(insn.count), figures) +
       fmt::format("{:>8}  ", fmt::format("+{:#x}", insn.at.offset - a_.function.at.offset)) +
       fit(printable(insn.text), columns_ - 27));
  details(insn);
}

void AnnotationRenderer::details(const AnnotatedInsn& insn) {
  const auto detail = [&](const std::string& content) {
    line(faint(fit(std::string(29, ' ') + content, columns_)));
  };
  size_t shown = 0;
  for (const Outcome& o : insn.outcomes) {
    const bool elsewhere = o.kind == EdgeKind::call || o.kind == EdgeKind::indirect_call ||
                           o.kind == EdgeKind::indirect_jump;
    if (!elsewhere) continue;
    if (++shown > kMostOutcomes) continue;
    const std::string_view verb =
        o.kind == EdgeKind::call || o.kind == EdgeKind::indirect_call ? "calls" : "jumps to";
    detail(fmt::format("{} {} ({})", verb, printable(o.name), short_count(o.count)));
  }
  if (shown > kMostOutcomes) detail(fmt::format("and {} more targets", shown - kMostOutcomes));
  if (insn.load != nullptr && insn.load->timed != 0)
    detail(fmt::format("load: mean {:.0f} cycles, p99 {}, {} from memory", insn.load->mean(),
                       insn.load->quantile(0.99),
                       percent(static_cast<double>(insn.load->classes[3]) /
                               static_cast<double>(insn.load->timed))));
  if (insn.value != nullptr && insn.value->figures.invariance() >= 0.5 &&
      insn.value->figures.count > 1)
    detail(fmt::format("value: {} in {}", top_value_text(*insn.value),
                       percent(insn.value->figures.invariance())));
}

}  // namespace

std::string render_annotation(const Annotation& annotation, const AnnotateOptions& options) {
  return AnnotationRenderer(annotation, options).render();
}

}  // namespace shadowprof::report

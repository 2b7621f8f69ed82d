// SPDX-License-Identifier: MIT
//
// The lists of the user's probes: a line for each tuple that one has counted.
#include <algorithm>

#include "report/probe_text.h"
#include "report/text_renderer.h"

namespace shadowprof::report {

using profile::HotProbe;

// As many columns as there are numbers share what the figures leave.
void Renderer::probes() {
  for (const profile::ProbeInfo& probe : profile_.probes) {
    std::vector<const HotProbe*> rows;
    for (const HotProbe& row : profile_.hotlists.probes)
      if (row.probe == probe.name) rows.push_back(&row);
    if (options_.filtered && rows.empty()) continue;
    heading("Probe " + printable(probe.name));
    line(fit("  " + printable(probe.text), columns_));
    sentence(probe_sums(probe, profile_.confidence.exact));
    if (rows.empty()) continue;
    probe_rows(probe, rows);
  }
}

// A stack's innermost call is in the line of its row, and each further one in a line below.
void Renderer::probe_rows(const profile::ProbeInfo& probe,
                          const std::vector<const HotProbe*>& rows) {
  const size_t figures = 16 + margin_columns();
  constexpr size_t kLeast = 8, kBetween = 2;
  const size_t numbers = std::max<size_t>(1, probe.columns.size());
  const size_t left_over = columns_ - std::min(columns_, figures);
  const size_t room = std::max(kLeast, left_over / numbers) - kBetween;
  std::string head = margins_ ? "  share ±        count" : "  share    count";
  for (const std::string& column : probe.columns) head += "  " + left(printable(column), room);
  while (head.ends_with(' ')) head.pop_back();
  line(head);
  const auto number_text = [&](const HotProbe::Number& number) {
    return number.place ? point_of(*number.place, room) : probe_number(number);
  };
  const auto call_text = [&](const HotProbe::Number& call) {
    return is_unknown_caller(call) ? std::string(kUnknownCaller) : number_text(call);
  };
  const size_t shown = std::min(options_.limit, rows.size());
  for (size_t i = 0; i < shown; i++) {
    const HotProbe& row = *rows[i];
    const std::string text =
        colored(row.share, fmt::format("{:>7}{} {:>8}", percent(row.share), margin(row.share_error),
                                       short_count(row.count)));
    std::string cells;
    for (size_t c = 0; c < row.numbers.size(); c++) {
      const bool is_stack = c + 1 == probe.stack;
      const std::string cell = !is_stack           ? number_text(row.numbers[c])
                               : row.stack.empty() ? std::string(kNoCaller)
                                                   : call_text(row.stack.front());
      cells += "  " + left(fit(cell, room), room);
    }
    while (cells.ends_with(' ')) cells.pop_back();
    line(text + cells);
    const size_t before = figures + (probe.stack == 0 ? 0 : probe.stack - 1) * (room + 2) + 2;
    for (size_t call = 1; call < row.stack.size(); call++)
      line(std::string(before, ' ') + fit(call_text(row.stack[call]), room));
  }
  const auto all = static_cast<size_t>(std::ranges::count_if(
      profile_.tables.probes,
      [&](const profile::ProbeRow& row) { return &profile_.probes[row.probe] == &probe; }));
  more(shown, rows.size(), all);
}

}  // namespace shadowprof::report

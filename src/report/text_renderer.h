// SPDX-License-Identifier: MIT
//
// A profile as text in the making (text_report.h): what begins it, and one function for each list.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "profile/evidence.h"
#include "profile/thread_view.h"
#include "report/columns.h"
#include "report/text_page.h"
#include "report/text_report.h"

namespace shadowprof::report {

class Renderer : private TextPage {
 public:
  Renderer(const profile::Profile& profile, const TextOptions& options)
      : TextPage(options.color),
        profile_(profile),
        options_(options),
        offsets_(profile),
        columns_(std::max<size_t>(options.columns, 80)),
        margins_(profile.confidence.groups >= 2),
        too_few_samples_(!margins_ && profile.coverage.estimated &&
                         !profile::evidence_of(profile).enough) {}

  bool estimated() const {
    const auto option = profile_.run.options.find("inclusive");
    return option != profile_.run.options.end() && option->second == "estimated";
  }

  std::string render() {
    if (options_.summary) {
      warn();
      summary();
      if (!options_.filtered) leads();
    }
    is_whole_ = true;
    methods();
    inlined();
    threads();
    call_pairs();
    contexts();
    edges();
    paths();
    loads();
    memory();
    access_pairs("Memory hazards (by count)", profile_.hotlists.hazards,
                 profile_.tables.hazards.size());
    access_pairs("Waste: dead and silent stores, repeated loads (by count)",
                 profile_.hotlists.waste, profile_.tables.waste.size());
    sharing();
    data_streams();
    probes();
    plugins();
    values();
    arguments();
    targets();
    if (!left_out_.empty()) tell_of_left_out();
    if (options_.summary && !options_.filtered) not_collected();
    return std::move(text_);
  }

  std::string render(TextList list);
  std::string render_head();
  std::string render_threads();
  std::string render_part(const profile::ThreadPart& part);
  std::vector<profile::Place> functions() const;

 private:
  // Half of the interval behind a share, in a column of its own.
  size_t margin_columns() const { return margins_ ? 6 : 0; }
  std::string margin(const profile::Margin& error) const {
    if (!margins_) return "";
    return error ? fmt::format(" {:<5}",
                               fmt::format("{:.{}f}", 100 * *error, *error < 0.00995 ? 2 : 1))
                 : std::string(6, ' ');
  }
  std::string point_of(const profile::Place& place, size_t columns) const {
    return point(place, columns, offsets_.of(place));
  }
  std::string load_text(const profile::HotLoad& load, size_t columns) const;
  std::string of_load(std::string what, const std::optional<profile::Place>& load) const;
  std::string beside(const profile::Place& place, const std::string& behind, size_t room) const;
  std::string position_after(const profile::Place& before, const profile::Place& at) const;
  std::string route(const std::vector<profile::Place>& blocks) const;
  std::vector<std::string_view> folded(std::string_view text, size_t columns) const;
  void sentence(std::string_view text);
  void warn();
  void leads();
  void summary();
  void who_and_how();
  void region(const profile::Region& region);
  void sampling();
  void error_not_reached();
  void what_samples_missed();
  void samples_that_ended_early();
  void processor_time();
  void methods();
  void methods_by_time();
  void inlined();
  template <typename Row>
  std::vector<const Row*> certain_by_self(const std::vector<Row>& all) const;
  template <typename Row>
  std::string time_figures(const Row& row, uint64_t count) const;
  std::string named(const profile::Place& at, size_t room) const;
  std::vector<uint32_t> threads_in_order() const;
  std::string time_of_thread(const profile::ThreadRow& thread) const;
  std::string code_of_thread(const profile::ThreadRow& thread) const;
  double share_of_thread(const profile::ThreadRow& thread) const;
  void threads();
  void whose(const profile::ThreadPart& part);
  void methods_of_threads();
  void call_pairs();
  void contexts();
  void edges();
  void paths();
  void loads();
  void memory();
  void access_pairs(std::string_view title, const std::vector<profile::HotAccessPair>& rows,
                    size_t all);
  void sharing();
  void data_streams();
  std::string stream_advice(const profile::HotDataStream& stream) const;
  void probes();
  void probe_rows(const profile::ProbeInfo& probe,
                  const std::vector<const profile::HotProbe*>& rows);
  void plugins();
  void plugin_rows(const profile::PluginInfo& plugin,
                   const std::vector<const profile::HotPlugin*>& rows, size_t all);
  void values();
  void arguments();
  void targets();
  void tell_of_left_out();
  bool collects(std::string_view kind) const;
  void not_collected();
  // Among `have` rows; the file's tables may hold more of them than its hotlists.
  void more(size_t shown, size_t have, size_t all, size_t uncertain = 0) {
    if (options_.filtered) all = have;
    const std::string rest =
        shown + uncertain < all ? fmt::format("... and {} more", all - shown - uncertain) : "";
    if (uncertain == 0) return rest.empty() ? void() : line("  " + rest);
    line(fmt::format("  {}{}{} more row{} not certain", rest, rest.empty() ? "" : "; ", uncertain,
                     uncertain == 1 ? " is" : "s are"));
  }
  // A list without a certain row is left out of a whole report, and named in the end.
  bool is_left_out(const char* name, size_t all, size_t certain) {
    if (!is_whole_ || all == 0 || certain != 0) return false;
    left_out_ += fmt::format("{}{} ({})", left_out_.empty() ? "" : ", ", name, all);
    return true;
  }
  // Worth a line (profile/evidence.h). Where samples are too few to tell errors nothing is, unless
  // that list alone was asked for.
  bool is_certain(double share, const profile::Margin& error) const {
    return margins_ ? profile::is_certain(share, error) : !(is_whole_ && too_few_samples_);
  }
  template <typename Row>
  std::vector<const Row*> certain(const std::vector<Row>& rows, double Row::*share,
                                  profile::Margin Row::*error) const {
    std::vector<const Row*> all;
    for (const Row& row : rows)
      if (is_certain(row.*share, row.*error)) all.push_back(&row);
    return all;
  }
  // The same of values and arguments. Of what one sample has seen alone the error is not known.
  template <typename Row>
  std::vector<const Row*> certain_figures(const std::vector<Row>& rows) const {
    std::vector<const Row*> all;
    for (const Row& row : rows) {
      const profile::HotFigures& f = row.figures;
      const bool is_known = !margins_ || f.invariance_error;
      if (is_known && is_certain(f.invariance, f.invariance_error)) all.push_back(&row);
    }
    return all;
  }

  const profile::Profile& profile_;
  const TextOptions& options_;
  FunctionOffsets offsets_;
  size_t columns_;
  bool margins_;  // shares have errors
  bool too_few_samples_;
  bool is_whole_ = false;
  std::string left_out_;  // lists
};

}  // namespace shadowprof::report

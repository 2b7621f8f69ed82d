// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "profile/hotlists/unnamed_code.h"
#include "report/annotation.h"
#include "report/columns.h"
#include "report/html_data.h"

namespace shadowprof::report {

using profile::CodeRef;
using profile::Function;
using profile::Profile;

namespace {

constexpr size_t kMostPairs = 6000;
// The most of one function: one that has more is cut, and says so.
constexpr size_t kMostInsns = 4000;
constexpr size_t kMostLines = 2500;
constexpr size_t kMostLanes = 64;  // threads
// A share of the whole profile: what is less is not worth its place on the page.
constexpr double kLeastListedShare = 0.0005;

class FunctionsOfPage {
 public:
  FunctionsOfPage(const Profile& profile, const symbols::ModuleSet& modules,
                  const HtmlOptions& options)
      : profile_(profile),
        modules_(modules),
        options_(options),
        unnamed_(profile::unnamed_code(profile)) {}

  HtmlJson make() {
    choose();
    HtmlJson pairs = call_pairs();
    HtmlJson code = annotated();
    HtmlJson course = course_of_time();
    HtmlJson rows = HtmlJson::array();
    for (const size_t i : shown_) rows.push_back(row(function(i)));
    return {{"own_list", own_list_},
            {"functions", std::move(rows)},
            {"pairs", std::move(pairs)},
            {"code", std::move(code)},
            {"course", std::move(course)}};
  }

 private:
  // Those of the profile, and behind them what is no function.
  const Function& function(size_t i) const {
    const size_t named = profile_.functions.size();
    return i < named ? profile_.functions[i] : unnamed_[i - named];
  }

  // The hottest by their own instructions, and those that most ran below.
  void choose() {
    std::vector<size_t> order(profile_.functions.size() + unnamed_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t limit = std::min(options_.rows, order.size());
    const auto take = [&](auto weight) {
      std::partial_sort(
          order.begin(), order.begin() + static_cast<ptrdiff_t>(limit), order.end(),
          [&](size_t a, size_t b) { return std::pair(weight(b), a) < std::pair(weight(a), b); });
      for (size_t i = 0; i < limit; i++) index_of(order[i]);
    };
    if (profile_.time.is_known())
      take([&](size_t i) { return function(i).user_ns + function(i).kernel_ns; });
    take([&](size_t i) { return function(i).self; });
    take([&](size_t i) { return function(i).inclusive; });
    own_list_ = shown_.size();
  }

  static constexpr size_t kNone = ~size_t{0};
  size_t number_of(CodeRef at) const {
    const Function* f = find_function(profile_.functions, at);
    return f == nullptr ? kNone : static_cast<size_t>(f - profile_.functions.data());
  }

  // Where a function is on the page; puts it there.
  int index_of(size_t function) {
    const auto [entry, added] = index_.try_emplace(function, static_cast<int>(shown_.size()));
    if (added) shown_.push_back(function);
    return entry->second;
  }

  HtmlJson course_of_time() {
    if (profile_.tables.course.empty()) return nullptr;
    const std::vector<size_t> lanes = busiest_threads();
    std::vector<int> lane_of(profile_.threads.size(), -1);
    HtmlJson threads = HtmlJson::array();
    for (const size_t thread : lanes) {
      lane_of[thread] = static_cast<int>(threads.size());
      const profile::ThreadRow& t = profile_.threads[thread];
      threads.push_back({page_text(t.name), t.tid, thread});
    }
    // What threads did that have no lane is one row for each slice and function.
    std::map<std::tuple<uint32_t, int, int>, std::pair<uint64_t, uint64_t>> sums;
    for (const profile::CourseRow& row : profile_.tables.course) {
      const size_t named = number_of(row.at);
      auto& [user, kernel] =
          sums[{row.slice, lane_of[row.thread], named == kNone ? -1 : index_of(named)}];
      user += row.user_ns;
      kernel += row.kernel_ns;
    }
    HtmlJson rows = HtmlJson::array();
    for (const auto& [key, spent] : sums)
      rows.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key),
                      1e-9 * static_cast<double>(spent.first),
                      1e-9 * static_cast<double>(spent.second)});
    return {{"slice_s", 1e-6 * static_cast<double>(profile_.time.slice_us)},
            {"threads", std::move(threads)},
            {"rows", std::move(rows)}};
  }

  std::vector<size_t> busiest_threads() const {
    std::vector<size_t> order(profile_.threads.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
      return profile_.threads[i].user_ns + profile_.threads[i].kernel_ns;
    });
    if (order.size() > kMostLanes) order.resize(kMostLanes);
    return order;
  }

  HtmlJson row(const Function& f) const {
    std::string where;
    if (!f.file.empty()) where = fmt::format("{}:{}", page_text(file_name(f.file)), f.line);
    const std::string& path = profile_.modules[f.at.module].path;
    // One made up from its offset means something with its module only.
    return {page_text(function_or_address({path, f.at.offset, f.name, "", 0})),
            path.empty() ? "[anonymous]" : page_text(file_name(path)),
            f.at.offset,
            where,
            f.self,
            f.inclusive,
            f.invocations,
            f.loop_iterations,
            page_text(f.name),
            1e-9 * static_cast<double>(f.user_ns),
            1e-9 * static_cast<double>(f.kernel_ns)};
  }

  // Call pairs by function instead of by site; of those that the page has.
  HtmlJson call_pairs() {
    struct Sum {
      uint64_t count = 0, inclusive = 0;
      bool indirect = false;
    };
    std::map<std::pair<size_t, size_t>, Sum> sums;
    for (const profile::CallPair& pair : profile_.tables.calls) {
      const size_t caller = number_of(pair.site), callee = number_of(pair.callee);
      if (!index_.contains(caller) && !index_.contains(callee)) continue;
      Sum& sum = sums[{caller, callee}];
      sum.count += pair.count;
      sum.inclusive += pair.inclusive;
      sum.indirect = sum.indirect || pair.indirect;
    }
    std::vector<std::pair<std::pair<size_t, size_t>, Sum>> rows(sums.begin(), sums.end());
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.inclusive, a.second.count) >
             std::pair(b.second.inclusive, b.second.count);
    });
    if (rows.size() > kMostPairs) rows.resize(kMostPairs);
    HtmlJson json = HtmlJson::array();
    for (const auto& [key, sum] : rows)
      json.push_back({key.first == kNone ? -1 : index_of(key.first),
                      key.second == kNone ? -1 : index_of(key.second), sum.count, sum.inclusive,
                      sum.indirect});
    return json;
  }

  HtmlJson annotated() {
    HtmlJson json = HtmlJson::object();
    SourceFiles sources(options_.sources);
    const double least = kLeastListedShare * static_cast<double>(profile_.coverage.attributed);
    const size_t many = std::min({options_.annotated, options_.rows, shown_.size()});
    for (size_t i = 0; i < many; i++) {
      if (shown_[i] >= profile_.functions.size()) {
        json[std::to_string(i)] = without_code("nothing tells the functions of this code");
        continue;
      }
      const Function& f = function(shown_[i]);
      if (static_cast<double>(f.self) < least) continue;
      const auto annotation = annotate(profile_, modules_, f, sources);
      json[std::to_string(i)] =
          annotation ? code(*annotation) : without_code(page_text(annotation.error().message));
    }
    return json;
  }

  static HtmlJson without_code(const std::string& why) {
    return {{"notes", HtmlJson::array({why})},
            {"lines", HtmlJson::array()},
            {"insns", HtmlJson::array()}};
  }

  static HtmlJson code(const Annotation& a) {
    std::map<std::pair<std::string, uint32_t>, int> line_index;
    HtmlJson lines = HtmlJson::array(), insns = HtmlJson::array(), notes = HtmlJson::array();
    for (const AnnotatedLine& line : a.lines) {
      if (lines.size() >= kMostLines) break;
      if (line.instructions == 0 && line.file != a.function.file) continue;
      line_index[{line.file, line.line}] = static_cast<int>(lines.size());
      lines.push_back({page_text(line.file), line.line, line.instructions, line.executions,
                       line.has_code, line.text ? HtmlJson(page_text(*line.text)) : HtmlJson()});
    }
    for (const AnnotatedInsn& insn : a.instructions) {
      if (insns.size() >= kMostInsns) break;
      const auto line = line_index.find({insn.file, insn.line});
      insns.push_back({insn.at.offset - a.function.at.offset, insn.count, page_text(insn.text),
                       insn.conditional() ? HtmlJson(insn.taken_share()) : HtmlJson(),
                       line == line_index.end() ? -1 : line->second, details(insn),
                       insn.inlined.empty() ? "" : page_name(insn.inlined)});
    }
    for (const std::string& note : a.notes) notes.push_back(page_text(note));
    if (lines.size() == kMostLines || insns.size() < a.instructions.size())
      notes.push_back("a part is shown: shadowprof annotate has all of it");
    return {{"notes", std::move(notes)}, {"lines", std::move(lines)}, {"insns", std::move(insns)}};
  }

  static std::string details(const AnnotatedInsn& insn) {
    std::string text;
    for (const Outcome& o : insn.outcomes) {
      using enum profile::EdgeKind;
      if (o.kind != call && o.kind != indirect_call && o.kind != indirect_jump) continue;
      if (text.size() > 300) break;
      text += fmt::format("{}→ {} {}", text.empty() ? "" : ", ", page_name(o.name),
                          short_count(o.count));
    }
    if (insn.load != nullptr && insn.load->timed != 0)
      text += fmt::format("{}load {:.0f} cycles", text.empty() ? "" : ", ", insn.load->mean());
    if (insn.value != nullptr && insn.value->figures.invariance() >= 0.5)
      text += fmt::format("{}{} in {}", text.empty() ? "= " : ", = ",
                          profile::value_text(insn.value->type, insn.value->figures.top[0].value),
                          percent(insn.value->figures.invariance()));
    return text;
  }

  const Profile& profile_;
  const symbols::ModuleSet& modules_;
  const HtmlOptions& options_;
  const profile::FunctionTable unnamed_;
  std::vector<size_t> shown_;  // indices of functions, as the page numbers them
  std::map<size_t, int> index_;
  size_t own_list_ = 0;
};

}  // namespace

HtmlJson page_functions(const Profile& profile, const symbols::ModuleSet& modules,
                        const HtmlOptions& options) {
  return FunctionsOfPage(profile, modules, options).make();
}

}  // namespace shadowprof::report

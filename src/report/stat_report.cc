// SPDX-License-Identifier: MIT
#include "report/stat_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "profile/compare/same_region.h"
#include "report/columns.h"

namespace shadowprof::report {
namespace {

constexpr size_t kFigureColumns = 20;
constexpr size_t kNameColumns = 44;

// 1,234,567
std::string grouped(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

void widen(Spread& spread, uint64_t n, bool is_first) {
  spread.least = is_first ? n : std::min(spread.least, n);
  spread.most = is_first ? n : std::max(spread.most, n);
}

std::string line_of(const Spread& spread, const std::string& name, std::string comment) {
  if (spread.varies()) {
    const double more = 100.0 * static_cast<double>(spread.most - spread.least) /
                        static_cast<double>(std::max<uint64_t>(spread.least, 1));
    comment += fmt::format("{}up to {} (+{:.2g} %)", comment.empty() ? "" : ", ",
                           grouped(spread.most), more);
  }
  std::string line = fmt::format("{:>{}}   {}", grouped(spread.least), kFigureColumns,
                                 comment.empty() ? name : left(name, kNameColumns));
  if (!comment.empty()) line += " # " + comment;
  return line + "\n";
}

std::string share_of(uint64_t part, uint64_t whole, const char* of_what) {
  if (whole == 0) return "";
  return fmt::format("{:.1f} % of {}",
                     100.0 * static_cast<double>(part) / static_cast<double>(whole), of_what);
}

// "parse (words.cc:12)", or of whom nobody knows the name "gzip+0x4290".
std::string shown(const StatFunction& f) {
  const profile::Place place{f.module, 0, f.name, f.file, f.line};
  const std::string known = source(place), where = known.empty() ? module_name(place) : known;
  const std::string all = function_or_address(place);
  if (all.starts_with(where + "+")) return fit(all, kNameColumns);
  const size_t taken = std::min(kNameColumns / 2, width(where) + width(" ()"));
  return fmt::format("{} ({})", function_or_address(place, kNameColumns - taken), where);
}

nlohmann::ordered_json json_of(const Spread& spread) {
  return {{"min", spread.least}, {"max", spread.most}};
}

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void Stat::add_run(const std::vector<StatCount>& counts, const profile::Profile& profile) {
  const bool is_first = runs_++ == 0;
  if (is_first) counts_ = counts;
  for (size_t i = 0; i < counts_.size(); i++)
    widen(counts_[i].count, counts[i].count.least, is_first);
  if (profile.run.region) region_ = profile::described_region(profile.run);
  exact_ &= profile.confidence.exact;
  duration_s_ += profile.run.duration_s;

  // Two of one name in different files are two; what is in no run but this one had nothing before.
  using Key = std::tuple<std::string, std::string, std::string, uint32_t>;
  std::map<Key, uint64_t> now;
  for (const profile::Function& f : profile.functions)
    if (f.self != 0) now[{f.name, profile.modules[f.at.module].path, f.file, f.line}] += f.self;
  for (StatFunction& known : functions_) {
    const auto found = now.find({known.name, known.module, known.file, known.line});
    widen(known.instructions, found == now.end() ? 0 : found->second, false);
    if (found != now.end()) now.erase(found);
  }
  for (const auto& [key, self] : now) {
    const auto& [name, module, file, line] = key;
    functions_.push_back({name, module, file, line, {is_first ? self : 0, self}});
  }
}

std::vector<std::string> Stat::varying() const {
  std::vector<std::string> names;
  for (const StatCount& row : counts_)
    if (row.count.varies()) names.push_back(row.name);
  const auto varies = [](const StatFunction& f) { return f.instructions.varies(); };
  if (std::ranges::any_of(functions_, varies)) names.emplace_back("functions");
  return names;
}

uint64_t Stat::count_of(const std::string& name) const {
  const auto found = std::ranges::find(counts_, name, &StatCount::name);
  return found == counts_.end() ? 0 : found->count.least;
}

std::string Stat::comment_on(const StatCount& row) const {
  if (row.name == "instructions" || row.name == "system-calls" || row.name == "entries") return "";
  if (row.name == "branches-taken")
    return share_of(row.count.least, count_of("branches"), "branches");
  return share_of(row.count.least, count_of("instructions"), "instructions");
}

std::vector<StatFunction> Stat::hottest(size_t most) const {
  std::vector<StatFunction> all = functions_;
  std::ranges::stable_sort(all, [](const StatFunction& a, const StatFunction& b) {
    return a.instructions.most > b.instructions.most;
  });
  if (all.size() > most) all.resize(most);
  return all;
}

std::string Stat::conclusion() const {
  if (runs_ < 2) return "";
  const std::vector<std::string> names = varying();
  if (names.empty()) return fmt::format(" Nothing varied in {} runs.\n", runs_);
  return fmt::format(" Not the same in {} runs: {}.\n", runs_, fmt::join(names, ", "));
}

std::string Stat::as_text(size_t functions) const {
  std::string text = fmt::format("\n Counts of {}'{}'{}{}:\n\n",
                                 region_.empty() ? "" : printable(region_) + " of ",
                                 printable(fmt::format("{}", fmt::join(command_, " "))),
                                 runs_ > 1 ? fmt::format(", {} runs", runs_) : "",
                                 exact_ ? "" : ", not all of which was counted");
  for (const StatCount& row : counts_) text += line_of(row.count, row.name, comment_on(row));
  const std::vector<StatFunction> hot = hottest(functions);
  if (!hot.empty()) text += "\n Functions by instructions of their own:\n\n";
  for (const StatFunction& f : hot) {
    text += line_of(f.instructions, shown(f),
                    share_of(f.instructions.least, count_of("instructions"), "instructions"));
  }
  text += "\n" + conclusion();
  return text + fmt::format(" {:.2f} seconds{} under shadowprof; the program alone is faster.\n\n",
                            duration_s_ / static_cast<double>(std::max<size_t>(runs_, 1)),
                            runs_ > 1 ? " a run" : "");
}

std::string Stat::as_json(size_t functions) const {
  using Json = nlohmann::ordered_json;
  Json all = {{"schema", "shadowprof.stat"},
              {"version", 1},
              {"command", command_},
              {"runs", runs_},
              {"exact", exact_},
              {"varies", varying()}};
  if (!region_.empty()) all["region"] = region_;
  Json counts = Json::object();
  for (const StatCount& row : counts_) counts[row.name] = json_of(row.count);
  all["counts"] = counts;
  all["functions"] = Json::array();
  for (const StatFunction& f : hottest(functions)) {
    all["functions"].push_back({{"function", f.name},
                                {"module", f.module},
                                {"file", f.file},
                                {"line", f.line},
                                {"instructions", json_of(f.instructions)}});
  }
  all["mean_duration_s"] = duration_s_ / static_cast<double>(std::max<size_t>(runs_, 1));
  return dump(all);
}

}  // namespace shadowprof::report

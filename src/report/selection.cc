// SPDX-License-Identifier: MIT
#include "report/selection.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <string>

namespace shadowprof::report {

using profile::HotInlined;
using profile::HotMethod;
using profile::Place;

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

class Filter {
 public:
  explicit Filter(std::string_view text) : wanted_(lower(text)) {}
  bool fits(const Place& p) const {
    return contains(p.function) || contains(p.file) || contains(p.module);
  }
  template <typename Rows, typename Places>
  void keep(Rows& rows, Places places) {
    std::erase_if(rows, [&](const auto& row) { return !places(row); });
    kept_ += rows.size();
  }
  size_t kept() const { return kept_; }

 private:
  bool contains(const std::string& text) const {
    return lower(text).find(wanted_) != std::string::npos;
  }
  std::string wanted_;
  size_t kept_ = 0;
};

// As far as they have what is sorted by.
void sort_inlined(std::vector<HotInlined>& rows, std::string_view sort) {
  if (sort == "self" || sort == "instructions")
    std::ranges::stable_sort(rows, std::greater<>(), &HotInlined::self);
  if (sort == "total") std::ranges::stable_sort(rows, std::greater<>(), &HotInlined::inclusive);
  if (sort == "name")
    std::ranges::stable_sort(rows, {}, [](const HotInlined& f) { return f.at.function; });
}

void sort_methods(std::vector<HotMethod>& rows, std::string_view sort) {
  const auto by = [&](auto key) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const HotMethod& a, const HotMethod& b) { return key(a) > key(b); });
  };
  if (sort == "self" || sort == "instructions") by([](const HotMethod& m) { return m.self; });
  if (sort == "total") by([](const HotMethod& m) { return m.inclusive; });
  if (sort == "calls") by([](const HotMethod& m) { return m.invocations; });
  if (sort == "loops") by([](const HotMethod& m) { return m.loop_iterations; });
  if (sort == "name")
    std::stable_sort(rows.begin(), rows.end(), [](const HotMethod& a, const HotMethod& b) {
      return a.at.function < b.at.function;
    });
}

}  // namespace

bool select_rows(profile::Hotlists& lists, std::string_view sort, std::string_view filter) {
  sort_methods(lists.methods, sort);
  sort_inlined(lists.inlined, sort);
  if (filter.empty()) return true;
  Filter f(filter);
  f.keep(lists.methods, [&](const auto& r) { return f.fits(r.at); });
  f.keep(lists.inlined, [&](const auto& r) { return f.fits(r.at); });
  f.keep(lists.call_pairs, [&](const auto& r) { return f.fits(r.site) || f.fits(r.callee); });
  f.keep(lists.contexts, [&](const auto& r) {
    return std::any_of(r.frames.begin(), r.frames.end(), [&](const Place& p) { return f.fits(p); });
  });
  f.keep(lists.edges, [&](const auto& r) { return f.fits(r.from) || f.fits(r.to); });
  f.keep(lists.paths, [&](const auto& r) {
    return std::any_of(r.blocks.begin(), r.blocks.end(), [&](const Place& p) { return f.fits(p); });
  });
  f.keep(lists.load_latency, [&](const auto& r) { return f.fits(r.at); });
  const auto of_load = [&](const auto& r) { return r.load && f.fits(*r.load); };
  f.keep(lists.latency_pages, of_load);
  f.keep(lists.latency_values, of_load);
  f.keep(lists.values, [&](const auto& r) { return f.fits(r.at); });
  f.keep(lists.arguments, [&](const auto& r) { return f.fits(r.site) || f.fits(r.callee); });
  f.keep(lists.targets, [&](const auto& r) {
    return f.fits(r.at) || std::any_of(r.targets.begin(), r.targets.end(),
                                       [&](const auto& t) { return f.fits(t.to); });
  });
  return f.kept() != 0;
}

}  // namespace shadowprof::report

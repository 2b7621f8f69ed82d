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
  template <typename Rows>
  void keep(Rows& rows) {
    std::erase_if(rows, [&](const auto& row) {
      bool fits_one = false;
      row.for_each_place([&](const Place& p) { fits_one = fits_one || fits(p); });
      return !fits_one;
    });
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
  profile::for_each_hotlist(
      [&](const char*, auto list, profile::Stored, auto) { f.keep(lists.*list); });
  return f.kept() != 0;
}

}  // namespace shadowprof::report

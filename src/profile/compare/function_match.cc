// SPDX-License-Identifier: MIT
#include "profile/compare/function_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_name.h"

namespace shadowprof::profile {
namespace {

constexpr uint32_t kUnmatched = std::numeric_limits<uint32_t>::max();

std::string program_of(const Profile& p) {
  return p.run.command.empty() ? std::string() : file_name(p.run.command[0]);
}

// Pairs the modules that have no partner yet and whose `name` is the same and unique on both sides.
template <typename Name>
void pair_modules(const Profile& base, const Profile& now, FunctionMatch& m, Name name) {
  std::map<std::string, std::pair<std::vector<size_t>, std::vector<size_t>>> by_name;
  for (size_t i = 0; i < base.modules.size(); i++)
    if (m.base_module[i] == kUnmatched)
      if (const std::string n = name(base, base.modules[i]); !n.empty())
        by_name[n].first.push_back(i);
  for (size_t i = 0; i < now.modules.size(); i++)
    if (m.new_module[i] == kUnmatched)
      if (const std::string n = name(now, now.modules[i]); !n.empty())
        by_name[n].second.push_back(i);
  for (const auto& [n, both] : by_name) {
    if (both.first.size() != 1 || both.second.size() != 1) continue;
    const auto number = static_cast<uint32_t>(m.identical.size());
    m.base_module[both.first[0]] = m.new_module[both.second[0]] = number;
    m.identical.push_back(false);
  }
}

void number_the_rest(std::vector<uint32_t>& modules, FunctionMatch& m) {
  for (uint32_t& number : modules) {
    if (number != kUnmatched) continue;
    number = static_cast<uint32_t>(m.identical.size());
    m.identical.push_back(false);
  }
}

void match_modules(const Profile& base, const Profile& now, FunctionMatch& m) {
  m.base_module.assign(base.modules.size(), kUnmatched);
  m.new_module.assign(now.modules.size(), kUnmatched);
  std::map<std::string, uint32_t> number_of_id;
  for (size_t i = 0; i < base.modules.size(); i++) {
    if (base.modules[i].build_id.empty()) continue;
    const auto [at, added] = number_of_id.try_emplace(base.modules[i].build_id,
                                                      static_cast<uint32_t>(m.identical.size()));
    if (added) m.identical.push_back(true);
    m.base_module[i] = at->second;
  }
  for (size_t i = 0; i < now.modules.size(); i++) {
    const auto same = number_of_id.find(now.modules[i].build_id);
    if (same == number_of_id.end()) continue;
    m.new_module[i] = same->second;
  }
  // A build-id that only the base has is no match.
  for (uint32_t& number : m.base_module)
    if (number != kUnmatched &&
        std::find(m.new_module.begin(), m.new_module.end(), number) == m.new_module.end())
      number = kUnmatched;

  pair_modules(base, now, m, [](const Profile&, const Module& x) {
    return x.path.empty() ? fmt::format("{:#x}", x.address) : x.path;
  });
  pair_modules(base, now, m, [](const Profile&, const Module& x) { return file_name(x.path); });
  pair_modules(base, now, m, [](const Profile& p, const Module& x) {
    const std::string program = program_of(p);
    return !program.empty() && file_name(x.path) == program ? std::string("program") : "";
  });
  number_the_rest(m.base_module, m);
  number_the_rest(m.new_module, m);
}

const std::string& linkage_name(const Function& f) {
  return f.linkage_name.empty() ? f.name : f.linkage_name;
}

// "parse.constprop.0" -> "parse"
std::string without_clone_suffix(const std::string& name) {
  constexpr std::string_view kSuffixes[] = {".constprop", ".isra", ".part",
                                            ".cold",      ".lto_", ".llvm."};
  size_t end = name.size();
  for (std::string_view suffix : kSuffixes) end = std::min(end, name.find(suffix));
  return end == 0 ? name : name.substr(0, end);
}

class FunctionMatcher {
 public:
  FunctionMatcher(const Profile& base, const Profile& now, FunctionMatch& match)
      : base_(base), now_(now), m_(match) {}

  void run() {
    m_.base_function.assign(base_.functions.size(), kUnmatched);
    m_.new_function.assign(now_.functions.size(), kUnmatched);
    pair([&](const Function& f, uint32_t module) -> std::optional<std::string> {
      if (!m_.identical[module]) return std::nullopt;
      return fmt::format("{:#x}", f.at.offset);
    });
    const auto named = [&](const Function& f, uint32_t module) {
      return !m_.identical[module] && !linkage_name(f).starts_with("function@");
    };
    using Key = std::optional<std::string>;
    pair([&](const Function& f, uint32_t module) {
      return named(f, module) ? Key(linkage_name(f)) : Key();
    });
    pair([&](const Function& f, uint32_t module) {
      return named(f, module) ? Key(linkage_name(f) + '\n' + file_name(f.file)) : Key();
    });
    pair([&](const Function& f, uint32_t module) {
      return named(f, module) ? Key(without_clone_suffix(linkage_name(f))) : Key();
    });
    const auto readable = [&](const Function& f, uint32_t module) {
      return named(f, module) ? Key(f.name + '\n' + file_name(f.file)) : Key();
    };
    pair(readable);
    pair_in_order([&](const Function& f, uint32_t module) {
      return named(f, module) ? Key(linkage_name(f) + '\n' + file_name(f.file)) : Key();
    });
    pair_in_order(readable);
    for (auto* functions : {&m_.base_function, &m_.new_function})
      for (uint32_t& number : *functions)
        if (number == kUnmatched) number = m_.functions++;
  }

 private:
  struct Candidates {
    std::vector<size_t> base;
    std::vector<size_t> now;
  };
  using ByKey = std::map<std::pair<uint32_t, std::string>, Candidates>;

  template <typename Key>
  ByKey candidates(Key key) const {
    ByKey result;
    for (size_t i = 0; i < base_.functions.size(); i++) {
      if (m_.base_function[i] != kUnmatched) continue;
      const uint32_t module = m_.base_module[base_.functions[i].at.module];
      if (const auto k = key(base_.functions[i], module)) result[{module, *k}].base.push_back(i);
    }
    for (size_t i = 0; i < now_.functions.size(); i++) {
      if (m_.new_function[i] != kUnmatched) continue;
      const uint32_t module = m_.new_module[now_.functions[i].at.module];
      if (const auto k = key(now_.functions[i], module)) result[{module, *k}].now.push_back(i);
    }
    return result;
  }

  template <typename Key>
  void pair(Key key) {
    for (const auto& [k, c] : candidates(key))
      if (c.base.size() == 1 && c.now.size() == 1) join(c.base[0], c.now[0]);
  }

  template <typename Key>
  void pair_in_order(Key key) {
    for (const auto& [k, c] : candidates(key))
      for (size_t i = 0; i < std::min(c.base.size(), c.now.size()); i++) join(c.base[i], c.now[i]);
  }

  void join(size_t base, size_t now) {
    m_.base_function[base] = m_.new_function[now] = m_.functions++;
  }

  const Profile& base_;
  const Profile& now_;
  FunctionMatch& m_;
};

}  // namespace

FunctionMatch match_functions(const Profile& base, const Profile& now) {
  FunctionMatch match;
  match_modules(base, now, match);
  FunctionMatcher(base, now, match).run();
  return match;
}

}  // namespace shadowprof::profile

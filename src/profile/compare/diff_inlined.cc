// SPDX-License-Identifier: MIT
//
// Inlined functions of two profiles. Declarations move between builds, so they are the same where
// the name and the name of the file are; where several of one profile are, their sums are compared.
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "base/file_name.h"
#include "profile/compare/diff_side.h"

namespace shadowprof::profile {
namespace {

// Modules, by number, of which a profile does not know what was inlined.
std::set<uint32_t> unknown_modules(const Side& side) {
  std::set<uint32_t> unknown;
  for (size_t i = 0; i < side.p.modules.size(); i++)
    if (side.p.modules[i].inlining_known == 0) unknown.insert(side.module_number(i));
  return unknown;
}

}  // namespace

bool knows_inlining(const Profile& profile) {
  for (const Module& m : profile.modules)
    if (m.inlining_known != 0) return true;
  return false;
}

std::vector<InlinedChange> compare_inlined(const Side& base, const Side& now) {
  std::set<uint32_t> unknown = unknown_modules(base);
  unknown.merge(unknown_modules(now));
  struct Open {
    InlinedChange change;
    ChangeError error;
    bool in_base = false, in_new = false;
  };
  std::map<std::tuple<uint32_t, std::string, std::string>, Open> all;
  for (const Side* side : {&base, &now}) {
    const auto figure = side == &base ? &Change::base : &Change::now;
    for (const InlinedFunction& f : side->p.inlined) {
      const uint32_t module = side->module_number(f.module);
      if (unknown.contains(module)) continue;
      const std::string& linkage = f.linkage_name.empty() ? f.name : f.linkage_name;
      Open& o = all[{module, linkage, file_name(f.file)}];
      (side == &base ? o.in_base : o.in_new) = true;
      InlinedChange& c = o.change;
      c.at = {side->p.modules[f.module].path, 0, f.name, f.file, f.line};
      c.linkage_name = linkage;
      c.self.*figure += side->scaled(f.self);
      c.inclusive.*figure += side->scaled(f.inclusive);
      c.places.*figure += f.places.size();
      o.error.add(*side, static_cast<double>(f.self_error), base);
    }
  }
  std::vector<InlinedChange> result;
  for (Open& o : ranked(std::move(all),
                        [](const Open& open) { return magnitude(open.change.self.delta()); })) {
    o.change.error = o.error.of_difference();
    o.change.presence = !o.in_base  ? Presence::added
                        : !o.in_new ? Presence::removed
                                    : Presence::both;
    result.push_back(std::move(o.change));
  }
  return result;
}

}  // namespace shadowprof::profile

// SPDX-License-Identifier: MIT
#include "profile/hotlists/unnamed_code.h"

#include <map>

#include "base/file_name.h"

namespace shadowprof::profile {
namespace {

class Rows {
 public:
  explicit Rows(const Profile& profile) : profile_(profile) {}

  // Null: it is in a function.
  Function* row_of(CodeRef at) {
    if (find_function(profile_.functions, at) != nullptr) return nullptr;
    const Module& module = profile_.modules[at.module];
    const auto [entry, is_first] = rows_.try_emplace(module.path);
    Function& row = entry->second;
    if (is_first) row.name = unknown_code_name(module);
    if (is_first || at < row.at) row.at = at;
    return &row;
  }

  FunctionTable take() {
    FunctionTable table;
    for (auto& [path, row] : rows_) {
      if (row.self + row.user_ns + row.kernel_ns == 0) continue;
      row.inclusive = row.self;
      table.push_back(std::move(row));
    }
    return table;
  }

 private:
  const Profile& profile_;
  std::map<std::string, Function> rows_;  // by path
};

}  // namespace

std::string module_label(const Module& module) {
  if (module.path.empty()) return "[anonymous]";
  return file_name(module.path);
}

std::string unknown_code_name(const Module& module) {
  return "[unknown code of " + module_label(module) + "]";
}

FunctionTable unnamed_code(const Profile& profile) {
  Rows rows(profile);
  const Tables& t = profile.tables;
  for (const BlockCount& block : t.blocks)
    if (Function* row = rows.row_of(block.at)) row->self += block.count * block.insns;
  for (const Interruption& i : t.interruptions) {
    const BlockCount& block = t.blocks[i.block];
    if (Function* row = rows.row_of(block.at)) row->self -= i.count * (block.insns - i.executed);
  }
  for (const TimeRow& time : t.time) {
    Function* row = rows.row_of(time.at);
    if (row == nullptr) continue;
    row->user_ns += time.user_ns;
    row->kernel_ns += time.kernel_ns;
  }
  return rows.take();
}

double generated_share(const Profile& profile) {
  double share = 0;
  for (const Function& row : unnamed_code(profile)) {
    if (!profile.modules[row.at.module].path.empty()) continue;
    share += profile.time.is_known()
                 ? 1e-9 * static_cast<double>(row.user_ns) / profile.time.seconds()
                 : static_cast<double>(row.self) / static_cast<double>(profile.coverage.attributed);
  }
  return share;
}

}  // namespace shadowprof::profile

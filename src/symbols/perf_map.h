// SPDX-License-Identifier: MIT
//
// Names for generated code. JIT compilers that want to be profiled write /tmp/perf-PID.map, a line
// per function: start and size in hexadecimal, then the name (the kernel's
// tools/perf/Documentation/jit-interface.txt). Addresses are absolute; code that is freed and
// replaced is not taken back, so the last line that covers an address is right.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/unique_fd.h"
#include "symbols/range_index.h"
#include "symbols/symbol_table.h"

namespace shadowprof::symbols {

class PerfMap {
 public:
  // What place() and load() of PerfMapPlace find, at once.
  static Result<PerfMap> load(pid_t pid);
  // Lines that are not of the format are skipped.
  static PerfMap parse(std::string text);

  // Symbol::offset is an absolute address here.
  std::optional<Symbol> find(GuestAddr address) const;
  size_t size() const { return functions_.size(); }

 private:
  struct Function {
    uint64_t start = 0;
    uint64_t size = 0;
    size_t name_at = 0;
    size_t name_size = 0;
  };
  std::string text_;
  std::vector<Function> functions_;
  RangeIndex index_;
};

// Where a process writes its map: where the process itself sees /tmp, and under the pid that it has
// there. Noted while it lives; read when it has written all of it, which may be after its end.
class PerfMapPlace {
 public:
  static Result<PerfMapPlace> of(pid_t pid);
  // Error (ENOENT) when it wrote none, and when the file belongs to somebody else than the process
  // did: anybody may create files in /tmp.
  Result<PerfMap> load() const;

 private:
  UniqueFd root_;
  std::string path_;  // within the root
  uid_t user_ = 0;
};

}  // namespace shadowprof::symbols

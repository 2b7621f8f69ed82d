// SPDX-License-Identifier: MIT
#include "report/annotated_lines.h"

#include <algorithm>
#include <ctime>

namespace shadowprof::report {
namespace {

using profile::Profile;

constexpr uint32_t kMostFilled = 5;

class LineList {
 public:
  LineList(SourceFiles& sources, Annotation& result) : sources_(sources), result_(result) {}

  void fill(const Profile& profile, LineSums sums) {
    tm started{};
    const bool dated =
        ::strptime(profile.run.started.c_str(), "%Y-%m-%dT%H:%M:%SZ", &started) != nullptr;
    for (auto& [key, line] : sums) {
      line.file = key.first;
      line.line = key.second;
      line.text = sources_.line(line.file, line.line);
      readable_ = readable_ || line.text;
      newer_ = newer_ || (dated && sources_.modified(line.file) > ::timegm(&started));
      fill_before(line);
      result_.lines.push_back(std::move(line));
    }
    note_refusals();
    sort_files();
  }

  bool readable() const { return readable_; }
  bool newer() const { return newer_; }

 private:
  void note_refusals() {
    const std::string* last = nullptr;
    for (const AnnotatedLine& line : result_.lines) {
      if (last != nullptr && *last == line.file) continue;
      last = &line.file;
      if (const std::string& refusal = sources_.refusal(line.file); !refusal.empty())
        result_.notes.push_back(refusal);
    }
  }

  // The function's own file first, then those with the most instructions; lines in order.
  void sort_files() {
    std::map<std::string, uint64_t> instructions;
    for (const AnnotatedLine& line : result_.lines) instructions[line.file] += line.instructions;
    if (const auto own = instructions.find(result_.function.file); own != instructions.end())
      own->second = ~uint64_t{0};
    std::stable_sort(result_.lines.begin(), result_.lines.end(),
                     [&](const AnnotatedLine& a, const AnnotatedLine& b) {
                       return a.file != b.file && instructions[a.file] > instructions[b.file];
                     });
  }

  // Lines without instructions (a brace, a comment) from the one before to `next`, if they are few.
  void fill_before(const AnnotatedLine& next) {
    if (next.file != result_.function.file || !next.text || result_.lines.empty() ||
        result_.lines.back().file != next.file)
      return;
    const uint32_t after = result_.lines.back().line;
    if (next.line - after - 1 > kMostFilled) return;
    for (uint32_t n = after + 1; n < next.line; n++)
      result_.lines.push_back({next.file, n, 0, 0, false, sources_.line(next.file, n)});
  }

  SourceFiles& sources_;
  Annotation& result_;
  bool readable_ = false;
  bool newer_ = false;
};

}  // namespace

void add_lines(const Profile& profile, const symbols::ModuleSymbols* module, SourceFiles& sources,
               LineSums sums, Annotation& into) {
  LineList list(sources, into);
  list.fill(profile, std::move(sums));
  if (into.lines.empty())
    into.notes.emplace_back("the file has no debug information for this function");
  else if (!list.readable())
    into.notes.emplace_back("the source is not on this host");
  if (module != nullptr && !module->missing_lines().empty())
    into.notes.push_back(module->missing_lines());
  if (list.newer())
    into.notes.emplace_back("source was changed since the run: lines may not be those that ran");
}

}  // namespace shadowprof::report

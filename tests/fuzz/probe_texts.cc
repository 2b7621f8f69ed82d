// SPDX-License-Identifier: MIT
//
// Texts of probes at random: made by the grammar, and then changed here and there. What is refused
// has an error at a column of the text; what is accepted is evaluated, and is accepted again as it
// was kept.
//
// usage: fuzz_probe_texts FIRST_SEED COUNT
// A failing seed is printed; with it as the first and a count of 1 it fails again.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "collect/probes/probe.h"

namespace {

using namespace shadowprof;
using collect::Probe;
using collect::ProbeFact;
using collect::ProbeFacts;

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  uint64_t below(uint64_t end) { return random_() % end; }

  std::string text() {
    std::string t = below(2) != 0 ? "name: " : "";
    if (below(2) != 0) t += "on ";
    t += pattern();
    if (below(2) != 0) t += " capture " + list();
    if (below(2) != 0) t += " key " + list();
    if (below(2) != 0) t += " when " + expression(4, true);
    if (below(3) == 0) t += std::string(" => ") + one_of(kActions);
    return t;
  }

  // A few characters other than they were.
  std::string changed(std::string t) {
    for (uint64_t n = below(4); n > 0 && !t.empty(); n--) {
      const size_t at = below(t.size());
      switch (below(4)) {
        case 0:
          t.erase(at, 1 + below(5));
          break;
        case 1:
          t.insert(at, 1, static_cast<char>(1 + below(255)));
          break;
        case 2:
          t.insert(at, t.substr(below(t.size()), below(12)));
          break;
        default:
          t[at] = "()+-*/%&|^~!<>=:,\" x9"[below(21)];
      }
    }
    return t;
  }

 private:
  static constexpr const char* kActions[] = {"count", "values", "log2"};
  static constexpr const char* kClasses[] = {"load", "store",  "call", "ret",    "branch",
                                             "jump", "atomic", "div",  "vector", "any"};
  static constexpr const char* kNames[] = {
      "main", "mem*", "libc*!*", "\"f(int, char)\"", "a::b", "?", "x!", "operator!=", "~T"};
  static constexpr const char* kLines[] = {"a.c:3", "*.c:3-9", "\"a b.c:12\"", "d/a.c:1-1"};
  static constexpr const char* kFacts[] = {"latency", "value", "addr",    "size", "target",
                                           "caller",  "pc",    "divisor", "arg0", "arg5",
                                           "rax",     "r15",   "rsp"};
  static constexpr const char* kSigns[] = {"+",  "-",  "*",  "/", "%",  "&", "|",  "^",   "<<",
                                           ">>", "==", "!=", "<", "<=", ">", ">=", "and", "or"};

  template <size_t N>
  const char* one_of(const char* const (&words)[N]) {
    return words[below(N)];
  }
  std::string pattern() {
    if (below(4) == 0)
      return std::string("entry ") + one_of(kNames) + (below(4) == 0 ? " in thread w*" : "");
    std::string t = one_of(kClasses);
    if (below(4) == 0) t += std::string(" ") + one_of(kClasses);
    if (below(4) == 0) t += " insn mov*";
    if (below(3) == 0) t += std::string(" in ") + one_of(kNames);
    if (below(4) == 0) t += std::string(" at ") + one_of(kLines);
    if (below(4) == 0) t += std::string(" in thread ") + one_of(kNames);
    return t;
  }
  std::string list() {
    std::string t = column();
    for (uint64_t n = below(3); n > 0; n--) t += ", " + column();
    return t;
  }
  std::string column() {
    if (below(8) != 0) return expression(3, false);
    return below(2) != 0 ? "stack" : "stack " + std::to_string(below(70));
  }
  std::string expression(int depth, bool counters) {
    if (depth == 0 || below(4) == 0) {
      if (counters && below(4) == 0) return below(2) != 0 ? "every 3" : "after 10";
      return below(2) != 0 ? std::to_string(below(100)) : one_of(kFacts);
    }
    if (below(6) == 0) return (below(2) != 0 ? "not " : "~") + expression(depth - 1, counters);
    if (below(5) == 0) return "(" + expression(depth - 1, counters) + ")";
    return expression(depth - 1, counters) + " " + one_of(kSigns) + " " +
           expression(depth - 1, counters);
  }

  std::mt19937_64 random_;
};

// "": all is well.
std::string what_is_wrong(const std::string& text, Writer& random, bool& accepted) {
  const auto probe = collect::parse_probe(text, 1);
  accepted = probe.has_value();
  if (!probe) {
    unsigned column = 0;
    const std::string& message = probe.error().message;
    if (std::sscanf(message.c_str(), "column %u: ", &column) != 1)
      return message == "it is too long" || message.starts_with("it has more than")
                 ? ""
                 : "an error without a column: " + message;
    return column >= 1 && column <= text.size() + 1 ? "" : "a column beyond the text: " + message;
  }
  Probe copy = *probe;
  for (int round = 0; round < 8; round++) {
    ProbeFacts facts;
    for (size_t f = 0; f < collect::kProbeFacts; f++)
      if (random.below(4) != 0)
        facts.set(static_cast<ProbeFact>(f),
                  random.below(2) != 0 ? random.below(9) : ~random.below(9));
    if (copy.condition) collect::evaluate(copy, *copy.condition, facts);
    for (const collect::ProbeColumn& column : copy.columns)
      collect::evaluate(copy, column.root, facts);
  }
  const auto again = collect::parse_probe(probe->text, 1);
  if (!again) return "refused when it is read again: " + again.error().message;
  return again->text == probe->text && again->nodes.size() == probe->nodes.size()
             ? ""
             : "another probe when it is read again";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FIRST_SEED COUNT\n", argv[0]);
    return 2;
  }
  const uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const uint64_t count = std::strtoull(argv[2], nullptr, 10);
  uint64_t accepted = 0;
  for (uint64_t seed = first; seed < first + count; seed++) {
    Writer writer(seed);
    const std::string text = writer.changed(writer.text());
    bool is_accepted = false;
    if (const std::string wrong = what_is_wrong(text, writer, is_accepted); !wrong.empty()) {
      std::printf("seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed), wrong.c_str(),
                  text.c_str());
      return 1;
    }
    accepted += is_accepted ? 1 : 0;
  }
  std::printf("%llu texts, %llu of them accepted\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(accepted));
  // Neither parser nor generator has become one that refuses, or accepts, nearly all.
  return count < 1000 || (accepted > count / 20 && accepted < count * 19 / 20) ? 0 : 1;
}

// SPDX-License-Identifier: MIT
//
// A descent through the grammar of docs/probes.md. Names of facts are looked up where they stand,
// so that an error knows its column; what a pattern has no such fact for is refused, too.
#include <algorithm>
#include <charconv>

#include "collect/probes/probe.h"
#include "collect/probes/probe_lexer.h"

namespace shadowprof::collect {
namespace {

using Kind = ProbeToken::Kind;
using Node = Result<uint16_t>;

constexpr size_t kMostNodes = 500;
constexpr int kMostDepth = 60;  // of parentheses and signs before an operand
constexpr size_t kLongestText = 4'000;

constexpr std::string_view kRegisters[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                           "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
// System V's ABI: rdi, rsi, rdx, rcx, r8, r9.
constexpr uint8_t kArguments[] = {7, 6, 2, 1, 8, 9};
constexpr std::pair<std::string_view, ProbeFact> kFactNames[] = {
    {"value", ProbeFact::value},     {"addr", ProbeFact::address},   {"size", ProbeFact::size},
    {"target", ProbeFact::target},   {"caller", ProbeFact::caller},  {"pc", ProbeFact::place},
    {"divisor", ProbeFact::divisor}, {"latency", ProbeFact::latency}};
constexpr std::string_view kKeywords[] = {"on", "in",  "to",    "capture", "key",   "when", "and",
                                          "or", "not", "every", "after",   "entry", "insn"};

// By binding, the weakest first. All of them are left-associative.
struct Binary {
  std::string_view sign;
  std::string_view word;  // "": it has none
  ProbeOperator what;
  int level;
};
constexpr Binary kBinaries[] = {
    {"||", "or", ProbeOperator::either, 0}, {"&&", "and", ProbeOperator::both, 1},
    {"==", "", ProbeOperator::equal, 2},    {"!=", "", ProbeOperator::unequal, 2},
    {"<", "", ProbeOperator::less, 2},      {"<=", "", ProbeOperator::at_most, 2},
    {">", "", ProbeOperator::greater, 2},   {">=", "", ProbeOperator::at_least, 2},
    {"|", "", ProbeOperator::or_, 3},       {"^", "", ProbeOperator::xor_, 4},
    {"&", "", ProbeOperator::and_, 5},      {"<<", "", ProbeOperator::left, 6},
    {">>", "", ProbeOperator::right, 6},    {"+", "", ProbeOperator::add, 7},
    {"-", "", ProbeOperator::subtract, 7},  {"*", "", ProbeOperator::multiply, 8},
    {"/", "", ProbeOperator::divide, 8},    {"%", "", ProbeOperator::remainder, 8},
};
constexpr int kUnaryLevel = 9;

const Binary* binary_of(const ProbeToken& token) {
  for (const Binary& b : kBinaries)
    if (token.is(b.sign) || (!b.word.empty() && token.is(b.word))) return &b;
  return nullptr;
}

std::optional<ProbeClass> class_of(const ProbeToken& token) {
  if (token.kind != Kind::word) return std::nullopt;
  for (size_t i = 0; i < std::size(kProbeClassNames); i++)
    if (token.text == kProbeClassNames[i]) return static_cast<ProbeClass>(i);
  return std::nullopt;
}

std::optional<ProbeFact> fact_of(std::string_view word) {
  for (const auto& [name, fact] : kFactNames)
    if (word == name) return fact;
  if (word == "ret_addr") return ProbeFact::caller;
  for (size_t i = 0; i < std::size(kRegisters); i++)
    if (word == kRegisters[i]) return static_cast<ProbeFact>(i);
  if (word.size() == 4 && word.starts_with("arg") && word[3] >= '0' && word[3] <= '5')
    return static_cast<ProbeFact>(kArguments[word[3] - '0']);
  return std::nullopt;
}

tl::unexpected<Error> fail_at(const ProbeToken& token, std::string_view what) {
  const bool wrong = token.kind == Kind::wrong;
  return fail("column {}: {}", token.begin + 1, wrong ? std::string_view(token.text) : what);
}

class Parser {
 public:
  Parser(std::string_view text, size_t number) : lexer_(text) {
    probe_.name = fmt::format("probe{}", number);
  }

  Result<Probe> parse();

 private:
  const ProbeToken& next() const { return lexer_.next(); }
  bool take_if(std::string_view what) {
    if (!next().is(what)) return false;
    lexer_.take();
    return true;
  }
  std::string described() const {
    return next().kind == Kind::end ? "the end" : fmt::format("'{}'", next().text);
  }

  Status name();
  Status pattern();
  Status where();
  Status function();
  Status thread();
  Status lines();
  Status columns();
  Node stack();
  Status action();
  Node expression(int level, int depth);
  Node operand(int depth);
  Node fact();
  Node counter(ProbeOperator what);
  Node add(const ProbeNode& node);
  std::string_view why_not(std::string_view word, ProbeFact fact) const;

  ProbeLexer lexer_;
  Probe probe_;
  bool in_condition_ = false;
};

Status Parser::name() {
  if (next().kind != Kind::word) return {};
  ProbeLexer before = lexer_;
  const ProbeToken first = next();
  lexer_.take();
  // A function's name may begin with a colon.
  if (first.text == "entry" || first.text == "insn" || !take_if(":")) {
    lexer_ = before;
    return {};
  }
  if (std::ranges::find(kKeywords, first.text) != std::end(kKeywords))
    return fail_at(first, fmt::format("'{}' cannot be the name of a probe", first.text));
  probe_.name = first.text;
  return {};
}

Status Parser::function() {
  const ProbeToken name = lexer_.take_name();
  if (name.kind == Kind::wrong || name.text.empty())
    return fail_at(name, "the name of a function is missing");
  const size_t sign = name.text.find('!');
  if (sign == std::string::npos || name.text.starts_with("operator")) {
    probe_.pattern.function = name.text;
    return {};
  }
  probe_.pattern.module = name.text.substr(0, sign);
  probe_.pattern.function = name.text.substr(sign + 1);
  if (probe_.pattern.function.empty()) probe_.pattern.function = "*";
  return {};
}

// A function may be called thread: in quotes.
Status Parser::thread() {
  const ProbeToken name = lexer_.take_name();
  if (name.kind == Kind::wrong || name.text.empty())
    return fail_at(name, "the name of a thread is missing");
  probe_.pattern.thread = name.text;
  return {};
}

// "main.c:12", "main.c:12-20".
Status Parser::lines() {
  const ProbeToken place = lexer_.take_name();
  const auto number = [](std::string_view digits) -> uint32_t {
    uint32_t line = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, line);
    return error == std::errc() && stopped == end ? line : 0;
  };
  const std::string_view text = place.text;
  const size_t colon = text.rfind(':');
  if (place.kind == Kind::wrong || colon == 0 || colon == std::string_view::npos)
    return fail_at(place, "a line of the source is missing: at FILE:LINE, at FILE:LINE-LINE");
  const std::string_view of = text.substr(colon + 1);
  const size_t dash = of.find('-');
  ProbePattern& p = probe_.pattern;
  p.file = text.substr(0, colon);
  p.first_line = number(of.substr(0, dash));
  p.last_line = dash == std::string_view::npos ? p.first_line : number(of.substr(dash + 1));
  if (p.first_line == 0 || p.last_line < p.first_line)
    return fail_at(place, fmt::format("'{}' is no line, and no range of lines", of));
  return {};
}

// Each part once, in any order.
Status Parser::where() {
  ProbePattern& p = probe_.pattern;
  for (;;) {
    const ProbeToken first = next();
    const auto take_once = [&](bool known) -> Status {
      if (!known) return {};
      return fail_at(first, "this says a second time where it is");
    };
    if (take_if("at")) {
      SP_TRY(take_once(!p.file.empty()));
      if (p.entry) return fail_at(first, "entries are given by functions, not by lines");
      SP_TRY(lines());
    } else if (take_if("in")) {
      ProbeLexer ahead = lexer_;
      if (next().is("thread") && ahead.take_name().text == "thread") {
        lexer_.take();
        SP_TRY(take_once(!p.thread.empty()));
        SP_TRY(thread());
      } else {
        SP_TRY(take_once(!p.function.empty()));
        SP_TRY(function());
      }
    } else {
      return {};
    }
  }
}

Status Parser::pattern() {
  const ProbeToken first = next();
  if (take_if("entry")) {
    probe_.pattern.entry = true;
    SP_TRY(function());
    return where();
  }
  while (const auto known = class_of(next())) {
    probe_.pattern.classes =
        static_cast<uint16_t>(probe_.pattern.classes | 1u << static_cast<unsigned>(*known));
    lexer_.take();
  }
  if (take_if("insn")) {
    const ProbeToken mnemonic = lexer_.take_name();
    if (mnemonic.kind == Kind::wrong || mnemonic.text.empty())
      return fail_at(mnemonic, "the name of an instruction is missing");
    probe_.pattern.mnemonic = mnemonic.text;
  }
  if (probe_.pattern.classes == 0 && probe_.pattern.mnemonic.empty())
    return fail_at(first, fmt::format("{} is no pattern: load, store, call, ret, branch, jump, "
                                      "atomic, div, vector, any, insn NAME or entry FUNCTION",
                                      described()));
  return where();
}

// "": the pattern's executions have such a fact.
std::string_view Parser::why_not(std::string_view word, ProbeFact fact) const {
  const ProbePattern& p = probe_.pattern;
  const auto is_one_of = [&](auto... classes) { return (p.has(classes) || ...); };
  const bool branches =
      is_one_of(ProbeClass::call, ProbeClass::ret, ProbeClass::branch, ProbeClass::jump);
  const bool named = !p.mnemonic.empty() || is_one_of(ProbeClass::any);
  if (word.starts_with("arg") && !p.entry && !is_one_of(ProbeClass::call, ProbeClass::jump))
    return "arguments are known at entries, calls and jumps";
  if (p.entry) {
    return fact == ProbeFact::value || fact == ProbeFact::address || fact == ProbeFact::size ||
                   fact == ProbeFact::target || fact == ProbeFact::divisor ||
                   fact == ProbeFact::latency
               ? "entries have arguments, registers, caller and pc only"
               : "";
  }
  if (fact == ProbeFact::value && branches && !named) return "branches have no value";
  if (fact == ProbeFact::target && !branches && !named)
    return "only calls, returns, branches and jumps have a target";
  const bool may_load = is_one_of(ProbeClass::load, ProbeClass::atomic, ProbeClass::vector,
                                  ProbeClass::call, ProbeClass::ret, ProbeClass::jump);
  if (fact == ProbeFact::latency && !may_load && !named)
    return "only what loads has a latency (on load)";
  if (fact == ProbeFact::divisor && !is_one_of(ProbeClass::div) && !named)
    return "only divisions have a divisor (on div)";
  if ((fact == ProbeFact::address || fact == ProbeFact::size) && branches && !named)
    return "branches have no address: what is captured of them is target";
  return "";
}

Node Parser::add(const ProbeNode& node) {
  if (probe_.nodes.size() >= kMostNodes) return fail("it is too long");
  probe_.nodes.push_back(node);
  return static_cast<uint16_t>(probe_.nodes.size() - 1);
}

Node Parser::fact() {
  const ProbeToken word = next();
  const auto known = fact_of(word.text);
  if (!known) {
    if (word.text == "stack")
      return fail_at(word, "a stack is no number: it is captured, or a key, by itself");
    return fail_at(word, fmt::format("there is no fact '{}'", word.text));
  }
  if (const auto why = why_not(word.text, *known); !why.empty()) return fail_at(word, why);
  lexer_.take();
  probe_.uses.set(index_of(*known));
  return add({.what = ProbeOperator::fact, .fact = *known});
}

Node Parser::counter(ProbeOperator what) {
  if (!in_condition_) return fail_at(next(), "counters are for conditions (when)");
  lexer_.take();
  if (next().kind != Kind::number || (what == ProbeOperator::every && next().number == 0))
    return fail_at(next(), fmt::format("a number is missing, not {}", described()));
  const uint64_t number = next().number;
  lexer_.take();
  return add({.what = what, .number = number});
}

Node Parser::operand(int depth) {
  const ProbeToken token = next();
  if (depth > kMostDepth) return fail_at(token, "it is nested too deeply");
  if (take_if("(")) {
    SP_ASSIGN(const uint16_t inner, expression(0, depth + 1));
    if (!take_if(")")) return fail_at(next(), fmt::format(") is missing before {}", described()));
    return inner;
  }
  for (const auto& [sign, what] :
       {std::pair("-", ProbeOperator::negate), std::pair("~", ProbeOperator::invert),
        std::pair("!", ProbeOperator::no), std::pair("not", ProbeOperator::no)}) {
    if (!take_if(sign)) continue;
    // `not a == b` is about the comparison.
    SP_ASSIGN(const uint16_t inner,
              std::string_view(sign) == "not" ? expression(2, depth + 1) : operand(depth + 1));
    return add({.what = what, .left = inner});
  }
  if (token.is("every")) return counter(ProbeOperator::every);
  if (token.is("after")) return counter(ProbeOperator::after);
  if (token.kind == Kind::number) {
    lexer_.take();
    return add({.number = token.number});
  }
  if (token.kind == Kind::word && std::ranges::find(kKeywords, token.text) == std::end(kKeywords))
    return fact();
  return fail_at(token, fmt::format("a number or a fact is missing before {}", described()));
}

Node Parser::expression(int level, int depth) {
  SP_ASSIGN(uint16_t left,
            level + 1 == kUnaryLevel ? operand(depth) : expression(level + 1, depth));
  for (const Binary* b = binary_of(next()); b != nullptr && b->level == level;
       b = binary_of(next())) {
    lexer_.take();
    SP_ASSIGN(const uint16_t right,
              level + 1 == kUnaryLevel ? operand(depth) : expression(level + 1, depth));
    SP_ASSIGN(left, add({.what = b->what, .left = left, .right = right}));
  }
  return left;
}

// "stack", or "stack 12": of so many calls at most.
Node Parser::stack() {
  const ProbeToken word = next();
  lexer_.take();
  if (probe_.stack != 0) return fail_at(word, "a probe has one stack");
  probe_.stack = Probe::kUsualStack;
  if (next().kind == Kind::number) {
    if (next().number == 0 || next().number > Probe::kMostStack)
      return fail_at(next(), fmt::format("a stack has 1 to {} calls", Probe::kMostStack));
    probe_.stack = next().number;
    lexer_.take();
  }
  probe_.uses.set(index_of(ProbeFact::stack));
  return add({.what = ProbeOperator::fact, .fact = ProbeFact::stack});
}

Status Parser::columns() {
  do {
    const ProbeToken first = next();
    if (probe_.columns.size() == Probe::kMostColumns)
      return fail_at(first, fmt::format("a probe has {} columns at most", Probe::kMostColumns));
    const bool is_stack = first.is("stack");
    SP_ASSIGN(const uint16_t root, is_stack ? stack() : expression(0, 0));
    std::string text(lexer_.text().substr(first.begin, next().begin - first.begin));
    while (text.ends_with(' ')) text.pop_back();
    const ProbeNode& node = probe_.nodes[root];
    std::optional<ProbeFact> place;
    if (node.what == ProbeOperator::fact && is_place(node.fact)) place = node.fact;
    probe_.columns.push_back({std::move(text), root, place, is_stack});
  } while (take_if(","));
  return {};
}

Status Parser::action() {
  const ProbeToken word = next();
  for (size_t i = 0; i < std::size(kProbeActionNames); i++) {
    if (!take_if(kProbeActionNames[i])) continue;
    probe_.action = static_cast<ProbeAction>(i);
    const bool captures = probe_.columns.size() > probe_.keys;
    if (probe_.action == ProbeAction::count && captures)
      return fail_at(word, "count is for a probe that captures nothing: give keys, or values");
    if (probe_.action != ProbeAction::count && !captures)
      return fail_at(word, fmt::format("{} of what? the probe captures nothing", word.text));
    return {};
  }
  return fail_at(word, fmt::format("{} is no action: count, values, log2", described()));
}

Result<Probe> Parser::parse() {
  if (lexer_.text().size() > kLongestText)
    return fail("it has more than {} characters", kLongestText);
  SP_TRY(name());
  const size_t begin = next().begin;
  take_if("on");
  SP_TRY(pattern());
  std::vector<ProbeColumn> captured;
  if (take_if("capture")) {
    SP_TRY(columns());
    captured.swap(probe_.columns);
  }
  if (take_if("key")) {
    const ProbeToken first = next();
    SP_TRY(columns());
    if (probe_.columns.size() + captured.size() > Probe::kMostColumns)
      return fail_at(first, fmt::format("a probe has {} columns at most", Probe::kMostColumns));
  }
  probe_.keys = static_cast<uint32_t>(probe_.columns.size());
  probe_.columns.insert(probe_.columns.end(), captured.begin(), captured.end());
  probe_.action = captured.empty() ? ProbeAction::count : ProbeAction::values;
  if (take_if("when")) {
    in_condition_ = true;
    SP_ASSIGN(probe_.condition, expression(0, 0));
  }
  if (take_if("=>")) SP_TRY(action());
  if (next().kind != Kind::end)
    return fail_at(next(), fmt::format("{} cannot stand here", described()));
  probe_.text = lexer_.text().substr(begin);
  return std::move(probe_);
}

}  // namespace

Result<Probe> parse_probe(std::string_view text, size_t number) {
  return Parser(text, number).parse();
}

}  // namespace shadowprof::collect

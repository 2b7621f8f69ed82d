// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <string>

#include "collect/probes/probe.h"
#include "collect/probes/probe_match.h"

namespace {

using namespace shadowprof;
using collect::Probe;
using collect::ProbeAction;
using collect::ProbeClass;
using collect::ProbeFact;
using collect::ProbeFacts;

Probe parsed(std::string_view text) {
  auto probe = collect::parse_probe(text, 3);
  INFO(std::string(text), ": ", probe ? "" : probe.error().message);
  REQUIRE(probe);
  return std::move(*probe);
}

std::string refused(std::string_view text) {
  const auto probe = collect::parse_probe(text, 1);
  return probe ? "accepted" : probe.error().message;
}

// What an expression over rax comes to.
std::optional<uint64_t> value_of(const std::string& expression, uint64_t rax = 0) {
  Probe probe = parsed("any capture " + expression);
  ProbeFacts facts;
  facts.set(ProbeFact::rax, rax);
  return collect::evaluate(probe, probe.columns.at(0).root, facts);
}

}  // namespace

TEST_CASE("a probe has a name, a pattern, keys before what it captures, a condition, an action") {
  const Probe p =
      parsed("sizes: on entry libc*!mem* capture arg2 key caller, pc when arg2 > 8 => log2");
  CHECK(p.name == "sizes");
  CHECK(p.text == "on entry libc*!mem* capture arg2 key caller, pc when arg2 > 8 => log2");
  CHECK(p.pattern.entry);
  CHECK(p.pattern.module == "libc*");
  CHECK(p.pattern.function == "mem*");
  CHECK(p.keys == 2);
  REQUIRE(p.columns.size() == 3);
  CHECK(p.columns[0].text == "caller");
  CHECK(p.columns[0].place == ProbeFact::caller);
  CHECK(p.columns[1].text == "pc");
  CHECK(p.columns[2].text == "arg2");
  CHECK_FALSE(p.columns[2].place);
  CHECK(p.action == ProbeAction::log2);
  CHECK(p.condition);
  CHECK(p.uses_fact(static_cast<ProbeFact>(2)));  // rdx
  CHECK_FALSE(p.uses_fact(ProbeFact::address));
}

TEST_CASE("what is left out has a default") {
  CHECK(parsed("load").name == "probe3");
  CHECK(parsed("load").action == ProbeAction::count);
  CHECK(parsed("on load key pc").action == ProbeAction::count);
  CHECK(parsed("div capture divisor").action == ProbeAction::values);
  const Probe p = parsed("vector load insn vmov* in \"operator new(unsigned long)\"");
  CHECK(p.pattern.has(ProbeClass::vector));
  CHECK(p.pattern.has(ProbeClass::load));
  CHECK_FALSE(p.pattern.has(ProbeClass::store));
  CHECK(p.pattern.mnemonic == "vmov*");
  CHECK(p.pattern.function == "operator new(unsigned long)");
  CHECK(parsed("any in libm.so.6!*").pattern.function == "*");
}

TEST_CASE("latencies are captured of what may load, keyed, and asked for in conditions") {
  const Probe p = parsed("load in walk capture latency key caller when latency < 500 => log2");
  CHECK(p.uses_fact(ProbeFact::latency));
  CHECK(parsed("ret key latency / 8").uses_fact(ProbeFact::latency));
  CHECK(parsed("insn add* when latency > 9").uses_fact(ProbeFact::latency));
  CHECK_FALSE(parsed("load").uses_fact(ProbeFact::latency));
}

TEST_CASE("a pattern names threads and lines, each once and in any order") {
  const Probe p = parsed("load at src/main.c:12-20 in thread work* in libc*!f capture value");
  CHECK(p.pattern.function == "f");
  CHECK(p.pattern.thread == "work*");
  CHECK(p.pattern.file == "src/main.c");
  CHECK(p.pattern.first_line == 12);
  CHECK(p.pattern.last_line == 20);
  CHECK(parsed("load at a.c:7").pattern.last_line == 7);
  CHECK(parsed("load at \"my file.c:7\"").pattern.file == "my file.c");
  CHECK(parsed("load at C:a.c:7").pattern.file == "C:a.c");
  CHECK(parsed("entry f in thread \"pool 1\"").pattern.thread == "pool 1");
  CHECK(parsed("load in \"thread\"").pattern.function == "thread");
  CHECK(parsed("load in thread_main").pattern.function == "thread_main");
}

TEST_CASE("a file is meant by the end of its path") {
  const auto means = [](const char* file, const char* path, uint32_t line) {
    return collect::is_of_lines(parsed(fmt::format("load at {}:3-5", file)).pattern, path, line);
  };
  CHECK(means("a.c", "/x/y/a.c", 3));
  CHECK(means("a.c", "a.c", 5));
  CHECK(means("y/a.c", "/x/y/a.c", 4));
  CHECK(means("/x/y/a.c", "/x/y/a.c", 4));
  CHECK(means("y/*", "/x/y/a.c", 4));
  CHECK(means("*.c", "/x/y/a.c", 4));
  CHECK_FALSE(means("a.c", "/x/y/aa.c", 4));
  CHECK_FALSE(means("x/a.c", "/x/y/a.c", 4));
  CHECK_FALSE(means("a.c", "/x/y/a.c", 2));
  CHECK_FALSE(means("a.c", "/x/y/a.c", 6));
}

TEST_CASE("a probe of lines looks at their instructions, and any other at all of them") {
  collect::ProbedCode code;
  code.of_lines = 0b10;
  code.within[4] = 0b11;
  code.on_line.push_back({0, 0b10});  // of another block
  code.on_line.push_back({3, 0b10});
  code.lines[4] = {1, 1};
  CHECK(code.within_at(BlockId(4), 3) == 0b11);
  CHECK(code.within_at(BlockId(4), 0) == 0b01);
  CHECK(code.within_at(BlockId(5), 3) == 0);
}

TEST_CASE("a stack is a column by itself, captured or a key") {
  const Probe p = parsed("load capture size key stack 12, pc when size > 3 => log2");
  CHECK(p.stack == 12);
  CHECK(p.keys == 2);
  REQUIRE(p.columns.size() == 3);
  CHECK(p.columns[0].text == "stack 12");
  CHECK(p.columns[0].is_stack);
  CHECK_FALSE(p.columns[1].is_stack);
  CHECK(p.uses_fact(ProbeFact::stack));
  CHECK(parsed("call capture stack").stack == Probe::kUsualStack);
  CHECK(parsed("call capture stack").action == ProbeAction::values);
  CHECK(parsed("call").stack == 0);
  CHECK(parsed("stack: call").name == "stack");
  CHECK(refused("call key stack 0") == "column 16: a stack has 1 to 64 calls");
  CHECK(refused("call key stack 65") == "column 16: a stack has 1 to 64 calls");
  CHECK(refused("call key stack, stack 2") == "column 17: a probe has one stack");
  CHECK(refused("call key 1 + stack").starts_with("column 14: a stack is no number"));
  CHECK(refused("call when stack").starts_with("column 11: a stack is no number"));
  CHECK(refused("call key stack + 1") == "column 16: '+' cannot stand here");
}

TEST_CASE("operators bind as in C") {
  CHECK(value_of("2 + 3 * 4") == 14);
  CHECK(value_of("(2 + 3) * 4") == 20);
  CHECK(value_of("7 - 2 - 1") == 4);
  CHECK(value_of("1 << 4 | 3 & 2") == 18);
  CHECK(value_of("rax % 64 == 16", 80) == 1);
  CHECK(value_of("not rax == 5", 5) == 0);
  CHECK(value_of("!rax + 1", 5) == 1);
  CHECK(value_of("~0 >> 60") == 15);
  CHECK(value_of("-1") == ~uint64_t{0});
  CHECK(value_of("rax < 5 or rax > 10 and rax != 12", 12) == 0);
  CHECK(value_of("0x10 + rax", 1) == 17);
  CHECK(value_of("1 << 64") == 0);
}

TEST_CASE("what has no value stays without, but where it is not asked for") {
  CHECK_FALSE(value_of("1 / rax"));
  CHECK_FALSE(value_of("rax % 0", 4));
  CHECK_FALSE(value_of("rbx"));
  CHECK_FALSE(value_of("rbx and 0"));
  CHECK(value_of("0 and rbx") == 0);
  CHECK(value_of("1 or rbx") == 1);
}

TEST_CASE("counters are asked for each execution that reaches them") {
  Probe p = parsed("any when rax == 1 and after 2 and every 3");
  int held = 0;
  ProbeFacts facts;
  for (uint64_t i = 0; i < 22; i++) {
    facts.set(ProbeFact::rax, i % 2);
    held += collect::evaluate(p, *p.condition, facts) == 1 ? 1 : 0;
  }
  CHECK(held == 3);  // of 11 the last 9, of those each third
}

TEST_CASE("errors say in which column something is wrong") {
  CHECK(refused("") ==
        "column 1: the end is no pattern: load, store, call, ret, branch, jump, "
        "atomic, div, vector, any, insn NAME or entry FUNCTION");
  CHECK(refused("on lod").starts_with("column 4: 'lod' is no pattern"));
  CHECK(refused("load capture valu") == "column 14: there is no fact 'valu'");
  CHECK(refused("load capture value +") ==
        "column 21: a number or a fact is missing before the end");
  CHECK(refused("load capture (value") == "column 20: ) is missing before the end");
  CHECK(refused("load capture value)") == "column 19: ')' cannot stand here");
  CHECK(refused("load capture value $") == "column 20: this sign means nothing in a probe");
  CHECK(refused("load capture 12x") == "column 14: '12x' is no number");
  CHECK(refused("load capture 18446744073709551616") ==
        "column 14: 18446744073709551616 does not fit into 64 bits");
  CHECK(refused("load capture value => topten") ==
        "column 23: 'topten' is no action: count, values, log2");
  CHECK(refused("load => log2") == "column 9: log2 of what? the probe captures nothing");
  CHECK(refused("load capture value => count").starts_with("column 23: count is for"));
  CHECK(refused("entry") == "column 6: the name of a function is missing");
  CHECK(refused("any in \"f") == "column 8: a second \" is missing");
  CHECK(refused("load capture arg0").starts_with("column 14: arguments are known at entries"));
  CHECK(refused("load capture divisor").starts_with("column 14: only divisions"));
  CHECK(refused("entry f capture value").starts_with("column 17: entries have"));
  CHECK(refused("ret capture addr").starts_with("column 13: branches have no address"));
  CHECK(refused("load capture every 3") == "column 14: counters are for conditions (when)");
  CHECK(refused("load when every 0") == "column 17: a number is missing, not '0'");
  CHECK(refused("store capture latency") == "column 15: only what loads has a latency (on load)");
  CHECK(refused("entry f capture latency").starts_with("column 17: entries have"));
  CHECK(refused("load at a.c").starts_with("column 9: a line of the source is missing"));
  CHECK(refused("load at :3").starts_with("column 9: a line of the source is missing"));
  CHECK(refused("load at a.c:0") == "column 9: '0' is no line, and no range of lines");
  CHECK(refused("load at a.c:5-3") == "column 9: '5-3' is no line, and no range of lines");
  CHECK(refused("load at a.c:5-x") == "column 9: '5-x' is no line, and no range of lines");
  CHECK(refused("load at a.c:1 at b.c:2") == "column 15: this says a second time where it is");
  CHECK(refused("load in f in g") == "column 11: this says a second time where it is");
  CHECK(refused("load in thread ") == "column 16: the name of a thread is missing");
  CHECK(refused("entry f at a.c:3") == "column 9: entries are given by functions, not by lines");
  CHECK(refused("when: load") == "column 1: 'when' cannot be the name of a probe");
  CHECK(refused("load capture 1, 2, 3, 4, 5") == "column 26: a probe has 4 columns at most");
  CHECK(refused("load capture 1, 2, 3 key 4, 5") == "column 26: a probe has 4 columns at most");
}

TEST_CASE("what is nested or long without end is refused") {
  CHECK(refused("load capture " + std::string(1'000, '(')).find("nested too deeply") !=
        std::string::npos);
  CHECK(refused("load capture " + std::string(1'000, '-') + "1").find("nested too deeply") !=
        std::string::npos);
  std::string sum = "load capture 1";
  for (int i = 0; i < 900; i++) sum += "+1";
  CHECK(refused(sum) == "it is too long");
  CHECK(refused(std::string(5'000, ' ')) == "it has more than 4000 characters");
}

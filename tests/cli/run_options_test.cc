// SPDX-License-Identifier: MIT
//
// The command line of run: where our options end and the program's begin, and what is refused.
#include "cli/run_options.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "base/unique_fd.h"

using namespace shadowprof;
using cli::RunOptions;

namespace {

// What the parser says on stderr goes into a pipe for the time of the call.
struct Parsed {
  std::optional<int> status;
  RunOptions options;
  std::string said;
};

Parsed parse(std::vector<std::string> words) {
  Parsed result;
  words.insert(words.begin(), "run");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd read_end(ends[0]);
  const UniqueFd kept(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  REQUIRE(::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
  ::close(ends[1]);
  result.status =
      cli::parse_run_options(static_cast<int>(words.size()), argv.data(), result.options);
  REQUIRE(::dup2(kept.get(), STDERR_FILENO) == STDERR_FILENO);
  char buffer[4096];
  const ssize_t n = ::read(read_end.get(), buffer, sizeof buffer);
  if (n > 0) result.said.assign(buffer, static_cast<size_t>(n));
  return result;
}

void refuses(std::vector<std::string> words, const std::string& sentence) {
  const Parsed parsed = parse(std::move(words));
  CAPTURE(parsed.said);
  REQUIRE(parsed.status.has_value());
  CHECK(*parsed.status == 125);
  CHECK(parsed.said.find(sentence) != std::string::npos);
  CHECK(parsed.said.find('\n') == parsed.said.size() - 1);
}

}  // namespace

TEST_CASE("sampled runs draw a seed each, full mode has one, and what is given is taken") {
  const auto seed = [](std::vector<std::string> words) {
    const RunOptions options = parse(std::move(words)).options;
    return options.sampling.seed(options.mode);
  };
  CHECK(seed({"true"}) != seed({"true"}));
  CHECK(seed({"--mode", "burst", "true"}) != seed({"--mode", "burst", "true"}));
  CHECK(seed({"--mode", "full", "true"}) == 1);
  CHECK(seed({"--seed", "7", "true"}) == 7);
  CHECK(seed({"--seed", "7", "--mode", "full", "true"}) == 7);
}

TEST_CASE("everything from the first word that is no option belongs to the program") {
  using Words = std::vector<std::string>;
  CHECK(parse({"-q", "ls", "-o", "x", "--", "-q"}).options.command ==
        Words{"ls", "-o", "x", "--", "-q"});
  CHECK(parse({"-o", "p", "--", "--version"}).options.command == Words{"--version"});
  CHECK(parse({"--", "ls", "--mode", "fast"}).options.command == Words{"ls", "--mode", "fast"});
  const RunOptions options = parse({"-o", "p.gz", "--profile", "edge", "-v", "ls"}).options;
  CHECK(options.output == "p.gz");
  CHECK(options.verbose);
  CHECK(options.wanted.wants("edge"));
  CHECK_FALSE(options.wanted.wants("call"));
  CHECK(options.recorded().at("profile") == "edge");
}

TEST_CASE("what is planned is refused by name, and differently from what is unknown") {
  refuses({"--mode", "full", "--engine", "emulator", "ls"}, "not available in full mode");
  refuses({"--mode", "fast", "ls"}, "there is no mode 'fast'");
  refuses({"--profile", "edge,streams", "ls"}, "there is no profile 'streams'");
  refuses({"--profile", "colour", "ls"}, "there is no profile 'colour'");
  refuses({"--color=x", "ls"}, "there is no option --color here: it is one of report");
  refuses({"--probe=x", "ls"}, "--probe: column 1: 'x' is no pattern");
  refuses({"--probe", "a: div", "--probe", "a: load", "ls"}, "two probes have the name a");
  refuses({"--mode", "burst", "--engine", "step", "--probe", "div", "ls"},
          "probes follow from registers");
  refuses({"--mode", "burst", "--engine", "emulator", "--probe", "load capture latency", "ls"},
          "the engine emulator cannot time loads");
  refuses({"--frob", "--", "ls"}, "there is no option --frob");
  refuses({"--\x1b[31m", "ls"}, "there is no option --\\x1b[31m");
}

TEST_CASE("a clock is chosen for deterministic runs only") {
  const auto recorded = [](std::vector<std::string> words) {
    return parse(std::move(words)).options.recorded();
  };
  CHECK(recorded({"--mode", "full", "--deterministic", "ls"}).at("clock") == "virtual");
  CHECK(recorded({"--mode", "full", "--deterministic", "--clock", "real", "ls"}).at("clock") ==
        "real");
  CHECK_FALSE(recorded({"--mode", "full", "ls"}).contains("clock"));
  refuses({"--mode", "full", "--clock", "real", "ls"}, "with --deterministic");
  refuses({"--deterministic", "--clock", "virtual", "ls"}, "for --mode full");
  refuses({"--mode", "full", "--deterministic", "--clock", "fast", "ls"}, "no clock 'fast'");
}

TEST_CASE("an order of threads is for deterministic runs with their own clock") {
  CHECK(parse({"--mode", "full", "--deterministic", "--schedule-seed", "7", "ls"})
            .options.recorded()
            .at("schedule_seed") == "7");
  refuses({"--mode", "full", "--schedule-seed", "7", "ls"}, "with --deterministic");
  refuses({"--mode", "full", "--deterministic", "--schedule-seed", "x", "ls"}, "--schedule-seed");
  refuses({"--mode", "full", "--deterministic", "--clock", "real", "--schedule-seed", "7", "ls"},
          "virtual clock");
}

TEST_CASE("an option that means nothing in the mode is refused") {
  refuses({"--mode", "full", "-d", "5s", "ls"}, "option --duration is for sampled runs");
  refuses({"--mode", "full", "--max-overhead", "2%", "ls"}, "for sampled runs");
  refuses({"--mode", "burst", "--verify", "ls"}, "option --verify is for --mode shadow");
  refuses({"--mode", "burst", "-F", "10", "ls"}, "option --freq is for --mode shadow");
  refuses({"--burst", "2ms/1s", "ls"}, "option --burst is for --mode burst");
}

TEST_CASE("a burst has a length and a period") {
  const auto burst = cli::parse_burst("2ms/4s");
  REQUIRE(burst);
  CHECK(burst->length == doctest::Approx(0.002));
  CHECK(burst->period == doctest::Approx(4));
  for (const char* text : {"2ms", "2ms/", "/1s", "0/1s", "2s/1s", "x/y", "2ms/1s/3"})
    CHECK_FALSE(cli::parse_burst(text));
  refuses({"--mode", "burst", "--burst", "2ms", "ls"}, "DURATION/PERIOD");
  refuses({"--mode", "burst", "-f", "--engine", "step", "ls"}, "--engine emulator");
  refuses({"--mode", "burst", "--engine", "step", "--profile", "value", "ls"}, "neither values");
  refuses({"--mode", "full", "--engine", "step", "--profile", "+hazard", "ls"},
          "hazards, waste and streams follow from addresses");
  refuses({"--mode", "burst", "--profile", "latency", "ls"}, "cannot time loads");
  refuses({"--mode", "shadow", "--engine", "step", "ls"}, "not available in shadow mode");
}

TEST_CASE("numbers that make no sense are refused") {
  for (const char* value : {"x", "-3", "1.5", "99999999999999999999", ""})
    refuses({"--top", value, "ls"}, "--top");
  CHECK(parse({"--top", "0", "ls"}).options.top == 0);
}

TEST_CASE("a condition says how much is looked at") {
  const auto collected = [](std::vector<std::string> words) {
    words.emplace_back("ls");
    const RunOptions options = parse(std::move(words)).options;
    return options.collection();
  };
  const auto full = collected({"--mode", "full", "--profile", "+value"});
  CHECK(full.value_options.condition.every > full.value_options.condition.burst);
  CHECK(!full.latency_condition);
  const auto all = collected({"--mode", "full", "--condition", "values=all"});
  CHECK(all.value_options.condition.all());
  CHECK(!all.any_condition);
  const auto some = collected({"--condition", "values=burst:10,every:200", "--condition",
                               "latency=1/64"});
  CHECK(some.value_options.condition.every == 200);
  REQUIRE(some.latency_condition);
  CHECK(some.latency_condition->weight() == 64);
  CHECK(collected({}).any_condition);
  // Whose values are in windows, loads in bouts, or neither, by default.
  const auto kinds = [&](std::vector<std::string> words) {
    const auto of = collected(std::move(words));
    return std::pair(of.values, of.latencies);
  };
  CHECK(kinds({}) == std::pair(true, true));
  CHECK(kinds({"-f"}) == std::pair(false, true));
  CHECK(kinds({"--max-shadows", "2"}) == std::pair(false, false));
  CHECK(kinds({"--engine", "emulator"}) == std::pair(false, false));
  CHECK(kinds({"--mode", "full"}) == std::pair(false, false));
  for (const char* text : {"all", "values=", "values=burst:0,every:3", "values=burst:4,every:3",
                           "values=burst:4,every:9x", "paths=all", "calls=1/100x10"})
    refuses({"--condition", text, "ls"}, "condition");
}

TEST_CASE("a start is a function of one process that is sampled") {
  CHECK(parse({"--start-at", "serve", "ls"}).options.sampling.start_at == "serve");
  CHECK(parse({"--mode", "burst", "--start-at", "app!", "ls"}).options.sampling.start_at == "app!");
  for (const char* none : {"", "!"})
    refuses({"--start-at", none, "ls"}, "a FUNCTION, or MODULE!, is needed");
  refuses({"--mode", "full", "--start-at", "serve", "ls"}, "for sampled runs");
  refuses({"-f", "--start-at", "serve", "ls"}, "for one process");
}

TEST_CASE("a condition that nothing follows is refused") {
  refuses({"--condition", "values=all", "--condition", "values=1/2", "ls"}, "at most");
  refuses({"--mode", "full", "--condition", "latency=1/2", "ls"}, "is not collected here");
  refuses({"--mode", "full", "--profile", "latency", "--within", "f", "--condition", "latency=1/2",
           "ls"},
          "needs counters");
  refuses({"--mode", "burst", "--engine", "translator", "--profile", "latency", "--condition",
           "latency=1/2", "ls"},
          "a burst is a window itself");
  refuses({"--verify", "--profile", "latency", "--condition", "latency=1/2", "ls"},
          "needs the translator");
}

TEST_CASE("a run needs a program") {
  refuses({}, "no program given");
  refuses({"--"}, "no program given");
  refuses({"-o"}, "-o");
}

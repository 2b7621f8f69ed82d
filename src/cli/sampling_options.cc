// SPDX-License-Identifier: MIT
#include "cli/sampling_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/quantity.h"

namespace shadowprof::cli {
namespace {

constexpr uint64_t kSmallestSample = 1000;
constexpr size_t kMostShadows = 1;

template <typename T>
void add(CLI::App& app, const char* names, T& into, Result<T> (*parse)(const std::string&),
         const char* type, const char* help) {
  const auto take = [&into, parse](const std::string& text) {
    const auto parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(parsed.error().message);
    into = *parsed;
  };
  app.add_option_function<std::string>(names, take, help)->type_name(type);
}

Result<uint64_t> parse_sample_size(const std::string& text) {
  SP_ASSIGN(const uint64_t size, parse_count(text));
  if (size < kSmallestSample) return fail("a sample has at least {} instructions", kSmallestSample);
  return size;
}

Result<double> parse_overhead(const std::string& text) {
  SP_ASSIGN(const double share, parse_percent(text));
  if (share <= 0 || share > 1) return fail("--max-overhead is above 0% and at most 100%");
  return share;
}

}  // namespace

void SamplingOptions::add_to(CLI::App& app) {
  add(app, "--sample-size", sample_size, parse_sample_size, "N", "instructions of a sample (10M, growing to 80M)");
  add(app, "--max-overhead", max_overhead, parse_overhead, "PCT",
      "what sampling may cost the program (1%)");
  app.add_option("--load", load, "share of the time in which a shadow runs, at most (0.5)")
      ->type_name("X")
      ->check(CLI::Range(0.0001, 1.0));
  add(app, "-d,--duration", duration, parse_time, "S", "stop sampling after this time");
  add(app, "-D,--delay", delay, parse_time, "S", "begin sampling after this time");
  app.add_option("-F,--freq", frequency, "samples a second, at most")
      ->type_name("HZ")
      ->check(CLI::PositiveNumber);
  app.add_option("--max-shadows", max_shadows, "shadows at one time")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMostShadows));
  app.add_option("--seed", seed, "of the random moments of samples (1)")->type_name("N");
}

void SamplingOptions::apply_to(sample::ShadowModeRequest& request) const {
  request.sample_size = sample_size;
  request.max_shadows = max_shadows;
  request.duration = duration;
  request.governor.max_overhead = max_overhead;
  request.governor.load = load;
  request.governor.frequency = frequency;
  request.governor.delay = delay;
  request.governor.seed = seed;
}

void SamplingOptions::record_in(std::map<std::string, std::string>& options) const {
  options["sample_size"] = sample_size ? fmt::format("{}", sample_size) : "default";
  options["max_overhead"] = fmt::format("{}", max_overhead);
  options["load"] = fmt::format("{}", load);
  options["frequency"] = fmt::format("{}", frequency);
}

}  // namespace shadowprof::cli

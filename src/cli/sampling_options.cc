// SPDX-License-Identifier: MIT
#include "cli/sampling_options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "cli/quantity.h"
#include "cli/version.h"

namespace shadowprof::cli {
namespace {

constexpr size_t kMostShadows = 16;
constexpr double kLeastError = 0.0005;
constexpr double kMostError = 0.5;

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
  if (size < sample::kSmallestSample_instructions)
    return fail("a sample has at least {} instructions", sample::kSmallestSample_instructions);
  return size;
}

Result<double> parse_rate(const std::string& text) {
  double hertz = 0;
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, hertz);
  if (problem != std::errc() || at != end || !std::isfinite(hertz) || hertz <= 0)
    return fail("'{}' is no number of samples a second above 0", text);
  return hertz;
}

Result<double> parse_overhead(const std::string& text) {
  SP_ASSIGN(const double share, parse_percent(text));
  if (share <= 0 || share > 1) return fail("--max-overhead is above 0% and at most 100%");
  return share;
}

Result<double> parse_error(const std::string& text) {
  SP_ASSIGN(const double share, parse_percent(text));
  if (share < kLeastError || share > kMostError)
    return fail("--until-error is from {}% to {}%", 100 * kLeastError, 100 * kMostError);
  return share;
}

constexpr double kShortestBurst = 1e-5;

std::string refuse_part(const std::string& text) {
  if (!text.empty() && text != "!") return {};
  return "a FUNCTION, or MODULE!, is needed";
}

sample::TimeFrom time_from(const std::string& word) {
  return word == "looks" ? sample::TimeFrom::looks
         : word == "off" ? sample::TimeFrom::nowhere
                         : sample::TimeFrom::clock;
}

}  // namespace

Result<BurstShape> parse_burst(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return fail("a burst is DURATION/PERIOD, as in 2ms/250ms");
  BurstShape shape;
  SP_ASSIGN(shape.length, parse_time(text.substr(0, slash)));
  SP_ASSIGN(shape.period, parse_time(text.substr(slash + 1)));
  if (shape.length < kShortestBurst) return fail("a burst lasts at least 10us");
  if (shape.period < shape.length) return fail("a burst's period is not shorter than the burst");
  return shape;
}

namespace {

// Options that mean something in some modes only.
struct ModeOption {
  const char* name;
  const char* modes;  // that have it; null: all that take samples
};
constexpr ModeOption kModeOptions[] = {
    {"--burst", "burst"},        {"--cache", "shadow"},       {"--converge", "shadow"},
    {"--delay", nullptr},        {"--duration", nullptr},     {"--freq", "shadow"},
    {"--input-log", "shadow"},   {"--load", "shadow"},        {"--max-memory", "shadow"},
    {"--max-overhead", nullptr}, {"--max-shadows", "shadow"}, {"--prefill", nullptr},
    {"--sample-size", "shadow"}, {"--time", nullptr},         {"--verify", "shadow"},
};

Status check_mode(std::string_view given, std::string_view mode) {
  const auto* option = std::ranges::find(kModeOptions, given, &ModeOption::name);
  if (option->modes == nullptr)
    return mode != "full" ? Status() : fail("option {} is for sampled runs", given);
  return mode == option->modes ? Status()
                               : fail("option {} is for --mode {}", given, option->modes);
}

}  // namespace

void SamplingOptions::add_to(CLI::App& app) {
  add(app, "--sample-size", sample_size, parse_sample_size, "N",
      "instructions of a sample (balanced with its cost)");
  add(app, "--max-overhead", max_overhead, parse_overhead, "PCT",
      "what sampling may cost the program (1%)");
  app.add_option("--load", load, "shadows at a time on average, at most (1)")
      ->type_name("X")
      ->check(CLI::Range(0.0001, double{kMostShadows}));
  app.add_option("--only", only, "begin samples in part P; begin sampling in part F")
      ->type_name("P --start-at F")
      ->check(refuse_part);
  add(app, "-d,--duration", duration, parse_time, "S", "stop sampling after this time");
  add(app, "--until-error", until_error, parse_error, "PCT",
      "stop when the hottest functions are known to ± PCT");
  add(app, "-D,--delay", delay, parse_time, "S", "begin sampling after this time");
  app.add_option("--start-at", start_at)->type_name("FUNCTION")->group("")->check(refuse_part);
  app.add_option("-F,--freq", frequency, "samples a second, at most")
      ->type_name("HZ")
      ->check([](const std::string& text) {
        const auto number = parse_rate(text);
        return number ? std::string() : number.error().message;
      });
  app.add_option("--max-shadows", max_shadows, "shadows at one time, at most (1)")
      ->type_name("N")
      ->check(CLI::Range(size_t{1}, kMostShadows));
  add(app, "--max-memory", max_memory, parse_bytes, "SIZE",
      "memory of shadowprof and its shadows, at most");
  app.add_option_function<std::string>(
         "--converge", [this](const std::string& word) { converge = word == "on"; },
         "fewer samples when nothing new comes: on, off (on)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--input-log", input_log,
                 "keep what the program reads: auto, on, off")
      ->type_name("WHEN")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_option("--time", time, "processor time: clock, looks, off (clock)")
      ->type_name("FROM")
      ->check(CLI::IsMember({"clock", "looks", "off"}));
  app.add_option("--engine", engine,
                 "translator, emulator; in burst mode also step")
      ->type_name("ENGINE")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "translator", "emulator", "step"}));
  app.add_flag("--verify", verify, "run some samples in both engines and compare them");
  add(app, "--burst", burst, parse_burst, "TIME/TIME",
      "length of a burst / time to the next (2ms/250ms)");
  app.add_option_function<std::string>(
         "--prefill", [this](const std::string& word) { prefill = word == "on"; },
         "translate ahead what the program runs: on, off (on)")
      ->type_name("WORD")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--cache", cache, "keep in DIR which code runs, for later runs")
      ->type_name("DIR")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("the name of a directory is needed") : std::string();
      });
  app.add_option("--seed", given_seed)->type_name("N")->group("");  // its help is that of --top
  for (const ModeOption& option : kModeOptions)
    app.get_option(option.name)->each([this, name = option.name](const std::string&) {
      given_.emplace_back(name);
    });
}

uint64_t SamplingOptions::seed(std::string_view mode) const {
  if (given_seed) return *given_seed;
  return mode == "full" ? 1 : drawn_seed_;
}

uint64_t SamplingOptions::draw_seed() {
  return std::random_device()();
}

Status SamplingOptions::check(const std::string& mode, bool one_process) const {
  for (const std::string_view given : given_) SP_TRY(check_mode(given, mode));
  if (!start_at.empty() && mode == "full")
    return fail("option --start-at is for sampled runs: --from is for --mode full");
  if (!start_at.empty() && !one_process)
    return fail("--start-at is for one process, without -f");
  if (until_error > 0 && mode == "full") return fail("option --until-error is for sampled runs");
  if (!only.empty() && mode == "full")
    return fail("option --only is for sampled runs: --within is for --mode full");
  if (!only.empty() && verify) return fail("--only and --verify do not go together");
  if (mode == "burst" && chosen_engine(mode) != "translator" &&
      std::ranges::find(given_, "--prefill") != given_.end())
    return fail("option --prefill is for --engine translator");
  if (mode == "burst" && !one_process && chosen_engine(mode) != "emulator")
    return fail("of several processes, or with -f, bursts are those of --engine emulator");
  if (max_shadows > 1 && (mode != "shadow" || engine == "emulator" || verify)) {
    return fail("--max-shadows is for the translator in shadow mode, without --verify");
  }
  if (engine == "auto" || engine == "translator") return {};
  if (engine == "step" && mode == "burst") return {};
  if (engine == "emulator" && mode != "full") return {};
  return fail("the engine {} is not available in {} mode", engine, mode);
}

void SamplingOptions::apply_to(sample::ShadowModeRequest& request) const {
  request.snapshots.until_error = until_error;
  request.only = only;
  request.start_at = start_at;
  request.sample_size = sample_size;
  request.max_shadows = max_shadows;
  request.max_memory = max_memory;
  request.converge = converge;
  request.prefill = prefill;
  request.code_directory = cache;
  request.version = version();
  request.duration = duration;
  request.time = time_from(time);
  request.input_log = input_log == "on"    ? sample::InputLogging::on
                      : input_log == "off" ? sample::InputLogging::off
                                           : sample::InputLogging::automatic;
  request.wishes.max_overhead_share = max_overhead;
  request.wishes.load = load;
  request.wishes.frequency_hz = frequency;
  request.wishes.delay_s = delay;
  request.wishes.seed = seed("shadow");
  request.verify = verify;
  request.engine = engine == "emulator" ? sample::Engine::emulator : sample::Engine::translator;
}

std::string SamplingOptions::chosen_engine(std::string_view mode) const {
  if (engine != "auto") return engine;
  return mode == "burst" ? "emulator" : "translator";
}

void SamplingOptions::apply_to(sample::BurstModeRequest& request) const {
  request.snapshots.until_error = until_error;
  request.version = version();
  request.only = only;
  request.start_at = start_at;
  request.length = burst.length;
  request.prefill = prefill;
  const std::string which = chosen_engine("burst");
  request.engine = which == "step"       ? sample::BurstEngineKind::step
                   : which == "emulator" ? sample::BurstEngineKind::emulator
                                         : sample::BurstEngineKind::translator;
  request.duration = duration;
  request.time = time_from(time);
  request.wishes.max_overhead_share = max_overhead;
  request.wishes.delay_s = delay;
  pace_bursts(request.wishes);
}

void SamplingOptions::make_bursts_of(sample::ShadowModeRequest& request) const {
  request.burst_length_s = burst.length;
  request.engine = sample::Engine::emulator;
  request.prefill = false;
  pace_bursts(request.wishes);
}

void SamplingOptions::pace_bursts(plan::Wishes& wishes) const {
  wishes.load = 1;
  wishes.frequency_hz = 1 / burst.period;
  wishes.seed = seed("burst");
}

void SamplingOptions::record_in(const std::string& mode,
                                std::map<std::string, std::string>& options) const {
  options["engine"] = chosen_engine(mode);
  options["max_overhead"] = fmt::format("{}", max_overhead);
  options["prefill"] = prefill ? "on" : "off";
  options["time"] = time;
  if (!only.empty()) options["only"] = only;
  if (!start_at.empty()) options["start_at"] = start_at;
  if (until_error > 0) options["until_error"] = fmt::format("{}", until_error);
  if (duration > 0) options["duration"] = fmt::format("{}", duration);
  if (mode == "burst") {
    options["burst"] = fmt::format("{}s/{}s", burst.length, burst.period);
    return;
  }
  if (!cache.empty()) options["cache"] = cache;
  options["sample_size"] = sample_size ? fmt::format("{}", sample_size) : "default";
  options["input_log"] = input_log;
  options["max_shadows"] = fmt::format("{}", max_shadows);
  if (max_memory != 0) options["max_memory"] = fmt::format("{}", max_memory);
  options["converge"] = converge ? "on" : "off";
  options["load"] = fmt::format("{}", load);
  options["frequency"] = fmt::format("{}", frequency);
}

}  // namespace shadowprof::cli

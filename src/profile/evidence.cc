// SPDX-License-Identifier: MIT
#include "profile/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace shadowprof::profile {
namespace {

constexpr size_t kTopFunctions = 10;
// A program that was seen asleep so often before its end may just have been short.
constexpr uint64_t kSleepsOfAShortProgram = 3;

uint64_t stops_by(const Profile& profile, const char* kind) {
  const auto found = profile.overhead.stops.find(kind);
  return found == profile.overhead.stops.end() ? 0 : found->second;
}

// For how long it was to be sampled, if that was said.
std::optional<double> duration_option(const Run& run) {
  const auto found = run.options.find("duration");
  if (found == run.options.end()) return std::nullopt;
  const std::string& text = found->second;
  double seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return read.ec == std::errc() ? std::optional(seconds) : std::nullopt;
}

// A sampled profile without a sample.
std::string why_empty(const Profile& p) {
  if (const auto others = what_others_did(p)) return "no samples: " + *others;
  const uint64_t asleep = stops_by(p, "sleeping");
  const uint64_t stopped = stops_by(p, "stopped");
  const uint64_t refused = stops_by(p, "refused");
  if (stopped > asleep)
    return "no samples: the program was stopped, as by ctrl-Z, whenever one was due";
  if (refused > asleep)
    return fmt::format("no samples: {} could not be taken{}", refused,
                       p.run.mode == "burst" ? ", perhaps as the program was stopped"
                                             : "; --mode burst needs less");
  if (p.run.start_at && !p.run.start_at->at_s)
    return fmt::format("no samples: the program was not seen in {} (--start-at)",
                       p.run.start_at->function);
  if (const uint64_t elsewhere = stops_by(p, "elsewhere"); elsewhere != 0)
    return fmt::format("no samples: none of {} looks found the program in {} (--only)", elsewhere,
                       p.run.options.contains("only") ? p.run.options.at("only") : "it");
  const auto wanted_s = duration_option(p.run);
  if (wanted_s && p.run.duration_s >= *wanted_s && asleep <= kSleepsOfAShortProgram)
    return fmt::format(
        "no samples: none was due in {:.3f} s (-d); profile for longer, or raise --max-overhead",
        p.run.duration_s);
  if (p.run.exit && asleep <= kSleepsOfAShortProgram)
    return fmt::format(
        "no samples: the program ended before the first one, after {:.3f} s; --mode full profiles "
        "all of it",
        p.run.duration_s);
  if (asleep != 0)
    return fmt::format(
        "no samples: the program was asleep whenever one was due ({} times in {:.1f} s); "
        "profile it while it works, or for longer",
        asleep, p.run.duration_s);
  return fmt::format(
      "no samples: none was due in {:.3f} s; profile for longer, or raise --max-overhead",
      p.run.duration_s);
}

// So many ticks of the clock tell what functions take, whatever samples say.
bool time_tells(const Profile& p) {
  return p.time.is_known() && p.time.ticks >= kFewTicks;
}

// The ten hottest functions decide.
bool most_are_certain(const Profile& p) {
  FunctionTable functions = p.functions;
  const size_t count = std::min(functions.size(), kTopFunctions);
  std::partial_sort(functions.begin(), functions.begin() + static_cast<ptrdiff_t>(count),
                    functions.end(),
                    [](const Function& a, const Function& b) { return a.self > b.self; });
  const double critical = critical_value(p.confidence.groups);
  double all = 0;
  double certain = 0;
  for (size_t i = 0; i < count; i++) {
    const auto self = static_cast<double>(functions[i].self);
    all += self;
    if (critical * static_cast<double>(functions[i].self_error) <= self) certain += self;
  }
  return 2 * certain >= all;
}

// A region that the program was never in.
std::optional<std::string> why_without_region(const Run& run) {
  if (!run.region || run.region->entries != 0) return std::nullopt;
  if (run.region->is_marks())
    return "has nothing in it: the program came to no begin mark (--within marks)";
  return fmt::format(
      "has nothing in it: '{}' ({}) was not entered; it may be inlined, or have another name",
      run.region->is_between() ? run.region->from : run.region->within,
      run.region->is_between() ? "--from" : "--within");
}

}  // namespace

std::optional<std::string> why_incomplete(const Profile& profile) {
  const std::vector<EndedEarly>& all = profile.coverage.ended_early;
  if (all.empty()) return why_without_region(profile.run);
  const EndedEarly& first = all.front();
  std::string text = fmt::format("ended early, after {:.3f} s", first.at_s);
  if (first.instructions) text += fmt::format(" and {} instructions", *first.instructions);
  text += ": " + first.why;
  if (all.size() > 1) text += fmt::format(" (and {} more)", all.size() - 1);
  return text;
}

std::optional<std::string> part_sampled(const Profile& profile) {
  const auto part = profile.run.options.find("only");
  if (part == profile.run.options.end()) return std::nullopt;
  const auto elsewhere = profile.overhead.stops.find("elsewhere");
  const uint64_t missed = elsewhere == profile.overhead.stops.end() ? 0 : elsewhere->second;
  return fmt::format(
      "samples begin in {} alone, where {} of {} looks found the program: all but time is of what "
      "it executes from there on",
      part->second, profile.coverage.samples, profile.coverage.samples + missed);
}

std::optional<std::string> uneven_runs(const Profile& profile) {
  constexpr double kUneven = 10;
  double least = 1, most = 0;
  for (const MergedRun& run : profile.run.merged) {
    if (run.instructions_total == 0 || run.instructions == 0) continue;
    const double share = std::min(
        1.0, static_cast<double>(run.instructions) / static_cast<double>(run.instructions_total));
    least = std::min(least, share);
    most = std::max(most, share);
  }
  if (most <= kUneven * least) return std::nullopt;
  return fmt::format(
      "the runs recorded from {:.2g} to {:.3g} % of their instructions: shares of instructions are "
      "mostly of those that recorded more, and cycles per instruction are not known",
      100 * least, 100 * most);
}

std::optional<std::string> what_others_did(const Profile& p) {
  const Overhead& o = p.overhead;
  if (o.unfollowed_cpu_s <= 0) return std::nullopt;
  return fmt::format(
      "processes that it started had {:.2f} of {:.2f} s of processor time and are not in the "
      "profile; -f profiles them, too",
      o.unfollowed_cpu_s, o.program_cpu_s);
}

Evidence evidence_of(const Profile& p) {
  const Confidence& confidence = p.confidence;
  if (!p.coverage.ended_early.empty())
    return {false, "part of the program is not in the profile: see coverage.ended_early"};
  if (confidence.exact || (p.run.mode == "full" && confidence.groups == 0)) return {};
  if (p.coverage.samples == 0) return {false, why_empty(p)};
  const bool enough = confidence.groups == 0 ? p.coverage.samples >= kFewSamples
                                             : confidence.groups > 1 && most_are_certain(p);
  if (enough) {
    const double unmet = part_sampled(p) ? 0 : unmet_time_share(p);
    if (unmet <= kMostUnmetShare) return {};
    return {false, fmt::format("too little for conclusions but from time: no sample met the code "
                               "that had {:.0f} % of it; profile for longer, raise "
                               "--max-overhead, or use --mode full",
                               100 * unmet)};
  }
  return {false, fmt::format("too little for conclusions{}: {} sample{}; profile for longer, raise "
                             "--max-overhead, or use --mode full",
                             time_tells(p) ? " but from time" : "", p.coverage.samples,
                             p.coverage.samples == 1 ? "" : "s")};
}

}  // namespace shadowprof::profile

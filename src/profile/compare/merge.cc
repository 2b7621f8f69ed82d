// SPDX-License-Identifier: MIT
#include "profile/compare/merge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "base/check.h"
#include "profile/compare/assumed_errors.h"
#include "profile/compare/same_region.h"
#include "profile/hidden_values.h"
#include "profile/hotlists/inclusive_estimate.h"
#include "profile/tables/table_rows.h"

namespace shadowprof::profile {
namespace {

constexpr double kMostCounts = 9.2e18;  // below 2^63

// Every sum of counts of a profile, so that no sum over merged profiles can wrap unseen.
std::vector<double> sums_of(const Profile& p) {
  const auto sum = [](const auto& rows, auto get) {
    double total = 0;
    for (const auto& row : rows) total += static_cast<double>(get(row));
    return total;
  };
  const Tables& t = p.tables;
  const auto second_of = [](const auto& row) { return row.second; };
  const Coverage& c = p.coverage;
  std::vector<double> sums = {
      static_cast<double>(c.instructions_profiled),
      static_cast<double>(c.instructions_total),
      static_cast<double>(c.samples),
      static_cast<double>(p.overhead.translated_blocks),
      sum(p.syscalls.by_class, second_of),
      sum(p.syscalls.by_name, [](const auto& row) { return row.second.count; }),
      sum(p.syscalls.by_name, [](const auto& row) { return row.second.ended; }),
      sum(t.blocks, [](const auto& b) { return static_cast<double>(b.count) * b.insns; }),
      sum(p.inlined, [](const auto& row) { return row.inclusive; }),
      sum(t.cache_lines, [](const auto& row) { return row.accesses(); })};
  for (const auto& counts : kCoverageCounts) sums.push_back(sum(c.*counts.member, second_of));
  for (const auto& counts : kOverheadCounts)
    sums.push_back(sum(p.overhead.*counts.member, second_of));
  for_each_table(
      [&](const auto& layout, auto member) { append_sums(layout, t.*member, sums); });
  return sums;
}

void multiply(std::map<std::string, uint64_t>& counts, uint64_t weight) {
  for (auto& [name, count] : counts) count *= weight;
}

void multiply(Overhead& o, uint64_t weight) {
  for (double* s : {&o.engine_cpu_s, &o.collector_cpu_s, &o.program_cpu_s, &o.unfollowed_cpu_s,
                    &o.translation_s})
    *s *= static_cast<double>(weight);
  o.translated_blocks *= weight;
  o.forks *= weight;
  o.extra_faults *= weight;
  o.pause_s.total *= static_cast<double>(weight);
  for (const auto& counts : kOverheadCounts) multiply(o.*counts.member, weight);
  for (auto& [cause, seconds] : o.by_cause) seconds *= static_cast<double>(weight);
  o.timeline.clear();
}

// Ticks say how certain shares are: what is added ten times is not the more so.
void multiply(ProcessorTime& time, uint64_t weight) {
  for (const NamedSeconds& seconds : kTimeSeconds)
    time.*seconds.member *= static_cast<double>(weight);
}

void multiply(Coverage& c, uint64_t weight) {
  c.samples *= weight;
  c.instructions_profiled *= weight;
  c.instructions_total *= weight;
  c.attributed *= weight;
  for (const auto& counts : kCoverageCounts) multiply(c.*counts.member, weight);
  multiply_columns(kPathCountColumns, c.paths, weight);
  multiply_columns(kAccessCountColumns, c.accesses, weight);
  multiply_columns(kStreamCountColumns, c.streams, weight);
  if (c.verified) multiply_columns(kVerifiedColumns, *c.verified, weight);
}

void multiply(Profile& p, uint64_t weight) {
  if (weight == 1) return;
  for (Function& f : p.functions) f.self_error *= weight;
  for (InlinedFunction& f : p.inlined) {
    for (uint64_t* n : {&f.self, &f.self_error, &f.inclusive, &f.user_ns, &f.kernel_ns})
      *n *= weight;
    for (InlinedPlace& place : f.places) place.self *= weight;
  }
  for (Module& m : p.modules) m.inlining_known *= weight;
  for_each_table([&](const auto& layout, auto member) {
    multiply_rows(layout, p.tables.*member, weight);
  });
  multiply(p.time, weight);
  for (ProbeInfo& probe : p.probes) multiply_columns(kProbeInfoColumns, probe, weight);
  for (PluginInfo& plugin : p.plugins) multiply_columns(kPluginInfoColumns, plugin, weight);
  for (ThreadRow& row : p.threads)
    for (uint64_t* n : {&row.user_ns, &row.kernel_ns, &row.ticks, &row.instructions,
                        &row.instructions_error, &row.samples})
      *n *= weight;
  multiply(p.coverage, weight);
  multiply(p.overhead, weight);
  multiply(p.syscalls.by_class, weight);
  for (auto& [name, s] : p.syscalls.by_name)
    multiply_columns(kSyscallCountColumns, s, weight);
  p.run.duration_s *= static_cast<double>(weight);
}

// In whole microseconds: sums of such numbers do not depend on their order.
double add_seconds(double a, double b) {
  return (std::round(a * 1e6) + std::round(b * 1e6)) / 1e6;
}

// The share in the time that both took, in whole billionths.
double mean_share(double a, double a_s, double b, double b_s) {
  if (a_s + b_s <= 0) return std::max(a, b);
  return std::round(1e9 * (a * a_s + b * b_s) / (a_s + b_s)) / 1e9;
}

void add_shares(Overhead& into, double into_s, const Overhead& from, double from_s) {
  into.estimated_share = mean_share(into.estimated_share, into_s, from.estimated_share, from_s);
  into.budget_share = mean_share(into.budget_share, into_s, from.budget_share, from_s);
}

void add_overhead(Overhead& into, const Overhead& from) {
  into.engine_cpu_s = add_seconds(into.engine_cpu_s, from.engine_cpu_s);
  into.collector_cpu_s = add_seconds(into.collector_cpu_s, from.collector_cpu_s);
  into.program_cpu_s = add_seconds(into.program_cpu_s, from.program_cpu_s);
  into.unfollowed_cpu_s = add_seconds(into.unfollowed_cpu_s, from.unfollowed_cpu_s);
  into.translation_s = add_seconds(into.translation_s, from.translation_s);
  into.translated_blocks += from.translated_blocks;
  into.forks += from.forks;
  into.extra_faults += from.extra_faults;
  into.pause_s.total = add_seconds(into.pause_s.total, from.pause_s.total);
  // Only the longest pause of several runs can be told: no distribution adds up to another.
  into.pause_s.max = std::max(into.pause_s.max, from.pause_s.max);
  into.pause_s.p50 = into.pause_s.p99 = 0;
  for (const auto& counts : kOverheadCounts) add_counts(into.*counts.member, from.*counts.member);
  for (const auto& [cause, seconds] : from.by_cause)
    into.by_cause[cause] = add_seconds(into.by_cause[cause], seconds);
  into.timeline.clear();
}

void add_verified(std::optional<Verified>& into, const std::optional<Verified>& from) {
  if (!from) return;
  if (!into) into.emplace();
  add_columns(kVerifiedColumns, *into, *from);
}

// 0: not known.
double lesser_known(double a, double b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

// The lower figure of what a load takes on one host is right: other work only adds to it.
void add_calibration(std::optional<LatencyCalibration>& into,
                     const std::optional<LatencyCalibration>& from) {
  if (!into) into = from;
  if (!from) return;
  into->resolution = std::min(into->resolution, from->resolution);
  into->overhead = std::min(into->overhead, from->overhead);
  for (size_t i = 0; i < into->typical.size(); i++)
    into->typical[i] = std::min(into->typical[i], from->typical[i]);
  for (size_t i = 0; i < into->hits.size(); i++)
    into->hits[i] = lesser_known(into->hits[i], from->hits[i]);
  into->fault = lesser_known(into->fault, from->fault);
  into->spread = std::max(into->spread, from->spread);
  into->across = std::max(into->across, from->across);
}

template <typename Row>
void keep_hottest_rows(std::vector<Row>& rows, size_t most, uint64_t& pruned) {
  if (rows.size() <= 2 * most) return;
  std::vector<uint64_t> counts;
  for (const Row& row : rows) counts.push_back(row.count);
  const auto last = counts.begin() + static_cast<ptrdiff_t>(most);
  std::nth_element(counts.begin(), last, counts.end(), std::greater<>());
  const uint64_t most_lost = *last;
  std::erase_if(rows, [&](const Row& row) {
    if (row.count > most_lost) return false;
    pruned += row.count;
    return true;
  });
}

void keep_within(const MergeLimits& limits, Profile& sum) {
  Tables& t = sum.tables;
  if (t.paths.size() > 2 * limits.paths) keep_hottest_paths(sum, limits.paths);
  if (t.cache_lines.size() > 2 * limits.cache_lines) keep_hottest_lines(sum, limits.cache_lines);
  uint64_t pruned = 0;
  keep_hottest_rows(t.latency_pages, limits.pages, pruned);
  keep_hottest_rows(t.latency_values, limits.values, pruned);
  if (pruned != 0) sum.coverage.events["pruned_latency_pairs"] += pruned;
  const auto shorten = [&](ValueFigures& figures) {
    if (figures.top.size() > 2 * limits.values_of_row) figures.top.resize(limits.values_of_row);
  };
  for (ValueRow& row : t.values) shorten(row.figures);
  for (ArgumentRow& row : t.arguments) shorten(row.figures);
}

void add_syscalls(Syscalls& into, const Syscalls& from) {
  add_counts(into.by_class, from.by_class);
  for (const auto& [name, s] : from.by_name)
    add_columns(kSyscallCountColumns, into.by_name[name], s);
}

// `value` if both have it, else what stands for "not the same in all".
template <typename T>
void keep_common(T& value, const T& other, T otherwise) {
  if (value != other) value = std::move(otherwise);
}

void add_region(Region& into, const Region& from) {
  into.entries += from.entries;
  into.program_instructions += from.program_instructions;
  std::set<std::string> functions(into.functions.begin(), into.functions.end());
  functions.insert(from.functions.begin(), from.functions.end());
  into.functions.assign(functions.begin(), functions.end());
}

void add_run(Run& into, const Run& from) {
  keep_common(into.command, from.command, {});
  keep_common(into.images, from.images, {});
  keep_common(into.pid, from.pid, int64_t{0});
  keep_common(into.mode, from.mode, std::string("mixed"));
  keep_common(into.engine, from.engine, std::string("mixed"));
  std::erase_if(into.options, [&](const auto& option) {
    const auto other = from.options.find(option.first);
    return other == from.options.end() || other->second != option.second;
  });
  keep_common(into.seed, from.seed, uint64_t{0});
  keep_common(into.host.cpu, from.host.cpu, {});
  keep_common(into.host.kernel, from.host.kernel, {});
  keep_common(into.host.cores, from.host.cores, 0u);
  add_calibration(into.host.latency, from.host.latency);
  if (into.region && from.region) add_region(*into.region, *from.region);
  into.until_error.reset();  // what was reached is not that of the sum
  keep_common(into.changes, from.changes, {});
  keep_common(into.start_at, from.start_at, {});
  into.started = std::min(into.started, from.started);
  into.duration_s = add_seconds(into.duration_s, from.duration_s);
  const bool same_exit = into.exit && from.exit && into.exit->value == from.exit->value &&
                         into.exit->signalled == from.exit->signalled;
  if (!same_exit) into.exit.reset();
  into.merged.insert(into.merged.end(), from.merged.begin(), from.merged.end());
}

// Probes are told apart by their names alone where they are shown.
Status check_probes(const std::vector<ProbeInfo>& of_sum, const std::vector<ProbeInfo>& added,
                    const std::string& file) {
  for (const ProbeInfo& probe : added) {
    const auto known = std::ranges::find(of_sum, probe.name, &ProbeInfo::name);
    if (known != of_sum.end() && known->text != probe.text)
      return fail("cannot add {}: its probe '{}' is not that of the sum", file, probe.name);
  }
  return {};
}

auto naming(const Function& f) {
  return std::tuple(~f.size, f.name.starts_with("function@"), f.file.empty(), f.name,
                    f.linkage_name, f.file, f.line);
}

auto representation(const Module& m) {
  return std::tuple(m.path.empty(), m.path, m.device, m.inode, m.address);
}

}  // namespace

std::string module_key(const Module& module) {
  if (!module.build_id.empty()) return "id:" + module.build_id;
  if (!module.path.empty()) return "path:" + module.path;
  return fmt::format("address:{:#x}", module.address);
}

std::vector<uint32_t> Merger::map_modules(const ModuleTable& modules) {
  std::vector<uint32_t> result;
  for (const Module& m : modules) {
    const auto [at, added] =
        module_of_key_.try_emplace(module_key(m), static_cast<uint32_t>(sum_.modules.size()));
    if (added) {
      sum_.modules.push_back(m);
    } else {
      Module& known = sum_.modules[at->second];
      const uint64_t inlining = known.inlining_known + m.inlining_known;
      if (representation(m) < representation(known)) known = m;
      known.inlining_known = inlining;
    }
    result.push_back(at->second);
  }
  return result;
}

// A module without a build-id is known by its path alone, where there may be another build:
// then most functions that begin where one of the sum's does are others.
Status Merger::check_builds(const Profile& profile, const std::string& file) const {
  struct Common {
    size_t all = 0, others = 0;
  };
  std::map<uint32_t, Common> of_modules;
  for (const Function& f : profile.functions) {
    const Module& module = profile.modules[f.at.module];
    if (!module.build_id.empty() || module.path.empty()) continue;
    const auto in_sum = module_of_key_.find(module_key(module));
    if (in_sum == module_of_key_.end()) continue;
    const auto known = functions_.find({in_sum->second, f.at.offset});
    if (known == functions_.end()) continue;
    Common& common = of_modules[f.at.module];
    common.all++;
    common.others += known->second.name != f.name && known->second.size != f.size;
  }
  for (const auto& [module, common] : of_modules)
    if (2 * common.others > common.all)
      return fail("cannot add {}: {} has no build-id, and is another build there", file,
                  profile.modules[module].path);
  return {};
}

// Hotlists name modules by path; a path that two modules share says nothing.
void Merger::take_lines(const Profile& profile) {
  std::map<std::string, std::string> key_of_path;
  for (const Module& m : profile.modules) {
    const auto [at, added] = key_of_path.try_emplace(m.path, module_key(m));
    if (!added && at->second != module_key(m)) at->second.clear();
  }
  const auto note = [&](const Place& p) {
    const auto key = key_of_path.find(p.module);
    if (!p.is_line_of_code() || key == key_of_path.end() || key->second.empty()) return;
    const SourceLine line{p.file, p.line};
    SourceLine& known = lines_.try_emplace({key->second, p.offset}, line).first->second;
    if (std::tie(line.file, line.line) < std::tie(known.file, known.line)) known = line;
  };
  for_each_hotlist([&](const char*, auto list, Stored, auto) {
    for (const auto& row : profile.hotlists.*list) row.for_each_place(note);
  });
}

void Merger::take_functions(const Profile& profile, const std::vector<uint32_t>& module_in_sum) {
  for (Function f : profile.functions) {
    f.at.module = module_in_sum[f.at.module];
    const auto [at, first] = functions_.try_emplace(f.at, f);
    if (first) continue;
    Function& known = at->second;
    const uint64_t error = added_error(known.self_error, f.self_error);
    if (naming(f) < naming(known)) known = std::move(f);
    known.self_error = error;
  }
}

void Merger::take_inlined(InlinedTable inlined, const std::vector<uint32_t>& module_in_sum) {
  for (InlinedFunction& f : inlined) {
    f.module = module_in_sum[f.module];
    sum_.inlined.push_back(std::move(f));
  }
  normalise_inlined(sum_.inlined);
}

Status Merger::add(Profile profile, const std::string& file, uint64_t weight) {
  SP_CHECK(weight > 0 && weight <= kMaxMergeWeight);
  const std::vector<double> have = sums_of(sum_);
  const std::vector<double> more = sums_of(profile);
  for (size_t i = 0; i < have.size(); i++)
    if (have[i] + more[i] * static_cast<double>(weight) > kMostCounts)
      return fail("cannot add {}: its counts are too large", file);
  if (!empty_) SP_TRY(check_same_region(sum_.run, "the sum", profile.run, file));
  SP_TRY(check_probes(sum_.probes, profile.probes, file));
  SP_TRY(check_builds(profile, file));
  if (profile.run.region) {
    profile.run.region->entries *= weight;
    profile.run.region->program_instructions *= weight;
  }

  Run& run = profile.run;
  if (run.merged.empty())
    run.merged = {{file, run.command, run.started, profile.coverage.instructions_profiled, 1,
                   profile.coverage.share() ? profile.coverage.instructions_total : 0}};
  for (MergedRun& m : run.merged) {
    if (m.weight > kMaxMergeWeight / weight)
      return fail("cannot add {}: the product of its weights is above {}", file, kMaxMergeWeight);
    m.weight *= weight;
  }
  estimated_inclusive_ |= run.options.contains("inclusive");
  if (has_hidden_values(sum_)) hide_values(profile);
  if (has_hidden_values(profile) && !empty_) hide_values(sum_);
  if (profile.tables.contexts.empty())
    profile.tables.contexts = contexts_of_functions(profile);
  else
    has_contexts_ = true;
  const Confidence own = profile.confidence;
  assume_errors(profile);
  multiply(profile, weight);
  profile.tables.course.clear();
  profile.time.slice_us = 0;

  const std::vector<uint32_t> module_in_sum = map_modules(profile.modules);
  take_lines(profile);
  take_functions(profile, module_in_sum);
  take_inlined(std::move(profile.inlined), module_in_sum);
  add_tables(sum_, profile, module_in_sum);
  add_verified(sum_.coverage.verified, profile.coverage.verified);
  add_processor_time(sum_.time, profile.time);
  join_threads_by_name(sum_);
  keep_within(limits_, sum_);
  add_shares(sum_.overhead, sum_.run.duration_s, profile.overhead, profile.run.duration_s);
  add_overhead(sum_.overhead, profile.overhead);
  add_syscalls(sum_.syscalls, profile.syscalls);
  if (empty_) {
    sum_.run = std::move(profile.run);
    sum_.run.duration_s = add_seconds(0, sum_.run.duration_s);
    sum_.confidence = profile.confidence;
    of_only_ = own;
  } else {
    add_run(sum_.run, profile.run);
    sum_.confidence = added(sum_.confidence, profile.confidence);
    of_only_.reset();
  }
  empty_ = false;
  return {};
}

// The order in which they were met says nothing.
void Merger::order_modules() {
  std::vector<uint32_t> order(sum_.modules.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto rank = [&](uint32_t i) {
    return std::tuple(representation(sum_.modules[i]), sum_.modules[i].build_id);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return rank(a) < rank(b); });
  std::vector<uint32_t> place_of(order.size());
  ModuleTable modules;
  for (const uint32_t old : order) {
    place_of[old] = static_cast<uint32_t>(modules.size());
    modules.push_back(sum_.modules[old]);
  }
  Profile ordered;
  add_tables(ordered, sum_, place_of);
  sum_.modules = std::move(modules);
  sum_.tables = std::move(ordered.tables);
  sum_.threads = std::move(ordered.threads);
  std::map<CodeRef, Function> functions;
  for (auto& [at, f] : functions_) {
    f.at.module = place_of[at.module];
    functions.emplace(f.at, std::move(f));
  }
  functions_ = std::move(functions);
  take_inlined(std::exchange(sum_.inlined, {}), place_of);
}

Profile Merger::finish() {
  if (of_only_) sum_.confidence = *of_only_;
  order_modules();
  std::sort(sum_.run.merged.begin(), sum_.run.merged.end(),
            [](const MergedRun& a, const MergedRun& b) {
              return std::tie(a.started, a.command, a.instructions, a.file, a.weight) <
                     std::tie(b.started, b.command, b.instructions, b.file, b.weight);
            });
  if (!has_contexts_) sum_.tables.contexts.clear();
  FunctionTable functions;
  for (auto& [at, f] : functions_) functions.push_back(std::move(f));
  attribute_functions(sum_, std::move(functions));
  if (estimated_inclusive_) estimate_inclusive(sum_);
  return std::move(sum_);
}

Hotlists Merger::hotlists(const Profile& sum, size_t top, const LineLookup& lines) const {
  return compute_hotlists(sum, top, [&](CodeRef at) -> std::optional<SourceLine> {
    const auto known = lines_.find({module_key(sum.modules[at.module]), at.offset});
    if (known != lines_.end()) return known->second;
    return lines ? lines(at) : std::nullopt;
  });
}

}  // namespace shadowprof::profile

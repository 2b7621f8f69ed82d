// SPDX-License-Identifier: MIT
#include "profile/merge.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "profile/inclusive_estimate.h"

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
  const auto count_of = [](const auto& row) { return row.count; };
  const auto second_of = [](const auto& row) { return row.second; };
  const Coverage& c = p.coverage;
  return {static_cast<double>(c.instructions_profiled),
          static_cast<double>(c.instructions_total),
          static_cast<double>(c.samples),
          static_cast<double>(p.overhead.translated_blocks),
          sum(c.dropped, second_of),
          sum(c.ended, second_of),
          sum(c.events, second_of),
          sum(p.overhead.stops, second_of),
          sum(p.overhead.sampling, second_of),
          sum(p.overhead.steps, second_of),
          sum(p.syscalls.by_class, second_of),
          sum(p.syscalls.by_name, [](const auto& row) { return row.second.count; }),
          sum(p.syscalls.by_name, [](const auto& row) { return row.second.ended; }),
          sum(t.blocks, count_of),
          sum(t.blocks, [](const auto& b) { return static_cast<double>(b.count) * b.insns; }),
          sum(t.interruptions, count_of),
          sum(t.edges, count_of),
          sum(t.calls, count_of),
          sum(t.calls, [](const auto& row) { return row.inclusive; }),
          sum(t.entries, [](const auto& row) { return row.invocations; }),
          sum(t.contexts, [](const auto& row) { return row.self; }),
          sum(t.contexts, [](const auto& row) { return row.calls; }),
          sum(t.entries, [](const auto& row) { return row.inclusive; }),
          sum(t.paths, count_of),
          sum(t.values, [](const auto& row) { return row.figures.count; }),
          sum(t.arguments, [](const auto& row) { return row.figures.count; }),
          sum(t.latencies, [](const auto& row) { return row.executions; }),
          sum(t.latencies, [](const auto& row) { return row.cycles; }),
          sum(t.cache_lines, [](const auto& row) { return row.accesses(); })};
}

void multiply(std::map<std::string, uint64_t>& counts, uint64_t weight) {
  for (auto& [name, count] : counts) count *= weight;
}

void multiply(ValueFigures& figures, uint64_t weight) {
  figures.count *= weight;
  figures.zero *= weight;
  figures.same *= weight;
  figures.strided *= weight;
  figures.top_error *= weight;
  for (ValueCount& v : figures.top) v.count *= weight;
}

void multiply(LatencyRow& load, uint64_t weight) {
  for (uint64_t* count : {&load.executions, &load.timed, &load.first_touches, &load.cycles, &load.cold,
                          &load.cold_cycles})
    *count *= weight;
  for (uint64_t& count : load.classes) count *= weight;
  for (auto& [bucket, count] : load.histogram) count *= weight;
}

void multiply(Overhead& o, uint64_t weight) {
  for (double* s : {&o.engine_cpu_s, &o.collector_cpu_s, &o.program_cpu_s, &o.translation_s})
    *s *= static_cast<double>(weight);
  o.translated_blocks *= weight;
  o.forks *= weight;
  o.extra_faults *= weight;
  o.pause_s.total *= static_cast<double>(weight);
  multiply(o.stops, weight);
  multiply(o.sampling, weight);
  multiply(o.steps, weight);
  for (auto& [cause, seconds] : o.by_cause) seconds *= static_cast<double>(weight);
  o.timeline.clear();
}

void multiply(ProcessorTime& time, uint64_t weight) {
  for (double* s : {&time.user_s, &time.kernel_s, &time.waiting_s}) *s *= static_cast<double>(weight);
  for (uint64_t* n : {&time.ticks, &time.lost}) *n *= weight;
}

void multiply(Profile& p, uint64_t weight) {
  if (weight == 1) return;
  for (Function& f : p.functions) f.self_error *= weight;
  Tables& t = p.tables;
  for (BlockCount& b : t.blocks) b.count *= weight;
  for (Interruption& i : t.interruptions) i.count *= weight;
  for (Edge& e : t.edges) {
    e.count *= weight;
    e.error *= weight;
  }
  for (CallPair& c : t.calls) {
    c.count *= weight;
    c.inclusive *= weight;
    c.error *= weight;
  }
  for (Entry& e : t.entries) {
    e.invocations *= weight;
    e.inclusive *= weight;
  }
  for (ContextRow& c : t.contexts)
    for (uint64_t* n : {&c.self, &c.calls, &c.error}) *n *= weight;
  for (PathRow& path : t.paths) {
    path.count *= weight;
    path.error *= weight;
  }
  PathCounts& paths = p.coverage.paths;
  for (uint64_t* count : {&paths.executions, &paths.pruned, &paths.error_bound, &paths.dropped})
    *count *= weight;
  for (ValueRow& v : t.values) multiply(v.figures, weight);
  for (ArgumentRow& a : t.arguments) multiply(a.figures, weight);
  for (LatencyRow& load : t.latencies) multiply(load, weight);
  for (LatencyPageRow& row : t.latency_pages) row.count *= weight;
  for (LatencyValueRow& row : t.latency_values) row.count *= weight;
  for (CacheLineRow& row : t.cache_lines) {
    row.loads *= weight;
    row.stores *= weight;
  }
  multiply(p.time, weight);
  for (ThreadRow& row : p.threads)
    for (uint64_t* n : {&row.user_ns, &row.kernel_ns, &row.ticks}) *n *= weight;
  for (TimeRow& row : t.time)
    for (uint64_t* n : {&row.user_ns, &row.kernel_ns}) *n *= weight;
  AccessCounts& accesses = p.coverage.accesses;
  for (uint64_t* count :
       {&accesses.accesses, &accesses.pruned, &accesses.error_bound, &accesses.unknown})
    *count *= weight;
  Coverage& c = p.coverage;
  c.samples *= weight;
  c.instructions_profiled *= weight;
  c.instructions_total *= weight;
  c.attributed *= weight;
  multiply(c.ended, weight);
  multiply(c.dropped, weight);
  multiply(c.events, weight);
  multiply(p.overhead, weight);
  if (c.verified)
    for (uint64_t* count : {&c.verified->samples, &c.verified->instructions, &c.verified->diverged})
      *count *= weight;
  multiply(p.syscalls.by_class, weight);
  for (auto& [name, s] : p.syscalls.by_name) {
    s.count *= weight;
    s.ended *= weight;
  }
  p.run.duration_s *= static_cast<double>(weight);
}

// In whole microseconds: sums of such numbers do not depend on their order.
double add_seconds(double a, double b) {
  return (std::round(a * 1e6) + std::round(b * 1e6)) / 1e6;
}

void add_counts(std::map<std::string, uint64_t>& into,
                const std::map<std::string, uint64_t>& from) {
  for (const auto& [name, count] : from) into[name] += count;
}

void add_overhead(Overhead& into, const Overhead& from) {
  into.engine_cpu_s = add_seconds(into.engine_cpu_s, from.engine_cpu_s);
  into.collector_cpu_s = add_seconds(into.collector_cpu_s, from.collector_cpu_s);
  into.program_cpu_s = add_seconds(into.program_cpu_s, from.program_cpu_s);
  into.translation_s = add_seconds(into.translation_s, from.translation_s);
  into.translated_blocks += from.translated_blocks;
  into.forks += from.forks;
  into.extra_faults += from.extra_faults;
  into.pause_s.total = add_seconds(into.pause_s.total, from.pause_s.total);
  // Of several runs only the longest pause can be told: no distribution adds up to another.
  into.pause_s.max = std::max(into.pause_s.max, from.pause_s.max);
  into.pause_s.p50 = into.pause_s.p99 = 0;
  add_counts(into.stops, from.stops);
  add_counts(into.sampling, from.sampling);
  add_counts(into.steps, from.steps);
  for (const auto& [cause, seconds] : from.by_cause)
    into.by_cause[cause] = add_seconds(into.by_cause[cause], seconds);
  into.timeline.clear();
}

void add_verified(std::optional<Verified>& into, const std::optional<Verified>& from) {
  if (!from) return;
  if (!into) into.emplace();
  into->samples += from->samples;
  into->instructions += from->instructions;
  into->diverged += from->diverged;
}

// 0: not known.
double lesser_known(double a, double b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

// Of what a load takes on one host the lower figure is right: other work only adds to it.
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
  for (const auto& [name, s] : from.by_name) {
    into.by_name[name].count += s.count;
    into.by_name[name].ended += s.ended;
  }
}

// `value` if both have it, else what stands for "not the same in all".
template <typename T>
void keep_common(T& value, const T& other, T otherwise) {
  if (value != other) value = std::move(otherwise);
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
  into.started = std::min(into.started, from.started);
  into.duration_s = add_seconds(into.duration_s, from.duration_s);
  const bool same_exit = into.exit && from.exit && into.exit->value == from.exit->value &&
                         into.exit->signalled == from.exit->signalled;
  if (!same_exit) into.exit.reset();
  into.merged.insert(into.merged.end(), from.merged.begin(), from.merged.end());
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
    if (added)
      sum_.modules.push_back(m);
    else if (representation(m) < representation(sum_.modules[at->second]))
      sum_.modules[at->second] = m;
    result.push_back(at->second);
  }
  return result;
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
    if (p.file.empty() || key == key_of_path.end() || key->second.empty()) return;
    const SourceLine line{p.file, p.line};
    SourceLine& known = lines_.try_emplace({key->second, p.offset}, line).first->second;
    if (std::tie(line.file, line.line) < std::tie(known.file, known.line)) known = line;
  };
  for (const HotCallPair& row : profile.hotlists.call_pairs) {
    note(row.site);
    note(row.callee);
  }
  for (const HotEdge& row : profile.hotlists.edges) {
    note(row.from);
    note(row.to);
  }
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

Status Merger::add(Profile profile, const std::string& file, uint64_t weight) {
  CHECK(weight > 0 && weight <= kMaxMergeWeight);
  const std::vector<double> have = sums_of(sum_);
  const std::vector<double> more = sums_of(profile);
  for (size_t i = 0; i < have.size(); i++)
    if (have[i] + more[i] * static_cast<double>(weight) > kMostCounts)
      return fail("cannot add {}: its counts are too large", file);

  Run& run = profile.run;
  if (run.merged.empty())
    run.merged = {{file, run.command, run.started, profile.coverage.instructions_profiled, 1}};
  for (MergedRun& m : run.merged) {
    if (m.weight > kMaxMergeWeight / weight)
      return fail("cannot add {}: the product of its weights is above {}", file, kMaxMergeWeight);
    m.weight *= weight;
  }
  estimated_inclusive_ |= run.options.contains("inclusive");
  if (profile.tables.contexts.empty())
    profile.tables.contexts = contexts_of_functions(profile);
  else
    has_contexts_ = true;
  multiply(profile, weight);

  const std::vector<uint32_t> module_in_sum = map_modules(profile.modules);
  take_lines(profile);
  take_functions(profile, module_in_sum);
  add_tables(sum_, profile, module_in_sum);
  add_verified(sum_.coverage.verified, profile.coverage.verified);
  add_processor_time(sum_.time, profile.time);
  join_threads_by_name(sum_);
  keep_within(limits_, sum_);
  add_overhead(sum_.overhead, profile.overhead);
  add_syscalls(sum_.syscalls, profile.syscalls);
  if (empty_) {
    sum_.run = std::move(profile.run);
    sum_.run.duration_s = add_seconds(0, sum_.run.duration_s);
    sum_.confidence = profile.confidence;
  } else {
    add_run(sum_.run, profile.run);
    sum_.confidence = added(sum_.confidence, profile.confidence);
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
}

Profile Merger::finish() {
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

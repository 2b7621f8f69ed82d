// SPDX-License-Identifier: MIT
//
// Rankings of values, by use: first what could be specialised. An instruction is semi-invariant
// when it is hot, computes one value most of the time, and that value is neither an address of this
// run nor in the code already. Addresses come last: frame and stack pointers are invariant in many
// functions.
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "profile/hotlists/hotlist_rows.h"
#include "profile/tables/address_of_run.h"

namespace shadowprof::profile {
namespace {

constexpr double kSemiInvariant = 0.8;
constexpr double kLeastInvariantShare = 0.5;  // of what its interval begins with
constexpr double kMissedCases = 3;            // rule of three
constexpr double kHotShare = 1e-4;  // of all values that were computed
constexpr size_t kValuesShown = 10;
constexpr size_t kTargetsShown = 10;

std::vector<ValueShare> shares_of(const ValueFigures& f) {
  std::vector<ValueShare> shares;
  for (size_t i = 0; i < std::min(kValuesShown, f.top.size()); i++)
    shares.push_back({f.top[i].value, f.top[i].count, share_of(f.top[i].count, f.count)});
  return shares;
}

// As samples differ, and never less than what as few observations can tell: in one of twenty
// profiles n of them all miss what happens in 3 / n of all cases.
Margin invariance_error_of(const Profile& profile, const ValueFigures& f) {
  if (profile.confidence.exact && !f.estimated) return 0;
  if (f.samples < 2 || f.count == 0) return std::nullopt;
  const double by_samples = critical_value(f.samples) * share_of(f.top_error, f.count);
  return std::min(1.0, std::max(by_samples, kMissedCases / static_cast<double>(f.count)));
}

HotFigures figures_of(const Profile& profile, const ValueFigures& f, ValueType type) {
  HotFigures hot{f.count,
                 f.invariance(),
                 share_of(f.zero, f.count),
                 share_of(f.same, f.count),
                 is_float(type) ? 0 : share_of(f.strided, f.count),
                 f.distinct,
                 shares_of(f),
                 {}};
  hot.invariance_error = invariance_error_of(profile, f);
  hot.estimated = f.estimated;
  hot.distinct_error = static_cast<uint64_t>(
      std::llround(critical_value(kNoSamples) * static_cast<double>(f.distinct_error)));
  return hot;
}

// It is at least so often one value, as far as a sampled profile can tell.
bool is_one_in(const Profile& profile, const ValueFigures& f, double least_share) {
  if (profile.confidence.groups == 0 && !f.estimated) return f.invariance() >= least_share;
  const Margin error = invariance_error_of(profile, f);
  return error && f.invariance() - *error >= least_share;
}

bool is_mostly_one(const Profile& profile, const ValueFigures& f) {
  return f.invariance() >= kSemiInvariant && is_one_in(profile, f, kLeastInvariantShare);
}

// The top value is, in this run: nothing to specialise for.
bool is_address(const Profile& profile, const ValueFigures& f, ValueType type, uint8_t bits) {
  if (f.top.empty() || bits != 64 || is_float(type)) return false;
  return is_address_of_run(profile.modules, f.top[0].value);
}

// Whether one of the instruction's immediates is the value: "or eax, 0xFF" of a result of 255.
bool says_itself(const ValueRow& row, const std::string& text) {
  if (row.constant) return true;
  if (row.type != ValueType::integer) return false;
  const size_t comma = text.rfind(", ");
  if (comma == std::string::npos || row.figures.top.empty() || row.part == ValuePart::comparison)
    return false;
  const std::string last = text.substr(comma + 2);
  if (last.empty() || (last[0] != '-' && (last[0] < '0' || last[0] > '9'))) return false;
  try {
    const uint64_t mask = row.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << row.bits) - 1;
    const bool minus = last[0] == '-';
    const uint64_t number = std::stoull(minus ? last.substr(1) : last, nullptr, 0);
    return ((minus ? 0 - number : number) & mask) == row.figures.top[0].value;
  } catch (const std::exception&) {  // not a number after all
    return false;
  }
}

// From so much on a branch of its own pays, and from so much on the rest is an exception.
constexpr double kNearlyAlways = 0.95;
constexpr double kAlways = 0.9999;

std::string advice_of(const ValueRow& row, const std::string& text) {
  const double top = row.figures.invariance();
  const bool loads = text.find('[') != std::string::npos && !text.starts_with("lea");
  const bool divides = text.starts_with("div") || text.starts_with("idiv");
  if (row.part == ValuePart::comparison) return "test for it first";
  if (row.part == ValuePart::divisor) return "test for that divisor first";
  if (divides) return "test for the usual operands first";
  if (top >= kAlways && loads) return "hoist the load out of the loop";
  if (top >= kNearlyAlways) return "specialise";
  return "pick it as default";
}

constexpr uint64_t kFewContents = 16;

// The calls of one function from one place: rows that stand together.
using Calls = std::pair<CodeRef, CodeRef>;

// Those that pass many different things in one register or another.
std::set<Calls> calls_with_many_contents(const ArgumentTable& rows) {
  std::set<Calls> calls;
  for (const ArgumentRow& row : rows)
    if (row.figures.distinct > kFewContents) calls.insert({row.site, row.callee});
  return calls;
}

// The same function of the same arguments has been worked out before; of one of them alone that
// says nothing.
std::string advice_of(const ValueFigures& f, bool others_have_many) {
  constexpr uint64_t kCallsOfEach = 100;
  const double top = f.invariance();
  if (top >= kNearlyAlways) return "specialise";
  if (top >= kSemiInvariant) return "pick it as default";
  const bool few = f.distinct > 1 && f.distinct <= kFewContents;
  if (few && !others_have_many && f.count / f.distinct >= kCallsOfEach) return "memoise";
  return "";
}

// What the profiled functions that copy, fill or compare memory are called, in the C library's
// variants too: "__memmove_avx_unaligned_erms", "memcpy@plt", "__memcpy_chk".
bool size_is_argument(std::string_view name, uint8_t argument) {
  constexpr std::string_view kThird[] = {"memcpy", "memmove", "mempcpy", "memset",
                                         "memcmp", "bcmp",    "memchr",  "memrchr"};
  while (name.starts_with('_')) name.remove_prefix(1);
  const auto is = [&](std::string_view function) {
    if (!name.starts_with(function)) return false;
    const std::string_view rest = name.substr(function.size());
    return rest.empty() || rest[0] == '_' || rest[0] == '@';
  };
  if (argument == 1) return is("bzero") || is("explicit_bzero");
  return argument == 2 && std::any_of(std::begin(kThird), std::end(kThird), is);
}

void add_values(const Profile& profile, size_t limit, const LineLookup& lines,
                const InstructionLookup& instructions, Hotlists& lists) {
  const auto text_of = [&](const ValueRow& row) {
    return row.text.empty() && instructions ? instructions(row.at) : row.text;
  };
  uint64_t all = 0;
  for (const ValueRow& row : profile.tables.values) all += row.figures.count;
  const auto hot = static_cast<uint64_t>(static_cast<double>(all) * kHotShare);
  const auto semi_invariant = [&](const ValueRow& row) {
    return row.figures.count > hot && is_mostly_one(profile, row.figures) &&
           !is_address(profile, row.figures, row.type, row.bits) && !says_itself(row, text_of(row));
  };
  const auto weight = [&](const ValueRow& row) {
    const bool semi = semi_invariant(row);
    const uint64_t top = row.figures.top.empty() ? 0 : row.figures.top[0].count;
    return std::tuple(!row.constant, semi, !is_address(profile, row.figures, row.type, row.bits),
                      semi ? top : row.figures.count);
  };
  for (size_t i : hottest(profile.tables.values, limit, weight)) {
    const ValueRow& row = profile.tables.values[i];
    if (row.constant) break;
    HotValue value;
    value.rank = static_cast<uint32_t>(lists.values.size() + 1);
    value.at = place_of(profile, lines, row.at);
    if (row.has_context) value.context = place_of(profile, lines, row.context);
    value.semi_invariant = semi_invariant(row);
    value.disassembly = value.semi_invariant ? text_of(row) : row.text;
    value.part = row.part;
    value.bits = row.bits;
    value.type = row.type;
    value.elements = row.elements;
    value.figures = figures_of(profile, row.figures, row.type);
    value.is_address = is_address(profile, row.figures, row.type, row.bits);
    if (value.semi_invariant) value.advice = advice_of(row, value.disassembly);
    lists.values.push_back(std::move(value));
  }
}

ValueType type_of(const ArgumentRow& row) {
  return row.argument < kIntegerArguments ? ValueType::integer : ValueType::f64;
}

void add_arguments(const Profile& profile, size_t limit, const LineLookup& lines, Hotlists& lists) {
  // Often called with the same thing, and that not because all are: by how many calls a function
  // specialised for the top value would take. Where objects are says little.
  const auto weight = [&](const ArgumentRow& row) {
    return std::pair(!is_address(profile, row.figures, type_of(row), 64),
                     row.figures.top.empty() ? 0 : row.figures.top[0].count);
  };
  const std::set<Calls> varied = calls_with_many_contents(profile.tables.arguments);
  for (size_t i : hottest(profile.tables.arguments, limit, weight)) {
    const ArgumentRow& row = profile.tables.arguments[i];
    HotArgument argument;
    argument.rank = static_cast<uint32_t>(lists.arguments.size() + 1);
    argument.site = place_of(profile, lines, row.site);
    argument.callee = place_of(profile, lines, row.callee);
    argument.reg = argument_register(row.argument);
    argument.is_size = size_is_argument(argument.callee.function, row.argument);
    argument.figures = figures_of(profile, row.figures, type_of(row));
    argument.is_address = is_address(profile, row.figures, type_of(row), 64);
    if (!argument.is_address && is_one_in(profile, row.figures, 0))
      argument.advice = advice_of(row.figures, varied.contains({row.site, row.callee}));
    lists.arguments.push_back(std::move(argument));
  }
}

// The edges of an indirect branch stand together, as edges are sorted by where they begin.
struct IndirectBranch {
  size_t first = 0, end = 0;
  uint64_t count = 0;
};

std::vector<IndirectBranch> branches_in(const EdgeTable& edges) {
  std::vector<IndirectBranch> branches;
  for (size_t i = 0; i < edges.size(); i++) {
    if (edges[i].kind != EdgeKind::indirect_jump && edges[i].kind != EdgeKind::indirect_call)
      continue;
    if (branches.empty() || branches.back().end != i ||
        edges[branches.back().first].from != edges[i].from)
      branches.push_back({i, i, 0});
    branches.back().end = i + 1;
    branches.back().count += edges[i].count;
  }
  return branches;
}

void add_targets(const Profile& profile, size_t limit, const LineLookup& lines, Hotlists& lists) {
  const EdgeTable& edges = profile.tables.edges;
  const std::vector<IndirectBranch> branches = branches_in(edges);
  for (size_t b : hottest(branches, limit, [](const IndirectBranch& x) { return x.count; })) {
    const IndirectBranch& branch = branches[b];
    HotTargets row;
    row.rank = static_cast<uint32_t>(lists.targets.size() + 1);
    row.at = place_of(profile, lines, edges[branch.first].from);
    row.kind = edges[branch.first].kind;
    row.count = branch.count;
    row.distinct = branch.end - branch.first;
    std::vector<size_t> order(branch.end - branch.first);
    std::iota(order.begin(), order.end(), branch.first);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return edges[x].count > edges[y].count; });
    order.resize(std::min(order.size(), kTargetsShown));
    for (size_t e : order)
      row.targets.push_back({place_of(profile, lines, edges[e].to), edges[e].count,
                             share_of(edges[e].count, branch.count)});
    lists.targets.push_back(std::move(row));
  }
}

}  // namespace

size_t indirect_branches(const Profile& profile) {
  return branches_in(profile.tables.edges).size();
}

void add_value_hotlists(const Profile& profile, size_t limit, const LineLookup& lines,
                        const InstructionLookup& instructions, Hotlists& lists) {
  add_values(profile, limit, lines, instructions, lists);
  add_arguments(profile, limit, lines, lists);
  add_targets(profile, limit, lines, lists);
}

}  // namespace shadowprof::profile

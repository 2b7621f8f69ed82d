// SPDX-License-Identifier: MIT
#include "symbols/source_lines.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include <charconv>
#include <functional>
#include <set>

#include "base/short_memory.h"
#include "symbols/demangle.h"

namespace shadowprof::symbols {
namespace {

// Ends for what no compiler writes. The largest programs have some ten thousand units, and some
// million entries in one.
constexpr size_t kMaxUnits = 1 << 20;
constexpr size_t kMaxDiesPerUnit = 20'000'000;
constexpr size_t kMaxDieDepth = 1000;
constexpr size_t kMaxRanges = 20'000'000;

// DW_AT_GNU_discriminator, an extension that <dwarf.h> of elfutils 0.188 does not list.
constexpr unsigned int kGnuDiscriminator = 0x2136;

// What compilers call a namespace without a name, and __cxa_demangle with them; and about what the
// latter calls types without one.
constexpr const char* kUnnamedNamespace = "(anonymous namespace)";
constexpr const char* kUnnamedType = "{unnamed type}";
constexpr const char* kLambda = "{lambda}";
constexpr int kMaxEnclosing = 64;
constexpr int kMaxNesting = 4;

const std::set<std::string_view> kNameSections = {".debug_str", ".debug_line_str", ".debug_str.dwo",
                                                  ".debug_line_str.dwo"};

using AddRange = std::function<void(uint64_t start, uint64_t end)>;

void for_each_range(Dwarf_Die* die, const AddRange& add) {
  Dwarf_Addr base = 0;
  Dwarf_Addr start = 0;
  Dwarf_Addr end = 0;
  ptrdiff_t at = 0;
  while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0) add(start, end);
}

uint32_t number_attribute(Dwarf_Die* die, unsigned int name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, name, &attribute) == nullptr) return 0;
  if (dwarf_formudata(&attribute, &value) != 0 || value > UINT32_MAX) return 0;
  return static_cast<uint32_t>(value);
}

// Follows abstract origins and specifications, as inlined and out-of-line members need.
std::string text_attribute(Dwarf_Die* die, unsigned int name) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(die, name, &attribute) == nullptr) return {};
  const char* text = dwarf_formstring(&attribute);
  return text != nullptr ? text : std::string();
}

// The entry that `attribute` of `die` refers to.
bool follow(Dwarf_Die* die, unsigned int name, Dwarf_Die* target) {
  Dwarf_Attribute attribute;
  return dwarf_attr(die, name, &attribute) != nullptr &&
         dwarf_formref_die(&attribute, target) != nullptr;
}

std::string absolute(const char* file, Dwarf_Die* unit) {
  if (file == nullptr) return {};
  std::string path = file;
  if (!path.empty() && path[0] != '/') {
    std::string directory = text_attribute(unit, DW_AT_comp_dir);
    if (!directory.empty()) path = directory + "/" + path;
  }
  return printable(path);
}

// Where an inlined call stands.
void place_at_call(Dwarf_Die* unit, Dwarf_Die* call, SourceFrame& frame) {
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  uint32_t index = number_attribute(call, DW_AT_call_file);
  if (dwarf_getsrcfiles(unit, &files, &count) == 0 && index < count) {
    frame.file = absolute(dwarf_filesrc(files, index, nullptr, nullptr), unit);
  }
  frame.line = number_attribute(call, DW_AT_call_line);
  frame.column = number_attribute(call, DW_AT_call_column);
  frame.discriminator = number_attribute(call, kGnuDiscriminator);
}

// The file that a function is declared in. Its number counts in the unit of the entry that has it.
std::string declared_in(Dwarf_Die* function) {
  Dwarf_Attribute attribute;
  Dwarf_Word index = 0;
  if (dwarf_attr_integrate(function, DW_AT_decl_file, &attribute) == nullptr ||
      dwarf_formudata(&attribute, &index) != 0)
    return {};
  Dwarf_Die unit;
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (dwarf_cu_die(attribute.cu, &unit, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) ==
          nullptr ||
      dwarf_getsrcfiles(&unit, &files, &count) != 0 || index >= count)
    return {};
  return absolute(dwarf_filesrc(files, index, nullptr, nullptr), &unit);
}

void place_at_line(Dwarf_Die* unit, uint64_t vaddr, SourceFrame& frame) {
  Dwarf_Line* line = dwarf_getsrc_die(unit, vaddr);
  if (line == nullptr) return;
  frame.file = absolute(dwarf_linesrc(line, nullptr, nullptr), unit);
  int number = 0;
  unsigned int discriminator = 0;
  if (dwarf_lineno(line, &number) == 0 && number > 0) frame.line = static_cast<uint32_t>(number);
  if (dwarf_linecol(line, &number) == 0 && number > 0) frame.column = static_cast<uint32_t>(number);
  if (dwarf_linediscriminator(line, &discriminator) == 0) frame.discriminator = discriminator;
}

// libdw reads names up to their NULs, and not all versions see when the last one of a section has
// none (0.188 reads beyond the end of .debug_line_str then).
bool names_end(Dwarf* dwarf) {
  Elf* elf = dwarf_getelf(dwarf);
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return false;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || !kNameSections.contains(name)) continue;
    // Uncompressed by now.
    const Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || data->d_size == 0) continue;
    if (static_cast<const char*>(data->d_buf)[data->d_size - 1] != '\0') return false;
  }
  return true;
}

bool is_enclosing(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
         tag == DW_TAG_union_type;
}

uint64_t key_of(const CallPlace& place) {
  return uint64_t{place.unit} << 32 | place.scope;
}

bool is_scope(int tag) {
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

}  // namespace

// Packages: NEWS of elfutils, 0.191.
DebugLibrary debug_library() {
  constexpr int kFirstMinor = 191;
  const std::string version = dwfl_version(nullptr);
  int minor = 0;
  const size_t dot = version.find('.');
  if (dot != std::string::npos)
    std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
  return {"elfutils " + version, !version.starts_with("0.") || minor >= kFirstMinor};
}

std::unique_ptr<SourceLines> SourceLines::open(UniqueFd fd, ElfFile file) {
  MemoryImage image;
  if (auto unpacked = unpack_debug_sections(file)) {
    if (auto in_memory = ElfFile::from_memory(unpacked->span(), "debug information")) {
      image = std::move(*unpacked);
      file = std::move(*in_memory);
    }
  }
  Dwarf* dwarf = dwarf_begin_elf(file.handle(), DWARF_C_READ, nullptr);
  if (dwarf == nullptr) return nullptr;
  (void)dwarf_new_oom_handler(dwarf, end_at_short_memory);  // its own would end us with status 1
  std::unique_ptr<SourceLines> lines(
      new SourceLines(std::move(fd), std::move(image), std::move(file), dwarf));
  Dwarf* common = dwarf_getalt(dwarf);  // what dwz moved there
  if (common != nullptr) (void)dwarf_new_oom_handler(common, end_at_short_memory);
  if (!names_end(dwarf) || (common != nullptr && !names_end(common))) return nullptr;
  lines->is_one_file_ = common == nullptr;
  lines->index_units();
  return lines;
}

SourceLines::SourceLines(UniqueFd fd, MemoryImage image, ElfFile file, Dwarf* dwarf)
    : fd_(std::move(fd)), image_(std::move(image)), file_(std::move(file)), dwarf_(dwarf) {}

// From the units themselves and not from .debug_aranges, which clang does not write.
void SourceLines::index_units() {
  std::vector<IndexedRange> ranges;
  Dwarf_CU* cu = nullptr;
  uint8_t type = 0;
  Unit unit;
  while (units_.size() < kMaxUnits &&
         dwarf_get_units(dwarf_.get(), cu, &cu, nullptr, &type, &unit.lines, &unit.scopes) == 0) {
    if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
    auto index = static_cast<uint32_t>(units_.size());
    for_each_range(&unit.lines, [&](uint64_t start, uint64_t end) {
      // Linkers leave the ranges of functions that they dropped at address 0.
      if (start != 0 && ranges.size() < kMaxRanges) ranges.push_back({start, end, index});
    });
    const bool is_split = type == DW_UT_skeleton;
    is_one_file_ = is_one_file_ && !is_split;
    const bool has_functions =
        !is_split || (unit.scopes.addr != nullptr && names_end(dwarf_cu_getdwarf(unit.scopes.cu)));
    if (!has_functions) units_without_functions_++;
    unit.has_functions = has_functions;
    if (!is_split || !has_functions) unit.scopes = unit.lines;
    units_.push_back(unit);
  }
  unit_index_ = RangeIndex::innermost_wins(std::move(ranges));
}

// One walk over the unit's entries, in the order of the file, so that parents precede children.
void SourceLines::index_scopes(Unit& unit) {
  unit.indexed = true;
  struct Level {
    Dwarf_Die die;
    int32_t scope;       // the function or inlined call that encloses it
    int32_t enclosing;   // the namespace or class, up to `function`
    Dwarf_Die function;  // that it is written in
  };
  std::vector<IndexedRange> ranges;
  std::vector<Level> levels;  // the next entry to look at, on each depth
  Level child{{}, -1, -1, {}};
  if (dwarf_child(&unit.scopes, &child.die) == 0) levels.push_back(child);
  for (size_t seen = 0; !levels.empty() && seen < kMaxDiesPerUnit; ++seen) {
    Level current = levels.back();
    // A sibling that is not further on in the file would send us round in circles.
    Dwarf_Die sibling;
    if (dwarf_siblingof(&current.die, &sibling) == 0 &&
        dwarf_dieoffset(&sibling) > dwarf_dieoffset(&current.die)) {
      levels.back().die = sibling;
    } else {
      levels.pop_back();
    }
    child.scope = current.scope;
    child.enclosing = current.enclosing;
    child.function = current.function;
    int tag = dwarf_tag(&current.die);
    if (is_enclosing(tag)) {
      const char* name = dwarf_diename(&current.die);
      if (name == nullptr) name = tag == DW_TAG_namespace ? kUnnamedNamespace : kUnnamedType;
      child.enclosing = static_cast<int32_t>(unit.enclosing.size());
      unit.enclosing.push_back({name, current.enclosing, current.function});
    } else if (tag == DW_TAG_subprogram) {
      if (current.enclosing >= 0)
        unit.declared_in[dwarf_dieoffset(&current.die)] = current.enclosing;
      child.enclosing = -1;
      child.function = current.die;
    }
    if (is_scope(tag)) {
      auto index = static_cast<uint32_t>(unit.scope_list.size());
      bool has_code = false;
      for_each_range(&current.die, [&](uint64_t start, uint64_t end) {
        if (ranges.size() < kMaxRanges) ranges.push_back({start, end, index});
        has_code = true;
      });
      if (has_code) {
        unit.scope_list.push_back({current.die, current.scope, tag == DW_TAG_inlined_subroutine});
        child.scope = static_cast<int32_t>(index);
      }
    }
    if (levels.size() < kMaxDieDepth && dwarf_child(&current.die, &child.die) == 0) {
      levels.push_back(child);
    }
  }
  unit.scope_index = RangeIndex::innermost_wins(std::move(ranges));
}

SourceLines::FunctionName SourceLines::name_function(const Unit& unit, Dwarf_Die* die,
                                                     int nesting) {
  FunctionName name;
  int line = 0;
  if (dwarf_decl_line(die, &line) == 0 && line > 0) name.line = static_cast<uint32_t>(line);
  std::string linkage = text_attribute(die, DW_AT_linkage_name);
  if (linkage.empty()) linkage = text_attribute(die, DW_AT_MIPS_linkage_name);
  if (!linkage.empty()) {
    name.function = demangle(linkage);
    name.linkage_name = printable(linkage);
    return name;
  }
  name.function = printable(text_attribute(die, DW_AT_name));
  // From the call to the function it is a copy of, and from there to its declaration in a class.
  Dwarf_Die declaration = *die;
  follow(&declaration, DW_AT_abstract_origin, &declaration);
  follow(&declaration, DW_AT_specification, &declaration);
  auto found = unit.declared_in.find(dwarf_dieoffset(&declaration));
  if (found == unit.declared_in.end()) {
    name.linkage_name = name.function;  // C
    return name;
  }
  const bool call_operator = name.function.starts_with("operator()");
  name.function.insert(0, enclosing_names(unit, found->second, call_operator, nesting));
  return name;
}

// "outer::inner::". Classes within functions have the function's name before theirs.
std::string SourceLines::enclosing_names(const Unit& unit, int32_t enclosing, bool of_call_operator,
                                         int nesting) {
  std::string names;
  Dwarf_Die function{};
  for (int depth = 0; enclosing >= 0 && depth < kMaxEnclosing; ++depth) {
    const Enclosing& outer = unit.enclosing[static_cast<size_t>(enclosing)];
    const bool is_lambda = of_call_operator && depth == 0 && outer.name == kUnnamedType;
    names.insert(0, (is_lambda ? kLambda : printable(outer.name)) + "::");
    function = outer.function;
    enclosing = outer.parent;
  }
  if (function.addr == nullptr || nesting == 0) return names;
  return name_function(unit, &function, nesting - 1).function + "::" + names;
}

void SourceLines::name_frame(Unit& unit, Dwarf_Die* die, SourceFrame& frame) {
  // All calls that a function was inlined into share its name; a copy of it may have its own.
  Dwarf_Die named = *die;
  if (dwarf_tag(die) == DW_TAG_inlined_subroutine && !follow(die, DW_AT_abstract_origin, &named))
    named = *die;
  auto [name, is_new] = unit.names.try_emplace(named.addr);
  if (is_new) name->second = name_function(unit, die, kMaxNesting);
  frame.function = name->second.function;
  frame.linkage_name = name->second.linkage_name;
  frame.function_line = name->second.line;
}

std::vector<SourceFrame> SourceLines::find(uint64_t vaddr) {
  std::lock_guard lock(mutex_);
  auto [answer, is_new] = answers_.try_emplace(vaddr);
  if (is_new) answer->second = look_up(vaddr);
  return answer->second;
}

std::vector<SourceFrame> SourceLines::look_up(uint64_t vaddr) {
  const IndexedRange* range = unit_index_.find(vaddr);
  if (range == nullptr) return {};
  Unit& unit = units_[range->index];
  if (!unit.indexed) index_scopes(unit);

  // A frame's place is its own line for the innermost, and the call inlined into it for the others.
  std::vector<SourceFrame> frames(1);
  place_at_line(&unit.lines, vaddr, frames[0]);
  const IndexedRange* scope = unit.scope_index.find(vaddr);
  int32_t index = scope != nullptr ? static_cast<int32_t>(scope->index) : -1;
  while (index >= 0) {
    Scope& current = unit.scope_list[static_cast<size_t>(index)];
    name_frame(unit, &current.die, frames.back());
    if (!current.is_inlined) break;
    frames.emplace_back();
    place_at_call(&unit.scopes, &current.die, frames.back());
    index = current.parent;
  }
  // Nothing but blanks is nothing.
  const SourceFrame& first = frames[0];
  if (frames.size() == 1 && first.file.empty() && first.function.empty()) frames.clear();
  return frames;
}

// kNoInlinedCall for a function that has code of its own.
uint32_t SourceLines::number_of_call(uint32_t unit, int32_t scope) {
  if (scope < 0 || !units_[unit].scope_list[static_cast<size_t>(scope)].is_inlined)
    return kNoInlinedCall;
  const CallPlace place{unit, static_cast<uint32_t>(scope)};
  const auto [number, is_new] =
      call_numbers_.try_emplace(key_of(place), static_cast<uint32_t>(calls_.size()));
  if (is_new) calls_.push_back(place);
  return number->second;
}

void SourceLines::number_calls(std::vector<CallPlace> places) {
  std::lock_guard lock(mutex_);
  calls_ = std::move(places);
  for (uint32_t i = 0; i < calls_.size(); i++) call_numbers_.emplace(key_of(calls_[i]), i);
}

std::vector<CallPlace> SourceLines::numbered_calls() {
  std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<InlinedStretch> SourceLines::inlined(uint64_t start, uint64_t end) {
  std::lock_guard lock(mutex_);
  std::vector<InlinedStretch> stretches;
  const auto add = [&](uint64_t to, bool known, uint32_t call) {
    if (!stretches.empty() && stretches.back().known == known && stretches.back().call == call)
      stretches.back().end = to;
    else
      stretches.push_back({start, to, known, call});
    start = to;
  };
  while (start < end) {
    const IndexedRange* range = unit_index_.find(start);
    if (range == nullptr) {
      add(std::min(end, unit_index_.next_start(start)), false, kNoInlinedCall);
      continue;
    }
    Unit& unit = units_[range->index];
    if (!unit.indexed) index_scopes(unit);
    uint64_t to = std::min(end, range->end);
    const IndexedRange* scope = unit.scope_index.find(start);
    to = std::min(to, scope != nullptr ? scope->end : unit.scope_index.next_start(start));
    const int32_t index = scope != nullptr ? static_cast<int32_t>(scope->index) : -1;
    add(to, unit.has_functions, number_of_call(range->index, index));
  }
  return stretches;
}

InlinedCall SourceLines::inlined_call(uint32_t number) {
  std::lock_guard lock(mutex_);
  InlinedCall call;
  if (number >= calls_.size() || calls_[number].unit >= units_.size()) return call;
  const CallPlace at = calls_[number];
  Unit& unit = units_[at.unit];
  if (!unit.indexed) index_scopes(unit);
  if (at.scope >= unit.scope_list.size()) return call;
  Scope& scope = unit.scope_list[at.scope];
  SourceFrame frame;
  name_frame(unit, &scope.die, frame);
  call.function = std::move(frame.function);
  call.linkage_name = std::move(frame.linkage_name);
  call.file = declared_in(&scope.die);
  call.line = frame.function_line;
  place_at_call(&unit.scopes, &scope.die, frame);
  call.call_file = std::move(frame.file);
  call.call_line = frame.line;
  call.outer = number_of_call(at.unit, scope.parent);
  return call;
}

}  // namespace shadowprof::symbols

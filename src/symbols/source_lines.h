// SPDX-License-Identifier: MIT
//
// Source positions out of DWARF: for an address, the line and the chain of inlined calls that it
// stands in. libdw decodes; what it would search linearly per query (which unit covers an address,
// which inlined call) is indexed here once per unit, since a profile asks for thousands.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "symbols/elf_file.h"
#include "symbols/range_index.h"
#include "symbols/unpacked_debug.h"

namespace shadowprof::symbols {

struct SourceFrame {
  std::string function;  // demangled; empty where the file does not say
  std::string linkage_name;
  std::string file;   // absolute where the compiler recorded its directory; may be empty
  uint32_t line = 0;  // 0: not known, also where the compiler says "no line"
  uint32_t column = 0;
  uint32_t discriminator = 0;  // tells several blocks of one line apart (sample profiles use it)
  uint32_t function_line = 0;  // where the function is declared
};

inline constexpr uint32_t kNoInlinedCall = ~uint32_t{0};

// A call in whose place the compiler has put the code of the function itself.
struct InlinedCall {
  std::string function;  // demangled
  std::string linkage_name;
  std::string file;       // that the function is declared in; "" when unknown
  uint32_t line = 0;      // of the declaration
  std::string call_file;  // that the call is written in
  uint32_t call_line = 0;
  uint32_t outer = kNoInlinedCall;  // the inlined call that this one is part of
};

// Where it is in the debug information. Equal files give equal places.
struct CallPlace {
  uint32_t unit = 0;
  uint32_t scope = 0;
};

// Addresses that belong to the same inlined calls. DWARF says it of each instruction by ranges of
// addresses (DW_TAG_inlined_subroutine), which lie in one another as the calls do.
struct InlinedStretch {
  uint64_t start = 0;
  uint64_t end = 0;
  bool known = false;              // false: nothing says what was inlined here
  uint32_t call = kNoInlinedCall;  // the innermost
};

// "elfutils 0.188", and whether that library reads packages of split DWARF (.dwp). By its version:
// there is nothing to try it with.
struct DebugLibrary {
  std::string name;
  bool reads_packages = false;
};
DebugLibrary debug_library();

class SourceLines {
 public:
  // Null where the file has no debug information. `file` must have been opened from `fd`, whose
  // ownership passes here together with it.
  static std::unique_ptr<SourceLines> open(UniqueFd fd, ElfFile file);

  // Innermost first: the last frame is the function that the address really belongs to. `vaddr` is
  // an address in terms of the opened file. Empty where nothing is known. Any thread may ask.
  std::vector<SourceFrame> find(uint64_t vaddr);

  // [start, end) in order and without gaps. Reads the entries of the units that it lies in, and of
  // no others. Any thread may ask.
  std::vector<InlinedStretch> inlined(uint64_t start, uint64_t end);
  // By the number that a stretch or another call has.
  InlinedCall inlined_call(uint32_t number);
  // Calls get their numbers as they are met. The first ones are given here, before any question.
  void number_calls(std::vector<CallPlace> places);
  std::vector<CallPlace> numbered_calls();

  // Units whose functions are in a file of their own (split DWARF: .dwo) that was not found: they
  // have lines, and no inlined calls.
  size_t units_without_functions() const { return units_without_functions_; }
  // All that it says is in the file that was opened: neither dwz nor split DWARF has put anything
  // elsewhere.
  bool is_one_file() const { return is_one_file_; }

 private:
  // A function or an inlined call.
  struct Scope {
    Dwarf_Die die{};
    int32_t parent = -1;
    bool is_inlined = false;
  };
  struct FunctionName {
    std::string function;
    std::string linkage_name;
    uint32_t line = 0;
  };
  // A namespace or class; `function`, if it has an address, is what a local class stands in.
  struct Enclosing {
    std::string name;
    int32_t parent = -1;
    Dwarf_Die function{};
  };
  struct Unit {
    Dwarf_Die lines{};   // the die whose line table covers the unit
    Dwarf_Die scopes{};  // the die that has the functions: another one with split DWARF
    bool indexed = false;
    bool has_functions = true;
    std::vector<Scope> scope_list;
    RangeIndex scope_index;
    // Namespaces and classes, and which of them each function was declared in: compilers give no
    // linkage name to functions that no other file can call.
    std::vector<Enclosing> enclosing;
    std::unordered_map<Dwarf_Off, int32_t> declared_in;
    // Demangling is most of what an answer costs, and a function is inlined in many places. By the
    // entry that names it.
    std::unordered_map<const void*, FunctionName> names;
  };
  struct DwarfCloser {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };

  SourceLines(UniqueFd fd, MemoryImage image, ElfFile file, Dwarf* dwarf);
  void index_units();
  void index_scopes(Unit& unit);
  // `nesting`: of functions in classes in functions, as deep as names say it.
  static FunctionName name_function(const Unit& unit, Dwarf_Die* die, int nesting);
  static std::string enclosing_names(const Unit& unit, int32_t enclosing, bool of_call_operator,
                                     int nesting);
  static void name_frame(Unit& unit, Dwarf_Die* die, SourceFrame& frame);
  std::vector<SourceFrame> look_up(uint64_t vaddr);
  uint32_t number_of_call(uint32_t unit, int32_t scope);

  // In this order: each uses the one before.
  UniqueFd fd_;
  MemoryImage image_;  // of the file, where it was packed
  ElfFile file_;
  std::unique_ptr<Dwarf, DwarfCloser> dwarf_;
  std::mutex mutex_;  // libdw fills caches while it answers
  std::vector<Unit> units_;
  size_t units_without_functions_ = 0;
  bool is_one_file_ = true;
  RangeIndex unit_index_;
  std::unordered_map<uint64_t, std::vector<SourceFrame>> answers_;
  std::vector<CallPlace> calls_;  // by number
  std::unordered_map<uint64_t, uint32_t> call_numbers_;  // by place (key_of)
};

}  // namespace shadowprof::symbols

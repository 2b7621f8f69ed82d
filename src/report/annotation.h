// SPDX-License-Identifier: MIT
//
// One function of a profile, instruction by instruction: what executed how often, which way its
// branches went, and where in the source each instruction was written. The text of instructions
// comes from the program's file, which must be the one that ran; source lines from its debug
// information, where it has any.
//
// An instruction's handle is the function's name and its distance from the function's first byte
// ("find_slot+0x1f"): the same in each profile of one build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profile/profile.h"
#include "report/source_files.h"
#include "symbols/module_set.h"

namespace shadowprof::report {

struct Outcome {  // of a branch or call: where it went
  profile::CodeRef to;
  std::string name;
  profile::EdgeKind kind = profile::EdgeKind::taken;
  uint64_t count = 0;
};

struct AnnotatedInsn {
  profile::CodeRef at;
  uint8_t length = 0;
  std::string text;
  uint64_t count = 0;
  std::string file;  // "" when unknown
  uint32_t line = 0;
  std::string inlined;            // the innermost inlined function it belongs to; "" when none
  std::vector<Outcome> outcomes;  // most frequent first
  const profile::LatencyRow* load = nullptr;  // of the profile
  const profile::ValueRow* value = nullptr;   // the hottest of its contexts

  bool conditional() const;
  double taken_share() const;  // of a conditional branch
};

struct AnnotatedLine {
  std::string file;
  uint32_t line = 0;
  uint64_t instructions = 0;        // executed, of those written on this line
  uint64_t executions = 0;          // of the one that executed most
  bool has_code = true;             // false: stands between two that have
  std::optional<std::string> text;  // where the source is on this host
};

// Where an inlined function is.
struct AnnotatedPlace {
  profile::CodeRef at;      // the function that has the code,
  std::string function;     // and its name
  std::string file;         // of the call; "" when unknown
  uint32_t line = 0;        // 0 when unknown
  uint64_t instructions = 0;  // executed here, with what was inlined into it
};

struct Annotation {
  profile::Function function;
  bool inlined =
      false;  // the sum over all places: `function` has no code, and no instructions are shown
  std::string module;
  std::string build_id;
  uint64_t attributed = 0;  // instructions of the whole profile
  uint64_t executed = 0;    // in this function, with what was inlined into it
  bool exact = false;
  bool estimated = false;
  std::vector<AnnotatedInsn> instructions;  // by place
  std::vector<AnnotatedPlace>
      places;  // of an inlined function, those with the most instructions first
  std::vector<AnnotatedLine>
      lines;  // of its own file first, by line; what is between neighbours too
  std::vector<std::string> notes;           // for people: what is missing, and why

  std::string handle(const AnnotatedInsn& insn) const;
};

// What `name` means: a function's name, with or without its parameters, its name for the linker, a
// handle (see above), or module+0xOFFSET. Where several fit, the error lists them by the last form;
// where none does, names that resemble it.
Result<const profile::Function*> choose_function(const profile::Profile& profile,
                                                 std::string_view name);
// Those that have just this name.
std::vector<const profile::Function*> functions_called(const profile::Profile& profile,
                                                       std::string_view name);

// The same of functions that were inlined; a place is FILE:LINE of the declaration. What several
// modules have is taken from the one that executed most of it.
Result<const profile::InlinedFunction*> choose_inlined(const profile::Profile& profile,
                                                       std::string_view name);
std::vector<const profile::InlinedFunction*> inlined_called(const profile::Profile& profile,
                                                            std::string_view name);

// An error where the module's file is not at hand or is not the one that ran.
Result<Annotation> annotate(const profile::Profile& profile, const symbols::ModuleSet& modules,
                            const profile::Function& function, SourceFiles& sources);

Result<Annotation> annotate_inlined(const profile::Profile& profile,
                                    const symbols::ModuleSet& modules,
                                    const profile::InlinedFunction& function, SourceFiles& sources);

enum class AnnotationView : uint8_t { both, source, code };

struct AnnotateOptions {
  size_t columns = 80;
  bool color = false;
  AnnotationView view = AnnotationView::both;
  bool all = false;  // also long stretches that did not execute
};

std::string render_annotation(const Annotation& annotation, const AnnotateOptions& options);
std::string annotation_json(const Annotation& annotation);

}  // namespace shadowprof::report

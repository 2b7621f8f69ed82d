// SPDX-License-Identifier: MIT
//
// What a program file is, looked at before it is launched: so that "cannot run it" is one clear
// sentence of ours instead of a dead child. Follows the kernel's rules (fs/exec.c, binfmt_elf.c,
// binfmt_script.c) and execvp(3)'s search. Between looking and launching the file may change:
// whoever launches still has to handle a failing execve.
//
// Error::errno_value is what execve would have failed with. By the habit of shells, ENOENT and
// ENOTDIR mean "not found" (exit status 127), everything else "not executable" (126).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shadowprof::kernel {

enum class ExecutableFormat : uint8_t {
  elf64_static,    // x86-64, no interpreter
  elf64_dynamic,   // x86-64 with PT_INTERP
  elf32,           // 32-bit ELF, x32 included
  other_machine,   // 64-bit ELF of another architecture
  script,          // begins with #! and an interpreter
  not_executable,  // nothing that the kernel would run: execve gives ENOEXEC
  unreadable,      // may be executed but not read, so its format is not known
};
std::string_view to_string(ExecutableFormat f);

struct ExecutableKind {
  ExecutableFormat format = ExecutableFormat::not_executable;
  bool position_independent = false;  // ET_DYN: the kernel chooses the address
  // The bits as execve would honour them; a mount with nosuid or a tracer may still void them.
  bool setuid = false;
  bool setgid = false;
  bool file_capabilities = false;
  uint16_t machine = 0;  // e_machine of an ELF file
  // PT_INTERP of elf64_dynamic, or what follows #! in a script.
  std::string interpreter;
  // The one argument a script's first line may give, blanks inside included. Empty: none.
  std::string interpreter_argument;

  bool privileged() const { return setuid || setgid || file_capabilities; }
};

// Looks at the file itself, not at its interpreter. An error if execve would fail before it looked
// at the format: missing, a directory or other non-file, no permission, noexec mount.
Result<ExecutableKind> inspect_executable(const std::string& path);

// What would become the process image: follows scripts to their interpreters as far as the kernel
// does, and checks the interpreters. The result is a 64-bit x86 ELF kind or `unreadable`; anything
// else is an error that says what the file is.
Result<ExecutableKind> inspect_program(const std::string& path);

// Where execvp would find `name`: itself if it has a slash, else the first executable file in the
// directories of PATH. ENOENT if there is none, EACCES if there is one that may not be executed.
Result<std::string> find_program(const std::string& name);
// With a given PATH, as in the environment: separated by colons, an empty part is the working
// directory.
Result<std::string> find_program(const std::string& name, std::string_view search_path);

}  // namespace shadowprof::kernel

// SPDX-License-Identifier: MIT
//
// Reads as much of a program file as the kernel would to choose how to run it. Everything in the
// file is untrusted: sizes are checked before use, and names from it are cleaned for messages.
#include "kernel/elf_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "base/printable.h"
#include "base/unique_fd.h"

namespace shadowprof::kernel {
namespace {

// BINPRM_BUF_SIZE: how much of a file the kernel looks at for #! (Linux 5.1; 128 before).
constexpr size_t kScriptHeadBytes = 256;
// A script's interpreter may be a script: exec_binprm() in fs/exec.c gives up beyond this depth.
constexpr int kMaxInterpreters = 5;
// ELF_MIN_ALIGN-independent limit of load_elf_phdrs() in fs/binfmt_elf.c.
constexpr size_t kMaxProgramHeaderBytes = 65536;

tl::unexpected<Error> fail_with(int error, std::string message) {
  return tl::unexpected(Error{std::move(message), error});
}

// Bytes read; fewer than asked for at the end of the file.
Result<size_t> read_at(int fd, uint64_t offset, std::span<char> out, const std::string& path) {
  size_t used = 0;
  while (used < out.size()) {
    const ssize_t got =
        ::pread(fd, out.data() + used, out.size() - used, static_cast<off_t>(offset + used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "cannot read {}", printable(path));
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  return used;
}

// Whether the part [offset, offset + size) is one a file can have.
bool plausible_part(uint64_t offset, uint64_t size) {
  constexpr uint64_t kMaxOffset = INT64_MAX;
  return offset <= kMaxOffset && size <= kMaxOffset - offset;
}

uint16_t machine_of(const Elf64_Ehdr& header) {
  // A big-endian file's field is read with its own byte order, so that its name is right.
  const uint16_t m = header.e_machine;
  return header.e_ident[EI_DATA] == ELFDATA2MSB ? static_cast<uint16_t>(m << 8 | m >> 8) : m;
}

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "x86";
    case EM_X86_64:
      return "x32";
    case EM_ARM:
      return "ARM";
    case EM_AARCH64:
      return "AArch64";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC:
    case EM_PPC64:
      return "PowerPC";
    case EM_S390:
      return "S/390";
    case EM_MIPS:
      return "MIPS";
    case EM_LOONGARCH:
      return "LoongArch";
    default:
      return fmt::format("machine {}", machine);
  }
}

// Fills in the PT_INTERP path. False: the kernel would refuse the file as malformed.
Result<bool> read_interpreter(int fd, const Elf64_Phdr& segment, const std::string& path,
                              std::string* interpreter) {
  if (segment.p_filesz < 2 || segment.p_filesz > PATH_MAX) return false;
  if (!plausible_part(segment.p_offset, segment.p_filesz)) return false;
  std::vector<char> name(segment.p_filesz);
  SP_ASSIGN(const size_t got, read_at(fd, segment.p_offset, name, path));
  if (got != name.size() || name.back() != '\0') return false;
  *interpreter = name.data();
  return true;
}

Status inspect_elf64(int fd, const Elf64_Ehdr& header, const std::string& path,
                     ExecutableKind* kind) {
  const size_t bytes = size_t{header.e_phnum} * sizeof(Elf64_Phdr);
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return {};
  if (header.e_phentsize != sizeof(Elf64_Phdr) || bytes == 0 || bytes > kMaxProgramHeaderBytes)
    return {};
  if (!plausible_part(header.e_phoff, bytes)) return {};
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  const std::span<char> raw(reinterpret_cast<char*>(segments.data()), bytes);
  SP_ASSIGN(const size_t got, read_at(fd, header.e_phoff, raw, path));
  if (got != bytes) return {};

  kind->position_independent = header.e_type == ET_DYN;
  const auto interpreter = std::find_if(segments.begin(), segments.end(),
                                        [](const auto& s) { return s.p_type == PT_INTERP; });
  if (interpreter == segments.end()) {
    kind->format = ExecutableFormat::elf64_static;
    return {};
  }
  SP_ASSIGN(const bool good, read_interpreter(fd, *interpreter, path, &kind->interpreter));
  if (good) kind->format = ExecutableFormat::elf64_dynamic;
  return {};
}

// The rules of load_script() in fs/binfmt_script.c: blanks around, one interpreter, and all the
// rest of the line is one argument. A line that is longer than what the kernel looks at is used,
// cut, if at least the interpreter's path ends within it.
void inspect_script(std::string_view head, ExecutableKind* kind) {
  constexpr std::string_view kBlanks = " \t";
  const bool whole_head = head.size() == kScriptHeadBytes;
  head.remove_prefix(2);
  const size_t end = head.find_first_of(std::string_view("\n\0", 2));
  const bool cut = end == std::string_view::npos && whole_head;
  std::string_view line = head.substr(0, end);
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const size_t path_end = line.find_first_of(kBlanks);
  if (line.empty() || (cut && path_end == std::string_view::npos)) return;
  kind->format = ExecutableFormat::script;
  kind->interpreter = line.substr(0, path_end);
  if (path_end == std::string_view::npos) return;
  std::string_view argument = line.substr(path_end);
  argument.remove_prefix(std::min(argument.find_first_not_of(kBlanks), argument.size()));
  const size_t last = argument.find_last_not_of(kBlanks);
  kind->interpreter_argument = argument.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

Status inspect_content(int fd, const std::string& path, ExecutableKind* kind) {
  std::array<char, kScriptHeadBytes> head{};
  SP_ASSIGN(const size_t got, read_at(fd, 0, head, path));
  const std::string_view text(head.data(), got);
  if (text.starts_with("#!")) {
    inspect_script(text, kind);
    return {};
  }
  if (!text.starts_with(ELFMAG) || got < sizeof(Elf32_Ehdr)) return {};
  Elf64_Ehdr header;
  std::memcpy(&header, head.data(), sizeof header);
  // e_type and e_machine have the same place in both classes.
  static_assert(offsetof(Elf64_Ehdr, e_machine) == offsetof(Elf32_Ehdr, e_machine));
  kind->machine = machine_of(header);
  if (header.e_ident[EI_CLASS] == ELFCLASS32) {
    kind->format = ExecutableFormat::elf32;
    return {};
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || got < sizeof(Elf64_Ehdr)) return {};
  if (kind->machine != EM_X86_64) {
    kind->format = ExecutableFormat::other_machine;
    return {};
  }
  return inspect_elf64(fd, header, path, kind);
}

// What execve checks before it looks inside (do_open_execat): a regular file that we may execute,
// on a mount without noexec (which faccessat reports as EACCES too).
Status check_may_execute(const std::string& path, struct stat* st) {
  const std::string shown = printable(path);
  if (::stat(path.c_str(), st) != 0) {
    const int error = errno;
    if (error == ENOENT) return fail_with(error, fmt::format("{} does not exist", shown));
    return fail_errno(error, "cannot run {}", shown);
  }
  if (S_ISDIR(st->st_mode))
    return fail_with(EACCES, fmt::format("cannot run {}: it is a directory", shown));
  if (!S_ISREG(st->st_mode))
    return fail_with(EACCES, fmt::format("cannot run {}: it is not a regular file", shown));
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return {};
  const int error = errno;
  if (error != EACCES) return fail_errno(error, "cannot run {}", shown);
  if ((st->st_mode & 0111) == 0)
    return fail_with(error,
                     fmt::format("cannot run {}: it is not marked executable (chmod +x)", shown));
  return fail_with(error, fmt::format("cannot run {}: no permission to execute it", shown));
}

Error refusal(const std::string& path, const ExecutableKind& kind) {
  const std::string shown = printable(path);
  switch (kind.format) {
    case ExecutableFormat::elf32:
      return {fmt::format("cannot profile {}: it is a 32-bit program ({}), only 64-bit x86 works",
                          shown, machine_name(kind.machine)),
              ENOEXEC};
    case ExecutableFormat::other_machine:
      return {fmt::format("cannot profile {}: it is a program for {}, only 64-bit x86 works", shown,
                          machine_name(kind.machine)),
              ENOEXEC};
    default:
      return {fmt::format("cannot run {}: it is neither an ELF program nor a script that begins "
                          "with #!",
                          shown),
              ENOEXEC};
  }
}

// The interpreter of `path` is missing or unusable: which is what the user has to know.
Error of_interpreter(const std::string& path, const Error& error) {
  return {fmt::format("cannot run {}: its interpreter: {}", printable(path), error.message),
          error.errno_value};
}

}  // namespace

std::string_view to_string(ExecutableFormat f) {
  switch (f) {
    case ExecutableFormat::elf64_static:
      return "static x86-64 ELF";
    case ExecutableFormat::elf64_dynamic:
      return "dynamic x86-64 ELF";
    case ExecutableFormat::elf32:
      return "32-bit ELF";
    case ExecutableFormat::other_machine:
      return "ELF of another machine";
    case ExecutableFormat::script:
      return "script";
    case ExecutableFormat::not_executable:
      return "no executable format";
    case ExecutableFormat::unreadable:
      return "unreadable";
  }
  return "unknown";
}

Result<ExecutableKind> inspect_executable(const std::string& path) {
  struct stat st {};
  SP_TRY(check_may_execute(path, &st));
  ExecutableKind kind;
  kind.setuid = (st.st_mode & S_ISUID) != 0;
  // Without the group's execute bit S_ISGID means mandatory locking (bprm_fill_uid in fs/exec.c).
  kind.setgid = (st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
  kind.file_capabilities = ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    if (errno != EACCES) return fail_errno(errno, "cannot open {}", printable(path));
    kind.format = ExecutableFormat::unreadable;
    return kind;
  }
  SP_TRY(inspect_content(fd.get(), path, &kind));
  return kind;
}

Result<ExecutableKind> inspect_program(const std::string& path) {
  SP_ASSIGN(ExecutableKind kind, inspect_executable(path));
  std::string current = path;
  for (int depth = 0; kind.format == ExecutableFormat::script; ++depth) {
    if (depth == kMaxInterpreters)
      return fail_with(ELOOP, fmt::format("cannot run {}: its interpreter is a script in turn, "
                                          "more than {} times",
                                          printable(path), kMaxInterpreters));
    const std::string interpreter = kind.interpreter;
    auto next = inspect_executable(interpreter);
    if (!next) return tl::unexpected(of_interpreter(current, next.error()));
    kind = std::move(*next);
    current = interpreter;
  }
  switch (kind.format) {
    case ExecutableFormat::elf64_dynamic:
      if (auto loader = inspect_executable(kind.interpreter); !loader)
        return tl::unexpected(of_interpreter(current, loader.error()));
      return kind;
    case ExecutableFormat::elf64_static:
    case ExecutableFormat::unreadable:
      return kind;
    default:
      return tl::unexpected(refusal(current, kind));
  }
}

Result<std::string> find_program(const std::string& name) {
  // Without PATH, execvp searches what confstr(_CS_PATH) says; on Linux that is "/bin:/usr/bin".
  const char* search_path = std::getenv("PATH");
  return find_program(name, search_path != nullptr ? search_path : "/bin:/usr/bin");
}

Result<std::string> find_program(const std::string& name, std::string_view search_path) {
  const std::string shown = printable(name);
  if (name.empty()) return fail_with(ENOENT, "cannot run a program with an empty name");
  if (name.find('/') != std::string::npos) return name;
  if (name.size() > NAME_MAX) return fail_errno(ENAMETOOLONG, "cannot find {}", shown);

  std::string forbidden;
  for (;;) {
    const size_t colon = search_path.find(':');
    const std::string_view folder = search_path.substr(0, colon);
    std::string candidate = folder.empty() ? "./" + name : std::string(folder) + "/" + name;
    struct stat st {};
    const Status may = check_may_execute(candidate, &st);
    if (may) return candidate;
    switch (may.error().errno_value) {
      // exec(3): the search goes on after these; permission is only reported if nothing is found.
      case EACCES:
        if (forbidden.empty()) forbidden = candidate;
        break;
      case ENOENT:
      case ENOTDIR:
      case ESTALE:
      case ENODEV:
      case ETIMEDOUT:
      case ENAMETOOLONG:
        break;
      default:
        return tl::unexpected(may.error());
    }
    if (colon == std::string_view::npos) break;
    search_path.remove_prefix(colon + 1);
  }
  if (forbidden.empty())
    return fail_with(ENOENT, fmt::format("cannot find {} in the directories of PATH", shown));
  struct stat st {};
  if (const Status why = check_may_execute(forbidden, &st); !why)
    return tl::unexpected(why.error());
  return forbidden;
}

}  // namespace shadowprof::kernel

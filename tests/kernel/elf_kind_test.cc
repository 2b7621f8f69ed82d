// SPDX-License-Identifier: MIT
//
// Program files made by hand, and where it can be seen, the verdict beside what execve does.
#include "kernel/elf_kind.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "../child_process.h"
#include "../temporary_folder.h"

using namespace shadowprof;
using namespace shadowprof::kernel;

namespace {

// Everybody may enter it.
class Folder : public test::TemporaryFolder {
 public:
  Folder() : TemporaryFolder(0755) {}
  std::string file(const std::string& name, std::string_view content, mode_t mode = 0755) const {
    return write(name, content, mode);
  }
};

// A file that is a valid x86-64 program as far as headers go.
struct TinyElf {
  Elf64_Ehdr header{};
  Elf64_Phdr load{};
  Elf64_Phdr interp{};
  std::string name;  // of the interpreter, its final zero included

  explicit TinyElf(std::string interpreter = "") : name(std::move(interpreter)) {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = EM_X86_64;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = name.empty() ? 1 : 2;
    load.p_type = PT_LOAD;
    interp.p_type = PT_INTERP;
    interp.p_offset = sizeof header + 2 * sizeof(Elf64_Phdr);
    interp.p_filesz = name.size();
  }
  std::string bytes() const {
    std::string out(reinterpret_cast<const char*>(&header), sizeof header);
    out.append(reinterpret_cast<const char*>(&load), sizeof load);
    out.append(reinterpret_cast<const char*>(&interp), sizeof interp);
    return out + name;
  }
};

std::string with_zero(const std::string& s) {
  return s + std::string(1, '\0');
}

// What execve of `path` gives: its errno, or 0 and the first output of what ran.
struct Ran {
  int error = 0;
  std::string output;
};
Ran run(const std::string& path) {
  int out[2];
  int failed[2];
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(failed, O_CLOEXEC) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::execl(path.c_str(), path.c_str(), nullptr);
    const int error = errno;
    (void)!::write(failed[1], &error, sizeof error);
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(failed[1]);
  Ran ran;
  char buffer[4096];
  const ssize_t got = ::read(out[0], buffer, sizeof buffer);
  ran.output.assign(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  (void)!::read(failed[0], &ran.error, sizeof ran.error);
  ::waitpid(pid, nullptr, 0);
  ::close(out[0]);
  ::close(failed[0]);
  return ran;
}

// Runs a check in a child, which may change its user. True if it holds.
bool holds_in_child(const std::function<bool()>& check) {
  return test::exit_status_of([&] { return check() ? 0 : 1; }) == 0;
}

// Root may read everything and a user his own files, so what is forbidden is seen only by becoming
// another user. False where we may not: the check is then left out.
bool become_nobody() {
  return ::geteuid() == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0;
}

int errno_of(const std::string& path) {
  const auto kind = inspect_program(path);
  return kind ? 0 : kind.error().errno_value;
}

ExecutableFormat format_of(const std::string& path) {
  const auto kind = inspect_executable(path);
  REQUIRE(kind);
  return kind->format;
}

}  // namespace

TEST_CASE("this program is a dynamic or static x86-64 program that can be run") {
  const auto kind = inspect_program("/proc/self/exe");
  REQUIRE(kind);
  CHECK(kind->machine == EM_X86_64);
  CHECK_FALSE(kind->privileged());
  if (kind->format == ExecutableFormat::elf64_dynamic)
    CHECK(kind->interpreter.starts_with("/"));
  else
    CHECK(kind->format == ExecutableFormat::elf64_static);
}

TEST_CASE("static, dynamic, position-independent and foreign ELF files are told apart") {
  const Folder f;
  CHECK(format_of(f.file("static", TinyElf().bytes())) == ExecutableFormat::elf64_static);

  TinyElf dynamic(with_zero("/lib64/ld.so"));
  dynamic.header.e_type = ET_DYN;
  const auto kind = inspect_executable(f.file("dynamic", dynamic.bytes()));
  REQUIRE(kind);
  CHECK(kind->format == ExecutableFormat::elf64_dynamic);
  CHECK(kind->position_independent);
  CHECK(kind->interpreter == "/lib64/ld.so");

  TinyElf arm;
  arm.header.e_machine = EM_AARCH64;
  CHECK(format_of(f.file("arm", arm.bytes())) == ExecutableFormat::other_machine);
  TinyElf narrow;
  narrow.header.e_ident[EI_CLASS] = ELFCLASS32;
  narrow.header.e_machine = EM_386;
  CHECK(format_of(f.file("i386", narrow.bytes())) == ExecutableFormat::elf32);
  TinyElf big;
  big.header.e_ident[EI_DATA] = ELFDATA2MSB;
  big.header.e_machine = EM_S390 << 8;
  const auto s390 = inspect_program(f.file("s390", big.bytes()));
  REQUIRE_FALSE(s390);
  CHECK(s390.error().errno_value == ENOEXEC);
  CHECK(s390.error().message ==
        "cannot profile " + f / "s390" + ": it is a program for S/390, only 64-bit x86 works");
}

TEST_CASE("a damaged ELF file is not executable, as for the kernel") {
  const Folder f;
  const auto refused = [&](const TinyElf& elf, size_t length = SIZE_MAX) {
    const std::string path = f.file("damaged", elf.bytes().substr(0, length));
    CHECK(format_of(path) == ExecutableFormat::not_executable);
    CHECK(errno_of(path) == ENOEXEC);
    CHECK(run(path).error != 0);
  };
  refused(TinyElf(), 10);
  refused(TinyElf(), sizeof(Elf64_Ehdr) - 1);
  refused(TinyElf(), sizeof(Elf64_Ehdr) + 1);
  TinyElf object;
  object.header.e_type = ET_REL;
  refused(object);
  TinyElf none;
  none.header.e_phnum = 0;
  refused(none);
  TinyElf many;
  many.header.e_phnum = 0xffff;
  refused(many);
  TinyElf narrow;
  narrow.header.e_phentsize = 8;
  refused(narrow);
  TinyElf beyond;
  beyond.header.e_phoff = UINT64_MAX - 8;
  refused(beyond);
  refused(TinyElf("/lib/without/zero"));
  refused(TinyElf(with_zero("")));
  TinyElf far(with_zero("/lib/ld.so"));
  far.interp.p_offset = UINT64_MAX - 2;
  refused(far);
  TinyElf long_name(with_zero("/lib/ld.so"));
  long_name.interp.p_filesz = uint64_t{1} << 40;
  refused(long_name);
}

TEST_CASE("files of no format are refused with one sentence") {
  const Folder f;
  // "#!" alone is no format either, but the kernel (6.18) says EACCES: its empty interpreter is the
  // working directory.
  const std::string contents[] = {"",   "M",    "echo hello\n", "#",       "# !/bin/sh\n",
                                  "#!", "#!\n", "MZ\x90",       "#! \t \n"};
  for (const std::string& content : contents) {
    const std::string path = f.file("text", content);
    CHECK_MESSAGE(format_of(path) == ExecutableFormat::not_executable, content);
    if (content == "#!")
      CHECK(run(path).error != 0);
    else
      CHECK_MESSAGE(run(path).error == ENOEXEC, content);
  }
  const auto kind = inspect_program(f / "text");
  REQUIRE_FALSE(kind);
  CHECK(kind.error().message == "cannot run " + f / "text" +
                                    ": it is neither an ELF program nor a script that begins with "
                                    "#!");
}

TEST_CASE("the first line of a script is split as the kernel splits it") {
  const Folder f;
  const std::pair<std::string, std::string> cases[] = {
      {"#!/bin/echo\n", ""},
      {"#!/bin/echo", ""},
      {"#! \t/bin/echo one\n", "one"},
      {"#!/bin/echo  one  two\tthree \t \nrest", "one  two\tthree"},
      {"#!/bin/echo one\r\n", "one\r"},
      {"#!/bin/echo \n", ""},
      {with_zero("#!/bin/echo") + " lost\n", ""},
      {"#!/bin/echo " + std::string(200, 'x') + "\n", std::string(200, 'x')},
  };
  for (const auto& [content, argument] : cases) {
    const std::string path = f.file("script", content);
    const auto kind = inspect_executable(path);
    REQUIRE(kind);
    CHECK(kind->format == ExecutableFormat::script);
    CHECK(kind->interpreter == "/bin/echo");
    CHECK(kind->interpreter_argument == argument);
    // echo prints its arguments: the interpreter's one, then the script's path.
    CHECK(run(path).output == (argument.empty() ? "" : argument + " ") + path + "\n");
    CHECK(errno_of(path) == 0);
  }
  // The path does not end within what the kernel looks at.
  const std::string cut = f.file("cut", "#!/" + std::string(300, 'x') + "\n");
  CHECK(format_of(cut) == ExecutableFormat::not_executable);
  CHECK(run(cut).error == ENOEXEC);
}

TEST_CASE("scripts of scripts are followed as far as the kernel follows them") {
  const Folder f;
  std::string last = "/bin/echo";
  for (int depth = 1; depth <= 6; ++depth) {
    last = f.file("s" + std::to_string(depth), "#!" + last + "\n");
    CHECK_MESSAGE(errno_of(last) == run(last).error, depth);
  }
  CHECK(errno_of(last) == ELOOP);
  CHECK(errno_of(f / "s5") == 0);
}

TEST_CASE("a missing interpreter is named") {
  const Folder f;
  const std::string script = f.file("script", "#!/no/such/shell -e\n");
  const std::string elf = f.file("elf", TinyElf(with_zero("/no/such/ld.so")).bytes());
  CHECK(run(script).error == ENOENT);
  CHECK(errno_of(script) == ENOENT);
  CHECK(errno_of(elf) == ENOENT);
  CHECK(inspect_program(script).error().message ==
        "cannot run " + script + ": its interpreter: /no/such/shell does not exist");
}

TEST_CASE("what cannot be executed is an error with execve's errno") {
  const Folder f;
  const std::string plain = f.file("plain", "#!/bin/echo\n", 0644);
  ::mkfifo((f / "fifo").c_str(), 0755);
  (void)!::symlink("loop", (f / "loop").c_str());
  const std::pair<std::string, int> cases[] = {
      {f / "missing", ENOENT},
      {plain + "/below", ENOTDIR},
      {f.path(), EACCES},
      {plain, EACCES},
      {f / "fifo", EACCES},
      {f / "loop", ELOOP},
      {"", ENOENT},
      {std::string(5000, 'a'), ENAMETOOLONG},
  };
  for (const auto& one : cases) {
    CHECK_MESSAGE(errno_of(one.first) == one.second, one.first);
    CHECK_MESSAGE(run(one.first).error == one.second, one.first);
  }
  CHECK(inspect_program(f.path()).error().message ==
        "cannot run " + f.path() + ": it is a directory");
}

TEST_CASE("a program that may be run but not read is a kind of its own") {
  const Folder f;
  const std::string secret = f.file("secret", TinyElf().bytes(), 0711);
  const std::string ours = f.file("ours", TinyElf().bytes(), 0700);
  CHECK(holds_in_child([&] {
    if (!become_nobody()) return true;
    const auto kind = inspect_program(secret);
    return kind && kind->format == ExecutableFormat::unreadable && errno_of(ours) == EACCES;
  }));
}

TEST_CASE("permission is that of the effective user, as for execve") {
  const Folder f;
  const std::string ours = f.file("ours", "#!/bin/echo\n", 0700);
  CHECK(holds_in_child([&] {
    if (::geteuid() != 0 || ::setegid(65534) != 0 || ::seteuid(65534) != 0) return true;
    return errno_of(ours) == EACCES && run(ours).error == EACCES;
  }));
}

TEST_CASE("privileges that a program would gain are seen") {
  const Folder f;
  CHECK(inspect_executable(f.file("u", TinyElf().bytes(), 04755))->setuid);
  const auto group = inspect_executable(f.file("g", TinyElf().bytes(), 02755));
  CHECK(group->setgid);
  CHECK_FALSE(group->setuid);
  // Mandatory locking, not a privilege.
  CHECK_FALSE(inspect_executable(f.file("l", TinyElf().bytes(), 02745))->privileged());
}

TEST_CASE("PATH is searched as execvp searches it") {
  const Folder f;
  ::mkdir((f / "a").c_str(), 0755);
  ::mkdir((f / "b").c_str(), 0755);
  f.file("a/plain", "x", 0644);
  f.file("b/plain", "x", 0755);
  f.file("a/only", "x", 0644);
  f.file("b/both", "x");
  ::mkdir((f / "a/both").c_str(), 0755);
  const std::string path = "/no/such/folder:" + f / "a" + ":" + f / "a/plain" + ":" + f / "b";

  CHECK(find_program("plain", path) == f / "b/plain");  // goes on after one without permission
  CHECK(find_program("both", path) == f / "b/both");    // and after a directory
  CHECK(find_program("only", path).error().errno_value == EACCES);
  CHECK(find_program("none", path).error().errno_value == ENOENT);
  CHECK(find_program("none", path).error().message ==
        "cannot find none in the directories of PATH");
  CHECK(find_program("", path).error().errno_value == ENOENT);
  CHECK(find_program(std::string(300, 'n'), path).error().errno_value == ENAMETOOLONG);
  CHECK(find_program("./plain", path) == "./plain");  // a slash: no search
  CHECK(find_program("none", "").error().errno_value == ENOENT);
}

TEST_CASE("an empty part of PATH is the working directory") {
  const Folder f;
  f.file("here", "x");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(f.path());
  for (const char* path : {"", ":/no/such", "/no/such:", "/no/such::/none"})
    CHECK_MESSAGE(find_program("here", path) == "./here", path);
  std::filesystem::current_path(before);
}

TEST_CASE("without PATH the system's folders are searched") {
  const char* before = std::getenv("PATH");
  const std::string saved = before != nullptr ? before : "";
  ::unsetenv("PATH");
  CHECK(find_program("sh") == "/bin/sh");
  ::setenv("PATH", saved.c_str(), 1);
}

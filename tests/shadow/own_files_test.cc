// SPDX-License-Identifier: MIT
//
// Files that a replica makes: they are as a program would find them, and nobody else does.
#include "shadow/own_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "../temporary_folder.h"
#include "base/limits.h"
#include "base/unique_fd.h"
#include "test_replica.h"

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kHere = static_cast<uint64_t>(int64_t{AT_FDCWD});
constexpr auto kEnds = SyscallAnswer::Kind::ends;

uint64_t at(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

// What calls are given: at the same addresses in the replica, whose memory it is that counts.
alignas(4096) char path_memory[2][4096];
alignas(4096) char data_memory[8192];
struct stat status_memory;

// A directory with one file, some time ago; and perhaps a large one, which nobody has written to.
struct Directory {
  explicit Directory(off_t large) : has_large(large != 0) {
    folder.write("old", "before", 0640);
    if (has_large) REQUIRE(::truncate(folder.write("large", "", 0640).c_str(), large) == 0);
    ::usleep(20000);  // file systems mark files by a coarse clock
  }
  ~Directory() {
    // Nothing but what was there.
    CHECK(folder.entries() == (has_large ? 2 : 1));
    CHECK(std::filesystem::file_size(folder / "old") == 6);
  }
  test::TemporaryFolder folder;
  bool has_large;
};

// And a replica that works in it.
class Files {
 public:
  explicit Files(off_t large = 0) : directory_(large) {}
  std::string path(const std::string& name) const { return directory_.folder / name; }
  uint64_t put_path(const std::string& path, size_t which = 0) {
    put(path_memory[which], path.c_str(), path.size() + 1);
    return at(path_memory[which]);
  }
  void put(void* where, const void* what, size_t bytes) {
    REQUIRE(memory_.write(GuestAddr(at(where)), {static_cast<const uint8_t*>(what), bytes}));
  }
  std::string data(size_t bytes) {
    std::string text(bytes, '?');
    REQUIRE(
        memory_.read(GuestAddr(at(data_memory)), {reinterpret_cast<uint8_t*>(text.data()), bytes}));
    return text;
  }
  SyscallAnswer answer(long nr, const SyscallArguments& args) { return replica_.answer(nr, args); }
  SyscallAnswer open(const std::string& name, int flags, mode_t mode = 0600) {
    return answer(SYS_openat, {kHere, put_path(name), static_cast<uint64_t>(flags), mode});
  }
  uint64_t opened(const std::string& name, int flags, mode_t mode = 0600) {
    const SyscallAnswer made = open(name, flags, mode);
    CAPTURE(made.ending.detail);
    REQUIRE(made.kind == SyscallAnswer::Kind::value);
    REQUIRE(made.value >= 0);
    return static_cast<uint64_t>(made.value);
  }
  int64_t write(uint64_t fd, const std::string& text) {
    put(data_memory, text.data(), text.size());
    return answer(SYS_write, {fd, at(data_memory), text.size()}).value;
  }
  std::string read(uint64_t fd, size_t bytes) {
    const SyscallAnswer got = answer(SYS_read, {fd, at(data_memory), bytes});
    REQUIRE(got.kind == SyscallAnswer::Kind::value);
    REQUIRE(got.value >= 0);
    return data(static_cast<size_t>(got.value));
  }
  struct stat status() {
    return memory_.read_value<struct stat>(GuestAddr(at(&status_memory))).value();
  }
  struct stat status_of(const std::string& name) {
    REQUIRE(answer(SYS_stat, {put_path(name), at(&status_memory)}).value == 0);
    return status();
  }
  struct stat status_of(uint64_t fd) {
    REQUIRE(answer(SYS_fstat, {fd, at(&status_memory)}).value == 0);
    return status();
  }

 private:
  Directory directory_;
  TestReplica replica_;
  ptrace::RemoteMemory memory_{replica_.tid()};
};

TEST_CASE("a file that a replica makes is read, measured and removed as the program's would be") {
  Files files;
  const std::string name = files.path("temporary");
  const int expected = ::dup(0);
  ::close(expected);
  const uint64_t fd = files.opened(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  CHECK(fd == static_cast<uint64_t>(expected));
  CHECK(files.answer(SYS_fcntl, {fd, F_GETFD}).value == FD_CLOEXEC);
  CHECK((files.answer(SYS_fcntl, {fd, F_GETFL}).value & (O_ACCMODE | O_APPEND)) == O_RDWR);
  CHECK(files.write(fd, "one two three") == 13);
  CHECK(files.answer(SYS_lseek, {fd, 4, SEEK_SET}).value == 4);
  CHECK(files.read(fd, 3) == "two");
  CHECK(files.answer(SYS_pread64, {fd, at(data_memory), 3, 0}).value == 3);
  CHECK(files.data(3) == "one");
  CHECK(files.answer(SYS_pwrite64, {fd, at(data_memory), 3, 20}).value == 3);
  CHECK(files.answer(SYS_lseek, {fd, 0, SEEK_END}).value == 23);
  CHECK(files.answer(SYS_ftruncate, {fd, 3}).value == 0);

  struct stat directory;
  REQUIRE(::stat(files.path(".").c_str(), &directory) == 0);
  const struct stat by_name = files.status_of(name);
  CHECK(by_name.st_size == 3);
  CHECK(by_name.st_mode == (S_IFREG | (0640 & ~022)));
  CHECK(by_name.st_nlink == 1);
  CHECK(by_name.st_dev == directory.st_dev);
  CHECK(by_name.st_uid == ::geteuid());
  CHECK(files.status_of(fd).st_ino == by_name.st_ino);
  CHECK(files.answer(SYS_access, {files.put_path(name), F_OK}).value == 0);
  CHECK(files.open(name, O_RDWR | O_CREAT | O_EXCL).value == -EEXIST);
  // By its name once more: another offset.
  const uint64_t again = files.opened(name, O_RDONLY);
  CHECK(files.read(again, 10) == "one");
  CHECK(files.answer(SYS_write, {again, at(data_memory), 1}).value == -EBADF);
  CHECK(files.answer(SYS_unlink, {files.put_path(name)}).value == 0);
  CHECK(files.status_of(fd).st_nlink == 0);
  CHECK(files.answer(SYS_stat, {files.put_path(name), at(&status_memory)}).value == -ENOENT);
  CHECK(files.open(name, O_RDONLY).value == -ENOENT);
  CHECK(files.answer(SYS_unlink, {files.put_path(name)}).value == -ENOENT);
}

TEST_CASE("what is in such a file lives on when it is closed, until it has no name") {
  Files files;
  const std::string name = files.path("spill");
  const uint64_t fd = files.opened(name, O_WRONLY | O_CREAT | O_EXCL);
  CHECK(files.answer(SYS_read, {fd, at(data_memory), 1}).value == -EBADF);
  CHECK(files.write(fd, "kept") == 4);
  CHECK(files.answer(SYS_close, {fd}).value == 0);
  CHECK(files.answer(SYS_fstat, {fd, at(&status_memory)}).value == -EBADF);
  const std::string moved = files.path("moved");
  CHECK(files.answer(SYS_rename, {files.put_path(name), files.put_path(moved, 1)}).value == 0);
  CHECK(files.open(name, O_RDONLY).value == -ENOENT);
  CHECK(files.read(files.opened(moved, O_RDONLY), 10) == "kept");
  const uint64_t more = files.opened(moved, O_WRONLY | O_APPEND);
  CHECK(files.write(more, " on") == 3);
  CHECK(files.status_of(moved).st_size == 7);
}

TEST_CASE("a file that is emptied, or only added to, keeps what it has") {
  Files files;
  const std::string name = files.path("old");
  struct stat before;
  REQUIRE(::stat(name.c_str(), &before) == 0);
  const uint64_t reader = files.opened(name, O_RDONLY);
  SUBCASE("emptied") {
    const uint64_t fd = files.opened(name, O_RDWR | O_CREAT | O_TRUNC);
    CHECK(files.status_of(fd).st_size == 0);
    CHECK(files.status_of(fd).st_ino == before.st_ino);
    CHECK(files.status_of(fd).st_nlink == before.st_nlink);
    CHECK(files.write(fd, "new") == 3);
    CHECK(files.status_of(name).st_size == 3);
    CHECK(files.read(files.opened(name, O_RDONLY), 10) == "new");
  }
  SUBCASE("by creat") {
    const auto made = files.answer(SYS_creat, {files.put_path(name), 0600});
    REQUIRE(made.value >= 0);
    CHECK(files.write(static_cast<uint64_t>(made.value), "new") == 3);
    CHECK(files.status_of(name).st_mode == before.st_mode);
  }
  SUBCASE("added to") {
    const uint64_t fd = files.opened(name, O_WRONLY | O_CREAT | O_APPEND);
    CHECK(files.write(fd, "more") == 4);
    CHECK(files.status_of(fd).st_size == 10);
    // Where the file system's part is, nobody knows.
    const uint64_t other = files.opened(name, O_RDONLY);
    CHECK(files.answer(SYS_read, {other, at(data_memory), 1}).kind == kEnds);
  }
  // As it was opened before, it would have to show the change.
  CHECK(files.answer(SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE, reader, 0}).kind == kEnds);
  CHECK(files.answer(SYS_read, {reader, at(data_memory), 1}).kind == kEnds);
  CHECK(files.answer(SYS_write, {reader, at(data_memory), 1}).kind == kEnds);
}

TEST_CASE("what cannot be a file of the replica's own ends the sample, or is refused") {
  Files files;
  CHECK(files.open(files.path("old"), O_RDWR).kind == kEnds);
  CHECK(files.open(files.path("old"), O_RDWR | O_CREAT).kind == kEnds);
  CHECK(files.open("/dev/null", O_WRONLY | O_CREAT | O_TRUNC).kind == kEnds);
  CHECK(files.open("/proc/self/comm", O_WRONLY | O_TRUNC).kind == kEnds);
  CHECK(files.open(files.path("new"), O_RDWR | O_CREAT | O_DIRECT).kind == kEnds);
  CHECK(files.open(files.path("."), O_WRONLY).kind == kEnds);
  CHECK(files.open(files.path("nowhere/new"), O_RDWR | O_CREAT).value == -ENOENT);
  CHECK(files.open(files.path("old/new"), O_RDWR | O_CREAT).value == -ENOTDIR);
  CHECK(files.open(files.path("none"), O_WRONLY).value == -ENOENT);
  CHECK(files.open(files.path(std::string(300, 'n')), O_WRONLY | O_CREAT).value == -ENAMETOOLONG);
}

TEST_CASE("what is there by now, or is not, is not told where it may have been otherwise") {
  Files files;
  const auto access = [&](const std::string& name) {
    return files.answer(SYS_access, {files.put_path(files.path(name)), F_OK});
  };
  CHECK(files.open(files.path("old"), O_RDWR | O_CREAT | O_EXCL).value == -EEXIST);
  CHECK(access("old").value == 0);
  CHECK(access("none").value == -ENOENT);
  CHECK(files.answer(SYS_unlink, {files.put_path(files.path("none"))}).value == -ENOENT);
  const UniqueFd made(::open(files.path("later").c_str(), O_WRONLY | O_CREAT, 0600));
  CHECK(files.open(files.path("later"), O_RDWR | O_CREAT | O_EXCL).kind == kEnds);
  CHECK(files.open(files.path("later"), O_RDONLY).kind == kEnds);
  CHECK(access("later").kind == kEnds);
  ::unlink(files.path("later").c_str());
  CHECK(files.open(files.path("later"), O_RDONLY).kind == kEnds);
  CHECK(access("later").kind == kEnds);
  CHECK(files.answer(SYS_unlink, {files.put_path(files.path("later"))}).kind == kEnds);
  CHECK(access("old").value == 0);
  // A directory that was made since is none that was empty.
  ::mkdir(files.path("later").c_str(), 0700);
  CHECK(access("later/none").kind == kEnds);
  CHECK(access(".").value == 0);
  ::rmdir(files.path("later").c_str());
}

TEST_CASE("a name that a replica has taken away is free, and one that it has given is unknown") {
  Files files;
  CHECK(files.answer(SYS_unlink, {files.put_path(files.path("old"))}).value == 0);
  CHECK(files.open(files.path("old"), O_RDONLY).value == -ENOENT);
  const uint64_t fd = files.opened(files.path("old"), O_RDWR | O_CREAT | O_EXCL);
  CHECK(files.status_of(fd).st_size == 0);
  CHECK(files.answer(SYS_mkdirat, {kHere, files.put_path(files.path("made")), 0700}).value == 0);
  CHECK(files.answer(SYS_stat, {files.put_path(files.path("made")), at(&status_memory)}).kind ==
        kEnds);
  CHECK(files.open(files.path("made/inside"), O_RDWR | O_CREAT).kind == kEnds);
  CHECK(files.answer(SYS_chdir, {files.put_path(files.path("made"))}).kind == kEnds);
}

TEST_CASE("an unnamed file is a replica's own, too, and duplicates of it share an offset") {
  Files files;
  const uint64_t fd = files.opened(files.path("."), O_RDWR | O_TMPFILE);
  CHECK(files.status_of(fd).st_nlink == 0);
  CHECK(files.write(fd, "abc") == 3);
  const auto copy = files.answer(SYS_fcntl, {fd, F_DUPFD_CLOEXEC, 40});
  REQUIRE(copy.value >= 40);
  const auto other = static_cast<uint64_t>(copy.value);
  CHECK(files.answer(SYS_lseek, {other, 1, SEEK_SET}).value == 1);
  CHECK(files.read(fd, 10) == "bc");
  CHECK(files.answer(SYS_close, {fd}).value == 0);
  CHECK(files.status_of(other).st_size == 3);
}

TEST_CASE("a shared mapping of a replica's own file shows what is written, both ways") {
  Files files;
  const uint64_t fd = files.opened(files.path("mapped"), O_RDWR | O_CREAT | O_EXCL);
  CHECK(files.answer(SYS_ftruncate, {fd, 4096}).value == 0);
  const auto mapped = files.answer(SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0});
  REQUIRE(mapped.value > 0);
  files.put(reinterpret_cast<void*>(mapped.value), "mapped", 6);
  CHECK(files.read(fd, 6) == "mapped");
}

TEST_CASE("what is copied between files comes from where it would, and offsets move on") {
  Files files;
  const uint64_t from = files.opened(files.path("old"), O_RDONLY);
  const uint64_t to = files.opened(files.path("copy"), O_RDWR | O_CREAT | O_EXCL);
  CHECK(files.answer(SYS_lseek, {from, 1, SEEK_SET}).value == 1);
  SUBCASE("by sendfile") {
    CHECK(files.answer(SYS_sendfile, {to, from, 0, 2}).value == 2);
  }
  SUBCASE("by copy_file_range") {
    CHECK(files.answer(SYS_copy_file_range, {from, 0, to, 0, 2, 0}).value == 2);
  }
  SUBCASE("from an offset of the caller's") {
    const int64_t offset = 1;
    files.put(data_memory, &offset, sizeof offset);
    CHECK(files.answer(SYS_sendfile, {to, from, at(data_memory), 2}).value == 2);
    CHECK(files.data(1) == "\3");
    CHECK(files.answer(SYS_lseek, {from, 2, SEEK_CUR}).value == 3);
  }
  CHECK(files.answer(SYS_lseek, {from, 0, SEEK_CUR}).value == 3);
  CHECK(files.answer(SYS_lseek, {to, 0, SEEK_SET}).value == 0);
  CHECK(files.read(to, 10) == "ef");
  // What goes elsewhere is as much as there is, and nobody gets it.
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  CHECK(files.answer(SYS_sendfile, {static_cast<uint64_t>(ends[1]), from, 0, 100}).value == 3);
  CHECK(files.answer(SYS_sendfile, {static_cast<uint64_t>(ends[1]), from, 0, 100}).value == 0);
  char byte;
  CHECK(::read(reader.get(), &byte, 1) == -1);
}

TEST_CASE("a replica that writes too much ends, however it does it") {
  Files files;
  const uint64_t fd = files.opened(files.path("large"), O_RDWR | O_CREAT | O_EXCL);
  constexpr uint64_t kMost = limits::kMostOwnBytes;
  CHECK(files.answer(SYS_ftruncate, {fd, kMost}).value == 0);
  CHECK(files.answer(SYS_ftruncate, {fd, 0}).value == 0);
  SUBCASE("by its size") {
    CHECK(files.answer(SYS_ftruncate, {fd, kMost + 1}).ending.outcome == Outcome::memory);
  }
  SUBCASE("by writing far away") {
    CHECK(files.answer(SYS_pwrite64, {fd, at(data_memory), 4096, kMost}).ending.outcome ==
          Outcome::memory);
  }
  SUBCASE("by allocating") {
    CHECK(files.answer(SYS_fallocate, {fd, 0, 4096, kMost}).ending.outcome == Outcome::memory);
  }
  SUBCASE("by several files") {
    const uint64_t other = files.opened(files.path("other"), O_RDWR | O_CREAT | O_EXCL);
    CHECK(files.answer(SYS_ftruncate, {other, kMost}).value == 0);
    CHECK(files.answer(SYS_pwrite64, {fd, at(data_memory), 4096, 0}).ending.outcome ==
          Outcome::memory);
  }
}

TEST_CASE("what is written within a file counts like what makes it larger") {
  constexpr uint64_t kMost = limits::kMostOwnBytes;
  constexpr uint64_t kLarge = 16 * kMost;
  Files files(kLarge);
  const uint64_t fd = files.opened(files.path("large"), O_WRONLY);
  const auto write_at = [&](uint64_t offset) {
    return files.answer(SYS_pwrite64, {fd, at(data_memory), sizeof data_memory, offset});
  };
  const auto allocate = [&](uint64_t mode, uint64_t from, uint64_t bytes) {
    return files.answer(SYS_fallocate, {fd, mode, from, bytes});
  };
  CHECK(files.status_of(fd).st_size == kLarge);
  CHECK(write_at(kLarge / 2).value == sizeof data_memory);
  SUBCASE("by writing") {
    uint64_t offset = 0;
    SyscallAnswer made;
    for (; offset <= kMost && made.kind != kEnds; offset += sizeof data_memory)
      made = write_at(offset);
    CHECK(made.ending.outcome == Outcome::memory);
    CHECK(offset >= kMost - 2 * sizeof data_memory);
  }
  SUBCASE("by allocating too much") {
    CHECK(allocate(0, 0, kMost).ending.outcome == Outcome::memory);
  }
  SUBCASE("by allocating, and no more where it is given back") {
    constexpr uint64_t kBegin = kLarge / 4;
    CHECK(allocate(0, kBegin, kMost - 2 * sizeof data_memory).value == 0);
    CHECK(write_at(0).value == sizeof data_memory);
    CHECK(allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kLarge).value == 0);
    CHECK(allocate(0, kBegin, kMost).value == 0);
    CHECK(write_at(0).ending.outcome == Outcome::memory);
  }
  SUBCASE("by making it short, and long again") {
    CHECK(files.answer(SYS_ftruncate, {fd, kMost}).value == 0);
    CHECK(files.answer(SYS_ftruncate, {fd, 2 * kMost}).value == 0);
    CHECK(files.answer(SYS_ftruncate, {fd, 2 * kMost + 1}).ending.outcome == Outcome::memory);
  }
}

TEST_CASE("a path is cut before its last name") {
  const auto is = [](std::string_view path, std::string_view directory, std::string_view name) {
    const SplitPath split(path);
    return split.directory == directory && split.name == name;
  };
  CHECK(is("name", ".", "name"));
  CHECK(is("/name", "/", "name"));
  CHECK(is("a/b//name", "a/b//", "name"));
  CHECK(is("a/", "a/", ""));
  CHECK(SplitPath("a").is_plain);
  CHECK_FALSE(SplitPath("a/").is_plain);
  CHECK_FALSE(SplitPath("a/..").is_plain);
  CHECK_FALSE(SplitPath("").is_plain);
}

}  // namespace
}  // namespace shadowprof::shadow

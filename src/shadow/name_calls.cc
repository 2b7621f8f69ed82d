// SPDX-License-Identifier: MIT
//
// What is asked about files, and what changes their names. A name that the replica has given or
// taken away is not what the file system has (own_files.h).
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <climits>

#include "shadow/system_calls.h"

namespace shadowprof::shadow {
namespace {

using State = OwnFiles::State;

constexpr const char* kChangedName = "a name that it has changed itself";
constexpr const char* kNews = "a name that was given or taken away since the fork";

struct statx extended(const struct stat& status) {
  struct statx all {};
  all.stx_mask = STATX_BASIC_STATS;
  all.stx_blksize = static_cast<uint32_t>(status.st_blksize);
  all.stx_nlink = static_cast<uint32_t>(status.st_nlink);
  all.stx_uid = status.st_uid;
  all.stx_gid = status.st_gid;
  all.stx_mode = static_cast<uint16_t>(status.st_mode);
  all.stx_ino = status.st_ino;
  all.stx_size = static_cast<uint64_t>(status.st_size);
  all.stx_blocks = static_cast<uint64_t>(status.st_blocks);
  const auto time = [](const timespec& t) {
    return statx_timestamp{t.tv_sec, static_cast<uint32_t>(t.tv_nsec), {}};
  };
  all.stx_atime = time(status.st_atim);
  all.stx_mtime = time(status.st_mtim);
  all.stx_ctime = time(status.st_ctim);
  all.stx_dev_major = major(status.st_dev);
  all.stx_dev_minor = minor(status.st_dev);
  return all;
}

std::string_view without_slashes(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace

// The kernel does not copy shared pages for us.
bool SystemCalls::can_be_written(const Call& call, GuestRange range) {
  return !shared_.overlaps(range) || shared_.make_private(call.remote, memory_, range);
}

// --- Names

std::optional<OwnFiles::Place> SystemCalls::place_of(const Call& call, int directory,
                                                     const SplitPath& path) {
  if (!have(call, directory)) return std::nullopt;
  const auto opened =
      call.remote.openat(directory, path.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (!opened) return std::nullopt;
  struct stat status;
  const bool known = status_in_replica(*opened, status);
  if (!call.remote.close(*opened) || !known) return std::nullopt;
  return OwnFiles::Place{{status.st_dev, status.st_ino}, path.name};
}

// What the replica has at a path, if that is not what the file system says. An answer: nobody can
// say.
std::optional<SyscallAnswer> SystemCalls::find_own(const Call& call, int directory, uint64_t path,
                                                   OwnFiles::Found& found) {
  if (!own_files_.has_any()) return std::nullopt;
  const auto text = memory_.read_string(GuestAddr(path), PATH_MAX);
  if (!text) return std::nullopt;
  const bool is_descriptor = text->starts_with("/proc/") && text->find("/fd") != std::string::npos;
  const SplitPath split(*text);
  if (is_descriptor || own_files_.is_on_the_way(split.directory)) {
    return end(call, Outcome::input, kChangedName);
  }
  if (!own_files_.has(split.name)) return std::nullopt;
  const auto place = place_of(call, directory, split);
  if (!place) return end(call, Outcome::input, kChangedName);
  found = own_files_.find(*place);
  if (found.state == State::changed) return end(call, Outcome::input, kChangedName);
  return std::nullopt;
}

// Where the file system finds nothing: a symbolic link may lead to a file of the replica's own.
bool SystemCalls::leads_to_own(const Call& call, int directory, uint64_t path) {
  if (!own_files_.has_names()) return false;
  constexpr int kItself = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  const auto link = call.remote.call(SYS_openat, directory, path, kItself, 0);
  if (!link || *link < 0) return false;
  (void)call.remote.call(SYS_close, *link);
  return true;
}

// What is at a path, or that nothing is there, may be so only since the fork: the file that is
// there has changed, or the directory that would have it. Links on the way are followed.
bool SystemCalls::is_news(const Call& call, int directory, uint64_t path) {
  auto text = memory_.read_string(GuestAddr(path), PATH_MAX);
  if (!text) return false;
  std::string at(without_slashes(*text));
  for (bool looks_for_it = true; !at.empty(); looks_for_it = false) {
    struct stat status;
    const auto opened = call.remote.openat(directory, at, O_PATH | O_CLOEXEC);
    if (opened) {
      const bool known = status_in_replica(*opened, status) && keeps_times(*opened);
      if (!call.remote.close(*opened) || !known) return false;
      // A directory changes with what is in it.
      return is_later(status.st_ctim) && !(looks_for_it && S_ISDIR(status.st_mode));
    }
    if (opened.error().errno_value != ENOENT || at == ".") return false;
    at = without_slashes(SplitPath(at).directory);
  }
  return false;
}

// The place that a call gives to something else. Nothing: such a path names none.
std::optional<OwnFiles::Place> SystemCalls::place_to_change(const Call& call, uint64_t directory,
                                                            uint64_t path) {
  const auto text = memory_.read_string(GuestAddr(path), PATH_MAX);
  if (!text) return std::nullopt;
  const SplitPath split(without_slashes(*text));
  if (!split.is_plain) return std::nullopt;
  auto place = place_of(call, static_cast<int>(directory), split);
  return place ? place : OwnFiles::Place{OwnFiles::kSomewhere, split.name};
}

SyscallAnswer SystemCalls::remove_name(const Call& call, uint64_t directory, uint64_t path) {
  const auto place = place_to_change(call, directory, path);
  if (!place) return value(0);
  const State state = own_files_.find(*place).state;
  if (state == State::removed) return value(-ENOENT);
  if (state == State::untouched) {
    const int itself = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    const auto looked = call.remote.call(SYS_openat, directory, path, itself, 0);
    if (!looked) return end(call, Outcome::died, looked.error().message);
    if (*looked == -ENOENT) {
      return is_news(call, static_cast<int>(directory), path) ? end(call, Outcome::input, kNews)
                                                              : value(-ENOENT);
    }
    if (*looked >= 0) (void)call.remote.call(SYS_close, *looked);
  }
  own_files_.set(*place, State::removed);
  return value(0);
}

// Whatever it is: a directory, a link, a device.
SyscallAnswer SystemCalls::new_name(const Call& call, uint64_t directory, uint64_t path) {
  if (const auto place = place_to_change(call, directory, path)) {
    own_files_.set(*place, State::changed);
  }
  return value(0);
}

// From one place to another, each a directory and a path. `stays`: the first name, too. Not
// `plainly`: in a way of renameat2(2).
SyscallAnswer SystemCalls::move_name(const Call& call, std::array<uint64_t, 4> paths, bool stays,
                                     bool plainly) {
  const auto from = place_to_change(call, paths[0], paths[1]);
  const auto to = place_to_change(call, paths[2], paths[3]);
  OwnFiles::Found found;
  if (from && plainly) found = own_files_.find(*from);
  if (found.state == State::removed) return value(-ENOENT);
  const bool same = from && to && *from == *to;
  if (same) return value(0);
  if (to) own_files_.set(*to, found.file ? State::made : State::changed, found.file);
  if (from && !stays) own_files_.set(*from, plainly ? State::removed : State::changed);
  return value(0);
}

SyscallAnswer SystemCalls::change_names(const Call& call) {
  constexpr auto kHere = static_cast<uint64_t>(int64_t{AT_FDCWD});
  const SyscallArguments& args = call.args;
  if (own_files_.is_full()) return end(call, Outcome::memory, "too many names of its own");
  switch (call.nr) {
    case SYS_unlink:
    case SYS_rmdir:
      return remove_name(call, kHere, args[0]);
    case SYS_unlinkat:
      return remove_name(call, args[0], args[1]);
    case SYS_rename:
      return move_name(call, {kHere, args[0], kHere, args[1]}, false, true);
    case SYS_renameat:
      return move_name(call, {args[0], args[1], args[2], args[3]}, false, true);
    case SYS_renameat2:
      return move_name(call, {args[0], args[1], args[2], args[3]}, false, args[4] == 0);
    case SYS_link:
      return move_name(call, {kHere, args[0], kHere, args[1]}, true, true);
    case SYS_linkat:
      return move_name(call, {args[0], args[1], args[2], args[3]}, true, true);
    case SYS_mkdir:
    case SYS_mknod:
      return new_name(call, kHere, args[0]);
    case SYS_mkdirat:
    case SYS_mknodat:
      return new_name(call, args[0], args[1]);
    case SYS_symlink:
      return new_name(call, kHere, args[1]);
    case SYS_symlinkat:
      return new_name(call, args[1], args[2]);
    default:
      return end_sample(call);
  }
}

// --- What a file is

bool SystemCalls::status_of(const OwnFile& file, struct stat& status) {
  if (::fstat(file.contents.get(), &status) != 0) return false;
  status.st_dev = file.as.st_dev;
  status.st_ino = file.as.st_ino;
  status.st_mode = file.as.st_mode;
  status.st_nlink = file.as.st_nlink;
  status.st_uid = file.as.st_uid;
  status.st_gid = file.as.st_gid;
  status.st_blksize = file.as.st_blksize;
  return true;
}

// `extended_status`: as statx(2) has it.
SyscallAnswer SystemCalls::give_status(const Call& call, const OwnFile& file, GuestAddr to,
                                       bool extended_status) {
  struct stat status;
  if (!status_of(file, status)) return end_sample(call);
  return extended_status ? give(call, to, extended(status)) : give(call, to, status);
}

OwnFile* SystemCalls::own_file(int fd) {
  OpenFile* file = descriptors_.find(fd);
  return file ? file->made.get() : nullptr;
}

// Made, unless it is about what the replica has changed. `about`: answers for a file of its own.
template <typename About>
SyscallAnswer SystemCalls::ask_path(const Call& call, int directory, uint64_t path, About about) {
  if (!have(call, directory)) return need_input(call);
  OwnFiles::Found found;
  if (auto answer = find_own(call, directory, path, found)) return std::move(*answer);
  if (found.state == State::removed) return value(-ENOENT);
  if (found.file) return about(*found.file);
  const Answer made = execute(call);
  if (made.kind != Answer::Kind::value) return made;
  if (made.value == -ENOENT && leads_to_own(call, directory, path))
    return end(call, Outcome::input, kChangedName);
  const bool tells = made.value >= 0 || made.value == -ENOENT;
  if (tells && is_news(call, directory, path)) return end(call, Outcome::input, kNews);
  return made;
}

SyscallAnswer SystemCalls::ask_about_path(const Call& call) {
  return ask_path(call, AT_FDCWD, call.args[0], [&](const OwnFile& file) {
    switch (call.nr) {
      case SYS_stat:
      case SYS_lstat:
        return give_status(call, file, GuestAddr(call.args[1]), false);
      case SYS_access:
        return call.args[1] == F_OK ? value(0) : need_input(call);
      case SYS_readlink:
        return value(-EINVAL);
      case SYS_chdir:
        return value(-ENOTDIR);
      default:
        return need_input(call);
    }
  });
}

SyscallAnswer SystemCalls::ask_about_path_at(const Call& call) {
  const auto directory = static_cast<int>(call.args[0]);
  if (own_file(directory)) return need_input(call);
  return ask_path(call, directory, call.args[1], [&](const OwnFile&) {
    const bool asks_access = call.nr == SYS_faccessat || call.nr == 439;  // faccessat2
    if (asks_access && call.args[2] == F_OK) return value(0);
    return call.nr == SYS_readlinkat ? value(-EINVAL) : need_input(call);
  });
}

// Questions whose answer for a descriptor's file does not follow from its contents.
SyscallAnswer SystemCalls::ask_about_storage(const Call& call) {
  return own_file(static_cast<int>(call.args[0])) ? need_input(call) : ask_about_file(call);
}

SyscallAnswer SystemCalls::ask_status(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  const GuestAddr to(call.args[1]);
  if (const OwnFile* file = own_file(fd)) return give_status(call, *file, to, false);
  return have(call, fd) ? execute(call) : ask_itself(call, to);
}

// newfstatat and statx: about a path from a directory's descriptor, which may be AT_FDCWD, or about
// the descriptor itself.
SyscallAnswer SystemCalls::ask_status_at(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  const bool extended_status = call.nr == SYS_statx;
  const uint64_t flags = call.args[extended_status ? 2 : 3];
  const GuestAddr to(call.args[extended_status ? 4 : 2]);
  const OwnFile* file = own_file(fd);
  if (flags & AT_EMPTY_PATH && (file || !have(call, fd))) {
    const auto path = memory_.read_string(GuestAddr(call.args[1]), PATH_MAX);
    const bool itself = call.args[1] == 0 || (path && path->empty());
    if (itself && file) return give_status(call, *file, to, extended_status);
    return itself && !extended_status ? ask_itself(call, to) : need_input(call);
  }
  return ask_path(call, fd, call.args[1],
                  [&](const OwnFile& own) { return give_status(call, own, to, extended_status); });
}

// The program still has it, or had it a moment ago.
SyscallAnswer SystemCalls::ask_itself(const Call& call, GuestAddr to) {
  struct stat status;
  const std::string link = link_to(identity_.pid, static_cast<int>(call.args[0]));
  if (::stat(link.c_str(), &status) != 0) return need_input(call);
  return give(call, to, status);
}

// --- Changes of what a file is, which only its own takes.

SyscallAnswer SystemCalls::change_mode(const Call& call) {
  if (call.nr == SYS_fchmod) {
    if (OwnFile* file = own_file(static_cast<int>(call.args[0]))) set_mode(*file, call.args[1]);
    return value(0);
  }
  const bool at = call.nr != SYS_chmod;
  const int directory = at ? static_cast<int>(call.args[0]) : AT_FDCWD;
  OwnFiles::Found found;
  if (auto answer = find_own(call, directory, call.args[at ? 1 : 0], found))
    return std::move(*answer);
  if (found.state == State::removed) return value(-ENOENT);
  if (found.file) set_mode(*found.file, call.args[at ? 2 : 1]);
  return value(0);
}

void SystemCalls::set_mode(OwnFile& file, uint64_t mode) {
  file.as.st_mode = S_IFREG | (static_cast<mode_t>(mode) & 07777);
}

SyscallAnswer SystemCalls::truncate_path(const Call& call) {
  OwnFiles::Found found;
  if (auto answer = find_own(call, AT_FDCWD, call.args[0], found)) return std::move(*answer);
  if (found.state == State::removed) return value(-ENOENT);
  return found.file ? end_sample(call) : value(0);
}

}  // namespace shadowprof::shadow

// SPDX-License-Identifier: MIT
//
// Opening files. One that the replica makes or empties is its own from then on (own_files.h), and
// the file system keeps what it has.
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <span>

#include "ptrace/send_fd.h"
#include "shadow/system_calls.h"

namespace shadowprof::shadow {
namespace {

constexpr const char* kForWriting = "opens a file for writing";

constexpr int kLargeFile = 0100000;  // as the kernel has it; glibc's is 0
// What open(2) may be asked for a file of the replica's own, and what of it stays with the
// descriptor.
constexpr int kImitated = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_NONBLOCK |
                          O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_SYNC | O_TMPFILE | kLargeFile;
constexpr int kOfDescriptor = O_ACCMODE | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_SYNC;

// File systems whose files are bytes that stay as they were written, and that have unnamed ones.
constexpr uint64_t kWithUnnamed[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                     TMPFS_MAGIC};
constexpr uint64_t kOrdinary[] = {EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
                                  TMPFS_MAGIC,           F2FS_SUPER_MAGIC, NFS_SUPER_MAGIC,
                                  OVERLAYFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC};

bool is_one_of(std::span<const uint64_t> kinds, uint64_t kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool is_unnamed(int flags) {
  return (flags & O_TMPFILE) == O_TMPFILE;
}

bool changes_files(int flags) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  return writes || (flags & (O_CREAT | O_TRUNC)) || is_unnamed(flags);
}

}  // namespace

bool SystemCalls::status_in_replica(int64_t fd, struct stat& status) const {
  return ::stat(link_to(replica_, static_cast<int>(fd)).c_str(), &status) == 0;
}

// Its file system says when a file was made or changed, not when somebody looked.
bool SystemCalls::keeps_times(int fd) const {
  struct statfs system;
  return ::statfs(link_to(replica_, fd).c_str(), &system) == 0 &&
         is_one_of(kOrdinary, static_cast<uint64_t>(system.f_type));
}

SyscallAnswer SystemCalls::failed(const Call& call, const Error& error) {
  if (error.errno_value == 0) return end(call, Outcome::system_call, error.message);
  return error.errno_value == ESRCH ? end(call, Outcome::died, error.message)
                                    : value(-int64_t{error.errno_value});
}

// The descriptor for it opens nothing (O_PATH): a FIFO's or device's other side must not notice.
tl::expected<OpenFile, SyscallAnswer> SystemCalls::look_before_opening(const Call& call,
                                                                       const OpenRequest& how) {
  const auto no = [&](Outcome outcome, std::string why) {
    return tl::unexpected(end(call, outcome, std::move(why)));
  };
  const int follow = how.flags & (O_NOFOLLOW | O_DIRECTORY);
  const auto looked =
      call.remote.call(SYS_openat, how.directory, how.path, O_PATH | O_CLOEXEC | follow, 0);
  if (!looked) return no(Outcome::died, looked.error().message);
  if (*looked == -ENOENT && leads_to_own(call, how.directory, how.path)) {
    return no(Outcome::input, "a link to what the replica has made");
  }
  if (*looked == -ENOENT && is_news(call, how.directory, how.path)) {
    return no(Outcome::input, "a file that may have been removed since the fork");
  }
  if (*looked < 0) return tl::unexpected(value(*looked));
  struct stat status;
  const bool known = status_in_replica(*looked, status);
  const bool regular = known && S_ISREG(status.st_mode);
  const bool is_new = regular && is_later(status.st_ctim) && keeps_times(static_cast<int>(*looked));
  const auto closed = call.remote.call(SYS_close, *looked);
  if (!closed) return no(Outcome::died, closed.error().message);
  if (is_new) return no(Outcome::input, "a file that was made or changed since the fork");
  if (!regular && !(known && S_ISDIR(status.st_mode))) {
    return no(Outcome::system_call, "opens what is neither file nor directory");
  }
  return OpenFile{0, !regular, true, status.st_dev, status.st_ino};
}

// Made as it is, once that may be; or it is a file of the replica's own.
SyscallAnswer SystemCalls::open_file(const Call& call, const OpenRequest& how) {
  if (!have(call, how.directory)) return end(call, Outcome::input);
  OwnFiles::Found found;
  if (auto answer = find_own(call, how.directory, how.path, found)) return std::move(*answer);
  if (found.file) return open_again(call, found.file, how);
  const bool removed = found.state == OwnFiles::State::removed;
  if (changes_files(how.flags)) return open_to_write(call, how, removed);
  if (removed) return value(-ENOENT);
  auto looked = look_before_opening(call, how);
  if (!looked) return std::move(looked.error());
  if (auto file = own_files_.in_place_of(looked->id())) {
    return open_again(call, std::move(file), how);
  }
  const Answer opened = new_descriptor(call);
  if (opened.kind == Answer::Kind::value && opened.value >= 0) {
    descriptors_.opened(static_cast<int>(opened.value),
                        std::make_shared<OpenFile>(std::move(*looked)));
  }
  return opened;
}

SyscallAnswer SystemCalls::open_to_write(const Call& call, const OpenRequest& how, bool removed) {
  const auto text = memory_.read_string(GuestAddr(how.path), PATH_MAX);
  if (!text) return failed(call, text.error());
  const SplitPath path(*text);
  const bool unnamed = is_unnamed(how.flags);
  const bool understood = (how.flags & ~kImitated) == 0 && !how.restricted &&
                          (unnamed || (path.is_plain && !(how.flags & O_DIRECTORY)));
  if (!understood || own_files_.is_full()) return end(call, Outcome::system_call, kForWriting);
  const auto directory = call.remote.openat(how.directory, unnamed ? *text : path.directory,
                                            O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (!directory) return failed(call, directory.error());
  std::shared_ptr<OwnFile> file;
  auto answer = choose_own(call, how, *directory, unnamed ? "" : path.name, removed, file);
  // Before the file gets its number, which may be this one.
  if (const Status closed = call.remote.close(*directory); !closed) {
    return failed(call, closed.error());
  }
  return answer ? std::move(*answer) : give_own(call, std::move(file), how.flags);
}

// The file that is to stand for `name` in a directory; no name: for none.
std::optional<SyscallAnswer> SystemCalls::choose_own(const Call& call, const OpenRequest& how,
                                                     int directory, const std::string& name,
                                                     bool removed, std::shared_ptr<OwnFile>& file) {
  struct statfs system;
  struct stat status;
  const std::string link = link_to(replica_, directory);
  const bool known = ::statfs(link.c_str(), &system) == 0 && status_in_replica(directory, status);
  const std::span<const uint64_t> kinds =
      name.empty() ? std::span<const uint64_t>(kWithUnnamed) : std::span<const uint64_t>(kOrdinary);
  if (!known || !is_one_of(kinds, static_cast<uint64_t>(system.f_type))) {
    return end(call, Outcome::system_call, kForWriting);
  }
  const OwnFiles::Place place{{status.st_dev, status.st_ino}, name};
  if (!removed && !name.empty()) {
    const auto looked = call.remote.openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (looked) {
      auto answer = choose_existing(call, how, *looked, place, file);
      if (const Status closed = call.remote.close(*looked); !closed) {
        return failed(call, closed.error());
      }
      return answer;
    }
    if (looked.error().errno_value != ENOENT) return failed(call, looked.error());
    if (!(how.flags & O_CREAT)) return value(-ENOENT);
  }
  if (auto refused = may_not_use(call, directory, W_OK | X_OK)) return refused;
  return choose_new(call, how, status, place, file);
}

std::optional<SyscallAnswer> SystemCalls::choose_new(const Call& call, const OpenRequest& how,
                                                     const struct stat& directory,
                                                     const OwnFiles::Place& place,
                                                     std::shared_ptr<OwnFile>& file) {
  if (place.name.empty() && (how.flags & O_ACCMODE) == O_RDONLY) return value(-EINVAL);
  file = own_files_.make();
  if (!file) return end(call, Outcome::memory, "too many files of its own");
  const auto ask = [&](long nr, int argument = 0) -> unsigned {
    const auto answer = call.remote.call(nr, argument);
    return answer && *answer >= 0 ? static_cast<unsigned>(*answer) : 0;
  };
  const unsigned mask = ask(SYS_umask, 077);
  ask(SYS_umask, static_cast<int>(mask));
  file->as.st_dev = directory.st_dev;
  file->as.st_mode = S_IFREG | (how.mode & 07777 & ~mask);
  file->as.st_uid = ask(SYS_geteuid);
  file->as.st_gid = directory.st_mode & S_ISGID ? directory.st_gid : ask(SYS_getegid);
  file->as.st_blksize = directory.st_blksize;
  if (!place.name.empty()) own_files_.set(place, OwnFiles::State::made, file);
  return std::nullopt;
}

// What the program has there, or another one, since the fork is not what the replica would find.
std::optional<SyscallAnswer> SystemCalls::choose_existing(const Call& call, const OpenRequest& how,
                                                          int looked, const OwnFiles::Place& place,
                                                          std::shared_ptr<OwnFile>& file) {
  struct stat status;
  if (!status_in_replica(looked, status)) return end(call, Outcome::system_call, kForWriting);
  const FileId id{status.st_dev, status.st_ino};
  const bool changed = is_later(status.st_ctim);
  if ((how.flags & O_CREAT) && (how.flags & O_EXCL)) {
    return changed ? end(call, Outcome::input, "a file that was made since the fork")
                   : value(-EEXIST);
  }
  if (S_ISLNK(status.st_mode) && (how.flags & O_NOFOLLOW)) return value(-ELOOP);
  if (S_ISDIR(status.st_mode)) return value(-EISDIR);
  const int access = how.flags & O_ACCMODE;
  const bool empties = (how.flags & O_TRUNC) || status.st_size == 0;
  if (!S_ISREG(status.st_mode) || access == O_RDONLY || (access == O_RDWR && !empties)) {
    return end(call, Outcome::system_call, kForWriting);
  }
  file = own_files_.in_place_of(id);
  if (file) return open_again_is_wrong(call, *file, how);
  if (!(how.flags & O_TRUNC) && changed) {
    return end(call, Outcome::input, "a file that was written to since the fork");
  }
  if (auto refused = may_not_use(call, looked, access == O_RDWR ? R_OK | W_OK : W_OK))
    return refused;
  file = own_files_.make();
  if (!file || !set_size(*file, empties ? 0 : static_cast<uint64_t>(status.st_size))) {
    return end(call, Outcome::system_call, kForWriting);
  }
  file->said = empties ? 0 : static_cast<uint64_t>(status.st_size);
  file->is_known = empties;
  file->as = status;
  file->as.st_nlink--;  // this name is counted again
  own_files_.replace(id, file);
  own_files_.set(place, OwnFiles::State::made, file);
  written_.insert(id);
  return std::nullopt;
}

// As the program's user and groups. Nothing: it may.
std::optional<SyscallAnswer> SystemCalls::may_not_use(const Call& call, int fd, int access) {
  std::array<uint8_t, 8> no_path{};
  int64_t answer = -ENOSYS;
  const Status asked = call.remote.with_bytes_on_stack(no_path, [&](GuestAddr at) -> Status {
    constexpr int kHow = AT_EACCESS | AT_EMPTY_PATH;
    SP_ASSIGN(answer, call.remote.call(SYS_faccessat2, fd, at, access, kHow));
    return {};
  });
  if (!asked) return failed(call, asked.error());
  if (answer == 0) return std::nullopt;
  return answer == -EACCES || answer == -EROFS ? value(answer)
                                               : end(call, Outcome::system_call, kForWriting);
}

// A file larger than we may make one would end us.
bool SystemCalls::set_size(const OwnFile& file, uint64_t size) {
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || size > limit.rlim_cur) return false;
  return ::ftruncate(file.contents.get(), static_cast<off_t>(size)) == 0;
}

// Nothing: it may be.
std::optional<SyscallAnswer> SystemCalls::open_again_is_wrong(const Call& call, OwnFile& file,
                                                              const OpenRequest& how) {
  if ((how.flags & O_CREAT) && (how.flags & O_EXCL)) return value(-EEXIST);
  if (how.flags & O_DIRECTORY) return value(-ENOTDIR);
  const bool empties = (how.flags & O_TRUNC) != 0;
  const bool reads = (how.flags & O_ACCMODE) == O_RDONLY;
  constexpr mode_t kForOwner = S_IRUSR | S_IWUSR;
  if ((how.flags & ~kImitated) || how.restricted || (empties && reads) ||
      (file.as.st_mode & kForOwner) != kForOwner) {
    return end(call, Outcome::system_call, "opens a file of its own in an unknown way");
  }
  if (!empties) return std::nullopt;
  if (!set_size(file, 0)) return end_sample(call);
  own_files_.look_at_size(file);
  file.is_known = true;
  return std::nullopt;
}

SyscallAnswer SystemCalls::open_again(const Call& call, std::shared_ptr<OwnFile> file,
                                      const OpenRequest& how) {
  if (auto answer = open_again_is_wrong(call, *file, how)) return std::move(*answer);
  return give_own(call, std::move(file), how.flags);
}

// An open file of its own, with access and offset of its own.
SyscallAnswer SystemCalls::give_own(const Call& call, std::shared_ptr<OwnFile> file, int flags) {
  const auto sent = ptrace::send_fd(call.remote, file->contents.get(), O_RDWR);
  if (!sent) return end(call, Outcome::system_call, sent.error().message);
  const auto opened =
      call.remote.openat(AT_FDCWD, fmt::format("/proc/self/fd/{}", *sent), flags & kOfDescriptor);
  const Status closed = call.remote.close(*sent);
  if (!opened || !closed) return end(call, Outcome::system_call, kForWriting);
  const int64_t fd = place_descriptor(call, *opened, descriptors_.lowest_free());
  if (fd < 0) return end_sample(call);
  OpenFile open{0, false, true, file->as.st_dev, file->as.st_ino, std::move(file)};
  descriptors_.opened(static_cast<int>(fd), std::make_shared<OpenFile>(std::move(open)));
  return value(fd);
}

SyscallAnswer SystemCalls::open_path(const Call& call) {
  return open_file(call, {AT_FDCWD, call.args[0], static_cast<int>(call.args[1]),
                          static_cast<mode_t>(call.args[2]), false});
}

SyscallAnswer SystemCalls::open_at(const Call& call) {
  return open_file(call,
                   {static_cast<int>(call.args[0]), call.args[1], static_cast<int>(call.args[2]),
                    static_cast<mode_t>(call.args[3]), false});
}

SyscallAnswer SystemCalls::create_path(const Call& call) {
  return open_file(call, {AT_FDCWD, call.args[0], O_CREAT | O_WRONLY | O_TRUNC,
                          static_cast<mode_t>(call.args[1]), false});
}

// All that may be asked of how the path is resolved refuses some paths, and leads nowhere else; but
// for RESOLVE_IN_ROOT.
SyscallAnswer SystemCalls::open_with(const Call& call) {
  if (call.args[3] != sizeof(open_how)) return end_sample(call);
  auto how = memory_.read_value<open_how>(GuestAddr(call.args[2]));
  if (!how) return value(-EFAULT);
  if (how->resolve & RESOLVE_IN_ROOT) return end_sample(call);
  // What was looked at is what the kernel sees: the caller's own may be in memory that others
  // write.
  const OpenRequest request{static_cast<int>(call.args[0]), call.args[1],
                            static_cast<int>(how->flags), static_cast<mode_t>(how->mode),
                            how->resolve != 0 || how->flags > INT_MAX};
  Answer answer = end_sample(call);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&*how), sizeof *how);
  const Status made = call.remote.with_bytes_on_stack(bytes, [&](GuestAddr at) -> Status {
    Call looked_at = call;
    looked_at.args[2] = at.value;
    answer = open_file(looked_at, request);
    return {};
  });
  return made ? answer : end(call, Outcome::system_call, made.error().message);
}

}  // namespace shadowprof::shadow

// SPDX-License-Identifier: MIT
//
// Descriptors and files: what a replica may read, and how.
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <span>

#include "shadow/io_vectors.h"
#include "shadow/system_calls.h"

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kMostBytesOfCall = 0x7ffff000;  // MAX_RW_COUNT: more are not written

std::string link_to(Tid process, int fd) {
  return fmt::format("/proc/{}/fd/{}", process.value, fd);
}

}  // namespace

int64_t SystemCalls::bytes_in_vector(GuestAddr vector, uint64_t count) {
  const auto vectors = read_io_vectors(memory_, vector, count);
  if (!vectors) return -EFAULT;
  uint64_t sum = 0;
  for (const iovec& part : *vectors) {
    if (part.iov_len > uint64_t{INT64_MAX}) return -EINVAL;
    sum = std::min(sum + part.iov_len, kMostBytesOfCall);
  }
  return static_cast<int64_t>(sum);
}

// Is there such a descriptor in the replica, or can there be?
bool SystemCalls::have(const Call& call, int fd) {
  return !descriptors_.is_missing(fd) || descriptors_.open_missing(call.remote, replica_, fd);
}

// Null: it is no regular file, or cannot be had.
OpenFile* SystemCalls::regular_file(const Call& call, int fd) {
  if (!have(call, fd)) return nullptr;
  OpenFile* file = descriptors_.find(fd);
  return file && !file->directory ? file : nullptr;
}

SyscallAnswer SystemCalls::read(const Call& call) {
  return read_file(call, false, false);
}

SyscallAnswer SystemCalls::read_at(const Call& call) {
  return read_file(call, true, false);
}

SyscallAnswer SystemCalls::read_parts(const Call& call) {
  return read_file(call, false, true);
}

SyscallAnswer SystemCalls::read_parts_at(const Call& call) {
  return read_file(call, true, true);
}

// An offset of -1 stands for the file's own.
SyscallAnswer SystemCalls::read_parts_flags(const Call& call) {
  return read_file(call, call.args[3] != UINT64_MAX, true);
}

// How far the program had read one of its own is not known.
SyscallAnswer SystemCalls::read_directory(const Call& call) {
  const OpenFile* file = descriptors_.find(static_cast<int>(call.args[0]));
  return file && file->directory && file->own ? execute(call) : need_input(call);
}

// What the program would read there is not what the file has. Within a first sample, which is short,
// files that others write to all the time are taken as they are.
const char* SystemCalls::why_not_to_read(int fd, const OpenFile& file) const {
  if (written_.contains(file.id())) return "what it has written itself";
  if (!has_gone_on_) return nullptr;
  struct stat status;
  if (::stat(link_to(replica_, fd).c_str(), &status) != 0) return nullptr;
  const timespec& changed = status.st_mtim;
  const bool is_later = std::pair(changed.tv_sec, changed.tv_nsec) >
                        std::pair(forked_at_.tv_sec, forked_at_.tv_nsec);
  return is_later ? "a file that was written to since the fork" : nullptr;
}

SyscallAnswer SystemCalls::read_file(const Call& call, bool positioned, bool vector) {
  const auto fd = static_cast<int>(call.args[0]);
  OpenFile* file = regular_file(call, fd);
  if (!file) return end(call, Outcome::input, "only regular files are read in a replica");
  if (const char* why = why_not_to_read(fd, *file)) return end(call, Outcome::input, why);
  const auto make = [&]() -> Result<int64_t> {
    if (positioned) {
      return call.remote.call(call.nr, call.args[0], call.args[1], call.args[2], call.args[3],
                              call.args[4], call.args[5]);
    }
    return call.remote.call(vector ? SYS_preadv : SYS_pread64, call.args[0], call.args[1],
                            call.args[2], file->offset, 0);
  };
  Result<int64_t> got = make();
  if (got && *got == -EFAULT && !vector) {
    // The kernel does not copy shared pages for us.
    const GuestRange buffer{GuestAddr(call.args[1]), GuestAddr(call.args[1] + call.args[2])};
    if (shared_.overlaps(buffer) && shared_.make_private(call.remote, memory_, buffer))
      got = make();
  }
  if (!got) return end(call, Outcome::died, got.error().message);
  if (*got > 0 && !positioned) file->offset += static_cast<uint64_t>(*got);
  return value(*got);
}

// As the replica believes. Null: no file that is known.
OpenFile* SystemCalls::changes_file(int fd) {
  OpenFile* file = descriptors_.known(fd);
  if (file) written_.insert(file->id());
  return file;
}

// Not written; but the offset moves.
SyscallAnswer SystemCalls::write_file(const Call& call, bool positioned, bool vector) {
  const int64_t bytes = vector ? bytes_in_vector(GuestAddr(call.args[1]), call.args[2])
                               : static_cast<int64_t>(std::min(call.args[2], kMostBytesOfCall));
  OpenFile* file = changes_file(static_cast<int>(call.args[0]));
  if (file && !positioned && bytes > 0) file->offset += static_cast<uint64_t>(bytes);
  return value(bytes);
}

SyscallAnswer SystemCalls::write(const Call& call) {
  return write_file(call, false, false);
}

SyscallAnswer SystemCalls::write_at(const Call& call) {
  return write_file(call, true, false);
}

SyscallAnswer SystemCalls::write_parts(const Call& call) {
  return write_file(call, false, true);
}

SyscallAnswer SystemCalls::write_parts_at(const Call& call) {
  return write_file(call, true, true);
}

SyscallAnswer SystemCalls::write_parts_flags(const Call& call) {
  return write_file(call, call.args[3] != UINT64_MAX, true);
}

SyscallAnswer SystemCalls::change_file(const Call& call) {
  changes_file(static_cast<int>(call.args[0]));
  return value(0);
}

SyscallAnswer SystemCalls::seek(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  const auto distance = static_cast<int64_t>(call.args[1]);
  OpenFile* file = regular_file(call, fd);
  if (!file) return end(call, Outcome::input, "the offset of what is not a regular file");
  int64_t from = 0;
  switch (static_cast<int>(call.args[2])) {
    case SEEK_SET:
      break;
    case SEEK_CUR:
      from = static_cast<int64_t>(file->offset);
      break;
    case SEEK_END: {
      struct stat status;
      if (::stat(link_to(replica_, fd).c_str(), &status) != 0) return end(call, Outcome::input);
      from = status.st_size;
      break;
    }
    default:
      return end(call, Outcome::system_call);
  }
  int64_t to = 0;
  if (__builtin_add_overflow(from, distance, &to) || to < 0) return value(-EINVAL);
  file->offset = static_cast<uint64_t>(to);
  return value(to);
}

// Looked at by a descriptor that opens nothing (O_PATH) before it is opened: a FIFO's or device's
// other side must not notice. Nothing: it may be opened, and `looked_at_` is what it is.
std::optional<SyscallAnswer> SystemCalls::may_not_open(const Call& call, int directory,
                                                       uint64_t path, uint64_t how) {
  if (!have(call, directory)) return end(call, Outcome::input);
  const auto flags = static_cast<int>(how);
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes || (flags & (O_CREAT | O_TRUNC | O_TMPFILE) & ~O_DIRECTORY)) {
    return end(call, Outcome::system_call, "opens a file for writing");
  }
  const int follow = flags & (O_NOFOLLOW | O_DIRECTORY);
  const auto looked = call.remote.call(SYS_openat, directory, path, O_PATH | O_CLOEXEC | follow, 0);
  if (!looked) return end(call, Outcome::died, looked.error().message);
  if (*looked < 0) return value(*looked);
  struct stat status;
  const bool known = ::stat(link_to(replica_, static_cast<int>(*looked)).c_str(), &status) == 0;
  const auto closed = call.remote.call(SYS_close, *looked);
  if (!closed) return end(call, Outcome::died, closed.error().message);
  const bool regular = known && S_ISREG(status.st_mode);
  if (!regular && !(known && S_ISDIR(status.st_mode))) {
    return end(call, Outcome::system_call, "opens what is neither file nor directory");
  }
  looked_at_ = OpenFile{0, !regular, true, status.st_dev, status.st_ino};
  return std::nullopt;
}

// Made as it is, once that may be.
SyscallAnswer SystemCalls::open_file(const Call& call, int directory, uint64_t path,
                                     uint64_t how) {
  if (auto answer = may_not_open(call, directory, path, how)) return std::move(*answer);
  const Answer opened = new_descriptor(call);
  if (opened.kind == Answer::Kind::value && opened.value >= 0) {
    descriptors_.opened(static_cast<int>(opened.value), std::make_shared<OpenFile>(looked_at_));
  }
  return opened;
}

SyscallAnswer SystemCalls::open_path(const Call& call) {
  return open_file(call, AT_FDCWD, call.args[0], call.args[1]);
}

SyscallAnswer SystemCalls::open_at(const Call& call) {
  return open_file(call, static_cast<int>(call.args[0]), call.args[1], call.args[2]);
}

// All that may be asked of how the path is resolved refuses some paths, and leads nowhere else; but
// for RESOLVE_IN_ROOT.
SyscallAnswer SystemCalls::open_with(const Call& call) {
  if (call.args[3] != sizeof(open_how)) return end_sample(call);
  auto how = memory_.read_value<open_how>(GuestAddr(call.args[2]));
  if (!how) return value(-EFAULT);
  if (how->resolve & RESOLVE_IN_ROOT) return end_sample(call);
  // What was looked at is what the kernel sees: the caller's own may be in memory that others write.
  Answer answer = end_sample(call);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&*how), sizeof *how);
  const Status made = call.remote.with_bytes_on_stack(bytes, [&](GuestAddr at) -> Status {
    Call looked_at = call;
    looked_at.args[2] = at.value;
    answer = open_file(looked_at, static_cast<int>(call.args[0]), call.args[1], how->flags);
    return {};
  });
  return made ? answer : end(call, Outcome::system_call, made.error().message);
}

// The number that the program would have got: in the replica others are free, too. Negative: it
// cannot be had.
int64_t SystemCalls::place_descriptor(const Call& call, int64_t fd, int wanted) {
  if (fd == wanted) return fd;
  const auto flags = call.remote.call(SYS_fcntl, fd, F_GETFD, 0);
  if (!flags || *flags < 0) return -1;
  const auto moved = call.remote.call(SYS_dup3, fd, wanted, *flags & FD_CLOEXEC ? O_CLOEXEC : 0);
  const auto closed = call.remote.call(SYS_close, fd);
  return moved && closed && *moved >= 0 ? *moved : -1;
}

// Calls that make one descriptor of the replica's own, by whatever name.
SyscallAnswer SystemCalls::new_descriptor(const Call& call) {
  const Answer made = execute(call);
  if (made.kind != Answer::Kind::value || made.value < 0) return made;
  const int64_t fd = place_descriptor(call, made.value, descriptors_.lowest_free());
  if (fd < 0) return end(call, Outcome::system_call);
  descriptors_.opened(static_cast<int>(fd), nullptr);
  return value(fd);
}

// Two descriptors of the replica's own, which the call writes to `at`.
SyscallAnswer SystemCalls::new_pair(const Call& call, GuestAddr at) {
  using Pair = std::array<int32_t, 2>;
  const GuestRange range{at, at + sizeof(Pair)};
  // The kernel does not copy shared pages for us.
  if (shared_.overlaps(range) && !shared_.make_private(call.remote, memory_, range)) {
    return end_sample(call);
  }
  Answer made = execute(call);
  if (made.kind != Answer::Kind::value || made.value < 0) return made;
  const auto got = memory_.read_value<Pair>(at);
  if (!got) return end_sample(call);
  const int first = descriptors_.lowest_free();
  const int second = descriptors_.lowest_free(first + 1);
  // The second one first: its place is above both, that of the first may be where the second is.
  const bool placed = place_descriptor(call, (*got)[1], second) == second &&
                      place_descriptor(call, (*got)[0], first) == first;
  if (!placed || !memory_.write_value(at, Pair{first, second})) return end_sample(call);
  descriptors_.opened(first, nullptr);
  descriptors_.opened(second, nullptr);
  return made;
}

SyscallAnswer SystemCalls::new_pipe(const Call& call) {
  return new_pair(call, GuestAddr(call.args[0]));
}

SyscallAnswer SystemCalls::new_sockets(const Call& call) {
  return new_pair(call, GuestAddr(call.args[3]));
}

SyscallAnswer SystemCalls::new_signals(const Call& call) {
  return static_cast<int>(call.args[0]) == -1 ? new_descriptor(call) : end_sample(call);
}

SyscallAnswer SystemCalls::duplicate(const Call& call) {
  const auto from = static_cast<int>(call.args[0]);
  if (!have(call, from)) return end(call, Outcome::input);
  const Answer made = new_descriptor(call);
  if (made.kind == Answer::Kind::value && made.value >= 0) {
    descriptors_.duplicated(from, static_cast<int>(made.value));
  }
  return made;
}

SyscallAnswer SystemCalls::duplicate_to(const Call& call) {
  const auto from = static_cast<int>(call.args[0]);
  if (!have(call, from)) return end(call, Outcome::input);
  const Answer made = execute(call);
  if (made.kind == Answer::Kind::value && made.value >= 0) {
    descriptors_.duplicated(from, static_cast<int>(made.value));
  }
  return made;
}

SyscallAnswer SystemCalls::close_descriptor(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  const bool gone = descriptors_.is_missing(fd);
  descriptors_.closed(fd);
  return gone ? value(0) : execute(call);
}

SyscallAnswer SystemCalls::close_several(const Call& call) {
  const Answer made = execute(call);
  const bool closes = (call.args[2] & CLOSE_RANGE_CLOEXEC) == 0;
  if (closes && made.kind == Answer::Kind::value && made.value == 0) {
    descriptors_.closed_range(static_cast<uint32_t>(call.args[0]),
                              static_cast<uint32_t>(call.args[1]));
  }
  return made;
}

SyscallAnswer SystemCalls::fcntl(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  if (!have(call, fd)) return end(call, Outcome::input);
  switch (static_cast<int>(call.args[1])) {
    case F_GETFD:
    case F_SETFD:
    case F_GETFL:
      return execute(call);
    case F_SETFL:
    case F_SETLK:
    case F_SETLKW:
      return value(0);
    default:
      return end(call, Outcome::system_call);
  }
}

// Questions about a descriptor, or about a path from a directory's; it may be AT_FDCWD.
SyscallAnswer SystemCalls::ask_about_file(const Call& call) {
  return have(call, static_cast<int>(call.args[0])) ? execute(call) : need_input(call);
}

SyscallAnswer SystemCalls::ask_status(const Call& call) {
  if (have(call, static_cast<int>(call.args[0]))) return execute(call);
  return ask_itself(call, GuestAddr(call.args[1]));
}

SyscallAnswer SystemCalls::ask_status_at(const Call& call) {
  if (have(call, static_cast<int>(call.args[0]))) return execute(call);
  const bool itself = (call.args[3] & AT_EMPTY_PATH) != 0;
  return itself ? ask_itself(call, GuestAddr(call.args[2])) : need_input(call);
}

// The program still has it, or had it a moment ago.
SyscallAnswer SystemCalls::ask_itself(const Call& call, GuestAddr to) {
  struct stat status;
  const std::string link = link_to(identity_.pid, static_cast<int>(call.args[0]));
  if (::stat(link.c_str(), &status) != 0) return need_input(call);
  return value(memory_.write_value(to, status) ? 0 : -EFAULT);
}

}  // namespace shadowprof::shadow

// SPDX-License-Identifier: MIT
//
// Descriptors: what a replica may read and write, and how. What it does with paths: path_calls.cc.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <span>

#include "base/limits.h"
#include "shadow/io_vectors.h"
#include "shadow/system_calls.h"

namespace shadowprof::shadow {
namespace {

constexpr uint64_t kMostBytesOfCall = 0x7ffff000;  // MAX_RW_COUNT: more are not written
// How much of a buffer is copied for a read at first: what it does not fill is copied in vain.
constexpr uint64_t kCopiedForRead = 16 * limits::kPageBytes;

// The rest of a part, from byte number `bytes` of all on. Empty: there is no such byte.
GuestRange rest_from(const std::vector<iovec>& parts, uint64_t bytes) {
  for (const iovec& part : parts) {
    const GuestAddr start(reinterpret_cast<uint64_t>(part.iov_base));
    if (bytes < part.iov_len) return {start + bytes, start + part.iov_len};
    bytes -= part.iov_len;
  }
  return {};
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
  return !descriptors_.is_missing(fd) || descriptors_.open_missing(call.remote, fd);
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

// What the program would read there is not what the file has. Within a first sample, which is
// short, files that others write to all the time are taken as they are.
const char* SystemCalls::why_not_to_read(int fd, const OpenFile& file) const {
  if (written_.contains(file.id())) return "what it has written itself";
  if (!has_gone_on_) return nullptr;
  struct stat status;
  if (::stat(link_to(replica_, fd).c_str(), &status) != 0) return nullptr;
  return is_later(status.st_mtim) ? "a file that was written to since the fork" : nullptr;
}

// Than the fork, or in the same tick of the clock that files are marked by.
bool SystemCalls::is_later(const timespec& when) const {
  return std::pair(when.tv_sec, when.tv_nsec) >=
         std::pair(identity_.forked_at.tv_sec, identity_.forked_at.tv_nsec);
}

std::optional<std::vector<iovec>> SystemCalls::parts_of(const Call& call, bool vector) {
  if (!vector) return {{{reinterpret_cast<void*>(call.args[1]), call.args[2]}}};
  auto read = read_io_vectors(memory_, GuestAddr(call.args[1]), call.args[2]);
  if (!read) return std::nullopt;
  return std::move(*read);
}

// By the kernel, at the offset that it keeps.
SyscallAnswer SystemCalls::read_own(const Call& call, OwnFile& file, bool vector) {
  if (!file.is_known) return end(call, Outcome::input, "what was in a file before it wrote to it");
  const auto parts = parts_of(call, vector);
  if (!parts) return end_sample(call);
  for (const iovec& part : *parts) {
    const GuestAddr start(reinterpret_cast<uint64_t>(part.iov_base));
    // More than a file of its own has, it cannot read.
    const uint64_t bytes = std::min<uint64_t>(part.iov_len, limits::kMostOwnBytes);
    if (!can_be_written(call, {start, start + bytes})) return end_sample(call);
  }
  return execute(call);
}

// The same; it may take more memory by `bytes`.
SyscallAnswer SystemCalls::write_own(const Call& call, OwnFile& file, uint64_t bytes) {
  constexpr const char* kTooMuch = "more in files of its own than allowed";
  if (!own_files_.has_room(bytes)) return end(call, Outcome::memory, kTooMuch);
  const Answer made = execute(call);
  if (!own_files_.look_at_size(file)) return end(call, Outcome::memory, kTooMuch);
  // A signal goes with it, which a replica never gets.
  if (made.kind == Answer::Kind::value && made.value == -EFBIG) return end_sample(call);
  return made;
}

SyscallAnswer SystemCalls::read_file(const Call& call, bool positioned, bool vector) {
  const auto fd = static_cast<int>(call.args[0]);
  OpenFile* file = regular_file(call, fd);
  if (!file) return end(call, Outcome::input, "only regular files are read in a replica");
  if (file->made) return read_own(call, *file->made, vector);
  if (const char* why = why_not_to_read(fd, *file)) return end(call, Outcome::input, why);
  const auto make = [&]() -> Result<int64_t> {
    if (positioned) {
      return call.remote.call(call.nr, call.args[0], call.args[1], call.args[2], call.args[3],
                              call.args[4], call.args[5]);
    }
    return call.remote.call(vector ? SYS_preadv : SYS_pread64, call.args[0], call.args[1],
                            call.args[2], file->offset, 0);
  };
  const auto parts = parts_of(call, vector).value_or(std::vector<iovec>{});
  Result<int64_t> got = make();
  // The kernel does not copy shared pages for us: what it reads ends before them.
  while (got && (*got >= 0 || *got == -EFAULT)) {
    const uint64_t bytes = *got > 0 ? static_cast<uint64_t>(*got) : 0;
    const GuestRange rest = rest_from(parts, bytes);
    if (!shared_.contains(rest.start)) break;
    const uint64_t copied = std::min(rest.size(), std::max(kCopiedForRead, bytes));
    const Status made =
        shared_.make_private(call.remote, memory_, {rest.start, rest.start + copied});
    if (!made) return end(call, Outcome::device_memory, made.error().message);
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

// Not written, if it is not its own; but the offset moves.
SyscallAnswer SystemCalls::write_file(const Call& call, bool positioned, bool vector) {
  const int64_t bytes = vector ? bytes_in_vector(GuestAddr(call.args[1]), call.args[2])
                               : static_cast<int64_t>(std::min(call.args[2], kMostBytesOfCall));
  const auto fd = static_cast<int>(call.args[0]);
  if (OwnFile* own = own_file(fd))
    return write_own(call, *own, bytes > 0 ? static_cast<uint64_t>(bytes) : 0);
  OpenFile* file = changes_file(fd);
  if (file && own_files_.in_place_of(file->id())) {
    return end(call, Outcome::input, "a file that it has emptied");
  }
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

SystemCalls::Copy SystemCalls::copy_of(const Call& call) {
  const SyscallArguments& args = call.args;
  const auto fd = [&](size_t which) { return static_cast<int>(args[which]); };
  if (call.nr == SYS_sendfile) return {fd(1), fd(0), args[2], 0, args[3]};
  return {fd(0), fd(2), args[1], args[3], args[4]};
}

// As much as there is; to what is not its own it is assumed to go, as by a write.
SyscallAnswer SystemCalls::copy_file(const Call& call) {
  const Copy copy = copy_of(call);
  if (call.nr == SYS_copy_file_range && call.args[5] != 0) return end_sample(call);
  OpenFile* from = regular_file(call, copy.from);
  if (!from) return end(call, Outcome::input, "only regular files are read in a replica");
  if (from->made && !from->made->is_known) return end_sample(call);
  const char* why = from->made ? nullptr : why_not_to_read(copy.from, *from);
  if (why) return end(call, Outcome::input, why);
  Result<int64_t> offset = static_cast<int64_t>(from->offset);
  if (copy.from_offset != 0) {
    offset = memory_.read_value<int64_t>(GuestAddr(copy.from_offset));
    if (!offset) return value(-EFAULT);
  } else if (from->made) {
    offset = call.remote.call(SYS_lseek, copy.from, 0, SEEK_CUR);
  }
  struct stat status;
  if (!offset || *offset < 0 || !status_in_replica(copy.from, status)) return end_sample(call);
  const auto start = static_cast<uint64_t>(*offset);
  const auto size = static_cast<uint64_t>(status.st_size);
  const uint64_t bytes = std::min({copy.count, kMostBytesOfCall, size - std::min(size, start)});
  if (OwnFile* own = own_file(copy.to)) {
    return copy.to_offset != 0 ? end_sample(call) : copy_to_own(call, copy, *from, *own, bytes);
  }
  OpenFile* to = changes_file(copy.to);
  if (to && own_files_.in_place_of(to->id())) return end_sample(call);
  Result<int64_t> to_start = static_cast<int64_t>(to ? to->offset : 0);
  if (copy.to_offset != 0) to_start = memory_.read_value<int64_t>(GuestAddr(copy.to_offset));
  if (!to_start) return value(-EFAULT);
  const auto end_there = static_cast<uint64_t>(*to_start) + bytes;
  const Answer read = move_offset(call, from, copy.from, copy.from_offset, start + bytes);
  if (read.kind != Answer::Kind::value || read.value < 0) return read;
  const Answer written = move_offset(call, to, copy.to, copy.to_offset, end_there);
  if (written.kind != Answer::Kind::value || written.value < 0) return written;
  return value(static_cast<int64_t>(bytes));
}

// `given`: where the caller keeps it; 0: it is the file's own.
SyscallAnswer SystemCalls::move_offset(const Call& call, OpenFile* file, int fd, uint64_t given,
                                       uint64_t to) {
  if (given != 0) return give(call, GuestAddr(given), static_cast<int64_t>(to));
  if (!file) return value(0);
  file->offset = to;
  if (!file->made) return value(0);
  const auto moved = call.remote.call(SYS_lseek, fd, to, SEEK_SET);
  return moved ? value(0) : end(call, Outcome::died, moved.error().message);
}

// Its contents are not of the file system that it is said to be of, so that only sendfile(2) copies
// to them, whichever it is.
SyscallAnswer SystemCalls::copy_to_own(const Call& call, const Copy& copy, OpenFile& from,
                                       OwnFile& to, uint64_t bytes) {
  if (from.device != to.as.st_dev && call.nr == SYS_copy_file_range) return end_sample(call);
  if (copy.from_offset == 0 && !from.made) {
    const auto moved = call.remote.call(SYS_lseek, copy.from, from.offset, SEEK_SET);
    if (!moved || *moved < 0) return end_sample(call);
  }
  if (copy.from_offset != 0) {
    const GuestAddr at(copy.from_offset);
    if (!can_be_written(call, {at, at + sizeof(int64_t)})) return end_sample(call);
  }
  Call sent = call;
  sent.nr = SYS_sendfile;
  sent.args = {static_cast<uint64_t>(copy.to),
               static_cast<uint64_t>(copy.from),
               copy.from_offset,
               bytes,
               0,
               0};
  const Answer made = write_own(sent, to, bytes);
  if (made.kind != Answer::Kind::value) return made;
  if (made.value < 0) return end_sample(call);
  if (copy.from_offset == 0) from.offset += static_cast<uint64_t>(made.value);
  return made;
}

// ftruncate and fallocate.
SyscallAnswer SystemCalls::change_file(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  OwnFile* own = own_file(fd);
  if (!own) {
    changes_file(fd);
    return value(0);
  }
  uint64_t more = 0;
  const bool allocates = call.nr == SYS_fallocate;
  if (!allocates) {
    const uint64_t kept = own->said + own->counted;
    more = call.args[1] - std::min(call.args[1], kept);
  } else if (!(call.args[1] & FALLOC_FL_PUNCH_HOLE)) {
    more = call.args[3];
  }
  const Answer made = write_own(call, *own, more);
  const bool empty =
      !allocates && call.args[1] == 0 && made.kind == Answer::Kind::value && made.value == 0;
  if (empty) own->is_known = true;
  return made;
}

SyscallAnswer SystemCalls::seek(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  const auto distance = static_cast<int64_t>(call.args[1]);
  OpenFile* file = regular_file(call, fd);
  if (!file) return end(call, Outcome::input, "the offset of what is not a regular file");
  if (file->made) {
    const bool asks_for_holes = call.args[2] == SEEK_DATA || call.args[2] == SEEK_HOLE;
    return asks_for_holes && !file->made->is_known ? end_sample(call) : execute(call);
  }
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
  if (!can_be_written(call, range)) return end_sample(call);
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

// To the first number from the third argument on that the program has free.
SyscallAnswer SystemCalls::duplicate_from(const Call& call, int fd) {
  const Answer made = execute(call);
  if (made.kind != Answer::Kind::value || made.value < 0) return made;
  const int wanted = descriptors_.lowest_free(static_cast<int>(call.args[2]));
  const int64_t placed = place_descriptor(call, made.value, wanted);
  if (placed < 0) return end_sample(call);
  descriptors_.duplicated(fd, wanted);
  return value(placed);
}

SyscallAnswer SystemCalls::fcntl(const Call& call) {
  const auto fd = static_cast<int>(call.args[0]);
  if (!have(call, fd)) return end(call, Outcome::input);
  switch (static_cast<int>(call.args[1])) {
    case F_GETFD:
    case F_SETFD:
    case F_GETFL:
      return execute(call);
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return duplicate_from(call, fd);
    case F_SETFL:
    case F_SETLK:
    case F_SETLKW:
      return own_file(fd) ? execute(call) : value(0);
    default:
      return end(call, Outcome::system_call);
  }
}

SyscallAnswer SystemCalls::ask_about_file(const Call& call) {
  return have(call, static_cast<int>(call.args[0])) ? execute(call) : need_input(call);
}

}  // namespace shadowprof::shadow

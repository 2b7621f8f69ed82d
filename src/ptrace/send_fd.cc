// SPDX-License-Identifier: MIT
#include "ptrace/send_fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "ptrace/borrow_fd.h"

namespace shadowprof::ptrace {
namespace {

struct SocketPair {
  int here;   // numbers in the tracee
  int there;
};

// The message that the tracee receives, with all its parts in one piece of memory.
struct Inbox {
  msghdr header;
  iovec data;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  char byte;
};

Result<SocketPair> make_pair(RemoteSyscalls& remote) {
  SocketPair pair{-1, -1};
  const Status done = remote.with_bytes_on_stack(
      {reinterpret_cast<uint8_t*>(&pair), sizeof pair}, [&](GuestAddr at) -> Status {
        SP_ASSIGN(const int64_t made,
                  remote.call(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, at));
        if (made < 0) return fail_errno(static_cast<int>(-made), "socketpair in the program");
        return {};
      });
  SP_TRY(done);
  return pair;
}

Status send_through(Tid thread, int socket_number, int fd) {
  SP_ASSIGN(const UniqueFd socket, borrow_fd(thread, socket_number));
  Inbox message{};
  message.byte = 'f';
  message.data = {&message.byte, 1};
  message.header.msg_iov = &message.data;
  message.header.msg_iovlen = 1;
  message.header.msg_control = message.control;
  message.header.msg_controllen = sizeof message.control;
  cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  if (::sendmsg(socket.get(), &message.header, 0) != 1) {
    return fail_errno(errno, "sending a descriptor to thread {}", thread.value);
  }
  return {};
}

Result<int> receive(RemoteSyscalls& remote, int socket_number) {
  Inbox inbox{};
  const Status done = remote.with_bytes_on_stack(
      {reinterpret_cast<uint8_t*>(&inbox), sizeof inbox}, [&](GuestAddr at) -> Status {
        const auto pointer = [&](size_t offset) {
          return reinterpret_cast<char*>(at.value + offset);
        };
        inbox.data = {pointer(offsetof(Inbox, byte)), 1};
        inbox.header.msg_iov = reinterpret_cast<iovec*>(pointer(offsetof(Inbox, data)));
        inbox.header.msg_iovlen = 1;
        inbox.header.msg_control = pointer(offsetof(Inbox, control));
        inbox.header.msg_controllen = sizeof inbox.control;
        RemoteMemory memory(remote.thread());
        SP_TRY(memory.write_value(at, inbox));
        SP_ASSIGN(const int64_t got, remote.call(SYS_recvmsg, socket_number, at, MSG_CMSG_CLOEXEC));
        if (got != 1) return fail_errno(static_cast<int>(-got), "recvmsg in the program");
        return {};
      });
  SP_TRY(done);
  int fd = -1;
  std::memcpy(&fd, inbox.control + CMSG_LEN(0), sizeof fd);
  return fd;
}

// The process that has our number in another namespace is not we.
bool is_same_file(Tid thread, int opened, int fd) {
  struct stat theirs, ours;
  const std::string link = fmt::format("/proc/{}/fd/{}", thread.value, opened);
  return ::stat(link.c_str(), &theirs) == 0 && ::fstat(fd, &ours) == 0 &&
         theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

}  // namespace

Result<int> send_fd(RemoteSyscalls& remote, int fd, int flags) {
  auto opened = remote.openat(AT_FDCWD, fmt::format("/proc/{}/fd/{}", ::getpid(), fd),
                              flags | O_CLOEXEC);
  if (!opened && opened.error().errno_value == ESRCH) return opened;
  if (opened && is_same_file(remote.thread(), *opened, fd)) return opened;
  if (opened) SP_TRY(remote.close(*opened));
  SP_ASSIGN(const SocketPair pair, make_pair(remote));
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const UniqueFd anew(::open(link.c_str(), flags | O_CLOEXEC));
  Status sent = send_through(remote.thread(), pair.there, anew.valid() ? anew.get() : fd);
  Result<int> received =
      sent ? receive(remote, pair.here) : Result<int>(tl::unexpected(sent.error()));
  SP_TRY(remote.close(pair.here));
  SP_TRY(remote.close(pair.there));
  if (!received) return received;
  // Lower numbers have become free.
  SP_ASSIGN(const int64_t first, remote.call(SYS_fcntl, *received, F_DUPFD_CLOEXEC, 0));
  if (first < 0) return received;
  SP_TRY(remote.close(*received));
  return static_cast<int>(first);
}

}  // namespace shadowprof::ptrace

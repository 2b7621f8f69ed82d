// SPDX-License-Identifier: MIT
#include "plugin/messages.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace shadowprof::plugin {
namespace {

constexpr size_t kControlBytes = CMSG_SPACE(kMostDescriptors * sizeof(int));

void take_descriptors(msghdr& header, Descriptors& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && i < fds.size(); i++) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      fds[i].reset(fd);
    }
  }
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> make_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "cannot make a socket for a plug-in");
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

bool send_bytes(int socket, const void* bytes, size_t size, std::initializer_list<int> fds) {
  iovec data{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[kControlBytes] = {};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fds.size() != 0) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.begin(), fds.size() * sizeof(int));
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    return sent == static_cast<ssize_t>(size);
  }
}

bool receive_bytes(int socket, void* bytes, size_t size, Descriptors& fds) {
  iovec data{bytes, size};
  alignas(cmsghdr) char control[kControlBytes];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  for (;;) {
    const ssize_t got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) take_descriptors(header, fds);
    return got == static_cast<ssize_t>(size);
  }
}

}  // namespace shadowprof::plugin

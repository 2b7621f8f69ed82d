// SPDX-License-Identifier: MIT
//
// Whole messages over a socket, with descriptors.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace shadowprof::plugin {

inline constexpr size_t kMostDescriptors = 3;
using Descriptors = std::array<UniqueFd, kMostDescriptors>;

// Two ends of a SOCK_SEQPACKET, closed by exec.
Result<std::pair<UniqueFd, UniqueFd>> make_sockets();

bool send_bytes(int socket, const void* bytes, size_t size, std::initializer_list<int> fds);
// Waits. False: nobody is at the other end any more, or it is no message of that size.
bool receive_bytes(int socket, void* bytes, size_t size, Descriptors& fds);

template <typename Message>
bool send_message(int socket, const Message& message, std::initializer_list<int> fds = {}) {
  return send_bytes(socket, &message, sizeof message, fds);
}
template <typename Message>
std::optional<Message> receive_message(int socket, Descriptors& fds) {
  Message message{};
  if (!receive_bytes(socket, &message, sizeof message, fds)) return std::nullopt;
  return message;
}

}  // namespace shadowprof::plugin

// SPDX-License-Identifier: MIT
//
// Where sockets are by which runs that sample are controlled (control_socket.h), and who finds
// them.
//
//   $XDG_RUNTIME_DIR/shadowprof/, /run/user/UID/shadowprof/ or /tmp/shadowprof-UID/
//     FRONT.WORKER.sock    the process that the user has started, and the one that traces
//
// A run takes the first of these folders that it can have: a folder of the user's own, with
// permissions for nobody else. Who looks for a run looks in all three, since its environment may be
// another one.
#pragma once

#include <sys/un.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace shadowprof::sample {

inline constexpr std::string_view kSocketSuffix = ".sock";

// The folder for sockets of ours, made if need be.
Result<std::string> own_control_folder();

struct ControlPlace {
  std::string path;
  int front = 0;
  int worker = 0;
};
// All that are there, perhaps of runs that are over.
std::vector<ControlPlace> control_places();

std::string socket_name(int front, int worker);
// Nothing: it is too long for a socket.
std::optional<sockaddr_un> socket_address(const std::string& path);
// Does not wait: EAGAIN where somebody else is being served, ECONNREFUSED where nobody listens.
Result<UniqueFd> connect_to(const std::string& path);

}  // namespace shadowprof::sample

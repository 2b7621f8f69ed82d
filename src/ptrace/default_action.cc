// SPDX-License-Identifier: MIT
#include "ptrace/default_action.h"

#include <csignal>

namespace shadowprof::ptrace {

DefaultAction default_action(int signal) {
  switch (signal) {
    case SIGCHLD:
    case SIGURG:
    case SIGWINCH:
      return DefaultAction::none;
    case SIGCONT:
      return DefaultAction::go_on;
    case SIGSTOP:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
      return DefaultAction::stop;
    default:
      return DefaultAction::death;
  }
}

}  // namespace shadowprof::ptrace

// SPDX-License-Identifier: MIT
#include "shadow/outcome.h"

namespace shadowprof::shadow {

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::budget:
      return "budget";
    case Outcome::system_call:
      return "system_call";
    case Outcome::input:
      return "input";
    case Outcome::waits:
      return "waits";
    case Outcome::exits:
      return "exits";
    case Outcome::fault:
      return "fault";
    case Outcome::unsupported:
      return "unsupported";
    case Outcome::code_changed:
      return "code_changed";
    case Outcome::long_string:
      return "long_string";
    case Outcome::device_memory:
      return "device_memory";
    case Outcome::no_room:
      return "no_room";
    case Outcome::too_old:
      return "too_old";
    case Outcome::memory:
      return "memory";
    case Outcome::cost:
      return "cost";
    case Outcome::died:
      return "died";
    case Outcome::stopped:
      return "stopped";
  }
  return "?";
}

}  // namespace shadowprof::shadow

// SPDX-License-Identifier: MIT
//
// How the life of a shadow ends. Every way has a name, is counted, and is part of the profile.
#pragma once

#include <cstdint>
#include <string>

namespace shadowprof::shadow {

enum class Outcome : uint8_t {
  budget,         // executed what it was asked to
  system_call,    // came to a system call that a replica must not make
  input,          // came to data that only the program itself can have
  waits,          // all its threads wait for something that a replica will never see
  exits,          // the program would have ended
  fault,          // an instruction faulted, and a handler would have run
  unsupported,    // code that cannot run under the engine
  code_changed,   // it changed its own code in a way that later shadows would trip over
  long_string,    // an instruction goes over more memory than the interpreter fetches at once
  device_memory,  // it wrote to memory that cannot be copied
  no_room,        // the code cache, or the place for it, is taken
  too_old,        // it lived longer than allowed
  memory,         // more memory was taken than allowed
  cost,           // the program copied more pages for it than the budget pays for
  died,           // somebody killed it, or memory ran out
  stopped,        // profiling ended
};

const char* to_string(Outcome outcome);

// Why a shadow ended, for the profile.
struct Ending {
  Outcome outcome = Outcome::stopped;
  std::string detail;        // one sentence, where there is more to say
  long syscall_number = -1;  // of the call that ended it
};

}  // namespace shadowprof::shadow

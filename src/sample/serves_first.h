// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace shadowprof::sample {

// Who samples a program comes before others while this lives, as the program may be waiting: it is
// woken sooner where others have all the processors (by short turns, which Linux 6.12 has), and has
// more of them, where raising a priority is permitted. So do threads that are made meanwhile.
class ServesFirst {
 public:
  ServesFirst();
  ~ServesFirst();
  ServesFirst(const ServesFirst&) = delete;
  ServesFirst& operator=(const ServesFirst&) = delete;

 private:
  // What sched_setattr(2) takes; the C library has no declaration for it.
  struct Attributes {
    uint32_t size = sizeof(Attributes);
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t turn_ns = 0;
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
    uint32_t least_use = 0;
    uint32_t most_use = 0;
  };
  static bool set(const Attributes& attributes);

  Attributes before_;
  bool is_first_ = false;
};

// For milliseconds in which the program stands still until this thread has done something: nobody
// but real-time threads comes before it, where that is permitted, and where there is another
// processor for what it may wait for. No thread is made meanwhile.
class ServesNow {
 public:
  ServesNow();
  ~ServesNow();
  ServesNow(const ServesNow&) = delete;
  ServesNow& operator=(const ServesNow&) = delete;

 private:
  bool is_real_time_ = false;
};

}  // namespace shadowprof::sample

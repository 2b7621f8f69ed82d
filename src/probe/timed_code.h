// SPDX-License-Identifier: MIT
//
// Timed loads of our own, by the code that the translator puts around the program's
// (emu/translate/timed_load.h): made once for each kind of load, and executed in this process.
#pragma once

#include <array>
#include <cstdint>

#include "base/own_code.h"
#include "base/result.h"
#include "profile/tables/latency_table.h"

namespace shadowprof::probe {

class TimedCode {
 public:
  // For the calling thread, which has another GS base until this is gone.
  static Result<TimedCode> create();
  TimedCode(TimedCode&& other) noexcept;
  TimedCode& operator=(TimedCode&&) = delete;
  ~TimedCode();

  // Cycles between the stamps around a load, and between those that have none between them.
  struct Cycles {
    uint32_t load, stamps;
  };
  Cycles time_load(const void* address) {
    return time_kind(profile::LoadKind::move, const_cast<void*>(address));
  }
  // An atomic one writes to `address`, where there are 64 bytes. A gather needs a processor that
  // has one.
  Cycles time_kind(profile::LoadKind kind, void* address) {
    using Function = void(void* address, uint32_t* record);
    const auto code = reinterpret_cast<uintptr_t>(code_.executable());
    reinterpret_cast<Function*>(code + entries_[static_cast<size_t>(kind)])(address,
                                                                            record_.data());
    return {record_[2] - record_[1], record_[4] - record_[3]};
  }
  static bool has_gather();

 private:
  explicit TimedCode(OwnCode code) : code_(std::move(code)) {}

  OwnCode code_;
  std::array<uint32_t, profile::kLoadKinds> entries_{};
  std::array<uint32_t, 5> record_{};  // as kSlots has them, and its head
  void* state_ = nullptr;
  uint64_t gs_base_before_ = 0;
};

// How much longer a program takes for a load that is timed; 0 where that cannot be found out. Takes
// some tens of microseconds.
double seconds_of_timed_load();

}  // namespace shadowprof::probe

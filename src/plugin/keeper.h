// SPDX-License-Identifier: MIT
//
// The process that makes the processes of plug-ins, and waits for them. It is made before the
// program is, and outlives whoever makes it: so it is nobody's child that the tracer waits for, and
// its end is no report among those of the program. It holds no descriptor but its socket and
// standard error. When all ends of the socket are closed it ends, and all plug-ins with it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "plugin/plugin_file.h"

namespace shadowprof::plugin {

class Keeper {
 public:
  // While this process has one thread.
  static Result<std::shared_ptr<Keeper>> start();

  // Makes a process with these ends; the answer is its number. What becomes of it is in its shared
  // memory.
  Result<uint32_t> make_process(const PluginFile& file, int socket, int shared_memory);
  void kill_process(uint32_t number);

 private:
  explicit Keeper(UniqueFd control) : control_(std::move(control)) {}

  UniqueFd control_;
  uint32_t last_number_ = 0;
};

}  // namespace shadowprof::plugin

// SPDX-License-Identifier: MIT
#pragma once

namespace shadowprof::plugin {

// The process of a plug-in: loads what `file` is open on, says Hello, serves requests, and ends
// when nobody can make any more. `name`: what messages call the file.
[[noreturn]] void plugin_main(int file, int socket, int shared_memory, const char* name);

}  // namespace shadowprof::plugin

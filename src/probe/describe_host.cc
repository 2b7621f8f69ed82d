// SPDX-License-Identifier: MIT
#include "probe/describe_host.h"

#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <thread>

namespace shadowprof::probe {

profile::Host describe_host() {
  profile::Host host;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) host.cpu = line.substr(colon + 2);
    break;
  }
  utsname name{};
  if (::uname(&name) == 0) host.kernel = name.release;
  host.cores = std::thread::hardware_concurrency();
  return host;
}

}  // namespace shadowprof::probe

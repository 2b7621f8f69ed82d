// SPDX-License-Identifier: MIT
#include "sample/host.h"

#include <sys/utsname.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <fstream>
#include <thread>

namespace shadowprof::sample {
namespace {

std::atomic<uint64_t> noted_signals{0};

void note_signal(int signal) { noted_signals |= uint64_t{1} << signal; }

}  // namespace

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

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void prepare_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  for (int signal : {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ}) ::sigaction(signal, &action, nullptr);
  action.sa_handler = note_signal;  // without SA_RESTART: it interrupts our wait
  for (int signal : {SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

void forward_signals_to(Tid program) {
  const uint64_t noted = noted_signals.exchange(0);
  for (int signal : {SIGTERM, SIGHUP}) {
    if (noted & uint64_t{1} << signal) ::kill(program.value, signal);
  }
}

}  // namespace shadowprof::sample

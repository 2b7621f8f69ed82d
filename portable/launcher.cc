// SPDX-License-Identifier: MIT
//
// bin/shadowprof of the archive that scripts/package makes: starts lib/shadowprof/shadowprof with
// the loader and the libraries beside it, whatever the host's are. Linked statically, so it starts
// where there is no C library. The environment stays as it is: programs that shadowprof runs find
// the host's libraries.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kOwnFailure = 125;  // shadowprof's own (shadowprof(1))

int refuse(const char* what, const char* path, int error) {
  std::fprintf(stderr, "shadowprof: cannot %s %s: %s\n", what, path, std::strerror(error));
  return kOwnFailure;
}

}  // namespace

int main(int argc, char** argv) {
  std::string self(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) return refuse("read", "/proc/self/exe (is /proc mounted?)", errno);
  self.resize(static_cast<size_t>(length));
  for (int parts = 0; parts < 2; ++parts) {  // bin/shadowprof
    const size_t slash = self.rfind('/');
    self.resize(slash == std::string::npos ? 0 : slash);
  }
  std::string folder = self + "/lib/shadowprof";
  std::string loader = folder + "/ld-linux-x86-64.so.2";
  std::string program = folder + "/shadowprof";
  std::string library_path = "--library-path";
  std::string argv0 = "--argv0";
  std::string name = argc > 0 ? argv[0] : "shadowprof";
  std::vector<char*> arguments = {loader.data(), library_path.data(), folder.data(),
                                  argv0.data(),  name.data(),         program.data()};
  for (int i = 1; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  ::execv(loader.c_str(), arguments.data());
  return refuse("run", loader.c_str(), errno);
}

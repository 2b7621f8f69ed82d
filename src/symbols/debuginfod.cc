// SPDX-License-Identifier: MIT
#include "symbols/debuginfod.h"

#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/shared_library.h"

namespace shadowprof::symbols {
namespace {

// The interface of libdebuginfod (debuginfod_find_debuginfo(3)). Loaded only when asked for: it
// brings an HTTP client with it.
constexpr const char* kLibrary = "libdebuginfod.so.1";
constexpr const char* kServers = "DEBUGINFOD_URLS";

struct Client {
  void* (*begin)() = nullptr;
  int (*find)(void* client, const unsigned char* build_id, int length, char** path) = nullptr;
  void (*end)(void* client) = nullptr;
};

struct Use {
  std::mutex mutex;  // the client's HTTP library is initialised by its first user
  std::optional<Client> client;
};

Use& use() {
  static Use the_use;
  return the_use;
}

std::optional<unsigned char> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned char>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned char>(c - 'a' + 10);
  return std::nullopt;
}

std::vector<unsigned char> bytes_of(const std::string& hexadecimal) {
  std::vector<unsigned char> bytes;
  for (size_t i = 0; i + 1 < hexadecimal.size(); i += 2) {
    const auto high = digit(hexadecimal[i]), low = digit(hexadecimal[i + 1]);
    if (!high || !low) return {};
    bytes.push_back(static_cast<unsigned char>(*high << 4 | *low));
  }
  return bytes;
}

}  // namespace

Status use_debuginfod() {
  const char* servers = std::getenv(kServers);
  if (servers == nullptr || *servers == '\0')
    return fail("--debuginfod needs the address of a server in {}", kServers);
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail("--debuginfod needs {}, which is not installed (Debian: libdebuginfod1)", kLibrary);
  Client client;
  if (!look_up(library, "debuginfod_begin", client.begin) ||
      !look_up(library, "debuginfod_find_debuginfo", client.find) ||
      !look_up(library, "debuginfod_end", client.end))
    return fail("{} is not the library that it should be", kLibrary);
  const std::scoped_lock lock(use().mutex);
  use().client = client;
  return {};
}

std::optional<DebugFile> fetch_debug_file(const std::string& build_id) {
  const std::scoped_lock lock(use().mutex);
  if (!use().client) return std::nullopt;
  const Client& client = *use().client;
  const std::vector<unsigned char> id = bytes_of(build_id);
  if (id.empty()) return std::nullopt;
  void* handle = client.begin();
  if (handle == nullptr) return std::nullopt;
  char* path = nullptr;
  UniqueFd fd(client.find(handle, id.data(), static_cast<int>(id.size()), &path));
  client.end(handle);
  std::optional<DebugFile> found;
  if (fd.valid()) {
    const std::string name = path == nullptr ? "" : path;
    auto file = ElfFile::from_fd(fd.get(), name);
    if (file && file->build_id() == build_id) found = DebugFile{std::move(fd), name};
  }
  std::free(path);
  return found;
}

}  // namespace shadowprof::symbols

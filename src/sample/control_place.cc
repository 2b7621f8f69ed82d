// SPDX-License-Identifier: MIT
#include "sample/control_place.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace shadowprof::sample {
namespace {

constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOthers = 0077;

// No symbolic link, either: the user's own, and nobody else's.
bool is_own_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & kOthers) == 0;
}

std::vector<std::string> candidates() {
  const std::string user = std::to_string(::geteuid());
  std::vector<std::string> folders;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/' && is_own_folder(runtime))
    folders.push_back(std::string(runtime) + "/shadowprof");
  const std::string usual = "/run/user/" + user;
  if (is_own_folder(usual) && (runtime == nullptr || usual != runtime))
    folders.push_back(usual + "/shadowprof");
  folders.push_back("/tmp/shadowprof-" + user);
  return folders;
}

std::optional<ControlPlace> place_named(const std::string& folder, std::string_view name) {
  ControlPlace place{folder + "/" + std::string(name)};
  const char* end = name.data() + name.size();
  const auto front = std::from_chars(name.data(), end, place.front);
  if (front.ec != std::errc() || front.ptr == end || *front.ptr != '.') return std::nullopt;
  const auto worker = std::from_chars(front.ptr + 1, end, place.worker);
  if (worker.ec != std::errc()) return std::nullopt;
  if (name.substr(static_cast<size_t>(worker.ptr - name.data())) != kSocketSuffix)
    return std::nullopt;
  return place;
}

void add_places(const std::string& folder, std::vector<ControlPlace>& places) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = open ? ::readdir(open.get()) : nullptr)
    if (auto place = place_named(folder, entry->d_name)) places.push_back(std::move(*place));
}

}  // namespace

Result<std::string> own_control_folder() {
  int why = 0;
  for (const std::string& folder : candidates()) {
    if (::mkdir(folder.c_str(), kOwnerOnly) != 0 && errno != EEXIST) why = errno;
    if (is_own_folder(folder)) return folder;
  }
  return fail_errno(why != 0 ? why : EPERM,
                    "there is no folder for a socket that is the user's own");
}

std::vector<ControlPlace> control_places() {
  std::vector<ControlPlace> places;
  for (const std::string& folder : candidates())
    if (is_own_folder(folder)) add_places(folder, places);
  return places;
}

std::string socket_name(int front, int worker) {
  return std::to_string(front) + "." + std::to_string(worker) + std::string(kSocketSuffix);
}

std::optional<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<UniqueFd> connect_to(const std::string& path) {
  const auto address = socket_address(path);
  if (!address) return fail_errno(ENAMETOOLONG, "cannot connect to {}", path);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return fail_errno(errno, "cannot connect to {}", path);
  return fd;
}

}  // namespace shadowprof::sample

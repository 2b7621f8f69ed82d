// SPDX-License-Identifier: MIT
#include "shadow/own_files.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/limits.h"

namespace shadowprof::shadow {
namespace {

// No file system numbers its files so.
constexpr ino_t kFirstInode = ino_t{1} << 48;

// Our own number of descriptors is limited, too, and other replicas have files of their own.
bool leaves_descriptors(int fd) {
  rlimit limit;
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) < limit.rlim_cur / 2;
}

}  // namespace

SplitPath::SplitPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  const bool has_directory = slash != std::string_view::npos;
  directory = has_directory ? std::string(path.substr(0, slash + 1)) : ".";
  name = has_directory ? std::string(path.substr(slash + 1)) : std::string(path);
  is_plain = !name.empty() && name != "." && name != "..";
}

bool OwnFiles::is_full() const {
  return states_.size() >= limits::kMostOwnNames;
}

bool OwnFiles::is_on_the_way(std::string_view directory) const {
  while (!directory.empty()) {
    const std::string_view part = directory.substr(0, directory.find('/'));
    if (names_.contains(std::string(part))) return true;
    directory.remove_prefix(std::min(part.size() + 1, directory.size()));
  }
  return false;
}

OwnFiles::Found OwnFiles::find(const Place& place) const {
  if (const auto it = states_.find(place); it != states_.end()) return it->second;
  return states_.contains({kSomewhere, place.name}) ? Found{State::changed, nullptr} : Found{};
}

std::shared_ptr<OwnFile> OwnFiles::in_place_of(FileId id) const {
  const auto it = replaced_.find(id);
  return it == replaced_.end() ? nullptr : it->second;
}

void OwnFiles::set(const Place& place, State state, std::shared_ptr<OwnFile> file) {
  Found& now = states_[place];
  if (now.file) now.file->as.st_nlink--;
  if (file) file->as.st_nlink++;
  now = {state, std::move(file)};
  names_.insert(place.name);
}

std::shared_ptr<OwnFile> OwnFiles::make() {
  if (made_ >= limits::kMostOwnFiles) return nullptr;
  auto file = std::make_shared<OwnFile>();
  file->contents.reset(::memfd_create("shadowprof", MFD_CLOEXEC));
  if (!file->contents.valid() || !leaves_descriptors(file->contents.get())) return nullptr;
  file->as.st_mode = S_IFREG;
  file->as.st_ino = kFirstInode + made_;
  made_++;
  return file;
}

bool OwnFiles::has_room(uint64_t bytes) const {
  return bytes <= limits::kMostOwnBytes && bytes_ + bytes <= limits::kMostOwnBytes;
}

bool OwnFiles::look_at_size(OwnFile& file) {
  struct stat status;
  if (::fstat(file.contents.get(), &status) != 0) return false;
  constexpr uint64_t kBlock = 512;  // as stat(2) counts them
  const auto size = static_cast<uint64_t>(status.st_size);
  file.said = std::min(file.said, size);
  const uint64_t counted =
      std::max(size - file.said, static_cast<uint64_t>(status.st_blocks) * kBlock);
  bytes_ += counted - file.counted;
  file.counted = counted;
  return has_room(0);
}

}  // namespace shadowprof::shadow

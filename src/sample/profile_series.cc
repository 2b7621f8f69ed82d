// SPDX-License-Identifier: MIT
#include "sample/profile_series.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <memory>

#include "profile/file/json_file.h"

namespace shadowprof::sample {
namespace {

constexpr size_t kStampCharacters = 16;
constexpr const char* kStampFormat = "%Y%m%dT%H%M%SZ";

bool is_stamp(std::string_view text) {
  if (text.size() != kStampCharacters || text[8] != 'T' || text[15] != 'Z') return false;
  for (size_t i = 0; i < kStampCharacters; i++)
    if (i != 8 && i != 15 && std::isdigit(static_cast<unsigned char>(text[i])) == 0) return false;
  return true;
}

// Now, if it is no time.
std::time_t time_of(std::string_view iso) {
  std::tm parts{};
  if (::strptime(std::string(iso).c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr)
    return std::time(nullptr);
  return ::timegm(&parts);
}

std::string stamp_of(std::time_t moment) {
  std::tm parts{};
  ::gmtime_r(&moment, &parts);
  char text[kStampCharacters + 8];
  std::strftime(text, sizeof text, kStampFormat, &parts);
  return text;
}

bool is_regular(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

// Where a name's suffixes begin: .json, and of what compresses it.
size_t suffixes_of(std::string_view name) {
  size_t at = name.size();
  for (std::string_view packed : {".gz", ".zst"})
    if (name.ends_with(packed) && name.size() > packed.size()) at = name.size() - packed.size();
  constexpr std::string_view kJson = ".json";
  if (name.substr(0, at).ends_with(kJson) && at > kJson.size()) at -= kJson.size();
  return at;
}

}  // namespace

ProfileSeries::ProfileSeries(const std::string& output, size_t keep) : keep_(keep) {
  const size_t slash = output.rfind('/');
  const size_t name_at = slash == std::string::npos ? 0 : slash + 1;
  folder_ = output.substr(0, name_at);
  const std::string name = output.substr(name_at);
  const size_t at = suffixes_of(name);
  stem_ = name.substr(0, at) + ".";
  suffix_ = name.substr(at);
}

std::string ProfileSeries::file_for(std::string_view began) const {
  std::time_t moment = time_of(began);
  std::string path;
  do {
    path = folder_ + stem_ + stamp_of(moment++) + suffix_;
  } while (exists(path));
  return path;
}

bool ProfileSeries::is_named_so(std::string_view name) const {
  return name.size() == stem_.size() + kStampCharacters + suffix_.size() &&
         name.starts_with(stem_) && name.ends_with(suffix_) &&
         is_stamp(name.substr(stem_.size(), kStampCharacters));
}

std::vector<std::string> ProfileSeries::files() const {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(
      ::opendir(folder_.empty() ? "." : folder_.c_str()), ::closedir);
  std::vector<std::string> names;
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr)
    if (is_named_so(entry->d_name)) names.push_back(folder_ + entry->d_name);
  std::ranges::sort(names);
  return names;
}

void ProfileSeries::remove_old() const {
  if (keep_ == 0) return;
  std::vector<std::string> all = files();
  std::erase_if(all, [](const std::string& path) { return !is_regular(path); });
  for (size_t i = 0; i + keep_ < all.size(); i++)
    if (profile::check_output(all[i])) ::unlink(all[i].c_str());
}

}  // namespace shadowprof::sample

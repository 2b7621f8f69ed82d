// SPDX-License-Identifier: MIT
#include "report/source_access.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "report/columns.h"

namespace shadowprof::report {
namespace {

constexpr int kLook = O_PATH | O_CLOEXEC;
constexpr gid_t kNoGroup = 65534;

// From a descriptor that only names the file to one that reads it. So that opening has no effect,
// it is looked at first: a device may do something when it is opened.
Result<UniqueFd> readable(const UniqueFd& named, const std::string& path) {
  struct stat info {};
  if (::fstat(named.get(), &info) != 0) return fail_errno(errno, "{}", path);
  if (!S_ISREG(info.st_mode)) return fail("{} is no regular file", printable(path));
  const std::string again = fmt::format("/proc/self/fd/{}", named.get());
  UniqueFd fd(::open(again.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return fail_errno(errno, "{}", printable(path));
  return fd;
}

// Linux before 5.6 has no openat2(2): then no link at all is followed.
UniqueFd walk_beneath(UniqueFd at, std::string_view path) {
  while (at.valid() && !path.empty()) {
    const size_t slash = path.find('/');
    const std::string part(path.substr(0, slash));
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    struct stat info {};
    at = UniqueFd(::openat(at.get(), part.c_str(), kLook | O_NOFOLLOW));
    if (at.valid() && (::fstat(at.get(), &info) != 0 || S_ISLNK(info.st_mode))) return {};
  }
  return at;
}

UniqueFd open_beneath(const std::string& root, const std::string& path) {
  UniqueFd folder(::open(root.c_str(), kLook | O_DIRECTORY));
  if (!folder.valid()) return {};
  open_how how{};
  how.flags = kLook;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  if (errno != ENOSYS && errno != EPERM) return {};
  return walk_beneath(std::move(folder), path);
}

// While it lives, this thread opens files with another user's rights: setfsuid(2). The calls are
// made directly, as the C library's setgroups() would change all threads.
class AsUser {
 public:
  explicit AsUser(uid_t user)
      : own_groups_(static_cast<size_t>(std::max(0, ::getgroups(0, nullptr)))) {
    const int count = ::getgroups(static_cast<int>(own_groups_.size()), own_groups_.data());
    own_groups_.resize(static_cast<size_t>(std::max(0, count)));
    std::vector<gid_t> groups;
    gid_t group = kNoGroup;
    if (const passwd* known = ::getpwuid(user)) {
      group = known->pw_gid;
      int many = NGROUPS_MAX;
      groups.resize(static_cast<size_t>(many));
      ::getgrouplist(known->pw_name, group, groups.data(), &many);
      groups.resize(static_cast<size_t>(std::max(0, many)));
    }
    changed_groups_ = set_groups(groups);
    ::setfsgid(group);
    ::setfsuid(user);
    const auto unchanged = static_cast<uid_t>(-1);  // asks, and changes nothing
    changed_ = changed_groups_ && static_cast<gid_t>(::setfsgid(unchanged)) == group &&
               static_cast<uid_t>(::setfsuid(unchanged)) == user;
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser() {
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
    if (changed_groups_) set_groups(own_groups_);
  }
  bool changed() const { return changed_; }

 private:
  static bool set_groups(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
  }
  std::vector<gid_t> own_groups_;
  bool changed_groups_ = false;
  bool changed_ = false;
};

// Whether the bits of one file or folder let a user in. Groups and access lists are not asked: who
// is in doubt is refused.
bool lets_in(const std::string& path, uid_t user, mode_t for_owner, mode_t for_others) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  return (info.st_mode & (info.st_uid == user ? for_owner : for_others)) != 0;
}

// For who cannot take on another user's rights.
bool bits_let_read(const std::string& path, uid_t user) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return false;
  const std::string whole = real;
  std::free(real);
  if (!lets_in(whole, user, S_IRUSR, S_IROTH)) return false;
  for (size_t slash = whole.rfind('/'); slash != std::string::npos && slash != 0;
       slash = whole.rfind('/', slash - 1))
    if (!lets_in(whole.substr(0, slash), user, S_IXUSR, S_IXOTH)) return false;
  return true;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// "" or why the name `path` is not for `user` to show `file`, which it leads to.
std::string refusal(const std::string& path, const struct stat& file, uid_t user) {
  // Root may read anything, so that alone says nothing about root's own secrets.
  const bool secret = file.st_uid == 0 && (file.st_mode & S_IROTH) == 0;
  if (user == 0 && ::geteuid() == 0) return secret ? "only root may read it" : "";
  if (user == 0 || user == ::geteuid()) return "";
  const std::string sentence = fmt::format("user {} may not read it", user);
  {
    const AsUser other(user);
    if (other.changed()) {
      const UniqueFd named(::open(path.c_str(), kLook));
      struct stat seen {};
      const bool may = named.valid() && ::fstat(named.get(), &seen) == 0 && same_file(seen, file) &&
                       readable(named, path).has_value();
      return may ? "" : sentence;
    }
  }
  return bits_let_read(path, user) ? "" : sentence;
}

std::string real_folder(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  const std::string result = real == nullptr ? "" : real;
  std::free(real);
  return result;
}

}  // namespace

Result<SourceRules> source_rules(const profile::Profile& profile, const std::string& profile_path,
                                 const std::string& source_root) {
  SourceRules rules;
  const auto add_owner = [&](const std::string& path) {
    struct stat info {};
    if (!path.empty() && ::stat(path.c_str(), &info) == 0) rules.users.push_back(info.st_uid);
  };
  add_owner(profile_path);
  for (const profile::Module& module : profile.modules)
    if (module.path.starts_with('/')) add_owner(module.path);
  if (const auto user = profile.run.options.find("user"); user != profile.run.options.end()) {
    uid_t number = kNoGroup;  // for what is no number: a user with no rights
    const char* end = user->second.data() + user->second.size();
    std::from_chars(user->second.data(), end, number);
    rules.users.push_back(number);
  }
  std::sort(rules.users.begin(), rules.users.end());
  rules.users.erase(std::unique(rules.users.begin(), rules.users.end()), rules.users.end());
  if (const std::string here = real_folder("."); here.size() > 1) rules.roots.push_back(here);
  if (source_root.empty()) return rules;
  rules.relative_to = real_folder(source_root);
  if (rules.relative_to.empty())
    return fail_errno(errno, "cannot use --source-root {}", printable(source_root));
  rules.roots.push_back(rules.relative_to);
  return rules;
}

Result<UniqueFd> open_source(const std::string& path, const SourceRules& rules) {
  std::string whole = path;
  if (!path.starts_with('/')) {
    if (path.empty() || rules.relative_to.empty())
      return fail_errno(ENOENT, "{} is no absolute name", printable(path));
    whole = rules.relative_to + "/" + path;
  }
  whole = std::filesystem::path(whole).lexically_normal().string();
  for (const std::string& root : rules.roots) {
    const std::string folder = root.ends_with('/') ? root : root + "/";
    if (!whole.starts_with(folder)) continue;
    if (const UniqueFd named = open_beneath(root, whole.substr(folder.size())); named.valid())
      return readable(named, whole);
  }
  const UniqueFd named(::open(whole.c_str(), kLook));
  if (!named.valid()) return fail_errno(errno, "{}", printable(whole));
  SP_ASSIGN(UniqueFd fd, readable(named, whole));
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return fail_errno(errno, "{}", printable(whole));
  for (const uid_t user : rules.users)
    if (const std::string why = refusal(whole, file, user); !why.empty())
      return fail("{} is not shown: {} (--source-root allows a folder)", printable(whole), why);
  return fd;
}

}  // namespace shadowprof::report

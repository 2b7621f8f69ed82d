// SPDX-License-Identifier: MIT
#include "plugin/plugin_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/printable.h"

namespace shadowprof::plugin {
namespace {

// Who has started us by sudo; root where nobody has.
uid_t invoking_user() {
  const char* text = std::getenv("SUDO_UID");
  uid_t uid = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), uid);
  return uid;
}

Status check_owner(const struct stat& info, const std::string& shown) {
  if (::geteuid() != 0) return {};
  if (info.st_uid != 0 && info.st_uid != ::getuid() && info.st_uid != invoking_user())
    return fail("as root, plug-in {} is not loaded: it belongs to user {}", shown, info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail("as root, plug-in {} is not loaded: others than its owner may write to it", shown);
  return {};
}

bool is_shared_object(int fd) {
  Elf64_Ehdr head{};
  return ::pread(fd, &head, sizeof head, 0) == sizeof head &&
         std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_ident[EI_CLASS] == ELFCLASS64 &&
         head.e_ident[EI_DATA] == ELFDATA2LSB && head.e_type == ET_DYN &&
         head.e_machine == EM_X86_64;
}

}  // namespace

Result<PluginFile> PluginFile::open(const std::string& path) {
  const std::string shown = printable(path);
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return fail_errno(errno, "cannot open plug-in {}", shown);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno(errno, "cannot look at plug-in {}", shown);
  if (!S_ISREG(info.st_mode)) return fail("plug-in {} is not a file", shown);
  SP_TRY(check_owner(info, shown));
  if (!is_shared_object(fd.get()))
    return fail("plug-in {} is not a shared object for x86-64", shown);
  return PluginFile(path, std::move(fd));
}

}  // namespace shadowprof::plugin

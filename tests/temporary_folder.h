// SPDX-License-Identifier: MIT
//
// A folder of a test's own, which is removed with all that is in it when the object ends. A test in
// which something cannot be removed fails.
//
// It is right below /tmp, whatever TMPDIR says: every user may enter /tmp, which tests that become
// another user rely upon, and paths below it are short enough for the address of a socket.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

namespace shadowprof::test {

class TemporaryFolder {
 public:
  // Others than its owner may not enter it, unless the mode lets them.
  explicit TemporaryFolder(mode_t mode = 0700) {
    char name[] = "/tmp/shadowprof-unit-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
    CHECK(::chmod(name, mode) == 0);
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    CHECK_MESSAGE(!error, path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Files and folders that are directly in it.
  size_t entries() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }
  // The path of a file that has these bytes alone, and this mode whatever the umask. Folders that
  // its name goes through are made where they are missing.
  std::string write(const std::string& name, std::string_view bytes, mode_t mode = 0600) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream file(path, std::ios::binary);
    file << bytes << std::flush;
    REQUIRE_MESSAGE(file.good(), path);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
  }

 private:
  std::string path_;
};

}  // namespace shadowprof::test

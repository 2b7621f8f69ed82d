// SPDX-License-Identifier: MIT
#include "probe/host_notes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "../temporary_folder.h"

using namespace shadowprof;
using probe::HostNotes;

namespace {

const std::string kIdentity = "boot 1234\ncpu fast\n";

class Folder : public test::TemporaryFolder {
 public:
  std::string file() const { return *this / "faults"; }
  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

const std::vector<double> kNumbers = {1.25e-6, 0.1, 3};

}  // namespace

TEST_CASE("what was measured of the host is read back, and is its owner's alone") {
  const Folder folder;
  const HostNotes notes(folder.path(), kIdentity);
  CHECK(notes.load("faults").empty());
  notes.store("faults", kNumbers);
  CHECK(notes.load("faults") == kNumbers);
  CHECK(HostNotes(folder.path(), kIdentity).load("faults") == kNumbers);
  struct stat info {};
  REQUIRE(::stat(folder.file().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(folder.entries() == 1);  // nothing temporary is left
}

TEST_CASE("notes of another boot, processor or version are none") {
  const Folder folder;
  HostNotes(folder.path(), kIdentity).store("faults", kNumbers);
  CHECK(HostNotes(folder.path(), "boot 1235\ncpu fast\n").load("faults").empty());
  CHECK(HostNotes(folder.path(), "boot 1234\ncpu faster\n").load("faults").empty());
  CHECK(HostNotes(folder.path(), "boot 1234\n").load("faults").empty());
}

TEST_CASE("a file of notes that is not whole, not numbers or too large is none") {
  const Folder folder;
  const HostNotes notes(folder.path(), kIdentity);
  notes.store("faults", kNumbers);
  const std::string whole = folder.text();
  for (size_t bytes = 0; bytes < whole.size(); bytes++) {
    folder.write("faults", whole.substr(0, bytes));
    CHECK(notes.load("faults").empty());
  }
  const size_t numbers = whole.find("1.25e-06");
  REQUIRE(numbers != std::string::npos);
  for (const char* bad : {"x", "nan", "inf", "1 2", "-", "1e999"}) {
    folder.write("faults", whole.substr(0, numbers) + bad + "\nend\n");
    CHECK(notes.load("faults").empty());
  }
  folder.write("faults", whole.substr(0, numbers) + std::string(8192, '1') + "\nend\n");
  CHECK(notes.load("faults").empty());
}

TEST_CASE("notes that others can write to, links and FIFOs are none") {
  const Folder folder;
  const HostNotes notes(folder.path(), kIdentity);
  notes.store("faults", kNumbers);
  ::chmod(folder.file().c_str(), 0620);
  CHECK(notes.load("faults").empty());
  ::chmod(folder.file().c_str(), 0600);
  CHECK(notes.load("faults") == kNumbers);
  std::filesystem::rename(folder.file(), folder / "other");
  std::filesystem::create_symlink(folder / "other", folder.file());
  CHECK(notes.load("faults").empty());
  std::filesystem::remove(folder.file());
  REQUIRE(::mkfifo(folder.file().c_str(), 0600) == 0);
  CHECK(notes.load("faults").empty());
}

TEST_CASE("a folder that others can write to is left alone") {
  const Folder folder;
  ::chmod(folder.path().c_str(), 0777);
  const HostNotes notes(folder.path(), kIdentity);
  notes.store("faults", kNumbers);
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(notes.load("faults").empty());
}

TEST_CASE("a foreign user's notes are none" * doctest::skip(::geteuid() != 0)) {
  const Folder folder;
  const HostNotes notes(folder.path(), kIdentity);
  notes.store("faults", kNumbers);
  REQUIRE(::chown(folder.file().c_str(), 65534, 65534) == 0);
  CHECK(notes.load("faults").empty());
  REQUIRE(::chown(folder.path().c_str(), 65534, 65534) == 0);
  HostNotes(folder.path(), kIdentity).store("other", kNumbers);
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}

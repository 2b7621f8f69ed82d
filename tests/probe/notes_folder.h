// SPDX-License-Identifier: MIT
//
// A folder for notes of this host, which is gone with it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace shadowprof::probe {

class NotesFolder {
 public:
  NotesFolder() {
    char name[] = "/tmp/shadowprof-notes-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~NotesFolder() { std::filesystem::remove_all(path); }
  NotesFolder(const NotesFolder&) = delete;
  NotesFolder& operator=(const NotesFolder&) = delete;

  std::string path;
};

}  // namespace shadowprof::probe

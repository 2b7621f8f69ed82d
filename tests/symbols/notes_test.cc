// SPDX-License-Identifier: MIT
//
// Notes of earlier runs: the same answers as from the files, and none from notes that are damaged
// or of something else.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "../temporary_folder.h"
#include "base/cache_folder.h"
#include "symbols/module_symbols.h"
#include "tools.h"

using namespace shadowprof;
using namespace shadowprof::symbols;
using namespace symbols_test;
using shadowprof::test::TemporaryFolder;

namespace {

struct Place {
  uint64_t offset;
  uint64_t size;
};

// Some of each function; `part` of `parts`.
std::vector<Place> places_of(const std::string& path, size_t part = 0, size_t parts = 1) {
  std::vector<Place> places;
  size_t number = 0;
  for (const Symbol& f : load(path)->functions())
    if (number++ % parts == part) places.push_back({f.offset + f.size / 3, f.size - f.size / 3});
  places.push_back({0, 1});
  return places;
}

void tell_call(const ModuleSymbols& module, uint32_t number, std::string& text) {
  while (number != kNoInlinedCall) {
    const InlinedCall call = module.inlined_call(number);
    text += fmt::format("  in {} {} {}:{} called {}:{}\n", call.function, call.linkage_name,
                        call.file, call.line, call.call_file, call.call_line);
    number = call.outer;
  }
}

// All that can be asked about these places, but for the numbers of calls.
std::string answers(const ModuleSymbols& module, const std::vector<Place>& places) {
  std::string text = module.build_id() + "\n";
  for (const Place& place : places) {
    const auto index = module.function_index(place.offset);
    text += fmt::format("{:x}: {}\n", place.offset, index ? static_cast<int64_t>(*index) : -1);
    if (index) {
      const Symbol s = module.function(*index);
      text +=
          fmt::format("  {:x} {} {} {} {}\n", s.offset, s.size, s.name, s.linkage_name, s.named);
    }
    for (const SourceFrame& f : module.lines(place.offset))
      text += fmt::format("  {} {} {}:{}:{} {} {}\n", f.function, f.linkage_name, f.file, f.line,
                          f.column, f.discriminator, f.function_line);
    for (const InlinedStretch& s : module.inlined(place.offset, place.size)) {
      text += fmt::format("  {:x}-{:x} {}\n", s.start, s.end, s.known);
      tell_call(module, s.call, text);
    }
  }
  return text;
}

// The only file of notes.
std::string notes_in(const TemporaryFolder& directory) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    found.insert(entry.path());
  REQUIRE(found.size() == 1);
  return *found.begin();
}

void write_notes(const std::string& file, const std::string& bytes) {
  write_file(file, bytes);
  ::chmod(file.c_str(), 0600);
}

std::string with_checksum(std::string bytes) {
  bytes.resize(bytes.size() - sizeof(uint32_t));
  const auto sum = static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  return bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
}

// A program, what is said about it, and a file with all of that.
struct Noted {
  explicit Noted(const std::string& layout = "pie") : path(subject(layout)) {
    places = places_of(path);
    expected = answers(*load(path), places);
    ask_and_keep();
    file = notes_in(directory);
    bytes = read_file(file);
  }
  std::string ask_and_keep() {
    const CacheFolder folder = CacheFolder::at(directory.path());
    auto module = load(path, {.notes = &folder});
    std::string text = answers(*module, places);
    module->keep_notes();
    return text;
  }

  TemporaryFolder directory;
  std::string path;
  std::vector<Place> places;
  std::string expected;
  std::string file;
  std::string bytes;
};

}  // namespace

TEST_CASE("notes say what the files say") {
  for (const std::string& path : subjects()) {
    CAPTURE(path);
    TemporaryFolder directory;
    const CacheFolder folder = CacheFolder::at(directory.path());
    const std::vector<Place> all = places_of(path);
    const std::string expected = answers(*load(path), all);
    // Each run asks what was asked before, and a third more.
    for (size_t run = 0; run < 4; run++) {
      auto module = load(path, {.notes = &folder});
      for (size_t part = 0; part <= std::min<size_t>(run, 2); part++) {
        const std::vector<Place> places = places_of(path, part, 3);
        CHECK(answers(*module, places) == answers(*load(path), places));
      }
      if (run == 3) CHECK(answers(*module, all) == expected);
      module->keep_notes();
    }
  }
}

TEST_CASE("what is in the notes is not looked for in the files") {
  Noted noted;
  const std::string name = "subject::Worker::total";
  REQUIRE(noted.expected.find(name) != std::string::npos);
  std::string other = noted.bytes;
  for (size_t at = 0; (at = other.find(name, at)) != std::string::npos; at += name.size())
    other.replace(at, name.size(), "subject::Worker::noted");
  write_notes(noted.file, with_checksum(other));
  CHECK(noted.ask_and_keep().find("subject::Worker::noted") != std::string::npos);
}

TEST_CASE("runs that ask nothing new leave the notes as they are") {
  Noted noted;
  const auto before = std::filesystem::last_write_time(noted.file);
  CHECK(noted.ask_and_keep() == noted.expected);
  CHECK(std::filesystem::last_write_time(noted.file) == before);
  CHECK(read_file(noted.file) == noted.bytes);
}

TEST_CASE("notes that are cut off or damaged are ignored, and made anew") {
  Noted noted;
  std::mt19937_64 random(5);
  const auto expect_ignored = [&](const std::string& bytes) {
    write_notes(noted.file, bytes);
    CHECK(noted.ask_and_keep() == noted.expected);
    CHECK(read_file(noted.file) == noted.bytes);
  };
  expect_ignored("");
  for (int i = 0; i < 12; i++) {
    const size_t at = random() % noted.bytes.size();
    CAPTURE(at);
    expect_ignored(noted.bytes.substr(0, at));
    std::string flipped = noted.bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
    expect_ignored(flipped);
  }
  expect_ignored(noted.bytes + "x");
}

TEST_CASE("notes that make no sense do no harm") {
  Noted noted;
  std::mt19937_64 random(6);
  const size_t head = noted.bytes.find("\n\n");
  REQUIRE(head != std::string::npos);
  for (int i = 0; i < 60; i++) {
    std::string bad = noted.bytes;
    for (int k = 0; k < 3; k++)
      bad[head + 2 + random() % (bad.size() - head - 6)] = static_cast<char>(random());
    write_notes(noted.file, with_checksum(bad));
    CHECK(!noted.ask_and_keep().empty());
    CHECK(std::filesystem::exists(noted.file));
  }
}

TEST_CASE("notes of another state of the file are ignored") {
  TemporaryFolder programs;
  const std::string path = programs / "program";
  TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path());
  std::filesystem::copy_file(subject("pie"), path);
  const std::vector<Place> places = places_of(path);
  auto first = load(path, {.notes = &folder});
  const std::string whole = answers(*first, places);
  first->keep_notes();
  if (!have_tool("strip")) return;
  output_of("strip --strip-debug " + path);  // its build-id stays
  const std::string stripped = answers(*load(path), places);
  REQUIRE(stripped != whole);
  CHECK(answers(*load(path, {.notes = &folder}), places) == stripped);
}

TEST_CASE("notes say with which debug file they were made") {
  if (!have_tool("objcopy")) return;
  TemporaryFolder programs;
  const std::string path = programs / "program";
  const std::string debug = programs / "program.debug";
  output_of("objcopy --only-keep-debug " + subject("pie") + " " + debug);
  output_of("cd " + programs.path() + " && objcopy --strip-all --add-gnu-debuglink=program.debug " +
            subject("pie") + " " + path);
  const std::vector<Place> places = places_of(path);
  const std::string named = answers(*load(path), places);
  TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path());
  auto first = load(path, {.notes = &folder});
  CHECK(answers(*first, places) == named);
  first->keep_notes();
  std::filesystem::rename(debug, programs / "away");
  const std::string bare = answers(*load(path), places);
  REQUIRE(bare != named);
  CHECK(answers(*load(path, {.notes = &folder}), places) == bare);
}

TEST_CASE("a module without a build-id has no notes") {
  if (!have_tool("objcopy")) return;
  TemporaryFolder programs;
  const std::string path = programs / "program";
  output_of("objcopy --remove-section .note.gnu.build-id " + subject("pie") + " " + path);
  TemporaryFolder directory;
  const CacheFolder folder = CacheFolder::at(directory.path());
  auto module = load(path, {.notes = &folder});
  (void)answers(*module, places_of(path));
  module->keep_notes();
  CHECK(std::filesystem::is_empty(directory.path()));
}

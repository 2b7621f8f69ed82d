// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "base/limits.h"
#include "machine/memory_view.h"

namespace shadowprof::machine {
namespace {

constexpr size_t kPage = limits::kPageBytes;
constexpr GuestAddr kStart(0x10000);

// Eight pages at kStart, each filled with its number; one of them can be unreadable.
class Pages : public MemorySource {
 public:
  Pages() : bytes_(8 * kPage) {
    for (size_t i = 0; i < bytes_.size(); i++) bytes_[i] = static_cast<uint8_t>(i / kPage);
  }
  size_t read_some(GuestAddr from, std::span<uint8_t> out) override {
    reads++;
    size_t done = 0;
    for (; done < out.size(); done++) {
      const auto at = static_cast<size_t>(from + done - kStart);
      if (at >= bytes_.size() || at / kPage == unreadable) break;
      out[done] = bytes_[at];
    }
    return done;
  }
  size_t reads = 0;
  size_t unreadable = SIZE_MAX;

 private:
  std::vector<uint8_t> bytes_;
};

GuestAddr page_at(size_t number) {
  return kStart + number * kPage;
}

std::vector<MemoryArea> areas() {
  return {{{page_at(0), page_at(4)}, true, true}, {{page_at(4), page_at(8)}, true, false}};
}

TEST_CASE("what was written is seen, and the process keeps what it had") {
  Pages pages;
  MemoryView view(pages), other(pages);
  view.set_areas(areas());
  other.set_areas(areas());
  const uint8_t text[] = {'a', 'b', 'c'};
  REQUIRE(view.write(page_at(2) - 1, text));
  uint8_t found[4];
  REQUIRE(view.read(page_at(2) - 2, found));
  CHECK(std::memcmp(found, "\1abc", 4) == 0);
  REQUIRE(other.read(page_at(2) - 2, found));
  CHECK(std::memcmp(found, "\1\1\2\2", 4) == 0);
}

TEST_CASE(
    "pages are fetched once, with their neighbours where one is known, and again when forgotten") {
  Pages pages;
  MemoryView view(pages);
  view.set_areas(areas());
  uint8_t byte;
  REQUIRE(view.read(page_at(7), {&byte, 1}));
  CHECK(view.fetched() == 1);
  for (size_t i = 0; i < 4; i++) REQUIRE(view.read(page_at(i), {&byte, 1}));
  CHECK(view.fetched() == 5);
  CHECK(pages.reads == 3);
  view.forget({page_at(1), page_at(2)});
  REQUIRE(view.read(page_at(1), {&byte, 1}));
  CHECK(pages.reads == 4);
}

TEST_CASE("an unreadable page does not hide its neighbours") {
  Pages pages;
  pages.unreadable = 1;
  MemoryView view(pages);
  view.set_areas(areas());
  uint8_t byte;
  CHECK(view.read(page_at(3), {&byte, 1}));
  CHECK(byte == 3);
  CHECK_FALSE(view.read(page_at(1), {&byte, 1}));
}

TEST_CASE("permissions are those of the mappings") {
  Pages pages;
  MemoryView view(pages);
  view.set_areas(areas());
  CHECK(view.page(page_at(4), false) != nullptr);
  CHECK(view.page(page_at(4), true) == nullptr);
  CHECK(view.page(page_at(8), false) == nullptr);
  CHECK(view.page(page_at(0) - 1, false) == nullptr);
}

TEST_CASE("a page whose mapping has become another one is forgotten with what was written to it") {
  Pages pages;
  MemoryView view(pages);
  view.set_areas(areas());
  const uint8_t ours = 99;
  REQUIRE(view.write(page_at(0), {&ours, 1}));
  view.set_areas({{{page_at(0), page_at(4)}, true, false}});
  uint8_t byte;
  REQUIRE(view.read(page_at(0), {&byte, 1}));
  CHECK(byte == 0);
  CHECK_FALSE(view.has_written({page_at(0), page_at(8)}));
}

TEST_CASE("written pages are given once, in order") {
  Pages pages;
  MemoryView view(pages);
  view.set_areas(areas());
  const uint8_t ours = 99;
  REQUIRE(view.write(page_at(3), {&ours, 1}));
  REQUIRE(view.write(page_at(1) + 5, {&ours, 1}));
  std::vector<GuestAddr> given;
  const auto take = [&](GuestAddr page, std::span<const uint8_t> bytes) {
    given.push_back(page);
    CHECK(bytes.size() == kPage);
  };
  view.take_written(take);
  view.take_written(take);
  CHECK(given == std::vector<GuestAddr>{page_at(1), page_at(3)});
}

TEST_CASE("a stack grows below its mapping, other memory does not") {
  Pages pages;
  MemoryView view(pages);
  view.set_areas({{{page_at(4), page_at(8)}, true, true, true}});
  const uint8_t ours = 7;
  CHECK(view.write(page_at(4) - 100, {&ours, 1}));
  uint8_t byte = 1;
  CHECK(view.read(page_at(4) - 99, {&byte, 1}));
  CHECK(byte == 0);
  CHECK_FALSE(view.write(page_at(9), {&ours, 1}));
}

}  // namespace
}  // namespace shadowprof::machine

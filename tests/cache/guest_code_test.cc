// SPDX-License-Identifier: MIT
#include "cache/guest_code.h"

#include <doctest/doctest.h>
#include <unistd.h>

namespace shadowprof {
namespace {

kernel::Mapping code(uint64_t start, uint64_t end, uint64_t offset, uint64_t inode) {
  kernel::Mapping m;
  m.range = {GuestAddr(start), GuestAddr(end)};
  m.readable = m.executable = true;
  m.offset = offset;
  m.inode = inode;
  if (inode != 0) m.path = "/usr/bin/cut";
  return m;
}

TEST_CASE("a program whose code is cut into pieces is one module, copies of a piece are others") {
  trace::BlockTable table;
  cache::GuestCode guest(Tid(::getpid()), table);
  kernel::Mapping between = code(0x40'2000, 0x40'3000, 0x2000, 7);
  between.executable = false;
  guest.rebind(Tid(::getpid()), {code(0x40'1000, 0x40'2000, 0x1000, 7), between,
                                 code(0x40'3000, 0x40'6000, 0x3000, 7),
                                 code(0x7f00'0000'0000, 0x7f00'0000'1000, 0, 0),
                                 code(0x7f12'0000'0000, 0x7f12'0000'1000, 0x3000, 7)});
  const ModuleId first = guest.region(GuestAddr(0x40'1000)).module;
  CHECK(guest.region(GuestAddr(0x40'5fff)).module == first);
  CHECK(table.module(first).range == GuestRange{GuestAddr(0x40'1000), GuestAddr(0x40'6000)});
  CHECK(table.module(first).file_start == GuestAddr(0x40'0000));
  const ModuleId copy = guest.region(GuestAddr(0x7f12'0000'0000)).module;
  CHECK(copy != first);
  CHECK(table.module(copy).range.size() == 0x1000);
  CHECK(guest.region(GuestAddr(0x7f00'0000'0000)).module != first);
  CHECK(guest.region(GuestAddr(0x40'2000)).range.size() == 0);
}

}  // namespace
}  // namespace shadowprof

// SPDX-License-Identifier: MIT
#include "emu/translate/decoded_code.h"

#include <doctest/doctest.h>

using namespace shadowprof;
using emu::DecodedCode;

namespace {

const decoder::Insn& add(DecodedCode& code, uint64_t pc) {
  return code.add([&] {
    decoder::Insn insn;
    insn.address = GuestAddr(pc);
    return insn;
  });
}

}  // namespace

TEST_CASE("what was kept is found until it is forgotten") {
  DecodedCode code;
  CHECK(code.find(GuestAddr(0)) == nullptr);
  const decoder::Insn& kept = add(code, 0x1000);
  code.keep(kept);
  add(code, 0x2000);
  CHECK(code.find(GuestAddr(0x1000)) == &kept);
  CHECK(code.find(GuestAddr(0x2000)) == nullptr);
  code.forget();
  CHECK(code.find(GuestAddr(0x1000)) == nullptr);
  code.keep(add(code, 0x1000));
  CHECK(code.find(GuestAddr(0x1000)) != nullptr);
}

TEST_CASE("what is found stays where it is while as many others come as a fragment may need") {
  DecodedCode code;
  for (size_t between = 0; between < 3 * DecodedCode::kStays; between += 97) {
    const uint64_t pc = 0x1000 + between;
    code.keep(add(code, pc));
    for (size_t i = 0; i < between; i++) add(code, 0);
    const decoder::Insn* found = code.find(GuestAddr(pc));
    CHECK((found != nullptr) == (between < DecodedCode::kStays));
    if (found == nullptr) continue;
    for (size_t i = 0; i < DecodedCode::kStays; i++) add(code, 0);
    CHECK(found->address == GuestAddr(pc));
  }
}

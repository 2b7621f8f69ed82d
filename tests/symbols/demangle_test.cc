// SPDX-License-Identifier: MIT
#include "symbols/demangle.h"

#include <doctest/doctest.h>

#include <string>

using shadowprof::symbols::demangle;
using shadowprof::symbols::printable;

TEST_CASE("C++ names are shown as the programmer wrote them") {
  CHECK(demangle("_ZN7subject6Worker3addEj") == "subject::Worker::add(unsigned int)");
  CHECK(demangle("_Z3foov.cold") == "foo() [clone .cold]");
  CHECK(demangle("_ZdlPv") == "operator delete(void*)");
}

TEST_CASE("names that are not mangled, or wrongly, stay as they are") {
  CHECK(demangle("main") == "main");
  CHECK(demangle("") == "");
  CHECK(demangle("_Z") == "_Z");
  CHECK(demangle("_ZN3fo") == "_ZN3fo");
  CHECK(demangle("_R") == "_R");
  CHECK(demangle("_RNvC6_123foo3ba") == "_RNvC6_123foo3ba");
}

TEST_CASE("legacy Rust names lose their hash and their spelled-out punctuation") {
  CHECK(demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE") == "core::fmt::Formatter::pad");
  CHECK(demangle("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
                 "3bar17h930b740aa94f1d3aE") == "<Test + 'static as foo::Bar<Test>>::bar");
  // Without the hash it is C++.
  CHECK(demangle("_ZN4core3fmtE") == "core::fmt");
}

TEST_CASE("Rust v0 names follow the grammar of RFC 2603") {
  CHECK(demangle("_RNvC6_123foo3bar") == "123foo::bar");
  CHECK(demangle("_RNvNtNtCs1234_7mycrate3foo3bar3baz") == "mycrate::foo::bar::baz");
  CHECK(demangle("_RNCNvCsjv_7mycrate4main0B3_") == "mycrate::main::{closure#0}");
  CHECK(demangle("_RINvNtC3std3mem8align_ofjE") == "std::mem::align_of::<usize>");
  CHECK(demangle("_RINvC1a1fRShE") == "a::f::<&[u8]>");
  CHECK(demangle("_RINvC1a1fTlmEE") == "a::f::<(i32, u32)>");
  CHECK(demangle("_RINvC1a1fAlj4_E") == "a::f::<[i32; 4]>");
  CHECK(demangle("_RINvC1a1fFUKCmEuE") == "a::f::<unsafe extern \"C\" fn(u32)>");
  CHECK(demangle("_RNvXs_C1aNtB4_1SNtB4_1T1f") == "<a::S as a::T>::f");
  CHECK(demangle("_RNvMC1aNtB2_1S1f") == "<a::S>::f");
  CHECK(demangle("_RNvC1a1f.llvm.123") == "a::f");
  CHECK(demangle("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y") ==
        "utf8_idents::საჭმელად_გემრიელი_სადილი");
}

TEST_CASE("a short name that stands for gigabytes of text is not expanded") {
  // A<A<..., ...>, A<...>>: every level doubles.
  std::string name = "_Z1f1AIiiE";
  const char* digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int i = 0; i < 60; ++i) {
    std::string number = i < 36 ? std::string(1, digits[i]) : std::string("1") + digits[i - 36];
    name += "S_IS" + number + "_S" + number + "_E";
  }
  CHECK(demangle(name) == name);
  // Rust: each type argument refers back to the whole before it.
  std::string rust = "_RINvC1a1f";
  for (int i = 0; i < 60; ++i) rust += "TB8_B8_E";
  CHECK(demangle(rust + "E").size() < 70000);
  // A back reference to itself.
  CHECK(demangle("_RB_") == "_RB_");
  std::string deep = "_RNvC1a1f";
  for (int i = 0; i < 20000; ++i) deep += "N";
  CHECK(demangle(deep) == deep);
}

TEST_CASE("a short name that costs hours and stands for nothing is not expanded") {
  // void f<>(A<B<int, int>, B<..., ...>, ..., T>...): the library looks for a pack in the whole of
  // the pattern, which doubles at every level, and finds T, which is empty.
  std::string name = "_Z1fIJEEvDp1AI1BIiiE";
  const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (size_t i = 0; i < 33; ++i) {
    const std::string last = std::string("S") + digits[i + 2] + "_";
    name += "S1_I" + last + last + "E";
  }
  name += "T_E";
  CHECK(demangle(name) == name);
  CHECK(demangle("_Z1fIJEEvDp1AI1BIiiES1_IS2_S2_ET_E") == "void f<>()");
}

TEST_CASE("what leaves is UTF-8 without control characters") {
  CHECK(printable("a\x1b[31mb") == "a?[31mb");
  CHECK(printable("caf\xC3\xA9") == "caf\xC3\xA9");
  CHECK(printable("\xC3") == "?");
  CHECK(printable("\xED\xA0\x80") == "???");
  CHECK(printable("\xF4\x90\x80\x80x") == "????x");
  CHECK(printable("\xC0\xAF") == "??");
  CHECK(printable("\xC2\x85") == "?");
}

// SPDX-License-Identifier: MIT
//
// One of two libraries that take each other's place; colour_green.cc is the other.
extern "C" int colour_step(int x) {
  return x * 3 + 1;
}
extern "C" const char* colour_name() {
  return "red";
}

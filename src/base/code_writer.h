// SPDX-License-Identifier: MIT
//
// Puts machine code together byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include "base/check.h"

namespace shadowprof {

class CodeWriter {
 public:
  explicit CodeWriter(std::span<uint8_t> out) : out_(out) {}

  uint32_t offset() const { return static_cast<uint32_t>(at_); }
  void byte(uint8_t b) {
    SP_CHECK(at_ < out_.size(), "code does not fit its room");
    out_[at_++] = b;
  }
  void bytes(std::initializer_list<uint8_t> b) {
    for (uint8_t x : b) byte(x);
  }
  void copy(std::span<const uint8_t> b) {
    for (uint8_t x : b) byte(x);
  }
  void u32(uint32_t v) {
    for (int i = 0; i < 4; i++) byte(static_cast<uint8_t>(v >> (8 * i)));
  }
  void u64(uint64_t v) {
    u32(static_cast<uint32_t>(v));
    u32(static_cast<uint32_t>(v >> 32));
  }
  void patch_u32(uint32_t at, uint32_t v) { std::memcpy(&out_[at], &v, 4); }
  void patch_u8(uint32_t at, uint8_t v) { out_[at] = v; }
  // The last four bytes of an instruction that refers to code at that offset.
  void displacement(uint32_t target) { u32(target - (offset() + 4)); }
  void jump(uint32_t target) {                                   // jmp target
    byte(0xe9);
    displacement(target);
  }
  // Leaves the displacement to be filled in; returns where it is.
  uint32_t jcc_forward(uint8_t condition) {
    bytes({0x0f, static_cast<uint8_t>(0x80 | condition)});
    u32(0);
    return offset() - 4;
  }
  void land_rel32(uint32_t displacement_at) {
    patch_u32(displacement_at, offset() - (displacement_at + 4));
  }
  // Leaves room, unwritten.
  void skip_to(uint32_t at) {
    SP_CHECK(at >= at_ && at <= out_.size(), "a gap that does not fit");
    at_ = at;
  }

 private:
  std::span<uint8_t> out_;
  size_t at_ = 0;
};

}  // namespace shadowprof

// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "decoder/insn.h"

namespace shadowprof::decoder_test {

// What the translator does with an instruction that names r15: `substitute` in every field.
inline std::array<uint8_t, decoder::kMaxInsnBytes> patched(const decoder::Insn& insn,
                                                           decoder::Gpr substitute) {
  auto bytes = insn.bytes;
  for (uint8_t i = 0; i < insn.r15_field_count; i++) {
    const decoder::RegisterField& f = insn.r15_fields[i];
    const unsigned low = (f.inverted ? ~unsigned{substitute} : unsigned{substitute}) & 7;
    bytes[f.byte] = static_cast<uint8_t>((bytes[f.byte] & ~(7u << f.shift)) | low << f.shift);
  }
  return bytes;
}

// "add r15d, [r15+8]" with another register's name.
inline std::string renamed(std::string text, decoder::Gpr substitute) {
  const std::string name = "r" + std::to_string(substitute);
  for (size_t at = text.find("r15"); at != std::string::npos; at = text.find("r15", at + 1)) {
    text.replace(at, 3, name);
  }
  return text;
}

}  // namespace shadowprof::decoder_test

// SPDX-License-Identifier: MIT
//
// The text of a profile file, unpacked as it is read. A file of some kilobytes may hold terabytes,
// so how much comes out is limited by what goes in.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "profile/file/compression.h"
#include "profile/file/json_value.h"

namespace shadowprof::profile {

inline constexpr size_t kMaxProfileBytes = size_t{4} << 30;  // unpacked
// Profiles shrink to a tenth, rarely to a fortieth. What is small may do as it likes.
inline constexpr size_t kMaxExpansion = 250;
inline constexpr size_t kAlwaysAllowedBytes = size_t{32} << 20;

class ProfileInput final : public json::TextPieces {
 public:
  // A regular file, or a pipe that somebody writes to.
  static Result<ProfileInput> open(const std::string& path);

  // Throws json::Bad.
  std::string_view next() override;

 private:
  explicit ProfileInput(UniqueFd fd) : fd_(std::move(fd)) {}
  void read_more();

  UniqueFd fd_;
  bool begun_ = false;
  bool ended_ = false;  // all of the file was read
  std::string packed_;
  std::string_view left_;  // of packed_
  std::unique_ptr<Unpacker> unpacker_;
  std::string text_;
  size_t packed_bytes_ = 0;
  size_t text_bytes_ = 0;
};

}  // namespace shadowprof::profile

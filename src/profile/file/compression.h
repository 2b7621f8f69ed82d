// SPDX-License-Identifier: MIT
//
// Profiles compressed on their way to the file and back: gzip and zstd. What is written is chosen
// by the file's name, what is read is known by its first bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace shadowprof::profile {

enum class Compression { none, gzip, zstd };

Compression compression_for(std::string_view path);  // by its suffix: .gz, .zst
Compression compression_of(std::string_view bytes);  // by its magic number

// How much time zstd may take to make it small.
enum class Effort { quick, small };

class Compressor {
 public:
  // Null for Compression::none.
  static std::unique_ptr<Compressor> create(Compression kind, Effort effort = Effort::quick);
  virtual ~Compressor() = default;
  // Appends to `out` what is ready; after the call with `last` it is a whole file.
  virtual void add(std::string_view text, bool last, std::string& out) = 0;
};

// All at once. The kind is not Compression::none.
std::string compress(std::string_view text, Compression kind, Effort effort = Effort::quick);

// The way back, in pieces of bounded size.
class Unpacker {
 public:
  // Null for Compression::none.
  static std::unique_ptr<Unpacker> create(Compression kind);
  virtual ~Unpacker() = default;
  // Takes what it can use off the front of `bytes` and appends at most 64 KiB to `out`. Nothing
  // taken and nothing appended: it needs more bytes. False: the data is damaged.
  virtual bool add(std::string_view& bytes, std::string& out) = 0;
  // What was taken so far is a whole file.
  virtual bool complete() const = 0;
};

// The text behind gzip or zstd; text that is neither comes back as it is. An error where the data
// is damaged, cut off, or more than `limit` bytes: a file of some kilobytes may hold terabytes.
Result<std::string> decompress(std::string text, size_t limit);

// The first `limit` bytes of it, or as many as the (cut off) data gives. kHeadBytes of a file are
// enough for some: a block of zstd, the least that can be unpacked, has up to 128 KiB (RFC 8878).
inline constexpr size_t kHeadBytes = size_t{256} << 10;
std::string decompress_head(std::string_view bytes, size_t limit);

}  // namespace shadowprof::profile

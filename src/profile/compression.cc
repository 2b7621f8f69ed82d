// SPDX-License-Identifier: MIT
#include "profile/compression.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"

namespace shadowprof::profile {
namespace {

constexpr int kZstdLevel = 3;
constexpr int kGzipWindow = 15 + 16;  // 32 KiB, and a gzip header instead of zlib's own: zlib.h
constexpr size_t kChunkBytes = size_t{1} << 16;

class GzipCompressor : public Compressor {
 public:
  GzipCompressor() {
    const int rc = ::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow,
                                  8 /* zlib's default memory level */, Z_DEFAULT_STRATEGY);
    CHECK(rc == Z_OK, "zlib cannot start: {}", rc);
  }
  ~GzipCompressor() override { ::deflateEnd(&stream_); }

  void add(std::string_view text, bool last, std::string& out) override {
    CHECK(text.size() <= std::numeric_limits<uInt>::max());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    char buffer[kChunkBytes];
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer);
      stream_.avail_out = sizeof buffer;
      const int rc = ::deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      CHECK(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR, "zlib says {}", rc);
      out.append(buffer, sizeof buffer - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
};

class ZstdCompressor : public Compressor {
 public:
  ZstdCompressor() : context_(::ZSTD_createCCtx()) {
    CHECK(context_ != nullptr, "zstd cannot start");
    ::ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kZstdLevel);
    ::ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdCompressor() override { ::ZSTD_freeCCtx(context_); }

  void add(std::string_view text, bool last, std::string& out) override {
    ZSTD_inBuffer in{text.data(), text.size(), 0};
    const ZSTD_EndDirective directive = last ? ZSTD_e_end : ZSTD_e_continue;
    char buffer[kChunkBytes];
    size_t left = 0;
    do {
      ZSTD_outBuffer chunk{buffer, sizeof buffer, 0};
      left = ::ZSTD_compressStream2(context_, &chunk, &in, directive);
      CHECK(!::ZSTD_isError(left), "zstd says {}", ::ZSTD_getErrorName(left));
      out.append(buffer, chunk.pos);
    } while (last ? left != 0 : in.pos < in.size);
  }

 private:
  ZSTD_CCtx* context_;
};

// What came out, and why no more did.
struct Unpacked {
  enum class End { complete, cut_off, damaged, too_large } end = End::cut_off;
  std::string text;
};

// A file may consist of several gzip members, one after the other: RFC 1952, 2.2.
Unpacked unpack_gzip(std::string_view bytes, size_t limit) {
  Unpacked result;
  z_stream stream{};
  const int started = ::inflateInit2(&stream, kGzipWindow);
  CHECK(started == Z_OK, "zlib cannot start: {}", started);
  std::string buffer(kChunkBytes, '\0');
  size_t at = 0;
  bool member_ended = false;
  while (result.end == Unpacked::End::cut_off) {
    if (stream.avail_in == 0 && at < bytes.size()) {
      const size_t n = std::min(bytes.size() - at, kChunkBytes);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at));
      stream.avail_in = static_cast<uInt>(n);
      at += n;
    }
    if (member_ended) {
      if (stream.avail_in == 0) result.end = Unpacked::End::complete;
      ::inflateReset(&stream);
      member_ended = false;
      continue;
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    const int rc = ::inflate(&stream, Z_NO_FLUSH);
    result.text.append(buffer, 0, buffer.size() - stream.avail_out);
    if (result.text.size() > limit)
      result.end = Unpacked::End::too_large;
    else if (rc == Z_STREAM_END)
      member_ended = true;
    else if (rc == Z_BUF_ERROR)
      break;
    else if (rc != Z_OK)
      result.end = Unpacked::End::damaged;
  }
  ::inflateEnd(&stream);
  return result;
}

Unpacked unpack_zstd(std::string_view bytes, size_t limit) {
  Unpacked result;
  ZSTD_DCtx* context = ::ZSTD_createDCtx();
  CHECK(context != nullptr, "zstd cannot start");
  std::string buffer(kChunkBytes, '\0');
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  while (result.end == Unpacked::End::cut_off) {
    ZSTD_outBuffer chunk{buffer.data(), buffer.size(), 0};
    const size_t left = ::ZSTD_decompressStream(context, &chunk, &in);
    result.text.append(buffer, 0, chunk.pos);
    if (::ZSTD_isError(left))
      result.end = Unpacked::End::damaged;
    else if (result.text.size() > limit)
      result.end = Unpacked::End::too_large;
    else if (left == 0 && in.pos == in.size)  // 0: a frame ended and all of it was given out
      result.end = Unpacked::End::complete;
    else if (in.pos == in.size && chunk.pos < chunk.size)
      break;
  }
  ::ZSTD_freeDCtx(context);
  return result;
}

Unpacked unpack(Compression kind, std::string_view bytes, size_t limit) {
  return kind == Compression::gzip ? unpack_gzip(bytes, limit) : unpack_zstd(bytes, limit);
}

}  // namespace

Compression compression_for(std::string_view path) {
  if (path.ends_with(".gz")) return Compression::gzip;
  if (path.ends_with(".zst")) return Compression::zstd;
  return Compression::none;
}

Compression compression_of(std::string_view bytes) {
  if (bytes.starts_with("\x1f\x8b")) return Compression::gzip;
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return Compression::zstd;
  return Compression::none;
}

std::unique_ptr<Compressor> Compressor::create(Compression kind) {
  switch (kind) {
    case Compression::gzip:
      return std::make_unique<GzipCompressor>();
    case Compression::zstd:
      return std::make_unique<ZstdCompressor>();
    case Compression::none:
      break;
  }
  return nullptr;
}

Result<std::string> decompress(std::string text, size_t limit) {
  const Compression kind = compression_of(text);
  if (kind == Compression::none) return text;
  Unpacked unpacked = unpack(kind, text, limit);
  switch (unpacked.end) {
    case Unpacked::End::complete:
      break;
    case Unpacked::End::cut_off:
      return fail("its compressed data is cut off");
    case Unpacked::End::damaged:
      return fail("its compressed data is damaged");
    case Unpacked::End::too_large:
      return fail("it is larger than {} bytes unpacked", limit);
  }
  return std::move(unpacked.text);
}

std::string decompress_head(std::string_view bytes, size_t limit) {
  const Compression kind = compression_of(bytes);
  std::string text =
      kind == Compression::none ? std::string(bytes) : unpack(kind, bytes, limit).text;
  if (text.size() > limit) text.resize(limit);
  return text;
}

}  // namespace shadowprof::profile

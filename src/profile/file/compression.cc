// SPDX-License-Identifier: MIT
#include "profile/file/compression.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>
#include <new>
#include <vector>

#include "base/check.h"

namespace shadowprof::profile {
namespace {

constexpr int kQuickZstdLevel = 3;
constexpr int kSmallZstdLevel = 19;
constexpr int kGzipWindow = 15 + 16;  // 32 KiB, and a gzip header instead of zlib's own: zlib.h
constexpr size_t kChunkBytes = size_t{1} << 16;

// Libraries of C say that there is no memory where operator new throws.
void check_zlib(int result) {
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  SP_CHECK(result == Z_OK, "zlib cannot start: {}", result);
}

template <typename Context>
Context* check_zstd(Context* context) {
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

class GzipCompressor : public Compressor {
 public:
  GzipCompressor() {
    check_zlib(::deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow,
                              8 /* zlib's default memory level */, Z_DEFAULT_STRATEGY));
  }
  ~GzipCompressor() override { ::deflateEnd(&stream_); }

  void add(std::string_view text, bool last, std::string& out) override {
    SP_CHECK(text.size() <= std::numeric_limits<uInt>::max());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream_.avail_in = static_cast<uInt>(text.size());
    char buffer[kChunkBytes];
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer);
      stream_.avail_out = sizeof buffer;
      const int rc = ::deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      SP_CHECK(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR, "zlib says {}", rc);
      out.append(buffer, sizeof buffer - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
};

class ZstdCompressor : public Compressor {
 public:
  explicit ZstdCompressor(Effort effort) : context_(check_zstd(::ZSTD_createCCtx())) {
    ::ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel,
                             effort == Effort::small ? kSmallZstdLevel : kQuickZstdLevel);
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
      if (::ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      SP_CHECK(!::ZSTD_isError(left), "zstd says {}", ::ZSTD_getErrorName(left));
      out.append(buffer, chunk.pos);
    } while (last ? left != 0 : in.pos < in.size);
  }

 private:
  ZSTD_CCtx* context_;
};

// A file may consist of several gzip members, one after the other: RFC 1952, 2.2.
class GzipUnpacker : public Unpacker {
 public:
  GzipUnpacker() { check_zlib(::inflateInit2(&stream_, kGzipWindow)); }
  ~GzipUnpacker() override { ::inflateEnd(&stream_); }

  bool add(std::string_view& bytes, std::string& out) override {
    if (complete_) {
      if (bytes.empty()) return true;
      ::inflateReset(&stream_);
      complete_ = false;
    }
    const size_t taken = std::min(bytes.size(), kChunkBytes);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(taken);
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_);
    stream_.avail_out = sizeof buffer_;
    const int rc = ::inflate(&stream_, Z_NO_FLUSH);
    bytes.remove_prefix(taken - stream_.avail_in);
    out.append(buffer_, sizeof buffer_ - stream_.avail_out);
    complete_ = rc == Z_STREAM_END;
    return complete_ || rc == Z_OK || rc == Z_BUF_ERROR;  // the last: it wants more bytes
  }
  bool complete() const override { return complete_; }

 private:
  z_stream stream_{};
  bool complete_ = false;
  char buffer_[kChunkBytes];
};

class ZstdUnpacker : public Unpacker {
 public:
  ZstdUnpacker() : context_(check_zstd(::ZSTD_createDCtx())) {}
  ~ZstdUnpacker() override { ::ZSTD_freeDCtx(context_); }

  bool add(std::string_view& bytes, std::string& out) override {
    if (complete_ && bytes.empty()) return true;
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    ZSTD_outBuffer chunk{buffer_, sizeof buffer_, 0};
    const size_t left = ::ZSTD_decompressStream(context_, &chunk, &in);
    bytes.remove_prefix(in.pos);
    out.append(buffer_, chunk.pos);
    complete_ = left == 0;  // a frame ended and all of it was given out
    return !::ZSTD_isError(left);
  }
  bool complete() const override { return complete_; }

 private:
  ZSTD_DCtx* context_;
  bool complete_ = false;
  char buffer_[kChunkBytes];
};

// What came out, and why no more did.
struct Unpacked {
  enum class End { complete, cut_off, damaged, too_large } end = End::cut_off;
  std::string text;
};

Unpacked unpack(Compression kind, std::string_view bytes, size_t limit) {
  Unpacked result;
  const auto unpacker = Unpacker::create(kind);
  for (;;) {
    const size_t before = bytes.size() - result.text.size();
    if (!unpacker->add(bytes, result.text)) {
      result.end = Unpacked::End::damaged;
    } else if (result.text.size() > limit) {
      result.end = Unpacked::End::too_large;
    } else if (bytes.size() - result.text.size() != before) {
      continue;
    } else if (bytes.empty() && unpacker->complete()) {
      result.end = Unpacked::End::complete;
    }
    return result;
  }
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

std::unique_ptr<Compressor> Compressor::create(Compression kind, Effort effort) {
  switch (kind) {
    case Compression::gzip:
      return std::make_unique<GzipCompressor>();
    case Compression::zstd:
      return std::make_unique<ZstdCompressor>(effort);
    case Compression::none:
      break;
  }
  return nullptr;
}

std::string compress(std::string_view text, Compression kind, Effort effort) {
  std::string packed;
  Compressor::create(kind, effort)->add(text, true, packed);
  return packed;
}

std::unique_ptr<Unpacker> Unpacker::create(Compression kind) {
  switch (kind) {
    case Compression::gzip:
      return std::make_unique<GzipUnpacker>();
    case Compression::zstd:
      return std::make_unique<ZstdUnpacker>();
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

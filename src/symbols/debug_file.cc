// SPDX-License-Identifier: MIT
#include "symbols/debug_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <array>

namespace shadowprof::symbols {
namespace {

// The largest .gnu_debugdata in use unpack to some ten megabytes.
constexpr size_t kMaxUnpackedBytes = size_t{256} << 20;
constexpr uint64_t kMaxUnpackMemory = uint64_t{256} << 20;

// The checksum of .gnu_debuglink is the CRC-32 of zlib over the whole file.
std::optional<uint32_t> checksum(int fd) {
  std::array<unsigned char, 65536> buffer;
  uLong crc = crc32(0, nullptr, 0);
  off_t at = 0;
  while (true) {
    ssize_t got = pread(fd, buffer.data(), buffer.size(), at);
    if (got < 0) return std::nullopt;
    if (got == 0) return static_cast<uint32_t>(crc);
    crc = crc32(crc, buffer.data(), static_cast<uInt>(got));
    at += got;
  }
}

bool has_build_id(int fd, const std::string& path, const std::string& wanted) {
  auto file = ElfFile::from_fd(fd, path);
  return file && file->build_id() == wanted;
}

bool same_file(int fd, const std::string& path) {
  struct stat a {};
  struct stat b {};
  return fstat(fd, &a) == 0 && stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

std::optional<DebugFile> find_by_build_id(const std::string& build_id,
                                          const std::vector<std::string>& directories) {
  if (build_id.size() < 4) return std::nullopt;
  for (const std::string& directory : directories) {
    std::string path =
        directory + "/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
    UniqueFd fd = open_regular(path);
    if (fd.valid() && has_build_id(fd.get(), path, build_id)) return DebugFile{std::move(fd), path};
  }
  return std::nullopt;
}

std::optional<DebugFile> find_by_link(const ElfFile& module, const std::string& module_path,
                                      const std::vector<std::string>& directories) {
  GElf_Word expected = 0;
  const char* link = dwelf_elf_gnu_debuglink(module.handle(), &expected);
  size_t slash = module_path.rfind('/');
  if (link == nullptr || *link == '\0' || slash == std::string::npos) return std::nullopt;
  std::string name = link;
  // A file name, as objcopy writes it; anything else would let a module choose what we read.
  if (name.find('/') != std::string::npos || name == "..") return std::nullopt;

  std::string beside = module_path.substr(0, slash + 1);
  std::vector<std::string> places = {beside + name, beside + ".debug/" + name};
  for (const std::string& directory : directories) places.push_back(directory + beside + name);
  for (const std::string& path : places) {
    UniqueFd fd = open_regular(path);
    if (!fd.valid() || same_file(fd.get(), module_path)) continue;
    if (checksum(fd.get()) == expected) return DebugFile{std::move(fd), path};
  }
  return std::nullopt;
}

}  // namespace

UniqueFd open_regular(const std::string& path, int extra_flags) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | extra_flags));
  struct stat status {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return fd;
}

std::optional<DebugFile> find_debug_file(const ElfFile& module, const std::string& module_path,
                                         const std::vector<std::string>& directories) {
  if (auto file = find_by_build_id(module.build_id(), directories)) return file;
  return find_by_link(module, module_path, directories);
}

std::vector<char> unpack_mini_debug_info(const ElfFile& module) {
  const Section* section = module.section(".gnu_debugdata");
  if (section == nullptr) return {};
  std::span<const uint8_t> packed = module.bytes(*section);
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kMaxUnpackMemory, 0) != LZMA_OK) return {};
  std::vector<char> image(packed.size() * 4 + 4096);
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  size_t filled = 0;
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK) {
    if (filled == image.size()) image.resize(image.size() * 2);
    stream.next_out = reinterpret_cast<uint8_t*>(image.data()) + filled;
    stream.avail_out = image.size() - filled;
    status = lzma_code(&stream, LZMA_FINISH);
    filled = image.size() - stream.avail_out;
    if (filled > kMaxUnpackedBytes) status = LZMA_MEMLIMIT_ERROR;
  }
  lzma_end(&stream);
  image.resize(status == LZMA_STREAM_END ? filled : 0);
  return image;
}

}  // namespace shadowprof::symbols

// SPDX-License-Identifier: MIT
#include "profile/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <utility>

namespace shadowprof::profile {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;

// Where a symbolic link leads, so that a rename replaces the file and not the link.
std::string resolved(const std::string& path) {
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string result = real;
  std::free(real);
  return result;
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path) {
  if (path == "-") {
    UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!out.valid()) return fail_errno(errno, "cannot write to standard output");
    return OutputFile("standard output", "", std::move(out));
  }
  const std::string target = resolved(path);
  struct stat info {};
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    UniqueFd in_place(::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!in_place.valid()) return fail_errno(errno, "cannot write {}", path);
    return OutputFile(path, "", std::move(in_place));
  }
  std::string temporary = target + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!fd.valid()) return fail_errno(errno, "cannot make a file beside {}", path);
  return OutputFile(target, std::move(temporary), std::move(fd));
}

OutputFile::OutputFile(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(std::move(fd)),
      compressor_(Compressor::create(compression_for(path_))) {
  buffer_.reserve(kBufferBytes);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      compressor_(std::move(other.compressor_)),
      buffer_(std::move(other.buffer_)),
      error_(other.error_) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush(false);
}

void OutputFile::flush(bool last) {
  if (compressor_) {
    std::string packed;
    compressor_->add(buffer_, last, packed);
    buffer_ = std::move(packed);
  }
  std::string_view rest = buffer_;
  while (!rest.empty() && error_ == 0) {
    const ssize_t n = ::write(fd_.get(), rest.data(), rest.size());
    if (n >= 0)
      rest.remove_prefix(static_cast<size_t>(n));
    else if (errno != EINTR)
      error_ = errno;
  }
  buffer_.clear();
}

// close(2) may be the first to report what a network file system could not store.
Status OutputFile::finish() {
  flush(true);
  if (::close(fd_.release()) != 0 && error_ == 0 && errno != EINTR) error_ = errno;
  if (error_ == 0 && !temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0)
    error_ = errno;
  if (error_ != 0) return fail_errno(error_, "cannot write {}", path_);
  temporary_.clear();
  return {};
}

}  // namespace shadowprof::profile

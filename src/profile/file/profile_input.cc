// SPDX-License-Identifier: MIT
#include "profile/file/profile_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace shadowprof::profile {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 16;
// For a writer that our opening of a pipe has woken, until it has opened it, too.
constexpr int kWriterComes_ms = 500;

// To read before it is there would say that the pipe has ended, and to close then would kill it.
void await_writer(int pipe) {
  struct pollfd readable {pipe, POLLIN, 0};
  while (::poll(&readable, 1, kWriterComes_ms) < 0 && errno == EINTR) {
  }
}

}  // namespace

// O_NONBLOCK: opening a pipe that nobody writes to would wait for ever; reading it then says that
// it has ended (fifo(7), pipe(7)). Where there is a writer, reading waits for it as usual.
Result<ProfileInput> ProfileInput::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return fail_errno(errno, "cannot read {}", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno(errno, "cannot read {}", path);
  if (S_ISDIR(info.st_mode)) return fail_errno(EISDIR, "cannot read {}", path);
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
    return fail("cannot read {}: it is neither a file nor a pipe", path);
  if (S_ISFIFO(info.st_mode)) await_writer(fd.get());
  if (::fcntl(fd.get(), F_SETFL, 0) != 0) return fail_errno(errno, "cannot read {}", path);
  return ProfileInput(std::move(fd));
}

void ProfileInput::read_more() {
  packed_.resize(kPieceBytes);
  ssize_t n = 0;
  do {
    n = ::read(fd_.get(), packed_.data(), packed_.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) throw json::Bad{std::string("it cannot be read: ") + std::strerror(errno)};
  ended_ = n == 0;
  left_ = std::string_view(packed_).substr(0, static_cast<size_t>(n));
  packed_bytes_ += left_.size();
  if (begun_ || ended_) return;
  begun_ = true;
  unpacker_ = Unpacker::create(compression_of(left_));
}

std::string_view ProfileInput::next() {
  text_.clear();
  while (text_.empty()) {
    if (left_.empty() && !ended_) read_more();
    if (unpacker_ == nullptr) {
      text_ = left_;
      left_ = {};
      if (ended_) break;
      continue;
    }
    const size_t before = left_.size();
    if (!unpacker_->add(left_, text_)) throw json::Bad{"its compressed data is damaged"};
    if (!ended_ || !text_.empty() || left_.size() != before) continue;
    if (!unpacker_->complete()) throw json::Bad{"its compressed data is cut off"};
    break;
  }
  text_bytes_ += text_.size();
  const size_t limit = std::max(kAlwaysAllowedBytes, packed_bytes_ * kMaxExpansion);
  if (text_bytes_ > std::min(limit, kMaxProfileBytes))
    throw json::Bad{
        fmt::format("it unpacks to more than {} bytes", std::min(limit, kMaxProfileBytes))};
  return text_;
}

}  // namespace shadowprof::profile

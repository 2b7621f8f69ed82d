// SPDX-License-Identifier: MIT
#include "profile/file/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <utility>

namespace shadowprof::profile {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;

// True: a write of up to PIPE_BUF bytes will not block. False: whoever reads has stopped reading,
// and somebody wants us to end. SIGTERM may be blocked, because a run fetches it with
// sigtimedwait(2).
bool wait_for_room(int fd) {
  constexpr int kLookAtSignalsEvery_ms = 100;
  for (;;) {
    pollfd wanted{fd, POLLOUT, 0};
    const int ready = ::poll(&wanted, 1, kLookAtSignalsEvery_ms);
    if (ready > 0) return true;
    if (ready < 0) return errno != EINTR;
    sigset_t pending;
    if (::sigpending(&pending) == 0 &&
        (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGHUP) == 1))
      return false;
  }
}

bool is_pipe(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

}  // namespace

Result<std::string> target_of(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  std::string target = path;
  for (int links = 0; links < kMostLinks; links++) {
    // The very link that was looked at is followed.
    const UniqueFd link(::open(target.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!link.valid() || ::fstat(link.get(), &info) != 0 || !S_ISLNK(info.st_mode)) return target;
    if (info.st_uid != 0 && info.st_uid != ::geteuid())
      return fail("cannot write {}: it is a symbolic link of another user (uid {})", target,
                  info.st_uid);
    std::string to(PATH_MAX, '\0');
    const ssize_t size = ::readlinkat(link.get(), "", to.data(), to.size());
    if (size <= 0) return fail_errno(size < 0 ? errno : ENOENT, "cannot read the link {}", target);
    to.resize(static_cast<size_t>(size));
    const size_t folder = to.front() == '/' ? 0 : target.rfind('/') + 1;  // 0: there is none
    target = target.substr(0, folder) + to;
  }
  return fail_errno(ELOOP, "cannot write {}", path);
}

// O_NONBLOCK: opening a pipe for writing would wait for a reader (fifo(7)); it fails instead.
Result<UniqueFd> open_in_place(const std::string& path, unsigned mode) {
  if (S_ISDIR(mode)) return fail_errno(EISDIR, "cannot write {}", path);
  if (S_ISBLK(mode)) return fail("cannot write {}: it is a disk", path);
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid() && errno == ENXIO && S_ISFIFO(mode))
    return fail("cannot write {}: no program reads from this pipe", path);
  if (!fd.valid()) return fail_errno(errno, "cannot write {}", path);
  if (::fcntl(fd.get(), F_SETFL, 0) != 0) return fail_errno(errno, "cannot write {}", path);
  return fd;
}

Result<OutputFile> OutputFile::open(const std::string& path, Effort effort) {
  if (path == "-") {
    UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!out.valid()) return fail_errno(errno, "cannot write to standard output");
    return with_memory(OutputFile("standard output", "", std::move(out)), effort);
  }
  SP_ASSIGN(const std::string target, target_of(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    SP_ASSIGN(UniqueFd in_place, open_in_place(path, info.st_mode));
    return with_memory(OutputFile(path, "", std::move(in_place)), effort);
  }
  std::string temporary = target + ".XXXXXX";
  UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!fd.valid()) return fail_errno(errno, "cannot make a file beside {}", path);
  return with_memory(OutputFile(target, std::move(temporary), std::move(fd)), effort);
}

OutputFile::OutputFile(std::string path, std::string temporary, UniqueFd fd)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(std::move(fd)),
      is_pipe_(is_pipe(fd_.get())) {}

// Where there is none the temporary file is removed.
OutputFile OutputFile::with_memory(OutputFile file, Effort effort) {
  file.compressor_ = Compressor::create(compression_for(file.path_), effort);
  file.buffer_.reserve(kBufferBytes);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      is_pipe_(other.is_pipe_),
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
    if (is_pipe_ && !wait_for_room(fd_.get())) {
      error_ = EINTR;
      break;
    }
    const size_t most = is_pipe_ ? std::min<size_t>(rest.size(), PIPE_BUF) : rest.size();
    const ssize_t n = ::write(fd_.get(), rest.data(), most);
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
  if (error_ == EINTR) return fail("cannot write {}: whoever reads it has stopped reading", path_);
  if (error_ != 0) return fail_errno(error_, "cannot write {}", path_);
  temporary_.clear();
  return {};
}

}  // namespace shadowprof::profile

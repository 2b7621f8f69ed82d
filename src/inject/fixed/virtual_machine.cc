// SPDX-License-Identifier: MIT
#include "inject/fixed/virtual_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>

#include "base/numbered_entries.h"
#include "inject/fixed/user_calls.h"
#include "kernel/proc.h"
#include "machine/machine_facts.h"

namespace shadowprof::inject {
namespace {

using Call = VirtualMachine::Call;

constexpr uint64_t kMostRandomBytes = (1u << 25) - 1;  // of one call: drivers/char/random.c
constexpr uint64_t kMaskBytes = sizeof(uint64_t);      // of a machine with one core
constexpr size_t kNameBytes = 65;                      // a field of struct utsname

struct Row {
  unsigned number;
  bool (*is_ours)(const Call&);
  std::optional<int64_t> (*answer)(const Call&);  // nullptr: the kernel's answer is mended
};

bool always(const Call&) {
  return true;
}

int64_t put_random_bytes(const Call& call, uint64_t address, uint64_t bytes) {
  bytes = std::min(bytes, kMostRandomBytes);
  std::vector<uint8_t> piece(std::min<uint64_t>(bytes, 64 << 10));
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), bytes - done));
    call.share.random.fill(piece);
    if (!call.memory.write(GuestAddr(address + done), piece))
      return done != 0 ? static_cast<int64_t>(done) : -EFAULT;
  }
  return static_cast<int64_t>(bytes);
}

std::optional<int64_t> get_random(const Call& call) {
  constexpr uint64_t kNonBlocking = 1, kFromRandom = 2, kInsecure = 4;
  const auto flags = static_cast<uint32_t>(call.regs.rdx);
  const bool contradicts = (flags & (kFromRandom | kInsecure)) == (kFromRandom | kInsecure);
  if ((flags & ~(kNonBlocking | kFromRandom | kInsecure)) != 0 || contradicts) return -EINVAL;
  return put_random_bytes(call, call.regs.rdi, call.regs.rsi);
}

bool is_random_device(const struct stat& file) {
  constexpr unsigned kMemoryDevices = 1, kRandom = 8, kUrandom = 9;
  return S_ISCHR(file.st_mode) && major(file.st_rdev) == kMemoryDevices &&
         (minor(file.st_rdev) == kRandom || minor(file.st_rdev) == kUrandom);
}

// Names alone are looked at first: a file whose file system does not answer would hold us up.
constexpr std::string_view kDeviceName = "random";

bool is_random_device(const std::string& path) {
  struct stat file;
  return path.ends_with(kDeviceName) && ::stat(path.c_str(), &file) == 0 && is_random_device(file);
}

// Empty: it is no link.
std::string target_of(const std::string& link) {
  std::array<char, PATH_MAX> name;
  const ssize_t size = ::readlink(link.c_str(), name.data(), name.size());
  return {name.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// A link in /proc/PID/fd.
bool leads_to_random_device(const std::string& link) {
  struct stat file;
  return target_of(link).ends_with(kDeviceName) && ::stat(link.c_str(), &file) == 0 &&
         is_random_device(file);
}

// The link's own mode tells whether the descriptor may be read.
bool reads_random_device(const Call& call) {
  if (!call.share.may_hold_random) return false;
  const std::string link =
      fmt::format("/proc/{}/fd/{}", call.thread.value, static_cast<int>(call.regs.rdi));
  struct stat descriptor;
  return leads_to_random_device(link) && ::lstat(link.c_str(), &descriptor) == 0 &&
         (descriptor.st_mode & S_IRUSR) != 0;
}

std::optional<int64_t> read_random_device(const Call& call) {
  return put_random_bytes(call, call.regs.rsi, call.regs.rdx);
}

bool is_about_itself(const Call& call) {
  const auto wanted = static_cast<int>(call.regs.rdi);
  return wanted == 0 || kernel::names_thread_of(call.process, wanted);
}

std::optional<int64_t> get_affinity(const Call& call) {
  const auto bytes = static_cast<uint32_t>(call.regs.rsi);
  if (bytes == 0 || bytes % kMaskBytes != 0) return -EINVAL;
  constexpr uint64_t kFirstCore = 1;
  return call.memory.put(call.regs.rdx, kFirstCore) ? int64_t{kMaskBytes} : -EFAULT;
}

std::optional<int64_t> set_affinity(const Call& call) {
  std::array<uint8_t, kMaskBytes> mask{};
  const size_t bytes = std::min<size_t>(static_cast<uint32_t>(call.regs.rsi), mask.size());
  if (bytes != 0 && !call.memory.read(GuestAddr(call.regs.rdx), std::span(mask).first(bytes)))
    return -EFAULT;
  return (mask[0] & 1) != 0 ? 0 : -EINVAL;
}

std::optional<int64_t> get_cpu(const Call& call) {
  for (const uint64_t address : {call.regs.rdi, call.regs.rsi})  // core, node
    if (address != 0 && !call.memory.put(address, uint32_t{0})) return -EFAULT;
  return 0;
}

std::optional<int64_t> get_system_information(const Call& call) {
  return call.memory.put(call.regs.rdi, machine::system_information()) ? 0 : -EFAULT;
}

// The area would name the core, and sections are begun anew when another program runs on it.
std::optional<int64_t> refuse(const Call&) {
  return -ENOSYS;
}

constexpr Row kRows[] = {
    {SYS_getrandom, always, get_random},
    {SYS_read, reads_random_device, read_random_device},
    {SYS_pread64, reads_random_device, read_random_device},
    {SYS_sched_getaffinity, is_about_itself, get_affinity},
    {SYS_sched_setaffinity, is_about_itself, set_affinity},
    {SYS_getcpu, always, get_cpu},
    {SYS_sysinfo, always, get_system_information},
    {SYS_uname, always, nullptr},
    {SYS_rseq, always, refuse},
};

constexpr unsigned kDeviceReads[] = {SYS_read, SYS_pread64};
constexpr unsigned kOpenCalls[] = {SYS_open, SYS_openat};

bool is_open(const Call& call) {
  return call.number() == SYS_open || call.number() == SYS_openat;
}

// The absolute path of what is opened for reading; empty: it is something else.
std::string path_read(const Call& call) {
  const bool at = call.number() == SYS_openat;
  constexpr uint64_t kOthers = O_ACCMODE | O_CREAT | O_TRUNC | O_DIRECTORY | O_PATH;
  if (((at ? call.regs.rdx : call.regs.rsi) & kOthers) != O_RDONLY) return {};
  constexpr size_t kLongest = 64;
  const auto path =
      call.memory.read_string(GuestAddr(at ? call.regs.rsi : call.regs.rdi), kLongest);
  if (!path || path->empty() || path->starts_with('/')) return path.value_or("");
  const auto directory = static_cast<int>(call.regs.rdi);
  const std::string place = at && directory != AT_FDCWD ? fmt::format("fd/{}", directory) : "cwd";
  return fmt::format("{}/{}", target_of(fmt::format("/proc/{}/{}", call.thread.value, place)),
                     *path);
}

const Row* row_of(const Call& call) {
  const auto* it = std::ranges::find_if(
      kRows, [&](const Row& row) { return static_cast<long>(row.number) == call.number(); });
  return it == std::end(kRows) ? nullptr : it;
}

UserCall user_call(const Call& call) {
  return {call.regs, call.memory, call.share.has_changed_user};
}

}  // namespace

std::vector<unsigned> VirtualMachine::watched_calls(const Share& share) {
  std::vector<unsigned> numbers(std::begin(kOpenCalls), std::end(kOpenCalls));
  for (const Row& row : kRows)
    if (share.may_hold_random || std::ranges::count(kDeviceReads, row.number) == 0)
      numbers.push_back(row.number);
  numbers.insert(numbers.end(), user_calls().begin(), user_calls().end());
  return numbers;
}

bool VirtualMachine::answers(const Call& call) const {
  if (is_open(call)) return opened_content(call).has_value();
  const Row* row = row_of(call);
  return row != nullptr ? row->is_ours(call) : concerns_user(user_call(call));
}

std::optional<int64_t> VirtualMachine::answer(const Call& call) const {
  const Row* row = row_of(call);
  if (row == nullptr) return answer_user_call(user_call(call));
  const bool is_answered = row->answer != nullptr && row->is_ours(call);
  return is_answered ? row->answer(call) : std::nullopt;
}

std::optional<machine::Registers> VirtualMachine::call_in_its_place(const Call& call) const {
  return inject::call_in_its_place(user_call(call));
}

void VirtualMachine::mend(const Call& call) const {
  mend_user_call(user_call(call));
  if (call.number() != SYS_uname) return;
  constexpr size_t kRelease = 2, kVersion = 3;
  for (const auto& [field, text] : {std::pair{kRelease, machine::kKernelRelease},
                                    std::pair{kVersion, machine::kKernelVersion}}) {
    std::array<char, kNameBytes> name{};
    text.copy(name.data(), name.size() - 1);
    (void)call.memory.put(call.regs.rdi + field * kNameBytes, name);
  }
}

// A file that the program would not find is not there.
std::optional<std::string> VirtualMachine::opened_content(const Call& call) const {
  if (!is_open(call)) return std::nullopt;
  const std::string path = path_read(call);
  if (!path.starts_with("/proc/") && !path.starts_with("/sys/")) return std::nullopt;
  auto content = machine::content_of(path, processor_);
  if (!content) return std::nullopt;
  const std::string seen = fmt::format("/proc/{}/root{}", call.thread.value, path);
  return ::access(seen.c_str(), R_OK) == 0 ? content : std::nullopt;
}

bool VirtualMachine::opens_random_device(const Call& call) {
  if (!is_open(call)) return false;
  const std::string path = path_read(call);
  return path.starts_with("/dev/") &&
         is_random_device(fmt::format("/proc/{}/root{}", call.thread.value, path));
}

std::span<const unsigned> VirtualMachine::device_reads() {
  return kDeviceReads;
}

bool VirtualMachine::holds_random_device(Tid process) {
  const std::string directory = fmt::format("/proc/{}/fd", process.value);
  const auto descriptors = numbered_entries(directory);
  if (!descriptors) return true;  // nobody knows
  return std::ranges::any_of(*descriptors, [&](int fd) {
    return leads_to_random_device(fmt::format("{}/{}", directory, fd));
  });
}

}  // namespace shadowprof::inject

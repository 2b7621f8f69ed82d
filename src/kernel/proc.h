// SPDX-License-Identifier: MIT
//
// What /proc/PID says about a process: its mappings, status, statistics, threads, auxiliary vector.
//
// The parse functions are pure: text in, values out; text that the kernel would not write is an
// error that quotes the offending line. The read functions fetch the text of a live process. A
// process that ends meanwhile gives an error with errno ENOENT or ESRCH (proc(5): the files of a
// process that is gone cannot be opened; an open one fails to read).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace shadowprof::kernel {

// --- /proc/PID/maps ---------------------------------------------------------------------------

struct Mapping {
  GuestRange range;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  // The file's name no longer exists, or never did (memfd, System V, shared anonymous memory).
  bool deleted = false;
  uint64_t offset = 0;  // in the file, bytes
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
  uint64_t inode = 0;
  // As the kernel shows it, with newlines decoded and " (deleted)" taken off: a path, "[heap]" and
  // the like, or empty for anonymous memory. The kernel escapes newlines as \012 but not the
  // backslash, so a file whose name really holds these four characters looks the same.
  std::string path;

  // What the kernel tells the vdso's functions: its pages are the same in all processes of a time
  // namespace, and cannot be read from another one.
  bool is_vvar() const { return path.starts_with("[vvar"); }
  uint64_t device() const { return uint64_t{dev_major} << 32 | dev_minor; }
  bool is_of_same_file(const Mapping& other) const {
    return inode == other.inode && device() == other.device();
  }
  // Where the file's first byte is, or would be.
  GuestAddr file_start() const { return range.start - offset; }
  bool operator==(const Mapping&) const = default;
};

Result<std::vector<Mapping>> parse_maps(std::string_view text);

// A consistent picture only while the process is stopped: the kernel writes the file a page at a
// time, and mappings may change in between.
Result<std::vector<Mapping>> read_maps(Tid process);

// Where code is, the vdso first: it is always there and never unmapped.
std::vector<GuestRange> executable_ranges(const std::vector<Mapping>& mappings);

// --- /proc/PID/smaps --------------------------------------------------------------------------

// Ranges that a fork would not copy (madvise(2), MADV_DONTFORK), adjacent ones as one; memory of
// devices, which no advice can change, is left out. The kernel walks the page tables for this file:
// it takes longer than maps by far.
Result<std::vector<GuestRange>> parse_dont_fork(std::string_view smaps);
Result<std::vector<GuestRange>> read_dont_fork(Tid process);

// --- /proc/PID/status -------------------------------------------------------------------------

// A signal set as the kernel shows it: bit n-1 is signal n.
using SignalBits = uint64_t;

struct ProcessStatus {
  std::string name;  // escaped by the kernel; chosen by the program, so untrusted
  char state = '?';  // R, S, D, T (stopped), t (traced), Z (zombie), X, I
  Tid tgid;
  Tid pid;
  Tid parent;
  Tid tracer;                      // 0: none
  Tid innermost_tgid;              // in its own PID namespace
  Tid innermost_pid;               // likewise
  std::array<uint32_t, 4> uids{};  // real, effective, saved, file system
  std::array<uint32_t, 4> gids{};
  uint32_t threads = 0;
  uint64_t page_tables = 0;       // bytes; 0 of a process that is ending
  SignalBits pending = 0;         // of this thread
  SignalBits shared_pending = 0;  // of the process
  SignalBits blocked = 0;
  SignalBits ignored = 0;
  SignalBits caught = 0;
  bool no_new_privs = false;
  // 0 none, 1 strict, 2 filter. Absent if the kernel has no seccomp.
  std::optional<int> seccomp;
  std::optional<uint32_t> filters;  // how many; absent before Linux 5.9
  uint64_t sleeps = 0;  // how often this thread has gone to sleep, or was stopped by its tracer

  // The first process of a PID namespace. No signal ends it but SIGKILL from outside, and what its
  // own instructions raise: that only in a thread without a tracer (kernel/signal.c,
  // force_sig_info_to_task); one that has a tracer raises it again and again.
  bool is_namespace_init() const { return innermost_tgid.value == 1; }
};

Result<ProcessStatus> parse_status(std::string_view text);
// For a thread as well: /proc/TID exists for each.
Result<ProcessStatus> read_status(Tid thread);
Result<ProcessStatus> read_status(const std::string& file);

// What the process itself, in its own PID namespace, calls a thread of its own.
bool names_thread_of(Tid process, int id);

// --- /proc/PID/stat ---------------------------------------------------------------------------

// Times are in clock ticks: sysconf(_SC_CLK_TCK) in a second.
struct ProcessStat {
  Tid pid;
  std::string name;  // escaped by the kernel; may hold blanks and parentheses; untrusted
  char state = '?';
  Tid parent;
  uint64_t flags = 0;         // PF_* of linux/sched.h
  uint64_t minor_faults = 0;  // page faults that needed no disk
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  uint64_t threads = 0;
  uint64_t start_ticks = 0;  // since boot; with pid it identifies a process despite reuse of pids
  int processor = 0;         // that it last ran on
};

Result<ProcessStat> parse_stat(std::string_view text);
// The state alone; nothing: the text is empty, as of a thread that is gone.
std::optional<char> state_in_stat(std::string_view text);
// ENOENT or ESRCH: there is no such thread any more.
Result<char> read_state(Tid thread);
// The whole process's; its times are those of all its threads.
Result<ProcessStat> read_process_stat(Tid process);
// One thread's alone.
Result<ProcessStat> read_thread_stat(Tid process, Tid thread);

// --- /proc/PID/statm --------------------------------------------------------------------------

struct MemoryPages {
  uint64_t mapped = 0;
  uint64_t resident = 0;
  uint64_t of_files = 0;  // resident; shared anonymous memory, too
  uint64_t data = 0;      // mapped, private and writable; stacks, too
};

Result<MemoryPages> parse_statm(std::string_view text);
Result<MemoryPages> read_statm(Tid process);

// --- /proc/PID/schedstat ----------------------------------------------------------------------

// A thread's, in nanoseconds (Documentation/scheduler/sched-stats.rst).
struct ScheduleTimes {
  uint64_t used = 0;    // on a processor
  uint64_t waited = 0;  // for one
  uint64_t runs = 0;    // how often it was given one
};

Result<ScheduleTimes> parse_schedstat(std::string_view text);
Result<ScheduleTimes> read_schedstat(Tid thread);
// Zeros where it is gone, or the kernel does not count.
ScheduleTimes schedule_times_of(Tid thread);

// --- /proc/vmstat -----------------------------------------------------------------------------

// Since the machine was started: page faults on pages that had been shared and were not any more.
Result<uint64_t> parse_reused_pages(std::string_view text);
Result<uint64_t> read_reused_pages();

// --- /proc/meminfo ----------------------------------------------------------------------------

struct MemoryInfo {  // bytes
  uint64_t total = 0;
  uint64_t available = 0;     // without swapping
  uint64_t commit_limit = 0;  // what may be promised, if overcommit_is_forbidden()
  uint64_t committed = 0;     // what is promised
};

Result<MemoryInfo> parse_meminfo(std::string_view text);
Result<MemoryInfo> read_meminfo();

// --- /proc/PID/task ---------------------------------------------------------------------------

// Threads in ascending order. One that starts meanwhile may be missing: list again until nothing
// is new, with those already listed stopped.
Result<std::vector<Tid>> list_threads(Tid process);
// One of the kernel's own among them, which works for the process (io_uring, vhost) and never
// executes its code: it can be traced, but a stop of it is no place for a system call.
bool is_kernel_worker(const ProcessStat& thread);
// What is named by a number in /proc (processes), or in /proc/PID/task; ascending, and at least
// one.
Result<std::vector<Tid>> list_tasks(const std::string& folder);

// --- /proc/loadavg ----------------------------------------------------------------------------

// Threads of the whole machine.
struct MachineThreads {
  uint64_t running = 0;  // or would, had they a core; whoever asks is one of them
  uint64_t all = 0;
};
Result<MachineThreads> parse_machine_threads(std::string_view text);
Result<MachineThreads> read_machine_threads();

// --- /proc/PID/auxv ---------------------------------------------------------------------------

struct Auxv {
  std::optional<GuestAddr> entry;         // AT_ENTRY: of the program, not of its interpreter
  std::optional<GuestAddr> base;          // AT_BASE: of the interpreter; 0 in a static program
  std::optional<GuestAddr> sysinfo_ehdr;  // AT_SYSINFO_EHDR: the vdso's ELF header
  std::optional<GuestAddr> phdr;          // AT_PHDR: the program headers in memory
};

// `bytes` as a 64-bit process has them: pairs of 8 bytes, ended by AT_NULL.
Result<Auxv> parse_auxv(std::span<const std::byte> bytes);
Result<Auxv> read_auxv(Tid process);

// --- /proc/PID/cmdline ------------------------------------------------------------------------

// The words of its command line, cut off where that is very long; empty for what has none.
std::vector<std::string> read_command(Tid process);

// --- /proc/TID/comm --------------------------------------------------------------------------

// A thread's own name; "" for one that is gone, or is not the process's.
std::string thread_name(Tid process, Tid thread);
// Whichever process it is of.
inline std::string thread_name(Tid thread) { return thread_name(thread, thread); }

}  // namespace shadowprof::kernel

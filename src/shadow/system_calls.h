// SPDX-License-Identifier: MIT
//
// What happens when a replica makes a system call: its row in kernel/syscalls.inc names a handler
// of kernel/syscall_handlers.inc, and that is the function of the same name here. (Most of the
// calls that are just made do not come here: shadow_space.cc.)
//
// What would end the sample may be a call that the program made, too, and whose answer was kept:
// then that is the replica's answer (input_log.h).
//
// Whatever is not understood ends the sample. So does a call that fails with EFAULT where it would
// not in the program: shared memory is writable there, and here only when it was copied
// (shared_pages.h).
#pragma once

#include <sys/uio.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <map>
#include <set>

#include "base/limits.h"
#include "cache/guest_code.h"
#include "kernel/table.h"
#include "ptrace/remote_syscall.h"
#include "shadow/descriptors.h"
#include "shadow/futexes.h"
#include "shadow/input_log.h"
#include "shadow/outcome.h"
#include "shadow/own_files.h"
#include "shadow/replica_thread.h"
#include "shadow/shared_pages.h"

namespace shadowprof::shadow {

// Who the program is, by numbers that are ours: those of the PID namespace that we are in. What it
// is told itself are numbers of its own namespace.
struct Identity {
  Tid pid;
  int64_t parent_pid = 0;  // negative: not known
  timespec forked_at{};    // by the clock that files are marked with
};

struct SyscallAnswer {
  enum class Kind : uint8_t {
    value,       // goes on with `value`
    not_yet,     // the program has not come so far: to be asked again
    yields,      // the same, but others first
    waits,       // the thread sleeps
    new_thread,  // clone of a thread: the executor makes it
    returns,     // from a signal handler that the program was in: the executor does that
    finished,    // the thread has ended
    ends,        // the sample has
  };
  Kind kind = Kind::value;
  int64_t value = 0;
  Ending ending;
  std::optional<uint64_t> fs_base = std::nullopt;  // that the thread is to have from now on
};

class SystemCalls {
 public:
  // `log` may be null.
  SystemCalls(Identity identity, Tid replica, Descriptors& descriptors, SharedPages& shared,
              cache::GuestCode& code, GuestThreads& threads, InputLog* log)
      : identity_(identity),
        replica_(replica),
        log_(log),
        descriptors_(descriptors),
        shared_(shared),
        code_(code),
        memory_(replica),
        threads_(threads),
        futexes_(threads, memory_) {}

  // `registers` are the guest's, at its system call. Calls are made through `remote`.
  SyscallAnswer answer(GuestThread& thread, const ptrace::Registers& registers,
                       ptrace::RemoteSyscalls& remote);
  // The replica is no longer where the program was: what files say since then is not for it.
  void goes_on() { has_gone_on_ = true; }
  Futexes& futexes() { return futexes_; }
  Tid program() const { return identity_.pid; }
  ptrace::RemoteMemory& memory() { return memory_; }
  // Some of what it writes stays with it: then what it has in memory matters to the call.
  bool has_own_files() const { return own_files_.has_any(); }

 private:
  struct Call {
    GuestThread& thread;
    long nr;
    SyscallArguments args;
    ptrace::RemoteSyscalls& remote;
    uint64_t fs_base;  // the thread's
    uint64_t gs_base;
  };
  using Answer = SyscallAnswer;
  // What open(2) and its relatives are asked.
  struct OpenRequest {
    int directory;
    uint64_t path;
    int flags;
    mode_t mode;
    bool restricted;  // in how the path is resolved
  };

  static Answer value(int64_t v) { return {Answer::Kind::value, v, {}}; }
  static Answer end(const Call& call, Outcome outcome, std::string detail = {});

  // Common to all
  Answer as_program(const Call& call, const kernel::SyscallRow& row, Answer otherwise);
  bool write_back(const Call& call, const LoggedCall& logged);
  Answer execute(const Call& call);
  // The program's own numbers of its threads and of its parent. Nothing: they have ended, and
  // nobody can say.
  std::optional<int64_t> own_number(Tid thread);
  std::optional<int64_t> own_number_of_parent();
  bool has_own_numbers();
  Answer told(const Call& call, std::optional<int64_t> number) const;
  Answer ask_thread(const Call& call, size_t which);
  bool have(const Call& call, int fd);
  OpenFile* regular_file(const Call& call, int fd);
  Answer read_file(const Call& call, bool positioned, bool vector);
  const char* why_not_to_read(int fd, const OpenFile& file) const;
  OpenFile* changes_file(int fd);
  Answer write_file(const Call& call, bool positioned, bool vector);
  // Or a negative error, as the kernel has it.
  int64_t bytes_in_vector(GuestAddr vector, uint64_t count);
  int64_t place_descriptor(const Call& call, int64_t fd, int wanted);
  Answer new_pair(const Call& call, GuestAddr at);
  struct Copy {  // sendfile(2) or copy_file_range(2)
    int from, to;
    uint64_t from_offset, to_offset;  // where these are; 0: the file's own
    uint64_t count;
  };
  static Copy copy_of(const Call& call);
  Answer copy_to_own(const Call& call, const Copy& copy, OpenFile& from, OwnFile& to,
                     uint64_t bytes);
  Answer move_offset(const Call& call, OpenFile* file, int fd, uint64_t given, uint64_t to);
  Answer duplicate_from(const Call& call, int fd);
  bool is_later(const timespec& when) const;
  // Where a read puts what it reads. Nothing: a vector that cannot be read.
  std::optional<std::vector<iovec>> parts_of(const Call& call, bool vector);
  Answer read_own(const Call& call, OwnFile& file, bool vector);
  Answer write_own(const Call& call, OwnFile& file, uint64_t bytes);

  // Common to path_calls.cc
  bool status_in_replica(int64_t fd, struct stat& status) const;
  bool keeps_times(int fd) const;
  static Answer failed(const Call& call, const Error& error);
  // What it is if it may be opened; else the answer.
  tl::expected<OpenFile, Answer> look_before_opening(const Call& call, const OpenRequest& how);
  Answer open_file(const Call& call, const OpenRequest& how);
  Answer open_to_write(const Call& call, const OpenRequest& how, bool removed);
  std::optional<Answer> choose_own(const Call& call, const OpenRequest& how, int directory,
                                   const std::string& name, bool removed,
                                   std::shared_ptr<OwnFile>& file);
  std::optional<Answer> choose_new(const Call& call, const OpenRequest& how,
                                   const struct stat& directory, const OwnFiles::Place& place,
                                   std::shared_ptr<OwnFile>& file);
  std::optional<Answer> choose_existing(const Call& call, const OpenRequest& how, int looked,
                                        const OwnFiles::Place& place,
                                        std::shared_ptr<OwnFile>& file);
  std::optional<Answer> may_not_use(const Call& call, int fd, int access);
  static bool set_size(const OwnFile& file, uint64_t size);
  std::optional<Answer> open_again_is_wrong(const Call& call, OwnFile& file,
                                            const OpenRequest& how);
  Answer open_again(const Call& call, std::shared_ptr<OwnFile> file, const OpenRequest& how);
  Answer give_own(const Call& call, std::shared_ptr<OwnFile> file, int flags);

  // Common to name_calls.cc
  bool can_be_written(const Call& call, GuestRange range);
  template <typename T>
  Answer give(const Call& call, GuestAddr to, const T& what) {
    if (!can_be_written(call, {to, to + sizeof what})) return end_sample(call);
    return value(memory_.write_value(to, what) ? 0 : -EFAULT);
  }
  std::optional<OwnFiles::Place> place_of(const Call& call, int directory, const SplitPath& path);
  std::optional<Answer> find_own(const Call& call, int directory, uint64_t path,
                                 OwnFiles::Found& found);
  bool leads_to_own(const Call& call, int directory, uint64_t path);
  bool is_news(const Call& call, int directory, uint64_t path);
  std::optional<OwnFiles::Place> place_to_change(const Call& call, uint64_t directory,
                                                 uint64_t path);
  Answer remove_name(const Call& call, uint64_t directory, uint64_t path);
  Answer new_name(const Call& call, uint64_t directory, uint64_t path);
  Answer move_name(const Call& call, std::array<uint64_t, 4> paths, bool stays, bool plainly);
  static bool status_of(const OwnFile& file, struct stat& status);
  Answer give_status(const Call& call, const OwnFile& file, GuestAddr to, bool extended_status);
  // That the replica has made, and has open; null: it is another one, or none.
  OwnFile* own_file(int fd);
  template <typename About>
  Answer ask_path(const Call& call, int directory, uint64_t path, About about);
  Answer ask_itself(const Call& call, GuestAddr to);
  static void set_mode(OwnFile& file, uint64_t mode);

  // Handlers: system_calls.cc
  Answer make(const Call& call);
  Answer end_sample(const Call& call);
  Answer need_input(const Call& call);
  Answer assume_success(const Call& call);
  Answer assume_sent(const Call& call);
  Answer assume_message(const Call& call);
  Answer yield(const Call& call);
  Answer sleep(const Call& call);
  Answer poll(const Call& call);
  Answer poll_with_mask(const Call& call);
  Answer select(const Call& call);
  Answer segment_base(const Call& call);
  Answer start_thread(const Call& call);
  Answer return_from_handler(const Call& call);
  Answer exit_thread(const Call& call);
  Answer exit_process(const Call& call);
  Answer futex(const Call& call);
  Answer process_option(const Call& call);
  Answer personality(const Call& call);
  Answer limits(const Call& call);
  Answer set_interval(const Call& call);
  Answer set_timer(const Call& call);
  Answer set_timer_descriptor(const Call& call);
  Answer barrier(const Call& call);
  Answer control_device(const Call& call);
  Answer clear_tid(const Call& call);
  Answer robust_list(const Call& call);
  Answer restartable(const Call& call);
  Answer signal_mask(const Call& call);
  Answer ask_about_thread(const Call& call);
  Answer ask_priority(const Call& call);
  Answer process_id(const Call& call);
  Answer thread_id(const Call& call);
  Answer parent_id(const Call& call);
  Answer process_group(const Call& call);

  // Handlers: file_calls.cc
  Answer read(const Call& call);
  Answer read_at(const Call& call);
  Answer read_parts(const Call& call);
  Answer read_parts_at(const Call& call);
  Answer read_parts_flags(const Call& call);
  Answer read_directory(const Call& call);
  Answer write(const Call& call);
  Answer write_at(const Call& call);
  Answer write_parts(const Call& call);
  Answer write_parts_at(const Call& call);
  Answer write_parts_flags(const Call& call);
  Answer change_file(const Call& call);
  Answer seek(const Call& call);
  Answer new_descriptor(const Call& call);
  Answer new_pipe(const Call& call);
  Answer new_sockets(const Call& call);
  Answer new_signals(const Call& call);
  Answer duplicate(const Call& call);
  Answer duplicate_to(const Call& call);
  Answer close_descriptor(const Call& call);
  Answer close_several(const Call& call);
  Answer fcntl(const Call& call);
  Answer ask_about_file(const Call& call);
  Answer copy_file(const Call& call);

  // Handlers: path_calls.cc
  Answer open_path(const Call& call);
  Answer open_at(const Call& call);
  Answer open_with(const Call& call);
  Answer create_path(const Call& call);

  // Handlers: name_calls.cc
  Answer ask_about_path(const Call& call);
  Answer ask_about_path_at(const Call& call);
  Answer ask_about_storage(const Call& call);
  Answer ask_status(const Call& call);
  Answer ask_status_at(const Call& call);
  Answer change_names(const Call& call);
  Answer change_mode(const Call& call);
  Answer truncate_path(const Call& call);

  // Handlers: memory_calls.cc
  Answer map(const Call& call);
  Answer protect(const Call& call);
  Answer unmap(const Call& call);
  Answer remap(const Call& call);
  Answer advise(const Call& call);

  using Handler = Answer (SystemCalls::*)(const Call&);
  static const Handler kHandlers[];

  Identity identity_;
  Tid replica_;
  InputLog* log_;
  Descriptors& descriptors_;
  SharedPages& shared_;
  cache::GuestCode& code_;
  ptrace::RemoteMemory memory_;
  GuestThreads& threads_;
  Futexes futexes_;
  bool has_gone_on_ = false;
  OwnFiles own_files_;
  bool has_executed_ = false;  // the call that is answered, or another in its place
  std::set<FileId> written_;   // that it has written to, as it believes
  std::optional<bool> has_own_numbers_{};
  std::map<int32_t, int64_t> own_numbers_;  // that were asked for, if it has its own
};

}  // namespace shadowprof::shadow

// SPDX-License-Identifier: MIT
//
// A library for LD_PRELOAD that counts what shadowprof asks of the C library and lets chosen calls
// fail. faults.py says which (FAULTS_PLAN) and reads what was called from a table in a file
// (FAULTS_TABLE). Only the process that it was loaded into and its forks are concerned: both
// variables and LD_PRELOAD are gone from the environment before main.
//
// A call site is the name of what was called and the return addresses in the executable, the
// innermost kDepth of them. A call that fails has no effect, but for close(2), which always closes.
//
// Allocations are of two names: "new" for those of C++, "malloc" for those that libraries make.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr size_t kDepth = 8;
constexpr size_t kAllocationDepth = 3;  // there are thousands of sites otherwise
constexpr size_t kSites = 8192;
constexpr size_t kNameBytes = 40;

struct Site {
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> calls;
  char name[kNameBytes];
  uint64_t frames[kDepth];  // offsets in the executable, innermost first
};

// The layout that faults.py reads.
struct Table {
  std::atomic<uint64_t> failed;   // calls that were made to fail
  std::atomic<uint64_t> dropped;  // sites without room
  // The process that was traced first, for those that never see it: what profiles it is another.
  std::atomic<uint64_t> program;
  Site sites[kSites];
};

enum class Action : int { none, fail, kill, cut, die };

// FAULTS_PLAN="NAME KEY FIRST COUNT ACTION VALUE": calls FIRST to FIRST + COUNT - 1 of the site
// fail. KEY 0: all sites of that name together. There may be several, with a semicolon in between.
constexpr size_t kPlans = 4;
struct Plan {
  char name[kNameBytes];
  uint64_t key;
  uint64_t first;
  uint64_t count;
  Action action;
  int value;
  std::atomic<uint64_t> calls_of_name;
};

// What is to become of a call.
struct Fate {
  Action action = Action::none;
  int value = 0;
};

Table* table = nullptr;
Plan plans[kPlans];
bool sees_allocations = false;
uint64_t executable_start = 0;
uint64_t executable_end = 0;
uint64_t executable_base = 0;
uint64_t remote_start = 0;  // RemoteSyscalls::call_once, as offsets in the executable
uint64_t remote_end = 0;
thread_local bool is_busy __attribute__((tls_model("initial-exec"))) = false;

struct Frames {
  uint64_t at[kDepth + 2] = {};
  size_t count = 0;
  size_t most = kDepth;

  void add(uint64_t address) {
    if (address >= executable_start && address < executable_end && count < most)
      at[count++] = address - executable_base;
  }
};

_Unwind_Reason_Code on_frame(_Unwind_Context* context, void* data) {
  auto* frames = static_cast<Frames*>(data);
  frames->add(_Unwind_GetIP(context));
  return frames->count < frames->most ? _URC_NO_REASON : _URC_END_OF_STACK;
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

uint64_t key_of(const char* name, const uint64_t* frames, size_t count) {
  uint64_t key = 1;
  for (const char* c = name; *c != 0; c++) key = mix(key, static_cast<unsigned char>(*c));
  for (size_t i = 0; i < count; i++) key = mix(key, frames[i]);
  return key | 1;
}

// The site's entry; null if the table is full.
Site* site_of(uint64_t key, const char* name, const uint64_t* frames, size_t count) {
  for (size_t i = 0; i < kSites; i++) {
    Site& site = table->sites[(key + i) % kSites];
    uint64_t there = site.key.load();
    if (there == 0 && site.key.compare_exchange_strong(there, key)) {
      std::strncpy(site.name, name, kNameBytes - 1);
      for (size_t f = 0; f < count && f < kDepth; f++) site.frames[f] = frames[f];
      return &site;
    }
    if (there == key) return &site;
  }
  table->dropped++;
  return nullptr;
}

bool concerns(Plan& plan, const char* name, uint64_t key, uint64_t call_of_site) {
  if (plan.action == Action::none || std::strcmp(plan.name, name) != 0) return false;
  if (plan.key != 0 && plan.key != key) return false;
  const uint64_t nth = plan.key != 0 ? call_of_site : ++plan.calls_of_name;
  return nth >= plan.first && nth - plan.first < plan.count;
}

// Counts the call and says what is to become of it; whoever is to die here does not return.
Fate judge(const char* name, const uint64_t* frames, size_t count) {
  const uint64_t key = key_of(name, frames, count);
  Site* site = site_of(key, name, frames, count);
  if (site == nullptr) return {};
  const uint64_t n = ++site->calls;
  for (Plan& plan : plans) {
    if (!concerns(plan, name, key, n)) continue;
    table->failed++;
    if (plan.action == Action::die) {
      ::syscall(SYS_kill, ::syscall(SYS_getpid), SIGKILL);
      ::syscall(SYS_exit_group, 128 + SIGKILL);  // the first process of a PID namespace
    }
    return {plan.action, plan.value};
  }
  return {};
}

class Busy {
 public:
  Busy() { is_busy = true; }
  ~Busy() { is_busy = false; }
};

Fate look_at(const char* name) {
  if (table == nullptr || is_busy) return {};
  const Busy busy;
  const int saved = errno;
  Frames frames;
  _Unwind_Backtrace(on_frame, &frames);
  // A call that is none of ours: the loader's, or that of a library's own thread.
  const Fate fate = frames.count == 0 ? Fate{} : judge(name, frames.at, frames.count);
  errno = saved;
  return fate;
}

using Call = long (*)(long, long, long, long, long, long);

Call find(const char* name) {
  return reinterpret_cast<Call>(::dlsym(RTLD_NEXT, name));
}

long raw_ptrace(long request, long tid, long address, void* data) {
  static const auto real = reinterpret_cast<long (*)(long, ...)>(::dlsym(RTLD_NEXT, "syscall"));
  return real(SYS_ptrace, request, tid, address, data);
}

void kill_process(long pid) {
  static const Call real = find("kill");
  const int saved = errno;
  if (pid > 0) (void)real(pid, SIGKILL, 0, 0, 0, 0);
  errno = saved;
}

// --- Calls that the program is made to execute ---------------------------------------------------
//
// They begin with SETREGS in RemoteSyscalls::call_once. One that shall fail enters the kernel
// without a number and so does nothing; what is read of it says the number, and the error.

constexpr long kGetRegs = 12;
constexpr long kSetRegs = 13;
constexpr long kPokeUser = 6;
constexpr long kSetOptions = 0x4200;
constexpr long kSeize = 0x4206;
constexpr uint64_t kSuspendSeccomp = uint64_t{1} << 21;
constexpr size_t kOrigRax = offsetof(user_regs_struct, orig_rax);

struct FailingCall {
  long tid = 0;  // 0: none
  unsigned long number = 0;
  int error = 0;
  bool is_inside = false;
};
thread_local FailingCall failing __attribute__((tls_model("initial-exec")));

bool begins_remote_call(long request, const void* data) {
  if (request != kSetRegs || remote_end == 0 || data == nullptr) return false;
  return static_cast<const user_regs_struct*>(data)->orig_rax == ~0ul;
}

Fate look_at_remote(const void* data) {
  if (table == nullptr || is_busy) return {};
  const Busy busy;
  Frames frames;
  frames.most = kDepth + 2;
  _Unwind_Backtrace(on_frame, &frames);
  if (frames.count < 2 || frames.at[1] < remote_start || frames.at[1] >= remote_end) return {};
  char name[kNameBytes];
  std::snprintf(name, sizeof name, "remote:%lu",
                static_cast<unsigned long>(static_cast<const user_regs_struct*>(data)->rax));
  return judge(name, frames.at + 2, frames.count - 2);
}

void begin_remote_call(long tid, const void* data) {
  const Fate fate = look_at_remote(data);
  if (fate.action == Action::fail) {
    const auto number = static_cast<const user_regs_struct*>(data)->rax;
    failing = {tid, static_cast<unsigned long>(number), fate.value, false};
  }
  if (fate.action == Action::kill) kill_process(tid);
}

void change_registers(user_regs_struct& registers) {
  if (!failing.is_inside) {
    if (registers.orig_rax != failing.number) return;
    failing.is_inside = true;
    (void)raw_ptrace(kPokeUser, failing.tid, kOrigRax, reinterpret_cast<void*>(~0ul));
    return;
  }
  registers.orig_rax = failing.number;
  registers.rax = static_cast<unsigned long>(-static_cast<long>(failing.error));
  failing = {};
}

long traced(long request, long tid, long address, void* data) {
  char name[kNameBytes] = "ptrace:suspend";
  if (request != kSetOptions || (reinterpret_cast<uint64_t>(data) & kSuspendSeccomp) == 0)
    std::snprintf(name, sizeof name, "ptrace:%ld", request);
  const Fate fate = look_at(name);
  if (fate.action == Action::fail) {
    errno = fate.value;
    return -1;
  }
  if (fate.action == Action::kill) kill_process(tid);
  if (begins_remote_call(request, data)) begin_remote_call(tid, data);
  const long result = raw_ptrace(request, tid, address, data);
  if (result >= 0 && request == kSeize && table != nullptr && table->program == 0)
    table->program = static_cast<uint64_t>(tid);
  if (result >= 0 && request == kGetRegs && failing.tid == tid)
    change_registers(*static_cast<user_regs_struct*>(data));
  return result;
}

// --- What the executable is ----------------------------------------------------------------------

int on_object(dl_phdr_info* info, size_t, void*) {
  executable_base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    executable_start = info->dlpi_addr + part.p_vaddr;
    executable_end = executable_start + part.p_memsz;
  }
  return 1;  // the first is the executable
}

bool read_plan(const char* text, Plan& plan) {
  char action[16] = "";
  if (std::sscanf(text, " %39s %lx %lu %lu %15s %d", plan.name, &plan.key, &plan.first, &plan.count,
                  action, &plan.value) != 6)
    return false;
  plan.action = std::strcmp(action, "fail") == 0   ? Action::fail
                : std::strcmp(action, "kill") == 0 ? Action::kill
                : std::strcmp(action, "die") == 0  ? Action::die
                                                   : Action::cut;
  return true;
}

void read_plans(const char* text) {
  for (Plan& plan : plans) {
    if (text == nullptr || !read_plan(text, plan)) return;
    text = std::strchr(text, ';');
    if (text != nullptr) text++;
  }
}

void* open_table(const char* path) {
  const long fd = ::syscall(SYS_open, path, 02 /* O_RDWR */ | 02000000 /* O_CLOEXEC */, 0);
  if (fd < 0) return MAP_FAILED;
  const long at = ::syscall(SYS_mmap, 0, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::syscall(SYS_close, fd);
  return at < 0 && at > -4096 ? MAP_FAILED : reinterpret_cast<void*>(at);
}

_Unwind_Reason_Code ignore(_Unwind_Context*, void*) {
  return _URC_NO_REASON;
}

__attribute__((constructor)) void begin() {
  ::unsetenv("LD_PRELOAD");
  const char* path = ::getenv("FAULTS_TABLE");
  const char* wanted = ::getenv("FAULTS_PLAN");
  const char* remote = ::getenv("FAULTS_REMOTE");
  sees_allocations = ::getenv("FAULTS_ALLOCATIONS") != nullptr;
  read_plans(wanted);
  if (remote != nullptr) std::sscanf(remote, "%lx-%lx", &remote_start, &remote_end);
  (void)::dl_iterate_phdr(on_object, nullptr);
  (void)_Unwind_Backtrace(ignore, nullptr);  // takes its memory now
  if (path != nullptr) {
    void* at = open_table(path);
    if (at == MAP_FAILED) std::abort();
    table = static_cast<Table*>(at);
  }
  for (const char* name : {"FAULTS_TABLE", "FAULTS_PLAN", "FAULTS_REMOTE", "FAULTS_ALLOCATIONS"})
    ::unsetenv(name);
}

// What a call that fails returns: -1 with errno, a null pointer with errno, or the error itself.
enum class Failure { minus_one, null, error };

long failed(Failure how, int error) {
  if (how == Failure::error) return error;
  errno = error;
  return how == Failure::null ? 0 : -1;
}

bool takes_vector(const char* name) {
  return std::strncmp(name, "process_vm_", 11) == 0 || std::strcmp(name, "readv") == 0 ||
         std::strcmp(name, "writev") == 0;
}

// Half of what was asked for: of the first part where there are several, else of the third
// argument's bytes.
long cut_short(const char* name, Call real, const long (&a)[6]) {
  if (!takes_vector(name)) return real(a[0], a[1], a[2] > 1 ? a[2] / 2 : a[2], a[3], a[4], a[5]);
  if (a[2] < 1) return real(a[0], a[1], a[2], a[3], a[4], a[5]);
  iovec part = *reinterpret_cast<const iovec*>(a[1]);
  if (part.iov_len > 1) part.iov_len /= 2;
  return real(a[0], reinterpret_cast<long>(&part), 1, a[3], a[4], a[5]);
}

// Who dies behind a call: whom a stop was reported of, where that is what it says; waitpid returns
// it, waitid stores it. Behind all others the program.
void kill_concerned(const char* name, long result, long info) {
  if (std::strcmp(name, "waitpid") == 0) {
    kill_process(result);
  } else if (std::strcmp(name, "waitid") == 0) {
    if (result == 0 && info != 0) kill_process(reinterpret_cast<const siginfo_t*>(info)->si_pid);
  } else {
    kill_process(static_cast<long>(table->program.load()));
  }
}

long call(const char* name, Call& real, Failure how, const long (&a)[6]) {
  if (real == nullptr) real = find(name);
  const Fate fate = look_at(name);
  if (fate.action == Action::fail) {
    if (std::strcmp(name, "close") == 0) (void)real(a[0], 0, 0, 0, 0, 0);
    return failed(how, fate.value);
  }
  if (fate.action == Action::cut) return cut_short(name, real, a);
  const long result = real(a[0], a[1], a[2], a[3], a[4], a[5]);
  if (fate.action == Action::kill) kill_concerned(name, result, a[2]);
  return result;
}

}  // namespace

// All arguments of these are words, so one type does for all of them.
#define CALL(name, how)                                                                     \
  __attribute__((visibility("default"))) long faults_##name(long a, long b, long c, long d, \
                                                            long e, long f) __asm__(#name); \
  long faults_##name(long a, long b, long c, long d, long e, long f) {                      \
    static Call real = nullptr;                                                             \
    return call(#name, real, Failure::how, {a, b, c, d, e, f});                             \
  }

#include "calls.inc"
#undef CALL

__attribute__((visibility("default"))) long faults_syscall(long number, long a, long b, long c,
                                                           long d, long e,
                                                           long f) __asm__("syscall");
long faults_syscall(long number, long a, long b, long c, long d, long e, long f) {
  static const auto real = reinterpret_cast<long (*)(long, long, long, long, long, long, long)>(
      ::dlsym(RTLD_NEXT, "syscall"));
  if (number == SYS_ptrace) return traced(a, b, c, reinterpret_cast<void*>(d));
  // Cannot fail. And -1 for a process's number means all processes there are.
  if (number == SYS_getpid || number == SYS_gettid) return real(number, a, b, c, d, e, f);
  char name[kNameBytes];
  std::snprintf(name, sizeof name, "syscall:%ld", number);
  const Fate fate = look_at(name);
  if (fate.action == Action::fail) return failed(Failure::minus_one, fate.value);
  const long result = real(number, a, b, c, d, e, f);
  if (fate.action == Action::kill) kill_concerned(name, result, 0);
  return result;
}

// --- Allocations ---------------------------------------------------------------------------------

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* at, size_t bytes);
}

namespace {

// By where operator new, or the library, was called from; libraries without frame pointers end the
// list early.
bool allocation_fails(const char* name) {
  if (!sees_allocations || table == nullptr || is_busy) return false;
  const Busy busy;
  const int saved = errno;
  Frames frames;
  frames.most = kAllocationDepth;
  _Unwind_Backtrace(on_frame, &frames);
  const bool fails =
      frames.count != 0 && judge(name, frames.at, frames.count).action == Action::fail;
  errno = fails ? ENOMEM : saved;
  return fails;
}

void* allocate(size_t bytes) {
  while (allocation_fails("new")) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
  void* at = __libc_malloc(bytes == 0 ? 1 : bytes);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

__attribute__((visibility("default"))) void* operator new(size_t bytes) {
  return allocate(bytes);
}
__attribute__((visibility("default"))) void* operator new[](size_t bytes) {
  return allocate(bytes);
}
__attribute__((visibility("default"))) void operator delete(void* at) noexcept {
  std::free(at);
}
__attribute__((visibility("default"))) void operator delete[](void* at) noexcept {
  std::free(at);
}
__attribute__((visibility("default"))) void operator delete(void* at, size_t) noexcept {
  std::free(at);
}
__attribute__((visibility("default"))) void operator delete[](void* at, size_t) noexcept {
  std::free(at);
}

extern "C" {
__attribute__((visibility("default"))) void* malloc(size_t bytes) {
  return allocation_fails("malloc") ? nullptr : __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void* calloc(size_t count, size_t bytes) {
  return allocation_fails("malloc") ? nullptr : __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void* realloc(void* at, size_t bytes) {
  return allocation_fails("malloc") ? nullptr : __libc_realloc(at, bytes);
}
}

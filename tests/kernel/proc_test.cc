// SPDX-License-Identifier: MIT
//
// Parsers against what this kernel writes, and against text that no kernel would write.
#include "kernel/proc.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <random>
#include <thread>

#include "../child_process.h"
#include "base/unique_fd.h"

using namespace shadowprof;
using namespace shadowprof::kernel;

namespace {

const Tid kSelf(::getpid());

const Mapping* mapping_at(const std::vector<Mapping>& maps, const void* address) {
  const GuestAddr a(reinterpret_cast<uint64_t>(address));
  const auto found =
      std::find_if(maps.begin(), maps.end(), [&](const Mapping& m) { return m.range.contains(a); });
  return found == maps.end() ? nullptr : &*found;
}

// A page of a new file, mapped while this object lives.
class MappedFile {
 public:
  MappedFile(int fd, int protection, int flags)
      : fd_(fd), at_(::mmap(nullptr, 4096, protection, flags, fd, 0)) {
    REQUIRE(at_ != MAP_FAILED);
  }
  ~MappedFile() { ::munmap(at_, 4096); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const void* at() const { return at_; }

 private:
  UniqueFd fd_;
  void* at_;
};

const std::string kStatus =
    "Name:\t a b:c\nUmask:\t0022\nState:\tt (tracing stop)\nTgid:\t12\nNgid:\t0\nPid:\t13\n"
    "PPid:\t1\nTracerPid:\t99\nUid:\t1\t2\t3\t4294967295\nGid:\t5\t6\t7\t8\nGroups:\t \n"
    "NStgid:\t12\t7\t1\nNSpid:\t13\t8\t2\nThreads:\t3\nVmPTE:\t      44 "
    "kB\nSigQ:\t0/1\nSigPnd:\t0000000000000001\nShdPnd:\t8000000000000000\n"
    "SigBlk:\t0000000000010000\nSigIgn:\t0000000000001000\nSigCgt:\t0000000180000002\n"
    "NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
    "voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";

std::string without_line(const std::string& text, const std::string& key) {
  const size_t start = text.find("\n" + key + ":") + 1;
  return std::string(text).erase(start, text.find('\n', start) + 1 - start);
}

// A field of our own status, as the shell sees it.
std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

}  // namespace

TEST_CASE("a line of maps is taken apart") {
  auto maps = parse_maps(
      "561b33b17000-561b33b19000 r-xp 00002000 fe:1f 247134                     /usr/bin/c at\n"
      "7ffe0000-7fff0000 rw-s 00000000 00:01 18446744073709551615 /memfd:x (deleted)\n"
      "7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n"
      "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n");
  REQUIRE(maps);
  REQUIRE(maps->size() == 4);
  Mapping first{.range = {GuestAddr(0x561b33b17000), GuestAddr(0x561b33b19000)},
                .readable = true,
                .executable = true,
                .offset = 0x2000,
                .dev_major = 0xfe,
                .dev_minor = 0x1f,
                .inode = 247134,
                .path = "/usr/bin/c at"};
  CHECK((*maps)[0] == first);
  CHECK((*maps)[1].shared);
  CHECK((*maps)[1].writable);
  CHECK((*maps)[1].deleted);
  CHECK((*maps)[1].path == "/memfd:x");
  CHECK((*maps)[1].inode == UINT64_MAX);
  CHECK((*maps)[2].path.empty());
  CHECK_FALSE((*maps)[2].readable);
  CHECK((*maps)[3].range.start == GuestAddr(0xffffffffff600000));
  CHECK((*maps)[3].path == "[vsyscall]");
}

TEST_CASE("no mappings is no error: a zombie has none") {
  auto maps = parse_maps("");
  REQUIRE(maps);
  CHECK(maps->empty());
}

TEST_CASE("malformed lines of maps are errors that quote the line") {
  const std::string good = "1000-2000 r-xp 00000000 fe:00 12 /a\n";
  REQUIRE(parse_maps(good));
  for (const char* bad : {
           "\n",
           "hello\n",
           "1000-2000 r-xp 00000000 fe:00 12 /a",  // cut off
           "2000-1000 r-xp 00000000 fe:00 12 /a\n",
           "1000-1000 r-xp 00000000 fe:00 12 /a\n",
           "10000000000000000-20000000000000000 r-xp 0 fe:00 12 /a\n",  // more than 64 bits
           "-1000-2000 r-xp 00000000 fe:00 12 /a\n",
           "1000 2000 r-xp 00000000 fe:00 12 /a\n",
           "1000-2000 rwxq 00000000 fe:00 12 /a\n",
           "1000-2000 r-x 00000000 fe:00 12 /a\n",
           "1000-2000 r-xp 0000zzzz fe:00 12 /a\n",
           "1000-2000 r-xp 00000000 fe-00 12 /a\n",
           "1000-2000 r-xp 00000000 fe:00\n",
           "1000-2000 r-xp 00000000 fe:00 12/a\n",
           "1000-2000 r-xp 00000000 fe:00 99999999999999999999 /a\n",
       }) {
    CHECK_MESSAGE(!parse_maps(bad), bad);
    CHECK_MESSAGE(!parse_maps(good + bad), bad);
  }
  const auto bad = parse_maps(good + "rub\x1b[31mbish\n");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message == "line 2 of maps is malformed: \"rub?[31mbish\"");
}

TEST_CASE("a zero byte in a path is kept, not the end of the text") {
  const std::string text("1000-2000 r-xp 00000000 fe:00 12 /a\0b\n", 38);
  auto maps = parse_maps(text);
  REQUIRE(maps);
  CHECK((*maps)[0].path == std::string("/a\0b", 4));
}

TEST_CASE("our own maps name our code, heap-like memory and shared memory") {
  const MappedFile anonymous(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  const MappedFile memfd(::memfd_create("two words", MFD_CLOEXEC), PROT_READ, MAP_PRIVATE);
  auto maps = read_maps(kSelf);
  REQUIRE(maps);
  CHECK(std::is_sorted(maps->begin(), maps->end(),
                       [](const auto& a, const auto& b) { return a.range < b.range; }));

  const Mapping* code = mapping_at(*maps, reinterpret_cast<const void*>(&mapping_at));
  REQUIRE(code != nullptr);
  CHECK(code->executable);
  CHECK_FALSE(code->writable);
  CHECK(code->path.ends_with("kernel_test"));
  CHECK(code->inode != 0);

  const Mapping* shared = mapping_at(*maps, anonymous.at());
  REQUIRE(shared != nullptr);
  CHECK(shared->shared);
  CHECK(shared->writable);
  CHECK(shared->path == "/dev/zero");
  CHECK(shared->deleted);

  const Mapping* file = mapping_at(*maps, memfd.at());
  REQUIRE(file != nullptr);
  CHECK(file->path == "/memfd:two words");
  CHECK(file->deleted);
  CHECK_FALSE(file->shared);
}

TEST_CASE("a mapped file with newline and blanks in its name keeps its name") {
  const std::string name =
      "/tmp/shadowprof \n maps test (deleted) x." + std::to_string(kSelf.value);
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  const MappedFile file(fd, PROT_READ, MAP_PRIVATE);
  auto maps = read_maps(kSelf);
  ::unlink(name.c_str());
  auto later = read_maps(kSelf);
  REQUIRE(maps);
  REQUIRE(later);
  REQUIRE(mapping_at(*maps, file.at()) != nullptr);
  CHECK(mapping_at(*maps, file.at())->path == name);
  CHECK_FALSE(mapping_at(*maps, file.at())->deleted);
  CHECK(mapping_at(*later, file.at())->path == name);
  CHECK(mapping_at(*later, file.at())->deleted);
}

TEST_CASE("thousands of mappings are read whole") {
  // Alternating protections keep the kernel from merging them.
  constexpr size_t kPages = 8000;
  auto* base = static_cast<std::byte*>(::mmap(nullptr, kPages * 4096, PROT_NONE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  REQUIRE(base != MAP_FAILED);
  for (size_t i = 0; i < kPages; i += 2) ::mprotect(base + i * 4096, 4096, PROT_READ);
  auto maps = read_maps(kSelf);
  REQUIRE(maps);
  CHECK(maps->size() >= kPages);
  CHECK(mapping_at(*maps, base + 4000 * 4096)->readable);
  CHECK_FALSE(mapping_at(*maps, base + 4001 * 4096)->readable);
  ::munmap(base, kPages * 4096);
}

TEST_CASE("a process that is gone is an error with the kernel's errno") {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  CHECK(read_maps(Tid(pid)).error().errno_value == ENOENT);
  CHECK(read_status(Tid(pid)).error().errno_value == ENOENT);
  CHECK(list_threads(Tid(pid)).error().errno_value == ENOENT);
}

TEST_CASE("a zombie still has a status, a stat and a thread, but no mappings") {
  const test::ChildProcess child([] {});
  child.await_end();
  const auto status = read_status(child.tid());
  const auto stat = read_process_stat(child.tid());
  const auto threads = list_threads(child.tid());
  REQUIRE(status);
  CHECK(status->state == 'Z');
  CHECK(status->parent == kSelf);
  REQUIRE(stat);
  CHECK(stat->state == 'Z');
  REQUIRE(threads);
  CHECK(*threads == std::vector{child.tid()});
}

TEST_CASE("a status is taken apart") {
  auto s = parse_status(kStatus);
  REQUIRE(s);
  CHECK(s->name == " a b:c");
  CHECK(s->state == 't');
  CHECK(s->tgid == Tid(12));
  CHECK(s->pid == Tid(13));
  CHECK(s->parent == Tid(1));
  CHECK(s->tracer == Tid(99));
  CHECK(s->innermost_tgid == Tid(1));
  CHECK(s->innermost_pid == Tid(2));
  CHECK(s->is_namespace_init());
  CHECK(s->uids == std::array<uint32_t, 4>{1, 2, 3, 4294967295});
  CHECK(s->gids == std::array<uint32_t, 4>{5, 6, 7, 8});
  CHECK(s->threads == 3);
  CHECK(s->page_tables == 44 * 1024);
  CHECK(s->pending == 1);
  CHECK(s->shared_pending == 0x8000000000000000);
  CHECK(s->blocked == 0x10000);
  CHECK(s->ignored == 0x1000);
  CHECK(s->caught == 0x180000002);
  CHECK(s->no_new_privs);
  CHECK(s->seccomp == 2);
  CHECK(s->filters == 1u);
  CHECK(s->sleeps == 150);
}

TEST_CASE("a status without an optional line is good, without a needed one an error") {
  auto s = parse_status(without_line(without_line(kStatus, "Seccomp"), "NoNewPrivs"));
  REQUIRE(s);
  CHECK_FALSE(s->seccomp.has_value());
  CHECK_FALSE(s->no_new_privs);
  for (const char* key : {"State", "Tgid", "PPid", "TracerPid", "Uid", "Threads", "SigCgt"}) {
    const auto bad = parse_status(without_line(kStatus, key));
    REQUIRE_FALSE(bad);
    CHECK(bad.error().message == std::string("status has no line ") + key);
  }
}

TEST_CASE("a malformed status is an error") {
  CHECK_FALSE(parse_status(""));
  CHECK_FALSE(parse_status(kStatus.substr(0, kStatus.size() - 1)));
  CHECK_FALSE(parse_status("rubbish\n" + kStatus));
  CHECK_FALSE(parse_status(replaced(kStatus, "Tgid:\t12", "Tgid:\t12x")));
  CHECK_FALSE(parse_status(replaced(kStatus, "Tgid:\t12", "Tgid:\t99999999999")));
  CHECK_FALSE(parse_status(replaced(kStatus, "Tgid:\t12", "Tgid:\t")));
  CHECK_FALSE(parse_status(replaced(kStatus, "State:\tt (tracing stop)", "State:\t")));
  CHECK_FALSE(parse_status(replaced(kStatus, "4294967295", "4294967296")));
  CHECK_FALSE(parse_status(replaced(kStatus, "1\t2\t3", "2\t3")));
  CHECK_FALSE(parse_status(replaced(kStatus, "0000000180000002", "10000000180000002")));
  CHECK_FALSE(parse_status(replaced(kStatus, "0000000180000002", "g")));
}

TEST_CASE("our own status shows our signals, parent and threads") {
  sigset_t set;
  sigset_t old;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, &old);
  ::raise(SIGUSR1);
  const auto s = read_status(Tid(::gettid()));
  int taken = 0;
  ::sigwait(&set, &taken);
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  REQUIRE(s);
  constexpr SignalBits kUsr1 = SignalBits{1} << (SIGUSR1 - 1);
  CHECK((s->blocked & kUsr1) != 0);
  CHECK((s->pending & kUsr1) != 0);
  CHECK(s->tgid == kSelf);
  CHECK(s->parent == Tid(::getppid()));
  CHECK(s->uids[1] == ::geteuid());
  CHECK(s->state == 'R');
}

TEST_CASE("a stat is taken apart even if the name tries to prevent it") {
  const auto s = parse_stat(
      "77 (a) R 1 (b c)) S 5 6 7 8 -1 4194560 10 11 12 13 1400 1500 16 17 20 0 3 0 2200 23 24 25 "
      "26 27 28 29 30 31 32 33 34 35 36 37 17 5 40 41 42 43 44 45 46 47 48 49 50 51 0\n");
  REQUIRE(s);
  CHECK(s->pid == Tid(77));
  CHECK(s->name == "a) R 1 (b c)");
  CHECK(s->state == 'S');
  CHECK(s->parent == Tid(5));
  CHECK(s->flags == 4194560);
  CHECK(s->user_ticks == 1400);
  CHECK(s->system_ticks == 1500);
  CHECK(s->threads == 3);
  CHECK(s->start_ticks == 2200);
  CHECK(s->processor == 5);
}

TEST_CASE("workers of the kernel are told from threads by flags and name") {
  const auto judged = [](const char* name, uint64_t flags) {
    ProcessStat thread;
    thread.name = name;
    thread.flags = flags;
    return is_kernel_worker(thread);
  };
  CHECK(judged("iou-wrk-77", 4210768));
  CHECK(judged("vhost-77", 0x404040));
  CHECK_FALSE(judged("iou-wrk-77", 4194560));
  CHECK(judged("not named yet", 4210768));
  CHECK_FALSE(judged("worker", 0x404040));
}

TEST_CASE("a malformed stat is an error") {
  for (const char* bad : {"", "\n", "77\n", "77 (a\n", "77 a S 5\n", "77 (a) S\n", "77 (a)\n",
                          "77 (a) S 5 6 7 8 -1 9 10 11 12 13 14 15\n", "x (a) S 5\n",
                          "77 (a) S 1 2 3 4 5 6 7 8 9 10 x 12 13 14 15 16 17 18 19 20 21 22 23 24 "
                          "25 26 27 28 29 30 31 32 33 34 35 36 37 38 39\n"})
    CHECK_MESSAGE(!parse_stat(bad), bad);
}

TEST_CASE("pages of memory are read, and rubbish is not") {
  const auto pages = parse_statm("1000 300 200 50 0 80 0\n");
  REQUIRE(pages);
  CHECK(pages->mapped == 1000);
  CHECK(pages->resident == 300);
  CHECK(pages->of_files == 200);
  CHECK(pages->data == 80);
  for (const char* bad :
       {"", "\n", "1 2\n", "1 2 3", "1 x 3 4\n", "1 2 -3 4\n", "1 2 3 4 5\n", "1 2 3 4 5 x 7\n"})
    CHECK_MESSAGE(!parse_statm(bad), bad);
  const auto own = read_statm(kSelf);
  REQUIRE(own);
  CHECK(own->mapped >= own->resident);
  CHECK(own->resident > 0);
  CHECK(own->data > 0);
}

TEST_CASE("threads of the machine: those that run, and all") {
  const auto threads = parse_machine_threads("0.20 0.18 0.12 3/80 11206\n");
  REQUIRE(threads);
  CHECK(threads->running == 3);
  CHECK(threads->all == 80);
  for (const char* text : {"", "0.20 0.18 0.12", "0.20 0.18 0.12 3", "0.20 0.18 0.12 x/80 1"})
    CHECK_FALSE(parse_machine_threads(text));
  REQUIRE(read_machine_threads());
  CHECK(read_machine_threads()->running >= 1);
}

TEST_CASE("times on a processor are read, and rubbish is not") {
  const auto times = parse_schedstat("123456789 42 7\n");
  REQUIRE(times);
  CHECK(times->used == 123456789);
  CHECK(times->waited == 42);
  CHECK(times->runs == 7);
  for (const char* bad : {"", "\n", "1 2\n", "1 2 3", "x 2 3\n", "1 -2 3\n"})
    CHECK_MESSAGE(!parse_schedstat(bad), bad);
}

TEST_CASE("reused pages are read, and rubbish is not") {
  const auto count = parse_reused_pages("pgfault 11\nxpgreuse 5\npgreuse 42\npgsteal_kswapd 7\n");
  REQUIRE(count);
  CHECK(*count == 42);
  for (const char* bad :
       {"", "pgfault 11\n", "pgreuse", "pgreuse \n", "pgreuse x\n", "xpgreuse 5\n"})
    CHECK_MESSAGE(!parse_reused_pages(bad), bad);
}

TEST_CASE("memory is read, and rubbish is not") {
  const auto memory = parse_meminfo(
      "MemTotal:       16 kB\nMemFree: 1 kB\nMemAvailable:    5 kB\nx\n"
      "CommitLimit:    12 kB\nCommitted_AS:   7 kB\n");
  REQUIRE(memory);
  CHECK(memory->total == 16 * 1024);
  CHECK(memory->available == 5 * 1024);
  CHECK(memory->commit_limit == 12 * 1024);
  CHECK(memory->committed == 7 * 1024);
  for (const char* bad : {"", "MemFree: 3 kB\n", "MemTotal: x kB\n", "MemTotal: 5 MB\n",
                          "MemTotal: 5 kB\nMemAvailable: 5\n"})
    CHECK_MESSAGE(!parse_meminfo(bad), bad);
  const auto now = read_meminfo();
  REQUIRE(now);
  CHECK(now->available <= now->total);
  CHECK(now->commit_limit > 0);
  CHECK(now->committed > 0);
  CHECK(read_status(kSelf)->page_tables > 0);
}

TEST_CASE("our own stat has our name, threads and processor") {
  char old[16];
  ::prctl(PR_GET_NAME, old);
  ::prctl(PR_SET_NAME, ") S 1 (x y");
  const auto s = read_thread_stat(kSelf, Tid(::gettid()));
  const auto whole = read_process_stat(kSelf);
  ::prctl(PR_SET_NAME, old);
  REQUIRE(s);
  REQUIRE(whole);
  CHECK(s->name == ") S 1 (x y");
  CHECK(s->state == 'R');
  CHECK(s->parent == Tid(::getppid()));
  CHECK(s->start_ticks > 0);
  CHECK(whole->user_ticks + whole->system_ticks >= s->user_ticks + s->system_ticks);
  CHECK(s->processor >= 0);
  CHECK(s->processor < ::sysconf(_SC_NPROCESSORS_CONF));
}

TEST_CASE("threads are listed in ascending order, and only they") {
  Tid other;
  std::vector<Tid> during;
  std::thread([&] {
    other = Tid(::gettid());
    during = list_threads(kSelf).value();
  }).join();
  CHECK(std::find(during.begin(), during.end(), other) != during.end());
  CHECK(std::find(during.begin(), during.end(), kSelf) != during.end());
  CHECK(std::is_sorted(during.begin(), during.end()));
}

TEST_CASE("our own auxiliary vector is the one that libc sees") {
  const auto a = read_auxv(kSelf);
  REQUIRE(a);
  CHECK(a->entry == GuestAddr(::getauxval(AT_ENTRY)));
  CHECK(a->base == GuestAddr(::getauxval(AT_BASE)));
  CHECK(a->phdr == GuestAddr(::getauxval(AT_PHDR)));
  CHECK(a->sysinfo_ehdr == GuestAddr(::getauxval(AT_SYSINFO_EHDR)));
}

TEST_CASE("an auxiliary vector without its end is an error") {
  const uint64_t words[] = {AT_ENTRY, 0x1234, AT_NULL, 0};
  const auto bytes = std::as_bytes(std::span(words));
  const auto whole = parse_auxv(bytes);
  REQUIRE(whole);
  CHECK(whole->entry == GuestAddr(0x1234));
  CHECK_FALSE(whole->base.has_value());
  for (size_t cut = 0; cut < bytes.size(); ++cut) CHECK_FALSE(parse_auxv(bytes.first(cut)));
}

// Run under the sanitizers this finds reads past the end; everywhere it finds hangs and crashes.
TEST_CASE("damaged text never does worse than an error") {
  std::mt19937 random(1);
  const std::string maps =
      "561b33b17000-561b33b19000 r-xp 00002000 fe:1f 247134   /a\\012b (deleted)\n";
  const std::string stat =
      "77 (a b) S 5 6 7 8 -1 4194560 10 11 12 13 14 15 16 17 20 0 3 0 22 23 24 25 26 27 28 29 30 "
      "31 32 33 34 35 36 37 17 5 40 41 42 43 44 45 46 47 48 49 50 51 0\n";
  size_t parsed = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string text = i % 3 == 0 ? maps : i % 3 == 1 ? kStatus : stat;
    for (unsigned n = random() % 4; n > 0 && !text.empty(); --n) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = static_cast<char>(random() % 256);
      else
        text.erase(at, random() % 20);
    }
    // An exact allocation, so that a read past the end is seen.
    const std::vector<char> exact(text.begin(), text.end());
    const std::string_view view(exact.data(), exact.size());
    parsed += parse_maps(view).has_value();
    parsed += parse_status(view).has_value();
    parsed += parse_stat(view).has_value();
    parsed += parse_auxv(std::as_bytes(std::span(exact))).has_value();
  }
  CHECK(parsed > 0);
}

TEST_CASE("ranges that a fork does not copy are found, joined, without devices") {
  const auto ranges = parse_dont_fork(
      "1000-2000 rw-p 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr mw me dc ac \n"
      "2000-4000 rw-p 00000000 00:00 0 \nVmFlags: rd wr dc ac \n"
      "5000-6000 rw-s 00000000 00:05 9 /dev/x\nVmFlags: rd wr dc io pf \n"
      "7000-8000 rw-p 00000000 00:00 0 [heap]\nVmFlags: rd wr ac \n"
      "9000-a000 rw-p 00000000 00:00 0 \nVmFlags: dc \n");
  REQUIRE(ranges);
  REQUIRE(ranges->size() == 2);
  CHECK((*ranges)[0] == GuestRange{GuestAddr(0x1000), GuestAddr(0x4000)});
  CHECK((*ranges)[1] == GuestRange{GuestAddr(0x9000), GuestAddr(0xa000)});
  CHECK_FALSE(parse_dont_fork("VmFlags: dc \n"));
}

TEST_CASE("memory that is marked so is seen in a live process") {
  constexpr size_t kBytes = 3 * 4096;
  void* memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(::madvise(memory, kBytes, MADV_DONTFORK) == 0);
  const auto ranges = read_dont_fork(kSelf);
  ::munmap(memory, kBytes);
  REQUIRE(ranges);
  const GuestAddr start(reinterpret_cast<uint64_t>(memory));
  CHECK(std::any_of(ranges->begin(), ranges->end(), [&](const GuestRange& r) {
    return r.contains(start) && r.contains(start + (kBytes - 1));
  }));
}

TEST_CASE("the state is what follows the name, whatever that holds") {
  CHECK(state_in_stat("7 (a) R (b)) S 1 2") == 'S');
  CHECK(!state_in_stat("7 (cut off)"));
  CHECK(!state_in_stat(""));
  CHECK(read_state(Tid(::gettid())).value() == 'R');
  CHECK(read_state(Tid(INT_MAX)).error().errno_value == ENOENT);
}

TEST_CASE("the vdso is the first of the executable ranges") {
  const auto maps = parse_maps(
      "1000-2000 r-xp 00000000 00:01 5 /bin/x\n3000-4000 rw-p 00000000 00:00 0 \n"
      "5000-6000 r-xp 00000000 00:00 0 [vdso]\n");
  REQUIRE(maps);
  const auto ranges = executable_ranges(*maps);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].start == GuestAddr(0x5000));
}

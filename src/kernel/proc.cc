// SPDX-License-Identifier: MIT
//
// Parsers of /proc/PID files. Maps of JIT programs have thousands of lines and are read at every
// sample, so numbers are parsed by hand over a cursor: no streams, no locale, no allocation but for
// the paths. Formats: proc(5), fs/proc/{task_mmu,array,base}.c.
#include "kernel/proc.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/numbered_entries.h"
#include "base/unique_fd.h"

namespace shadowprof::kernel {
namespace {

constexpr size_t kQuotedChars = 120;

// For messages: one line, cut, and without control characters (names are untrusted).
std::string quoted(std::string_view line) {
  std::string out;
  for (char c : line.substr(0, kQuotedChars)) out += (c >= ' ' && c != 0x7f) ? c : '?';
  if (line.size() > kQuotedChars) out += "...";
  return "\"" + out + "\"";
}

// Reads a piece of text from left to right. Each function says whether it could, and moves on only
// if so.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool done() const { return at_ == end_; }
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }

  bool skip(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t')) ++at_;
  }
  bool take(char* c) {
    if (at_ == end_) return false;
    *c = *at_++;
    return true;
  }
  // A flag of maps: `c` sets it, `other` leaves it.
  bool flag(char c, char other, bool* value) {
    if (at_ == end_ || (*at_ != c && *at_ != other)) return false;
    *value = *at_++ == c;
    return true;
  }
  // Digits only (a sign for signed types), no blanks before; false if it does not fit T.
  template <typename T>
  bool number(T* value, int base = 10) {
    const auto [end, error] = std::from_chars(at_, end_, *value, base);
    if (error != std::errc()) return false;
    at_ = end;
    return true;
  }
  bool skip_words(int count) {
    for (int i = 0; i < count; ++i) {
      skip_blanks();
      if (at_ == end_) return false;
      while (at_ != end_ && *at_ != ' ' && *at_ != '\t') ++at_;
    }
    return true;
  }

 private:
  const char* at_;
  const char* end_;
};

// Takes the next line off `text`. Lines end in a newline; what is left without one was cut off.
bool next_line(std::string_view* text, std::string_view* line) {
  const void* newline = std::memchr(text->data(), '\n', text->size());
  if (newline == nullptr) return false;
  const size_t length = static_cast<size_t>(static_cast<const char*>(newline) - text->data());
  *line = text->substr(0, length);
  text->remove_prefix(length + 1);
  return true;
}

void set_path(std::string_view shown, Mapping* m) {
  constexpr std::string_view kDeleted = " (deleted)";
  constexpr std::string_view kNewline = "\\012";
  if (shown.ends_with(kDeleted)) {
    m->deleted = true;
    shown.remove_suffix(kDeleted.size());
  }
  m->path.assign(shown);
  for (size_t at = 0; (at = m->path.find(kNewline, at)) != std::string::npos; ++at)
    m->path.replace(at, kNewline.size(), 1, '\n');
}

bool parse_mapping(std::string_view line, Mapping* m) {
  Cursor c(line);
  const bool good =
      c.number(&m->range.start.value, 16) && c.skip('-') && c.number(&m->range.end.value, 16) &&
      c.skip(' ') && c.flag('r', '-', &m->readable) && c.flag('w', '-', &m->writable) &&
      c.flag('x', '-', &m->executable) && c.flag('s', 'p', &m->shared) && c.skip(' ') &&
      c.number(&m->offset, 16) && c.skip(' ') && c.number(&m->dev_major, 16) && c.skip(':') &&
      c.number(&m->dev_minor, 16) && c.skip(' ') && c.number(&m->inode);
  if (!good || m->range.start >= m->range.end) return false;
  if (c.done()) return true;
  if (!c.skip(' ')) return false;
  c.skip_blanks();
  if (!c.done()) set_path(c.rest(), m);
  return true;
}

Result<std::string> read_file(const std::string& path) {
  UniqueFd fd;
  do {
    fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  } while (!fd.valid() && errno == EINTR);
  if (!fd.valid()) return fail_errno(errno, "cannot open {}", path);
  // Kept: to clear a new one each time takes as long as to read most of these files.
  thread_local std::vector<char> buffer(16384);
  size_t used = 0;
  for (;;) {
    if (buffer.size() - used < 4096) buffer.resize(buffer.size() * 2);
    const ssize_t got = ::read(fd.get(), buffer.data() + used, buffer.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(errno, "cannot read {}", path);
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  return std::string(buffer.data(), used);
}

// The file is named in the error of a parse, too.
template <typename Parse>
auto read_parsed(const std::string& path, Parse parse) -> decltype(parse(std::string_view())) {
  SP_ASSIGN(const std::string text, read_file(path));
  auto parsed = parse(std::string_view(text));
  if (!parsed) parsed.error().message = path + ": " + parsed.error().message;
  return parsed;
}

// --- status -----------------------------------------------------------------------------------

bool parse_id(Cursor* c, Tid* id) {
  return c->number(&id->value) && c->done();
}

bool parse_ids(Cursor* c, std::array<uint32_t, 4>* ids) {
  for (uint32_t& id : *ids) {
    c->skip_blanks();
    if (!c->number(&id)) return false;
  }
  return c->done();
}

bool parse_kilobytes(Cursor* c, uint64_t* bytes) {
  c->skip_blanks();
  const bool good = c->number(bytes) && c->rest() == " kB";
  *bytes *= 1024;
  return good;
}

// One for each namespace, from the reader's to the innermost.
bool parse_innermost_id(Cursor* c, Tid* id) {
  bool good = c->number(&id->value);
  while (good && c->skip('\t')) good = c->number(&id->value);
  return good && c->done();
}

bool parse_signals(Cursor* c, SignalBits* bits) {
  return c->number(bits, 16) && c->done();
}

// A line of status that we want: how to read its value, and whether every kernel writes it.
struct StatusField {
  std::string_view key;
  bool required;
  bool (*parse)(Cursor* c, ProcessStatus* s);
};

constexpr StatusField kStatusFields[] = {
    {"Name", true,
     [](Cursor* c, ProcessStatus* s) {
       s->name = c->rest();
       return true;
     }},
    {"State", true, [](Cursor* c, ProcessStatus* s) { return c->take(&s->state); }},
    {"Tgid", true, [](Cursor* c, ProcessStatus* s) { return parse_id(c, &s->tgid); }},
    {"Pid", true, [](Cursor* c, ProcessStatus* s) { return parse_id(c, &s->pid); }},
    {"PPid", true, [](Cursor* c, ProcessStatus* s) { return parse_id(c, &s->parent); }},
    {"TracerPid", true, [](Cursor* c, ProcessStatus* s) { return parse_id(c, &s->tracer); }},
    {"Uid", true, [](Cursor* c, ProcessStatus* s) { return parse_ids(c, &s->uids); }},
    {"Gid", true, [](Cursor* c, ProcessStatus* s) { return parse_ids(c, &s->gids); }},
    {"NStgid", false,
     [](Cursor* c, ProcessStatus* s) { return parse_innermost_id(c, &s->innermost_tgid); }},
    {"NSpid", false,
     [](Cursor* c, ProcessStatus* s) { return parse_innermost_id(c, &s->innermost_pid); }},
    {"Threads", true,
     [](Cursor* c, ProcessStatus* s) { return c->number(&s->threads) && c->done(); }},
    {"VmPTE", false,
     [](Cursor* c, ProcessStatus* s) { return parse_kilobytes(c, &s->page_tables); }},
    {"SigPnd", true, [](Cursor* c, ProcessStatus* s) { return parse_signals(c, &s->pending); }},
    {"ShdPnd", true,
     [](Cursor* c, ProcessStatus* s) { return parse_signals(c, &s->shared_pending); }},
    {"SigBlk", true, [](Cursor* c, ProcessStatus* s) { return parse_signals(c, &s->blocked); }},
    {"SigIgn", true, [](Cursor* c, ProcessStatus* s) { return parse_signals(c, &s->ignored); }},
    {"SigCgt", true, [](Cursor* c, ProcessStatus* s) { return parse_signals(c, &s->caught); }},
    // Since Linux 4.10; without it nothing is lost but a warning.
    {"NoNewPrivs", false,
     [](Cursor* c, ProcessStatus* s) {
       int value = 0;
       const bool good = c->number(&value) && c->done();
       s->no_new_privs = value != 0;
       return good;
     }},
    {"Seccomp", false,
     [](Cursor* c, ProcessStatus* s) {
       int value = 0;
       const bool good = c->number(&value) && c->done();
       s->seccomp = value;
       return good;
     }},
    {"Seccomp_filters", false,
     [](Cursor* c, ProcessStatus* s) {
       uint32_t value = 0;
       const bool good = c->number(&value) && c->done();
       s->filters = value;
       return good;
     }},
    {"voluntary_ctxt_switches", false,
     [](Cursor* c, ProcessStatus* s) { return c->number(&s->sleeps) && c->done(); }},
};

}  // namespace

Result<std::vector<Mapping>> parse_maps(std::string_view text) {
  std::vector<Mapping> maps;
  // A line is 50 bytes without a path.
  maps.reserve(text.size() / 64 + 1);
  std::string_view line;
  while (!text.empty()) {
    if (!next_line(&text, &line)) return fail("the last line of maps is cut off: {}", quoted(text));
    if (!parse_mapping(line, &maps.emplace_back()))
      return fail("line {} of maps is malformed: {}", maps.size(), quoted(line));
  }
  return maps;
}

Result<std::vector<Mapping>> read_maps(Tid process) {
  return read_parsed(fmt::format("/proc/{}/maps", process.value), parse_maps);
}

std::vector<GuestRange> executable_ranges(const std::vector<Mapping>& mappings) {
  std::vector<GuestRange> ranges;
  for (const Mapping& m : mappings) {
    if (m.executable) ranges.insert(m.path == "[vdso]" ? ranges.begin() : ranges.end(), m.range);
  }
  return ranges;
}

Result<std::vector<GuestRange>> parse_dont_fork(std::string_view text) {
  std::vector<GuestRange> ranges;
  GuestRange present;
  constexpr std::string_view kFlags = "VmFlags:";
  std::string_view line;
  while (next_line(&text, &line)) {
    if (!line.starts_with(kFlags)) {
      // "start-end perms ..." begins a mapping; its other lines have a colon after one word.
      GuestRange range;
      Cursor c(line);
      if (c.number(&range.start.value, 16) && c.skip('-') && c.number(&range.end.value, 16)) {
        present = range;
      }
      continue;
    }
    const std::string flags = std::string(line.substr(kFlags.size())) + " ";
    const auto has = [&](const char* flag) { return flags.find(flag) != std::string::npos; };
    if (!has(" dc ") || has(" io ") || has(" pf ")) continue;
    if (present.size() == 0) return fail("smaps has flags of no mapping: {}", quoted(line));
    if (!ranges.empty() && ranges.back().end == present.start) {
      ranges.back().end = present.end;
    } else {
      ranges.push_back(present);
    }
  }
  return ranges;
}

Result<std::vector<GuestRange>> read_dont_fork(Tid process) {
  return read_parsed(fmt::format("/proc/{}/smaps", process.value), parse_dont_fork);
}

Result<ProcessStatus> parse_status(std::string_view text) {
  ProcessStatus status;
  bool seen[std::size(kStatusFields)] = {};
  std::string_view line;
  while (!text.empty()) {
    if (!next_line(&text, &line))
      return fail("the last line of status is cut off: {}", quoted(text));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos)
      return fail("a line of status has no colon: {}", quoted(line));
    for (size_t i = 0; i < std::size(kStatusFields); ++i) {
      if (line.substr(0, colon) != kStatusFields[i].key) continue;
      Cursor c(line.substr(colon + 1));
      c.skip('\t');  // just one: a name may begin with blanks
      if (!kStatusFields[i].parse(&c, &status))
        return fail("a line of status is malformed: {}", quoted(line));
      seen[i] = true;
    }
  }
  for (size_t i = 0; i < std::size(kStatusFields); ++i)
    if (kStatusFields[i].required && !seen[i])
      return fail("status has no line {}", kStatusFields[i].key);
  return status;
}

Result<ProcessStatus> read_status(Tid thread) {
  return read_status(fmt::format("/proc/{}/status", thread.value));
}

Result<ProcessStatus> read_status(const std::string& file) {
  return read_parsed(file, parse_status);
}

bool names_thread_of(Tid process, int id) {
  const auto threads = list_threads(process);
  return threads && std::ranges::any_of(*threads, [&](Tid thread) {
           const auto status = read_status(thread);
           return status && status->innermost_pid == Tid(id);
         });
}

std::optional<char> state_in_stat(std::string_view text) {
  const size_t name_end = text.rfind(')');
  if (name_end == text.npos || name_end + 2 >= text.size()) return std::nullopt;
  return text[name_end + 2];
}

Result<ProcessStat> parse_stat(std::string_view text) {
  ProcessStat stat;
  const auto malformed = [&] { return fail("stat is malformed: {}", quoted(text)); };
  Cursor head(text);
  if (!head.number(&stat.pid.value) || !head.skip(' ') || !head.skip('(')) return malformed();
  // The name may hold anything but a newline; what follows it has no parentheses, so the last one
  // ends it.
  const size_t close = head.rest().rfind(')');
  if (close == std::string_view::npos) return malformed();
  stat.name = head.rest().substr(0, close);
  std::string_view tail = head.rest().substr(close + 1);
  if (!tail.ends_with('\n')) return fail("stat is cut off: {}", quoted(text));
  tail.remove_suffix(1);

  // Field numbers are those of proc(5): state is 3, the name was 2.
  Cursor c(tail);
  const auto next = [&c](auto* value) { return c.skip(' ') && c.number(value); };
  const bool good = c.skip(' ') && c.take(&stat.state) && next(&stat.parent.value) &&
                    c.skip_words(4) && next(&stat.flags) && next(&stat.minor_faults) &&
                    c.skip_words(3) && next(&stat.user_ticks) && next(&stat.system_ticks) &&
                    c.skip_words(4) && next(&stat.threads) && c.skip_words(1) &&
                    next(&stat.start_ticks) && c.skip_words(16) && next(&stat.processor);
  if (!good) return malformed();
  return stat;
}

Result<char> read_state(Tid thread) {
  SP_ASSIGN(const std::string text, read_file(fmt::format("/proc/{}/stat", thread.value)));
  if (const auto state = state_in_stat(text)) return *state;
  return fail_errno(ESRCH, "thread {} is gone", thread.value);
}

Result<ProcessStat> read_process_stat(Tid process) {
  return read_parsed(fmt::format("/proc/{}/stat", process.value), parse_stat);
}

Result<ProcessStat> read_thread_stat(Tid process, Tid thread) {
  return read_parsed(fmt::format("/proc/{}/task/{}/stat", process.value, thread.value), parse_stat);
}

Result<MemoryPages> parse_statm(std::string_view text) {
  MemoryPages pages;
  uint64_t code = 0, libraries = 0;
  Cursor c(text);
  const bool good = c.number(&pages.mapped) && c.skip(' ') && c.number(&pages.resident) &&
                    c.skip(' ') && c.number(&pages.of_files) && c.skip(' ') && c.number(&code) &&
                    c.skip(' ') && c.number(&libraries) && c.skip(' ') && c.number(&pages.data) &&
                    c.skip(' ') && text.ends_with('\n');
  if (!good) return fail("statm is malformed: {}", quoted(text));
  return pages;
}

Result<MemoryPages> read_statm(Tid process) {
  return read_parsed(fmt::format("/proc/{}/statm", process.value), parse_statm);
}

Result<ScheduleTimes> parse_schedstat(std::string_view text) {
  ScheduleTimes times;
  Cursor c(text);
  const bool good = c.number(&times.used) && c.skip(' ') && c.number(&times.waited) &&
                    c.skip(' ') && c.number(&times.runs) && text.ends_with('\n');
  if (!good) return fail("schedstat is malformed: {}", quoted(text));
  return times;
}

Result<ScheduleTimes> read_schedstat(Tid thread) {
  return read_parsed(fmt::format("/proc/{}/schedstat", thread.value), parse_schedstat);
}

ScheduleTimes schedule_times_of(Tid thread) {
  return read_schedstat(thread).value_or(ScheduleTimes{});
}

Result<uint64_t> parse_reused_pages(std::string_view text) {
  constexpr std::string_view kName = "pgreuse ";
  for (std::string_view line; next_line(&text, &line);) {
    if (!line.starts_with(kName)) continue;
    Cursor c(line.substr(kName.size()));
    uint64_t count = 0;
    if (!c.number(&count) || !c.done()) break;
    return count;
  }
  return fail("no count of reused pages");
}

Result<uint64_t> read_reused_pages() {
  return read_parsed("/proc/vmstat", parse_reused_pages);
}

Result<MemoryInfo> parse_meminfo(std::string_view text) {
  MemoryInfo info;
  for (std::string_view line; next_line(&text, &line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos) continue;
    const std::string_view key = line.substr(0, colon);
    uint64_t* const value = key == "MemTotal"       ? &info.total
                            : key == "MemAvailable" ? &info.available
                            : key == "CommitLimit"  ? &info.commit_limit
                            : key == "Committed_AS" ? &info.committed
                                                    : nullptr;
    if (value == nullptr) continue;
    Cursor c(line.substr(colon + 1));
    if (!parse_kilobytes(&c, value)) return fail("no amount of memory: {}", quoted(line));
  }
  if (info.total == 0) return fail("no total memory");
  return info;
}

Result<MemoryInfo> read_meminfo() {
  return read_parsed("/proc/meminfo", parse_meminfo);
}

Result<std::vector<Tid>> list_threads(Tid process) {
  return list_tasks(fmt::format("/proc/{}/task", process.value));
}

Result<std::vector<Tid>> list_tasks(const std::string& path) {
  const auto numbers = numbered_entries(path);
  if (!numbers) return fail_errno(errno, "cannot read {}", path);
  if (numbers->empty()) return fail_errno(ESRCH, "cannot read {}", path);
  std::vector<Tid> threads;
  for (const int number : *numbers) threads.emplace_back(number);
  return threads;
}

// "0.20 0.18 0.12 1/80 11206": 80, one of which runs.
Result<MachineThreads> parse_machine_threads(std::string_view text) {
  Cursor c(text);
  MachineThreads threads;
  const bool found = c.skip_words(3) && (c.skip_blanks(), c.number(&threads.running)) &&
                     c.skip('/') && c.number(&threads.all);
  if (!found) return fail("no number of threads: {}", quoted(text));
  return threads;
}

Result<MachineThreads> read_machine_threads() {
  return read_parsed("/proc/loadavg", parse_machine_threads);
}

bool is_kernel_worker(const ProcessStat& thread) {
  // PF_IO_WORKER: before Linux 5.12 no such thread is in a process, and the bit may be that of a
  // virtual processor that is in its guest. PF_USER_WORKER, from 6.4 on, had another meaning
  // before, so the name has to fit. (An io_uring thread names itself, when it has begun to run.)
  constexpr uint64_t kIoWorker = 0x10, kUserWorker = 0x4000;
  return (thread.flags & kIoWorker) != 0 ||
         ((thread.flags & kUserWorker) != 0 && thread.name.starts_with("vhost-"));
}

Result<Auxv> parse_auxv(std::span<const std::byte> bytes) {
  Auxv auxv;
  for (size_t at = 0; bytes.size() - at >= sizeof(Elf64_auxv_t); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t pair;
    std::memcpy(&pair, bytes.data() + at, sizeof pair);
    const GuestAddr value(pair.a_un.a_val);
    switch (pair.a_type) {
      case AT_NULL:
        return auxv;
      case AT_ENTRY:
        auxv.entry = value;
        break;
      case AT_BASE:
        auxv.base = value;
        break;
      case AT_SYSINFO_EHDR:
        auxv.sysinfo_ehdr = value;
        break;
      case AT_PHDR:
        auxv.phdr = value;
        break;
      default:
        break;
    }
  }
  return fail("auxv of {} bytes is not ended by AT_NULL", bytes.size());
}

Result<Auxv> read_auxv(Tid process) {
  return read_parsed(fmt::format("/proc/{}/auxv", process.value), [](std::string_view text) {
    return parse_auxv(std::as_bytes(std::span(text)));
  });
}

std::vector<std::string> read_command(Tid process) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::ifstream file(fmt::format("/proc/{}/cmdline", process.value));
  std::vector<std::string> command;
  size_t bytes = 0;
  for (std::string word; bytes < kMostBytes && std::getline(file, word, '\0');) {
    bytes += word.size() + 1;
    command.push_back(word);
  }
  return command;
}

std::string thread_name(Tid process, Tid thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/comm", process.value, thread.value));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace shadowprof::kernel

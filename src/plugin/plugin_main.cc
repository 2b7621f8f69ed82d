// SPDX-License-Identifier: MIT
#include "plugin/plugin_main.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/die_with_parent.h"
#include "plugin/messages.h"
#include "plugin/wire.h"

namespace shadowprof::plugin {
namespace {

// The program and shadowprof come first where processors are scarce.
constexpr int kPriority = 10;

bool is_name(const char* text) {
  if (text == nullptr) return false;
  const std::string_view name(text, ::strnlen(text, SHADOWPROF_LONGEST_NAME + 1));
  return !name.empty() && name.size() <= SHADOWPROF_LONGEST_NAME;
}

bool is_table_name(const char* text) {
  return is_name(text) && std::ranges::all_of(std::string_view(text), [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_');
         });
}

// "": it is as the header wants it.
std::string why_refused(const shadowprof_plugin* plugin) {
  constexpr uint32_t kAllWants = SHADOWPROF_WANTS_BLOCKS | SHADOWPROF_WANTS_ACCESSES |
                                 SHADOWPROF_WANTS_VALUES | SHADOWPROF_WANTS_LATENCIES;
  if (plugin == nullptr) return "shadowprof_collector() returns nothing";
  if (plugin->version != SHADOWPROF_PLUGIN_VERSION)
    return fmt::format("it has version {} of the interface, and this is version {}",
                       plugin->version, SHADOWPROF_PLUGIN_VERSION);
  if (plugin->wants == 0 || (plugin->wants & ~kAllWants) != 0)
    return fmt::format("it wants records that there are none of ({:#x})", plugin->wants);
  if (!is_table_name(plugin->name))
    return fmt::format("the name of its table is not 1 to {} letters, digits, - and _",
                       SHADOWPROF_LONGEST_NAME);
  if (!is_name(plugin->weight)) return "its weight has no name, or a longer one than there may be";
  if (plugin->columns == nullptr || plugin->column_count == 0 ||
      plugin->column_count > SHADOWPROF_MOST_COLUMNS)
    return fmt::format("its table does not have 1 to {} columns", SHADOWPROF_MOST_COLUMNS);
  for (uint32_t c = 0; c < plugin->column_count; c++) {
    if (!is_name(plugin->columns[c].name))
      return fmt::format("column {} has no name, or a longer one than there may be", c + 1);
    if (plugin->columns[c].kind > SHADOWPROF_CELL_PLACE)
      return fmt::format("column {} has cells of no kind that there is", c + 1);
  }
  if (plugin->begin == nullptr || plugin->records == nullptr || plugin->table == nullptr)
    return "begin, records or table is missing";
  return "";
}

struct Loaded {
  const shadowprof_plugin* plugin = nullptr;
  std::string refusal;
};

// By its descriptor: the file that was looked at, whatever has the name by now.
Loaded load(int file, std::string_view name) {
  const std::string path = fmt::format("/proc/self/fd/{}", file);
  void* const object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* const said = ::dlerror();
    std::string why = said != nullptr ? said : "it cannot be loaded";
    for (size_t at = 0; (at = why.find(path, at)) != std::string::npos; at += name.size())
      why.replace(at, path.size(), name);
    return {nullptr, why};
  }
  const auto tell =
      reinterpret_cast<decltype(&shadowprof_collector)>(::dlsym(object, "shadowprof_collector"));
  if (tell == nullptr) return {nullptr, "it has no function shadowprof_collector"};
  const auto* const plugin = tell();
  return {plugin, why_refused(plugin)};
}

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  text.copy(to, N - 1);
}

Hello hello_of(const Loaded& loaded) {
  Hello hello{};
  put(hello.refusal, loaded.refusal);
  if (!loaded.refusal.empty()) return hello;
  const shadowprof_plugin& plugin = *loaded.plugin;
  hello.wants = plugin.wants;
  hello.columns = plugin.column_count;
  put(hello.name, plugin.name);
  put(hello.weight, plugin.weight);
  for (uint32_t c = 0; c < plugin.column_count; c++) {
    put(hello.column_names[c], plugin.columns[c].name);
    hello.column_kinds[c] = static_cast<uint8_t>(plugin.columns[c].kind);
  }
  return hello;
}

// What the plug-in adds its rows to.
struct TableText {
  shadowprof_table base;  // the first member: the plug-in has its address
  const shadowprof_plugin* plugin;
  std::string bytes;
  TableTail tail{kTailMark, 0, 0};

  void number(uint64_t n) { bytes.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void text(const char* text) {
    const size_t length = text == nullptr ? 0 : ::strnlen(text, SHADOWPROF_LONGEST_TEXT);
    number(length);
    bytes.append(text == nullptr ? "" : text, length);
    bytes.resize(padded(bytes.size()));
  }
};

void add_row(shadowprof_table* table, const shadowprof_cell* cells, uint64_t weight) {
  auto& to = *reinterpret_cast<TableText*>(table);
  constexpr size_t kMostRowBytes = 8 + SHADOWPROF_MOST_COLUMNS * (8 + SHADOWPROF_LONGEST_TEXT);
  if (to.tail.rows == SHADOWPROF_MOST_ROWS || to.bytes.size() + kMostRowBytes > kMostTableBytes) {
    to.tail.others += weight;
    return;
  }
  to.tail.rows++;
  to.number(weight);
  for (uint32_t c = 0; c < to.plugin->column_count; c++) {
    if (to.plugin->columns[c].kind == SHADOWPROF_CELL_TEXT)
      to.text(cells[c].text);
    else
      to.number(cells[c].number);
  }
}

void write_whole(int fd, const void* bytes, size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size != 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // who has asked is gone
    at += n;
    size -= static_cast<size_t>(n);
  }
}

class Host {
 public:
  Host(const shadowprof_plugin& plugin, void* self, int socket, Shared& shared)
      : plugin_(plugin), self_(self), socket_(socket), shared_(shared) {}

  [[noreturn]] void serve() {
    for (uint32_t batch = 0;;) {
      Descriptors fds;
      const auto request = receive_message<Request>(socket_, fds);
      if (!request) ::_exit(0);
      if (request->kind == RequestKind::table) {
        give_table(fds[0].get());
        continue;
      }
      const auto* const first = reinterpret_cast<const uint8_t*>(&shared_) + kSharedHeadBytes;
      read_batch(first + batch * kBatchBytes, request->bytes);
      batch = (batch + 1) % kBatches;
      shared_.done.fetch_add(1);
      ::syscall(SYS_futex, &shared_.done, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }

 private:
  void read_batch(const uint8_t* at, size_t bytes) {
    const uint8_t* const end = at + bytes;
    while (at < end) {
      const auto& head = *reinterpret_cast<const SectionHead*>(at);
      at += sizeof head;
      if (head.kind == SectionKind::records)
        plugin_.records(self_, reinterpret_cast<const shadowprof_record*>(at),
                        head.bytes / sizeof(shadowprof_record));
      else
        tell_place(at);
      at += padded(head.bytes);
      shared_.calls.fetch_add(1);
    }
  }

  void tell_place(const uint8_t* at) {
    if (plugin_.place == nullptr) return;
    PlaceHead head;
    std::memcpy(&head, at, sizeof head);
    const uint8_t* const code = at + sizeof head;
    const auto* const texts = reinterpret_cast<const char*>(code + head.code_bytes);
    shadowprof_place place{};
    place.number = head.number;
    place.kind = head.kind;
    place.address = head.address;
    place.offset = head.offset;
    place.module = kept({texts, head.module_bytes});
    place.function = kept({texts + head.module_bytes, head.function_bytes});
    place.code = code;
    place.code_bytes = head.code_bytes;
    place.instructions = head.instructions;
    place.function_number = head.function_number;
    plugin_.place(self_, &place);
  }

  // Elements of a set stay where they are.
  const char* kept(std::string_view text) { return texts_.emplace(text).first->c_str(); }

  // A copy makes the table, so that this process can be asked again.
  void give_table(int to) {
    const pid_t self = ::getpid();
    const pid_t copy = ::fork();
    if (copy == 0) {
      if (!die_with_parent(self)) ::_exit(0);
      TableText text{{add_row}, &plugin_, {}};
      plugin_.table(self_, &text.base);
      write_whole(to, text.bytes.data(), text.bytes.size());
      write_whole(to, &text.tail, sizeof text.tail);
      ::_exit(0);
    }
    int status = 0xff00;
    if (copy > 0)
      while (::waitpid(copy, &status, 0) < 0 && errno == EINTR) {
      }
    const TableEnd end{kEndMark, static_cast<uint64_t>(status)};
    write_whole(to, &end, sizeof end);
  }

  const shadowprof_plugin& plugin_;
  void* const self_;
  const int socket_;
  Shared& shared_;
  std::unordered_set<std::string> texts_;
};

}  // namespace

void plugin_main(int file, int socket, int shared_memory, const char* name) {
  ::prctl(PR_SET_NAME, "plug-in");
  ::setpriority(PRIO_PROCESS, 0, kPriority);
  ::signal(SIGPIPE, SIG_IGN);
  void* const memory =
      ::mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared_memory, 0);
  if (memory == MAP_FAILED) ::_exit(1);
  Loaded loaded = load(file, name);
  void* self = nullptr;
  if (loaded.refusal.empty()) {
    self = loaded.plugin->begin();
    if (self == nullptr) loaded.refusal = "its begin() returns nothing";
  }
  (void)send_message(socket, hello_of(loaded));
  if (!loaded.refusal.empty()) ::_exit(0);
  Host(*loaded.plugin, self, socket, *static_cast<Shared*>(memory)).serve();
}

}  // namespace shadowprof::plugin

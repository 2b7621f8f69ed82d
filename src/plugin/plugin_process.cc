// SPDX-License-Identifier: MIT
#include "plugin/plugin_process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/pipe.h"
#include "base/printable.h"
#include "plugin/messages.h"

namespace shadowprof::plugin {
namespace {

constexpr std::chrono::seconds kHang(SHADOWPROF_HANG_SECONDS);
constexpr int kLook_ms = 50;
// Between the end of a process and the keeper's word of it.
constexpr int kLooksForEnd = 40;

std::string words_of_status(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("it was ended by signal {} ({})", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)));
  return fmt::format("it ended itself, with status {}", WEXITSTATUS(status));
}

constexpr const char* kHung = "a call has not returned for 10 seconds";
static_assert(SHADOWPROF_HANG_SECONDS == 10);

template <size_t N>
std::string text_in(const char (&bytes)[N]) {
  return printable({bytes, ::strnlen(bytes, N)});
}

// Reads what a plug-in's process has written.
class TableBytes {
 public:
  explicit TableBytes(std::string_view bytes) : left_(bytes) {}

  std::optional<uint64_t> number() {
    uint64_t n = 0;
    if (left_.size() < sizeof n) return std::nullopt;
    std::memcpy(&n, left_.data(), sizeof n);
    left_.remove_prefix(sizeof n);
    return n;
  }
  std::optional<std::string> text() {
    const auto length = number();
    if (!length || *length > SHADOWPROF_LONGEST_TEXT || padded(*length) > left_.size())
      return std::nullopt;
    std::string text = printable(left_.substr(0, *length));
    left_.remove_prefix(padded(*length));
    return text;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::string_view left_;
};

std::optional<ReturnedRow> row_in(TableBytes& bytes, const Description& description) {
  ReturnedRow row;
  const auto weight = bytes.number();
  if (!weight) return std::nullopt;
  row.weight = *weight;
  for (const Description::Column& column : description.columns) {
    ReturnedCell& cell = row.cells.emplace_back();
    const bool is_text = column.kind == SHADOWPROF_CELL_TEXT;
    auto text = is_text ? bytes.text() : std::string();
    const auto number = is_text ? 0 : bytes.number();
    if (!text || !number) return std::nullopt;
    cell = {*number, std::move(*text)};
  }
  return row;
}

std::optional<ReturnedTable> table_in(std::string_view text, const Description& description) {
  TableTail tail{};
  if (text.size() < sizeof tail) return std::nullopt;
  std::memcpy(&tail, text.data() + text.size() - sizeof tail, sizeof tail);
  if (tail.mark != kTailMark || tail.rows > SHADOWPROF_MOST_ROWS) return std::nullopt;
  TableBytes bytes(text.substr(0, text.size() - sizeof tail));
  ReturnedTable table{{}, tail.others};
  for (uint64_t r = 0; r < tail.rows; r++) {
    auto row = row_in(bytes, description);
    if (!row) return std::nullopt;
    table.rows.push_back(std::move(*row));
  }
  if (!bytes.empty()) return std::nullopt;
  return table;
}

Result<UniqueFd> make_shared_memory() {
  UniqueFd fd(static_cast<int>(::syscall(SYS_memfd_create, "shadowprof-plugin", 1u)));
  if (!fd.valid() || ::ftruncate(fd.get(), kSharedBytes) != 0)
    return fail_errno(errno, "cannot get memory for a plug-in");
  return fd;
}

}  // namespace

Result<std::unique_ptr<PluginProcess>> PluginProcess::start(std::shared_ptr<Keeper> keeper,
                                                            const PluginFile& file) {
  SP_ASSIGN(const UniqueFd memory, make_shared_memory());
  void* const mapped =
      ::mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map memory for a plug-in");
  auto* const shared = static_cast<Shared*>(mapped);
  SP_ASSIGN(auto ends, make_sockets());
  std::unique_ptr<PluginProcess> process(
      new PluginProcess(std::move(keeper), std::move(ends.first), shared));
  SP_ASSIGN(process->number_,
            process->keeper_->make_process(file, ends.second.get(), memory.get()));
  ends.second.reset();
  auto said = process->await_hello();
  if (!said) return fail("plug-in {}: {}", printable(file.path()), said.error().message);
  process->description_ = std::move(*said);
  return process;
}

PluginProcess::~PluginProcess() {
  ::munmap(shared_, kSharedBytes);
}

Result<Description> PluginProcess::await_hello() {
  const auto begun = Clock::now();
  for (;;) {
    pollfd wanted{socket_.get(), POLLIN, 0};
    if (::poll(&wanted, 1, kLook_ms) > 0) break;
    if (Clock::now() - begun < kHang) continue;
    give_up_hung();
    return fail("{}", kHung);
  }
  Descriptors none;
  const auto hello = receive_message<Hello>(socket_.get(), none);
  if (!hello) return fail("{}", why_ended());
  if (hello->refusal[0] != '\0') return fail("{}", text_in(hello->refusal));
  Description said{text_in(hello->name), text_in(hello->weight), hello->wants, {}};
  for (uint32_t c = 0; c < std::min<uint32_t>(hello->columns, SHADOWPROF_MOST_COLUMNS); c++)
    said.columns.push_back({text_in(hello->column_names[c]), hello->column_kinds[c]});
  return said;
}

// Whatever comes next would have nobody to read it.
bool PluginProcess::is_gone() const {
  if (shared_->end.load() != 0) return true;
  pollfd wanted{socket_.get(), 0, 0};
  return ::poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLHUP | POLLERR)) != 0;
}

void PluginProcess::give_up() {
  ended_ = true;
  at_ = end_ = nullptr;
  section_ = nullptr;
  keeper_->kill_process(number_);
}

// Whoever finds out: a copy of this process may be the first.
void PluginProcess::give_up_hung() {
  shared_->hung.store(1);
  give_up();
}

std::string PluginProcess::why_ended() const {
  if (shared_->hung.load() != 0) return kHung;
  for (int looks = 0; looks < kLooksForEnd && shared_->end.load() == 0; looks++)
    ::poll(nullptr, 0, kLook_ms);
  const uint32_t end = shared_->end.load();
  if (end == 0) return "its process went away";
  return words_of_status(static_cast<int>(end & ~kEnded));
}

// False: there is none in time, or it has ended.
bool PluginProcess::wait_for_batch(Patience patience) {
  const auto begun = Clock::now();
  auto since = begun;
  uint32_t returned = shared_->calls.load();
  for (uint32_t seen = shared_->done.load(); free_batches() == 0; seen = shared_->done.load()) {
    if (patience != kEndless && Clock::now() - begun >= patience) return false;
    const timespec look{0, std::min<int64_t>(kLook_ms, patience.count()) * 1'000'000L};
    ::syscall(SYS_futex, &shared_->done, FUTEX_WAIT, seen, &look, nullptr, 0);
    if (const uint32_t calls = shared_->calls.load(); calls != returned) {
      since = Clock::now();
      returned = calls;
    }
    const bool hung = Clock::now() - since >= kHang;
    if (!hung && !is_gone()) continue;
    hung ? give_up_hung() : give_up();
    return false;
  }
  return true;
}

bool PluginProcess::begin_batch(Patience patience) {
  send();
  if (ended_) return false;
  if (!wait_for_batch(patience)) return false;
  at_ = reinterpret_cast<uint8_t*>(shared_) + kSharedHeadBytes + sent_ % kBatches * kBatchBytes;
  end_ = at_ + kBatchBytes;
  return true;
}

void PluginProcess::send() {
  if (at_ == nullptr) return;
  const size_t left = static_cast<size_t>(end_ - at_);
  const Request request{RequestKind::batch, static_cast<uint32_t>(kBatchBytes - left)};
  at_ = end_ = nullptr;
  section_ = nullptr;
  sent_++;
  if (!send_message(socket_.get(), request)) give_up();
}

// Where a section's bytes begin; its head stands before. There is room for it.
uint8_t* PluginProcess::take(SectionKind kind, size_t bytes) {
  auto* const head = reinterpret_cast<SectionHead*>(at_);
  *head = {kind, static_cast<uint32_t>(bytes)};
  uint8_t* const first = at_ + sizeof *head;
  at_ = first + padded(bytes);
  return first;
}

bool PluginProcess::open_section(size_t bytes, Patience patience) {
  const size_t whole = sizeof(SectionHead) + bytes;
  SP_CHECK(whole <= kBatchBytes, "{} bytes of records at once", bytes);
  if (at_ == nullptr || whole > static_cast<size_t>(end_ - at_))
    if (!begin_batch(patience)) return false;
  section_ = reinterpret_cast<SectionHead*>(at_);
  take(SectionKind::records, 0);
  return true;
}

bool PluginProcess::add_place(const Place& place, Patience patience) {
  constexpr size_t kMostText = 4096;
  const std::string_view module = place.module.substr(0, kMostText);
  const std::string_view function = place.function.substr(0, kMostText);
  PlaceHead head = place.head;
  head.code_bytes = static_cast<uint16_t>(place.code.size());
  head.module_bytes = static_cast<uint16_t>(module.size());
  head.function_bytes = static_cast<uint16_t>(function.size());
  const size_t bytes = sizeof head + place.code.size() + module.size() + function.size();
  section_ = nullptr;
  if (at_ == nullptr || sizeof(SectionHead) + padded(bytes) > static_cast<size_t>(end_ - at_))
    if (!begin_batch(patience)) return false;
  uint8_t* to = take(SectionKind::place, bytes);
  std::memcpy(to, &head, sizeof head);
  to = std::ranges::copy(place.code, to + sizeof head).out;
  to = std::ranges::copy(module, to).out;
  std::ranges::copy(function, to);
  return true;
}

// All that comes until the last writer has closed.
Result<std::string> PluginProcess::read_table(int from) {
  std::string text;
  auto since = Clock::now();
  uint32_t returned = shared_->calls.load();
  for (;;) {
    pollfd wanted{from, POLLIN, 0};
    const bool has_more = ::poll(&wanted, 1, kLook_ms) > 0;
    std::array<char, 1 << 16> piece;
    const ssize_t n = has_more ? ::read(from, piece.data(), piece.size()) : 0;
    if (has_more && n == 0) return text;
    if (n > 0) text.append(piece.data(), static_cast<size_t>(n));
    if (text.size() > 2 * kMostTableBytes) return fail("it returned more than there may be");
    const uint32_t calls = shared_->calls.load();
    if (n > 0 || calls != returned) since = Clock::now();
    returned = calls;
    if (Clock::now() - since < kHang) continue;
    give_up_hung();
    return fail("{}", kHung);
  }
}

Result<ReturnedTable> PluginProcess::take_table() {
  if (ended_) return fail("{}", why_ended());
  Pipe pipe;
  if (!pipe.open()) return fail_errno(errno, "cannot make a pipe for its table");
  if (!send_message(socket_.get(), Request{RequestKind::table, 0}, {pipe.writer.get()})) {
    give_up();
    return fail("{}", why_ended());
  }
  pipe.writer.reset();
  SP_ASSIGN(const std::string text, read_table(pipe.reader.get()));
  TableEnd end{};
  if (text.size() < sizeof end) return fail("{}", why_ended());
  std::memcpy(&end, text.data() + text.size() - sizeof end, sizeof end);
  if (end.mark != kEndMark) return fail("{}", why_ended());
  const auto status = static_cast<int>(end.wait_status);
  if (status != 0) return fail("{} while it made its table", words_of_status(status));
  auto table = table_in(std::string_view(text).substr(0, text.size() - sizeof end), description_);
  if (!table) return fail("what it returned is no table");
  return std::move(*table);
}

}  // namespace shadowprof::plugin

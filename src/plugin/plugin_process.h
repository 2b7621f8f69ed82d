// SPDX-License-Identifier: MIT
//
// A plug-in's process, seen from shadowprof: what it says of itself, batches of records to it, and
// its table.
//
//   SP_ASSIGN(auto process, PluginProcess::start(keeper, file));
//   if (auto* record = process->room(1, PluginProcess::kEndless)) *record = ...;
//   process->send();
//   process->take_table();
//
// Memory is bounded: kBatches batches. A process that has ended, or does not come back for
// SHADOWPROF_HANG_SECONDS, has ended() from then on, takes nothing, and why_ended() says why.
//
// In a copy of this process (fork) which was made while nothing was unsent, take_table() may be
// called, and nothing else.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "plugin/description.h"
#include "plugin/keeper.h"
#include "plugin/plugin_file.h"
#include "plugin/wire.h"

namespace shadowprof::plugin {

struct ReturnedCell {
  uint64_t number = 0;
  std::string text;
};
struct ReturnedRow {
  uint64_t weight = 0;
  std::vector<ReturnedCell> cells;
};
struct ReturnedTable {
  std::vector<ReturnedRow> rows;
  uint64_t others = 0;
};

// A block, or an instruction, that records name.
struct Place {
  PlaceHead head{};  // the sizes are filled in
  std::span<const uint8_t> code{};
  std::string_view module{};
  std::string_view function{};
};

class PluginProcess {
 public:
  // Waits until the plug-in has begun. An Error: why it is of no use.
  static Result<std::unique_ptr<PluginProcess>> start(std::shared_ptr<Keeper> keeper,
                                                      const PluginFile& file);
  ~PluginProcess();
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;

  const Description& description() const { return description_; }

  // How long the caller waits for a batch that may be written.
  using Patience = std::chrono::milliseconds;
  static constexpr Patience kEndless = Patience::max();

  // Room for so many records that follow one another, which the caller fills in. Null: it has
  // ended, or there was none in time.
  shadowprof_record* room(size_t count, Patience patience) {
    const size_t bytes = count * sizeof(shadowprof_record);
    if (section_ == nullptr || bytes > static_cast<size_t>(end_ - at_)) [[unlikely]]
      if (!open_section(bytes, patience)) return nullptr;
    auto* const first = reinterpret_cast<shadowprof_record*>(at_);
    at_ += bytes;
    section_->bytes += static_cast<uint32_t>(bytes);
    return first;
  }
  // False as room() is null.
  bool add_place(const Place& place, Patience patience);
  // What is not sent yet.
  void send();
  // Batches that may be written before somebody has to wait.
  uint32_t free_batches() const {
    return kBatches - (sent_ - shared_->done.load(std::memory_order_acquire));
  }

  // After send().
  Result<ReturnedTable> take_table();
  bool ended() const { return ended_; }
  std::string why_ended() const;

 private:
  using Clock = std::chrono::steady_clock;

  PluginProcess(std::shared_ptr<Keeper> keeper, UniqueFd socket, Shared* shared)
      : keeper_(std::move(keeper)), socket_(std::move(socket)), shared_(shared) {}

  Result<Description> await_hello();
  bool open_section(size_t bytes, Patience patience);
  bool begin_batch(Patience patience);
  uint8_t* take(SectionKind kind, size_t bytes);
  bool wait_for_batch(Patience patience);
  bool is_gone() const;
  void give_up();
  void give_up_hung();
  Result<std::string> read_table(int from);

  std::shared_ptr<Keeper> keeper_;
  UniqueFd socket_;
  Shared* shared_;
  uint32_t number_ = 0;
  Description description_;
  uint8_t* at_ = nullptr;  // in the batch that is being written; null: there is none
  uint8_t* end_ = nullptr;
  SectionHead* section_ = nullptr;  // of records, which ends at `at_`; null: none is open
  uint32_t sent_ = 0;
  bool ended_ = false;
};

}  // namespace shadowprof::plugin

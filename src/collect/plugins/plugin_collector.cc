// SPDX-License-Identifier: MIT
#include "collect/plugins/plugin_collector.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "collect/plugins/plugin_plan.h"
#include "collect/table_builder.h"
#include "plugin/plugin_process.h"
#include "profile/tables/plugin_table.h"
#include "trace/special_record.h"

namespace shadowprof::collect {
namespace {

using profile::PluginCellKind;
using trace::Word;

static_assert(static_cast<unsigned>(PluginCellKind::number) == SHADOWPROF_CELL_NUMBER);
static_assert(static_cast<unsigned>(PluginCellKind::address) == SHADOWPROF_CELL_ADDRESS);
static_assert(static_cast<unsigned>(PluginCellKind::text) == SHADOWPROF_CELL_TEXT);
static_assert(static_cast<unsigned>(PluginCellKind::place) == SHADOWPROF_CELL_PLACE);

constexpr plugin::PluginProcess::Patience kPatienceInReplicas(20);

profile::PluginInfo info_of(const plugin::Plugin& plugin) {
  profile::PluginInfo info;
  info.name = plugin.description.name;
  info.weight = plugin.description.weight;
  for (const auto& column : plugin.description.columns)
    info.columns.push_back({column.name, static_cast<PluginCellKind>(column.kind)});
  info.file = plugin.file.path();
  return info;
}

class PluginCollector final : public Collector {
 public:
  PluginCollector(const trace::BlockTable& table, const PluginCollectorOptions& options)
      : table_(table),
        options_(options),
        plans_(table, options.plugin->description.wants),
        info_(info_of(*options.plugin)) {
    auto process = plugin::PluginProcess::start(options.keeper, options.plugin->file);
    if (!process)
      info_.problems.push_back("it has not begun: " + process.error().message);
    else if ((*process)->description() != options_.plugin->description)
      info_.problems.emplace_back("it says otherwise what it is than when it was loaded first");
    else
      process_ = std::move(*process);
  }

  void consume(const trace::Chunk& chunk) override;
  void finish(profile::Profile& into) override;

 private:
  struct Stream {
    bool is_taken = true;    // it is given to the plug-in
    bool is_cut = false;     // it was, up to some record
    bool has_begun = false;  // with a record of that
  };

  // The words of the record; 0: it is corrupt.
  size_t take(std::span<const Word> words);
  void on(const trace::SampleStart& start);
  void on(const trace::SampleEnd& end);
  void on(trace::GapReason reason);
  void take_run(const PluginRun& run, const Word* record);
  bool tell_places(uint32_t up_to);
  bool tell(shadowprof_record record);
  bool announce();
  void cut();
  plugin::PluginProcess::Patience patience() const {
    if (!options_.sampled) return plugin::PluginProcess::kEndless;
    return options_.by_replicas ? kPatienceInReplicas : plugin::PluginProcess::Patience(0);
  }
  void follow(Tid stream, Tid guest);
  void take_texts(const plugin::ReturnedTable& returned);
  std::optional<profile::PluginRow> row_of(const plugin::ReturnedRow& returned,
                                           const TableBuilder& builder);
  void take_rows(const plugin::ReturnedTable& returned, const TableBuilder& builder,
                 profile::PluginTable& rows);

  const trace::BlockTable& table_;
  const PluginCollectorOptions options_;
  PluginPlans plans_;
  profile::PluginInfo info_;
  std::unique_ptr<plugin::PluginProcess> process_;  // null: it has not begun
  std::unordered_map<Tid, Stream> streams_;         // until their samples end
  Stream idle_;                                     // behind the end of a sample
  Stream* stream_ = &idle_;
  Tid stream_id_{};
  Tid guest_{};
  std::optional<std::pair<Tid, Tid>> announced_;  // stream and guest
  uint32_t told_places_ = 0;
};

void PluginCollector::follow(Tid stream, Tid guest) {
  stream_ = &streams_[stream];
  stream_id_ = stream;
  guest_ = guest;
}

void PluginCollector::cut() {
  if (process_->ended() || !stream_->is_taken) return;
  stream_->is_taken = false;
  stream_->is_cut = true;
  info_.samples_cut++;
}

// Whose the next records are.
bool PluginCollector::announce() {
  const std::pair now(stream_id_, guest_);
  if (announced_ == now) return true;
  shadowprof_record* const to = process_->room(1, patience());
  if (to == nullptr) return false;
  *to = {};
  to->kind = SHADOWPROF_THREAD;
  to->place = static_cast<uint32_t>(stream_id_.value);
  to->number = static_cast<uint64_t>(guest_.value);
  announced_ = now;
  return true;
}

bool PluginCollector::tell(shadowprof_record record) {
  shadowprof_record* const to = announce() ? process_->room(1, patience()) : nullptr;
  if (to != nullptr) *to = record;
  return to != nullptr;
}

bool PluginCollector::tell_places(uint32_t up_to) {
  for (; told_places_ < up_to; told_places_++) {
    const PluggedPlace& own = plans_.places()[told_places_];
    const trace::Block& block = table_.block(own.block);
    const NamedBlock& named = options_.code->blocks[own.block.value];
    plugin::Place place;
    place.code = table_.code(block);
    if (!own.is_block) place.code = place.code.subspan(own.into, own.bytes);
    if (named.module != nullptr) place.module = named.module;
    if (named.function != nullptr) place.function = named.function;
    place.head.address = block.start.value + own.into;
    place.head.offset = named.offset + own.into;
    place.head.number = told_places_;
    place.head.kind = own.is_block ? SHADOWPROF_PLACE_BLOCK : SHADOWPROF_PLACE_INSTRUCTION;
    place.head.instructions = own.is_block ? block.insns : 1;
    place.head.function_number = named.function_number;
    if (!process_->add_place(place, patience())) return false;
  }
  return true;
}

void PluginCollector::take_run(const PluginRun& run, const Word* record) {
  if (run.places > told_places_ && !tell_places(run.places)) return cut();
  if (run.records == 0) return;
  shadowprof_record* to = announce() ? process_->room(run.records, patience()) : nullptr;
  if (to == nullptr) return cut();
  for (const PlannedRecord& planned : plans_.records(run))
    *to++ = {planned.kind, planned.flags, planned.size, planned.place, planned.number(record)};
  info_.records += run.records;
}

void PluginCollector::on(const trace::SampleStart& start) {
  follow(stream_id_, guest_);
  *stream_ = {};
  if (options_.sampled && process_->free_batches() < plugin::kBatches / 2) {
    stream_->is_taken = false;
    info_.samples_left_out++;
    return;
  }
  stream_->has_begun = tell({SHADOWPROF_SAMPLE_BEGIN, 0, 0, 0, start.number()});
  if (!stream_->has_begun) cut();
}

void PluginCollector::on(const trace::SampleEnd&) {
  if (stream_->has_begun) {
    const uint8_t flags = stream_->is_cut ? SHADOWPROF_CUT : 0;
    if (!tell({SHADOWPROF_SAMPLE_END, flags, 0, 0, 0})) cut();
  }
  streams_.erase(stream_id_);
  idle_ = {};
  stream_ = &idle_;
}

void PluginCollector::on(trace::GapReason) {
  if (stream_->is_taken && !tell({SHADOWPROF_GAP, 0, 0, 0, 0})) cut();
}

size_t PluginCollector::take(std::span<const Word> words) {
  const Word id = words[0];
  if (trace::is_special(id)) return trace::take_special(words, [&](const auto& what) { on(what); });
  if (!stream_->is_taken) {
    const size_t length = id < table_.run_count() ? table_.run(RunId(id)).words : 0;
    return length <= words.size() ? length : 0;
  }
  const PluginRun* const run = plans_.run(RunId(id));
  if (run == nullptr || run->words > words.size()) return 0;
  take_run(*run, words.data());
  return run->words;
}

void PluginCollector::consume(const trace::Chunk& chunk) {
  if (process_ == nullptr || process_->ended()) return;
  follow(chunk.thread, chunk.guest.value != 0 ? chunk.guest : chunk.thread);
  for (std::span<const Word> left = chunk.words; !left.empty();) {
    const size_t words = take(left);
    if (words == 0) break;  // a corrupt chunk, which other collectors count
    left = left.subspan(words);
    if (process_->ended()) return;
  }
  process_->send();
}

// Texts are sorted, so that adding profiles need not look at them all.
void PluginCollector::take_texts(const plugin::ReturnedTable& returned) {
  for (const auto& row : returned.rows)
    for (size_t c = 0; c < row.cells.size(); c++)
      if (info_.columns[c].kind == PluginCellKind::text) info_.texts.push_back(row.cells[c].text);
  std::ranges::sort(info_.texts);
  info_.texts.erase(std::unique(info_.texts.begin(), info_.texts.end()), info_.texts.end());
}

// Nothing: it names a place that there is not.
std::optional<profile::PluginRow> PluginCollector::row_of(const plugin::ReturnedRow& returned,
                                                          const TableBuilder& builder) {
  profile::PluginRow row{.plugin = 0, .cells = {}, .weight = returned.weight};
  for (size_t c = 0; c < returned.cells.size(); c++) {
    profile::PluginCell cell{.number = returned.cells[c].number};
    if (info_.columns[c].kind == PluginCellKind::text) {
      const auto text = std::ranges::lower_bound(info_.texts, returned.cells[c].text);
      cell.number = static_cast<uint64_t>(text - info_.texts.begin());
    } else if (info_.columns[c].kind == PluginCellKind::place) {
      if (cell.number >= plans_.places().size()) return std::nullopt;
      const PluggedPlace& place = plans_.places()[cell.number];
      const trace::Block& block = table_.block(place.block);
      const profile::CodeRef at = builder.at(block.start + place.into, block.module);
      cell = {true, at.module, at.offset};
    }
    row.cells.push_back(cell);
  }
  return row;
}

void PluginCollector::take_rows(const plugin::ReturnedTable& returned, const TableBuilder& builder,
                                profile::PluginTable& rows) {
  info_.others = returned.others;
  take_texts(returned);
  bool names_none = false;
  for (const plugin::ReturnedRow& one : returned.rows) {
    if (auto row = row_of(one, builder))
      rows.push_back(std::move(*row));
    else
      names_none = true;
  }
  if (names_none) info_.problems.emplace_back("rows named places that there are not");
}

void PluginCollector::finish(profile::Profile& into) {
  profile::Profile mine;
  const TableBuilder builder(table_, mine);
  if (process_ != nullptr) {
    const auto returned = process_->take_table();
    if (returned)
      take_rows(*returned, builder, mine.tables.plugins);
    else
      info_.problems.push_back("it ended early: " + returned.error().message);
  }
  mine.plugins.push_back(std::move(info_));
  profile::normalise(mine.tables);
  profile::add_tables(into, mine);
}

}  // namespace

std::unique_ptr<Collector> make_plugin_collector(const trace::BlockTable& table,
                                                 const PluginCollectorOptions& options) {
  return std::make_unique<PluginCollector>(table, options);
}

}  // namespace shadowprof::collect

// SPDX-License-Identifier: MIT
//
// The file: a line that says what it is, the identity, an empty line, then numbers and texts.
#include "symbols/module_notes.h"

#include <fmt/format.h>

#include <functional>

namespace shadowprof::symbols {
namespace {

constexpr std::string_view kFirstLine = "shadowprof names 1\n";
constexpr size_t kMostHeadBytes = 8192;

}  // namespace

ModuleNotes::ModuleNotes(const CacheFolder& folder, const std::string& build_id,
                         const std::string& identity)
    : folder_(folder),
      name_(fmt::format("{}-{:08x}", build_id, std::hash<std::string>()(identity) & UINT32_MAX)),
      head_(std::string(kFirstLine) + identity + "\n") {
  std::optional<std::string> body = folder_.read_body(name_, head_, kMostBytes);
  if (!body) return;
  body_ = std::move(*body);
  if (!parse()) forget();
}

void ModuleNotes::forget() {
  texts_.resize(1);
  places_ = {};
  functions_ = {};
  lines_ = {};
  inlined_ = {};
  frames_.clear();
  stretches_.clear();
  calls_.clear();
}

// --- reading ---

bool ModuleNotes::parse() {
  NumberReader from(body_);
  const uint32_t texts = from.count();
  for (uint32_t i = 0; i < texts; i++) texts_.push_back(from.text());
  if (!from.good()) return false;
  return parse_functions(from) && parse_lines(from) && parse_calls(from) && parse_inlined(from) &&
         from.at_end();
}

bool ModuleNotes::parse_functions(NumberReader& from) {
  uint64_t index = 0;
  for (uint32_t count = from.count(); count > 0 && from.good(); count--) {
    index += from.number();
    Function f{};
    f.offset = from.number();
    f.size = from.number();
    f.name = from.below(texts_.size());
    f.linkage_name = from.below(texts_.size());
    f.named = from.below(2) != 0;
    if (!functions_.append({index, 0}, f)) return false;
  }
  uint64_t offset = 0;
  for (uint32_t count = from.count(); count > 0 && from.good(); count--) {
    offset += from.number();
    if (!places_.append({offset, 0}, from.small())) return false;
  }
  return from.good();
}

bool ModuleNotes::parse_lines(NumberReader& from) {
  uint64_t offset = 0;
  for (uint32_t count = from.count(); count > 0 && from.good(); count--) {
    offset += from.number();
    const Part part{static_cast<uint32_t>(frames_.size()), from.count()};
    for (uint32_t i = 0; i < part.count && from.good(); i++) {
      Frame f{};
      for (Text* text : {&f.function, &f.linkage_name, &f.file}) *text = from.below(texts_.size());
      for (uint32_t* number : {&f.line, &f.column, &f.discriminator, &f.function_line})
        *number = from.small();
      frames_.push_back(f);
    }
    if (!lines_.append({offset, 0}, part)) return false;
  }
  return from.good();
}

bool ModuleNotes::parse_calls(NumberReader& from) {
  const uint32_t count = from.count();
  for (uint32_t i = 0; i < count && from.good(); i++) {
    Call call;
    call.place = {from.small(), from.small()};
    call.is_known = from.below(2) != 0;
    if (call.is_known) {
      for (Text* text : {&call.function, &call.linkage_name, &call.file, &call.call_file})
        *text = from.below(texts_.size());
      call.line = from.small();
      call.call_line = from.small();
      call.outer = from.below(uint64_t{count} + 1) - 1;
    }
    calls_.push_back(call);
  }
  return from.good();
}

bool ModuleNotes::parse_inlined(NumberReader& from) {
  uint64_t offset = 0;
  uint64_t size = 0;
  for (uint32_t count = from.count(); count > 0 && from.good(); count--) {
    const uint64_t further = from.number();
    size = from.number() + (further == 0 ? size : 0);
    offset += further;
    const Part part{static_cast<uint32_t>(stretches_.size()), from.count()};
    uint64_t at = offset;
    for (uint32_t i = 0; i < part.count && from.good(); i++) {
      InlinedStretch stretch;
      stretch.start = at;
      stretch.end = at += from.number();
      stretch.known = from.below(2) != 0;
      stretch.call = from.below(calls_.size() + 1) - 1;
      stretches_.push_back(stretch);
    }
    if (!inlined_.append({offset, size}, part)) return false;
  }
  return from.good();
}

// --- writing ---

std::string ModuleNotes::written() const {
  NumberWriter body;
  body.number(texts_.size() - 1);
  for (size_t i = 1; i < texts_.size(); i++) body.text(texts_[i]);
  write_functions(body);
  write_lines(body);
  write_calls(body);
  write_inlined(body);
  return body.take();
}

void ModuleNotes::write_functions(NumberWriter& to) const {
  uint64_t before = 0;
  to.number(functions_.size());
  functions_.for_each([&](const auto& key, const Function& f) {
    to.number(key.first - std::exchange(before, key.first));
    for (const uint64_t number : {f.offset, f.size}) to.number(number);
    for (const Text text : {f.name, f.linkage_name}) to.number(text);
    to.number(f.named ? 1 : 0);
  });
  before = 0;
  to.number(places_.size());
  places_.for_each([&](const auto& key, uint32_t function) {
    to.number(key.first - std::exchange(before, key.first));
    to.number(function);
  });
}

void ModuleNotes::write_lines(NumberWriter& to) const {
  uint64_t before = 0;
  to.number(lines_.size());
  lines_.for_each([&](const auto& key, const Part& part) {
    to.number(key.first - std::exchange(before, key.first));
    to.number(part.count);
    for (uint32_t i = part.first; i < part.first + part.count; i++) {
      const Frame& f = frames_[i];
      for (const uint32_t number :
           {f.function, f.linkage_name, f.file, f.line, f.column, f.discriminator, f.function_line})
        to.number(number);
    }
  });
}

void ModuleNotes::write_calls(NumberWriter& to) const {
  to.number(calls_.size());
  for (const Call& call : calls_) {
    to.number(call.place.unit);
    to.number(call.place.scope);
    to.number(call.is_known ? 1 : 0);
    if (!call.is_known) continue;
    for (const uint32_t number : {call.function, call.linkage_name, call.file, call.call_file,
                                  call.line, call.call_line, call.outer + 1})
      to.number(number);
  }
}

void ModuleNotes::write_inlined(NumberWriter& to) const {
  NoteTable<Part>::Key before{};
  to.number(inlined_.size());
  inlined_.for_each([&](const auto& key, const Part& part) {
    const bool same = key.first == before.first;
    to.number(key.first - before.first);
    to.number(key.second - (same ? before.second : 0));
    before = key;
    to.number(part.count);
    for (uint32_t i = part.first; i < part.first + part.count; i++) {
      const InlinedStretch& stretch = stretches_[i];
      to.number(stretch.end - stretch.start);
      to.number(stretch.known ? 1 : 0);
      to.number(stretch.call + 1);
    }
  });
}

size_t ModuleNotes::fresh() const {
  return places_.fresh() + functions_.fresh() + lines_.fresh() + inlined_.fresh() + fresh_calls_;
}

void ModuleNotes::keep(const std::vector<CallPlace>& places) {
  if (fresh() == 0 || is_full() || !is_trusted_) return;
  for (uint32_t i = 0; i < places.size(); i++) call_at(i).place = places[i];
  const std::string body = written();
  // The next run begins anew, with what it asks itself.
  if (body.size() + kMostHeadBytes > kMostBytes) return folder_.remove(name_);
  folder_.write_body(name_, head_, body);
  folder_.keep_latest(kMostFiles, kMostBytesOfAll);
}

// --- what was asked ---

ModuleNotes::Text ModuleNotes::number_of(const std::string& text) {
  if (numbers_.empty())
    for (Text i = 0; i < texts_.size(); i++) numbers_.emplace(texts_[i], i);
  if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
  const std::string_view kept = new_texts_.emplace_back(text);
  const auto number = static_cast<Text>(texts_.size());
  texts_.push_back(kept);
  numbers_.emplace(kept, number);
  return number;
}

std::optional<std::optional<size_t>> ModuleNotes::function_at(uint64_t offset) const {
  const uint32_t* index = places_.find({offset, 0});
  if (index == nullptr) return std::nullopt;
  return *index == 0 ? std::optional<size_t>() : std::optional<size_t>(*index - 1);
}

std::optional<Symbol> ModuleNotes::function(size_t index) const {
  const Function* f = functions_.find({index, 0});
  if (f == nullptr) return std::nullopt;
  return Symbol{f->offset, f->size, text(f->name), text(f->linkage_name), f->named};
}

std::optional<std::vector<SourceFrame>> ModuleNotes::lines(uint64_t offset) const {
  const Part* part = lines_.find({offset, 0});
  if (part == nullptr) return std::nullopt;
  std::vector<SourceFrame> frames;
  for (uint32_t i = part->first; i < part->first + part->count; i++) {
    const Frame& f = frames_[i];
    frames.push_back({text(f.function), text(f.linkage_name), text(f.file), f.line, f.column,
                      f.discriminator, f.function_line});
  }
  return frames;
}

std::optional<std::vector<InlinedStretch>> ModuleNotes::inlined(uint64_t offset,
                                                                uint64_t size) const {
  const Part* part = inlined_.find({offset, size});
  if (part == nullptr) return std::nullopt;
  const auto first = stretches_.begin() + part->first;
  return std::vector<InlinedStretch>(first, first + part->count);
}

std::optional<InlinedCall> ModuleNotes::call(uint32_t number) const {
  if (number >= calls_.size() || !calls_[number].is_known) return std::nullopt;
  const Call& c = calls_[number];
  return InlinedCall{text(c.function),  text(c.linkage_name), text(c.file), c.line,
                     text(c.call_file), c.call_line,          c.outer};
}

std::vector<CallPlace> ModuleNotes::call_places() const {
  std::vector<CallPlace> places;
  for (const Call& call : calls_) places.push_back(call.place);
  return places;
}

void ModuleNotes::add_function_at(uint64_t offset, std::optional<size_t> index) {
  places_.add({offset, 0}, index ? static_cast<uint32_t>(*index + 1) : 0);
}

void ModuleNotes::add_function(size_t index, const Symbol& symbol) {
  functions_.add({index, 0}, {symbol.offset, symbol.size, number_of(symbol.name),
                              number_of(symbol.linkage_name), symbol.named});
}

void ModuleNotes::add_lines(uint64_t offset, const std::vector<SourceFrame>& frames) {
  lines_.add({offset, 0},
             {static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size())});
  for (const SourceFrame& f : frames)
    frames_.push_back({number_of(f.function), number_of(f.linkage_name), number_of(f.file), f.line,
                       f.column, f.discriminator, f.function_line});
}

void ModuleNotes::add_inlined(uint64_t offset, uint64_t size,
                              const std::vector<InlinedStretch>& stretches) {
  inlined_.add({offset, size},
               {static_cast<uint32_t>(stretches_.size()), static_cast<uint32_t>(stretches.size())});
  stretches_.insert(stretches_.end(), stretches.begin(), stretches.end());
}

ModuleNotes::Call& ModuleNotes::call_at(uint32_t number) {
  if (number >= calls_.size()) calls_.resize(number + size_t{1});
  return calls_[number];
}

void ModuleNotes::add_call(uint32_t number, const InlinedCall& call) {
  Call& c = call_at(number);
  c.is_known = true;
  c.function = number_of(call.function);
  c.linkage_name = number_of(call.linkage_name);
  c.file = number_of(call.file);
  c.call_file = number_of(call.call_file);
  c.line = call.line;
  c.call_line = call.call_line;
  c.outer = call.outer;
  fresh_calls_++;
}

}  // namespace shadowprof::symbols

// SPDX-License-Identifier: MIT
#include "emu/translate/foresight.h"
#include "base/spread.h"

#include <algorithm>
#include <bit>

namespace shadowprof::emu {

CodeOrder::CodeOrder(std::vector<std::string> modules, std::vector<OrderedPlace> places,
                     NameOf name_of)
    : modules_(std::move(modules)),
      places_(std::move(places)),
      name_of_(std::move(name_of)),
      index_(std::bit_ceil(2 * places_.size() + 1)) {
  for (size_t i = 0; i < places_.size(); i++)
    index_[slot_of(places_[i].module, places_[i].offset)] = static_cast<uint32_t>(i + 1);
}

// Where it is, or the free slot where it belongs.
size_t CodeOrder::slot_of(uint32_t module, uint64_t offset) const {
  size_t slot = spread(offset + module) >> 32 & (index_.size() - 1);
  for (;; slot = (slot + 1) & (index_.size() - 1)) {
    if (index_[slot] == 0) return slot;
    const OrderedPlace& place = places_[index_[slot] - 1];
    if (place.module == module && place.offset == offset) return slot;
  }
}

std::optional<size_t> CodeOrder::find(uint32_t module, uint64_t offset) const {
  const uint32_t found = index_[slot_of(module, offset)];
  return found == 0 ? std::nullopt : std::optional<size_t>(found - 1);
}

std::optional<uint32_t> CodeOrder::module_of(const trace::BlockTable& table, ModuleId id) const {
  while (module_in_order_.size() <= id.value) {
    const auto next = static_cast<uint32_t>(module_in_order_.size());
    const std::string name = name_of_(table.module(ModuleId(next)));
    const auto known = std::ranges::find(modules_, name);
    module_in_order_.push_back(
        name.empty() || known == modules_.end()
            ? std::nullopt
            : std::optional(static_cast<uint32_t>(known - modules_.begin())));
  }
  return module_in_order_[id.value];
}

std::optional<size_t> Foresight::find(const trace::Block& block) {
  const std::optional<uint32_t> module = order_.module_of(table_, block.module);
  if (!module) return std::nullopt;
  const GuestAddr start = table_.module(block.module).file_start;
  starts_[*module] = start;
  return order_.find(*module, static_cast<uint64_t>(block.start - start));
}

std::optional<Foresight::Place> Foresight::place(size_t index) const {
  const OrderedPlace& place = order_.places()[index];
  const std::optional<GuestAddr> start = starts_[place.module];
  if (!start) return std::nullopt;
  return Place{*start + place.offset, place.by_branch};
}

}  // namespace shadowprof::emu

// SPDX-License-Identifier: MIT
//
// What a program will probably execute next, by what an earlier run has executed: its places of
// code, in the order in which they came. Where a run comes to one of them, those behind it can be
// translated at once, and each of them is one stop less. It is a hint: code is read from the
// program whatever the order says, and code that is never executed counts nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "trace/block_table.h"

namespace shadowprof::emu {

struct OrderedPlace {
  uint32_t module = 0;     // index into the order's names
  bool by_branch = false;  // indirect branches lead there, or system calls return there
  uint64_t offset = 0;     // in the module's file
  bool operator==(const OrderedPlace&) const = default;
};

class CodeOrder {
 public:
  // What a module is called in an order; empty: it is in none.
  using NameOf = std::function<std::string(const trace::Module&)>;

  CodeOrder(std::vector<std::string> modules, std::vector<OrderedPlace> places, NameOf name_of);

  const std::vector<std::string>& modules() const { return modules_; }
  const std::vector<OrderedPlace>& places() const { return places_; }
  // The index of the table's module: always the same table. Nothing: the order has no code of it.
  std::optional<uint32_t> module_of(const trace::BlockTable& table, ModuleId id) const;
  // The index of a place.
  std::optional<size_t> find(uint32_t module, uint64_t offset) const;

 private:
  size_t slot_of(uint32_t module, uint64_t offset) const;

  std::vector<std::string> modules_;
  std::vector<OrderedPlace> places_;
  NameOf name_of_;
  std::vector<uint32_t> index_;  // a hash table: 1 + index of the place; 0: none
  // By ModuleId, as far as they were asked for.
  mutable std::vector<std::optional<uint32_t>> module_in_order_;
};

// An order in one address space. Where its modules lie there is learnt as their code is met.
class Foresight {
 public:
  Foresight(const CodeOrder& order, const trace::BlockTable& table)
      : order_(order), table_(table), starts_(order.modules().size()) {}

  // The index of a block's first instruction in the order.
  std::optional<size_t> find(const trace::Block& block);
  struct Place {
    GuestAddr address;
    bool by_branch;
  };
  // Nothing: its module has not been met.
  std::optional<Place> place(size_t index) const;
  size_t size() const { return order_.places().size(); }
  // How many places to translate at once, this time. A stop takes as long as some twenty
  // translations; but a process that has just begun may be over soon, as a fork's child that
  // executes another program is.
  size_t take_reach() { return stops_++ < kFirstStops ? kFirstReach : kReach; }

 private:
  static constexpr size_t kFirstStops = 16;
  static constexpr size_t kFirstReach = 8;
  static constexpr size_t kReach = 64;

  const CodeOrder& order_;
  const trace::BlockTable& table_;
  std::vector<std::optional<GuestAddr>> starts_;  // of the order's modules: file_start
  size_t stops_ = 0;
};

}  // namespace shadowprof::emu

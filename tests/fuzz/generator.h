// SPDX-License-Identifier: MIT
//
// Makes one case from one seed: initial state and a little program that ends at the runner's exit.
//
// It terminates for sure: jumps lead forward, loops count in rcx, which their bodies leave alone,
// and functions are called but from the outermost level. Most memory operands are aimed at the
// case's memory right before their instruction; some are not, so that faults are tested as well.
#pragma once

#include <string>
#include <vector>

#include "case_format.h"
#include "instructions.h"
#include "random.h"

namespace shadowprof::fuzz {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), seed_(seed) {}
  FuzzCase make();

 private:
  using Label = size_t;
  enum class FieldKind { relative8, relative32, absolute64 };
  struct Field {
    size_t at;
    Label label;
    FieldKind kind;
  };

  Label new_label() {
    labels_.push_back(0);
    return labels_.size() - 1;
  }
  void place(Label label) { labels_[label] = code_.size(); }
  void put(std::initializer_list<uint8_t> bytes) { code_.insert(code_.end(), bytes); }
  void put_number(uint64_t v, size_t bytes);
  void refer(Label label, FieldKind kind);
  void resolve();
  uint64_t here() const { return start_ + code_.size(); }

  // Pieces of the program. `kept`: registers that they must not change.
  void item(decoder::GprMask kept, bool outermost);
  void flow_item(decoder::GprMask kept, bool outermost);
  void ordinary(decoder::GprMask kept);
  bool try_ordinary(decoder::GprMask kept);
  bool aim(RandomInsn& made, decoder::GprMask kept);
  bool aim_access(RandomInsn& made, const decoder::MemoryAccess& access, decoder::GprMask kept);
  void patch_displacement(RandomInsn& made, uint64_t v) const;
  uint64_t target_address(bool reachable_only);
  void set_register(decoder::Gpr r, uint64_t value);
  void push_pop(decoder::GprMask kept);
  void flags_through_stack();
  void string_insn(decoder::GprMask kept);
  void gather();
  void address_of(decoder::GprMask kept);
  void call_next(decoder::GprMask kept);
  void skip_forward(decoder::GprMask kept);
  void loop(decoder::GprMask kept);
  void call_function();
  void indirect_jump(decoder::GprMask kept);
  void functions();
  decoder::Gpr any_register(decoder::GprMask kept);

  Random random_;
  uint64_t seed_;
  uint64_t start_ = 0;
  bool far_ = false;
  bool wild_ = false;  // the next operand is aimed at nothing
  std::vector<uint8_t> code_;
  std::vector<size_t> labels_;
  std::vector<Field> fields_;
  std::vector<Label> called_;    // functions still to be written
  std::vector<Label> pointers_;  // 8-byte constants with the address of a called function
  std::vector<Label> pointer_targets_;
};

// Address, bytes and mnemonic of every instruction up to the exit.
std::string listing(const FuzzCase& c);

}  // namespace shadowprof::fuzz

// SPDX-License-Identifier: MIT
#include <elf.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "reference.h"

namespace shadowprof::inject_test {
namespace {

using decoder::kR15;
using decoder::kRax;
using decoder::kRbx;
using decoder::kRcx;
using decoder::kRdi;
using decoder::kRdx;
using decoder::kRsi;
using decoder::kRsp;
constexpr decoder::Gpr kR12 = decoder::kR12;

constexpr size_t kFirst = 5;   // index of `again`
constexpr size_t kEven = 17;   // and of `even`
constexpr size_t kAfter = 20;  // of what follows the loop

class LongModel : public Reference {
 public:
  LongModel(const std::string& program, uint64_t stack) : table_(8192) {
    read_code(program);
    now_.pc = insns_[0].address;
    now_.gpr[kRsp] = stack;
    before_ = now_;
  }

  const Moment* at(size_t n) override {
    while (number_ < n && !ended_) advance();
    if (n == number_) return ended_ ? nullptr : &now_;
    if (n + 1 == number_) return &before_;
    SP_CHECK(ended_, "a model does not run backwards");
    return nullptr;
  }
  const decoder::Insn& insn(GuestAddr pc) override { return insns_[index_of_.at(pc)]; }

 private:
  // The text is one executable segment; its instructions are what the model goes through.
  void read_code(const std::string& program) {
    std::ifstream file(program, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    SP_CHECK(bytes.size() > sizeof(Elf64_Ehdr), "cannot read {}", program);
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
    const auto* segment = reinterpret_cast<const Elf64_Phdr*>(bytes.data() + header->e_phoff);
    while (!(segment->p_type == PT_LOAD && segment->p_flags & PF_X)) segment++;
    uint64_t at = header->e_entry;
    while (at < segment->p_vaddr + segment->p_filesz) {
      const auto* code = reinterpret_cast<const uint8_t*>(bytes.data()) + segment->p_offset +
                         (at - segment->p_vaddr);
      const size_t left = segment->p_vaddr + segment->p_filesz - at;
      insns_.push_back(decoder::decode({code, left}, GuestAddr(at)));
      index_of_[GuestAddr(at)] = insns_.size() - 1;
      at += insns_.back().length;
    }
    SP_CHECK(insns_.size() == kAfter + 3, "capture_long.S has {} instructions", insns_.size());
  }

  // Long because it is the program: one line of arithmetic for each instruction.
  void advance() {
    before_ = now_;
    auto& r = now_.gpr;
    const size_t i = index_;
    index_++;
    switch (i) {
      case 0:
        r[kRbx] = insns_[0].rip_target.value;
        break;
      case 1:
        r[kR15] = 0x9e3779b9;
        break;
      case 2:
        r[kRsi] = 0;
        break;
      case 3:
        r[kRdi] = 0;
        break;
      case 4:
        r[kRcx] = 900000;
        break;
      case kFirst:
        r[kR15] *= 0x41c64e6d;
        break;
      case 6:
        r[kR15] += r[kRcx];
        break;
      case 7:
        r[kRax] = r[kR15];
        break;
      case 8:
        r[kRax] >>= 51;
        break;
      case 9:
        r[kRdx] = table_[r[kRax]];
        break;
      case 10:
        r[kRdx] ^= r[kR15];
        break;
      case 11:
        table_[r[kRax]] = r[kRdx];
        break;
      case 12:
        r[kRsp] -= 8;
        break;
      case 13:
        r[kRsp] += 8, r[kRdi] = r[kR15];
        break;
      case 14:
        break;
      case 15:
        index_ = r[kRdx] & 1 ? kEven - 1 : kEven;
        break;
      case kEven - 1:
        r[kRsi] = r[kRdx] + 2 * r[kRsi] + 3;
        break;
      case kEven:
        r[kR12] = table_[0];
        break;
      case 18:
        r[kRcx] = static_cast<uint32_t>(r[kRcx] - 1);
        break;
      case 19:
        index_ = r[kRcx] != 0 ? kFirst : kAfter;
        break;
      case kAfter:
        r[kRdi] = 0;
        break;
      case kAfter + 1:
        r[kRax] = 231;
        break;
      default:
        ended_ = true;
        break;
    }
    number_++;
    if (!ended_) now_.pc = insns_[index_].address;
  }

  std::vector<decoder::Insn> insns_;
  std::unordered_map<GuestAddr, size_t> index_of_;
  std::vector<uint64_t> table_;
  Moment now_, before_;
  size_t index_ = 0;
  size_t number_ = 0;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<Reference> model_of_long(const std::string& program, uint64_t stack) {
  return std::make_unique<LongModel>(program, stack);
}

}  // namespace shadowprof::inject_test

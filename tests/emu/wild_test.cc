// SPDX-License-Identifier: MIT
//
// Whatever a guest's registers and code are, the interpreter comes back and says why it stopped: a
// program that jumps anywhere, or that executes data, must not end who looks at it.
//
// A program of its own: doctest's handlers of signals would replace the interpreter's, which catch
// what a guest's instructions do.
#include "guest.h"

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#include <doctest/doctest.h>

#include <cstdlib>
#include <memory>

#include "../fuzz/random.h"

// What the linker says of our own code.
extern "C" const char __executable_start[];  // NOLINT(bugprone-reserved-identifier)
extern "C" const char etext[];

namespace {

using namespace shadowprof;
using namespace shadowprof::test;

using fuzz::Random;

constexpr uint64_t kInstructions = 2000;

// Where it may want to go, or read: nothing, code, data, and their ends.
uint64_t any_address(Random& random) {
  const uint64_t base[] = {0,
                           kCode.value,
                           kCode.value + kPage,
                           kData.value,
                           kData.value + kDataBytes,
                           uint64_t{1} << 47};
  const uint64_t near = base[random.below(std::size(base))] + random.below(64) - 16;
  if (random.percent(60)) return kData.value + random.below(kDataBytes);
  return random.percent(70) ? near : random.next();
}

machine::Registers any_registers(Random& random) {
  machine::Registers registers{};
  for (auto* r : {&registers.rax, &registers.rbx, &registers.rcx, &registers.rdx, &registers.rsi,
                  &registers.rdi, &registers.rbp, &registers.r8, &registers.r9, &registers.r10,
                  &registers.r11, &registers.r12, &registers.r13, &registers.r14, &registers.r15})
    *r = any_address(random);
  registers.rsp = kData.value + kDataBytes / 2 + random.below(2 * kPage);
  registers.set_pc(kCode + random.below(kPage));
  return registers;
}

// A page of our own code, which makes no sense there, with some bytes of it changed.
std::vector<uint8_t> code_elsewhere(Random& random) {
  const auto pages = static_cast<uint64_t>(etext - __executable_start) / kPage - 1;
  const char* page = __executable_start + kPage * (1 + random.below(pages));
  std::vector<uint8_t> code(page, page + kPage);
  for (uint64_t i = 0; i < 8; i++) code[random.below(kPage)] = random.byte();
  return code;
}

// Bytes that are no code; among them jumps and calls by registers and memory.
std::vector<uint8_t> no_code(Random& random) {
  std::vector<uint8_t> code;
  while (code.size() < kPage) {
    if (random.percent(20)) {
      const auto modrm =
          static_cast<uint8_t>(random.one_of({0x10, 0x20, 0xd0, 0xe0}) | random.below(8));
      code.insert(code.end(), {0xff, modrm});
    } else {
      code.push_back(random.byte());
    }
  }
  code.resize(kPage);
  return code;
}

void run_wild(uint64_t seed) {
  Random random(seed);
  trace::BlockTable table;
  Guest guest(table, random.percent(80) ? code_elsewhere(random) : no_code(random), random.byte());
  emu::Emulator emulator(table, guest);
  machine::MemoryView memory(guest);
  memory.set_areas(Guest::areas());
  std::vector<trace::Word> buffer(size_t{1} << 14);
  emu::CapturePlan plan;
  plan.values = random.percent(50);
  plan.addresses = random.percent(50);
  emulator.begin(memory, plan);
  for (int i = 0; i < 100; i++) {
    emulator.load(any_registers(random), {});
    const emu::Stopped stopped = emulator.run(buffer, kInstructions, 50);
    CHECK(stopped.words <= buffer.size());
  }
}

// A guest with an interpreter of its own.
struct Interpreted {
  trace::BlockTable table;
  Guest guest;
  emu::Emulator emulator{table, guest};
  machine::MemoryView memory{guest};

  explicit Interpreted(std::vector<uint8_t> code) : guest(table, std::move(code)) {
    memory.set_areas(Guest::areas());
    emulator.begin(memory, {});
  }
  // From its first byte on.
  emu::Stopped run(machine::Registers& registers) {
    registers.set_pc(kCode);
    std::vector<uint8_t> extended;
    emulator.load(registers, extended);
    std::vector<trace::Word> buffer(size_t{1} << 14);
    const emu::Stopped stopped = emulator.run(buffer, kInstructions, 50);
    emulator.store(registers, extended);
    return stopped;
  }
};

emu::Stopped run_code(std::vector<uint8_t> code, machine::Registers& registers) {
  return Interpreted(std::move(code)).run(registers);
}

}  // namespace

TEST_CASE("a jump to any address that is no code ends there") {
  for (const uint64_t target : {uint64_t{0}, uint64_t{1}, uint64_t{2}, kData.value, ~uint64_t{0}}) {
    machine::Registers registers{};
    registers.rax = target;
    CHECK(run_code({0xff, 0xe0}, registers).reason == emu::StopReason::no_code);  // jmp rax
    CHECK(registers.pc().value == target);
  }
}

TEST_CASE("a store whose last byte is the address space's faults") {
  machine::Registers registers{};
  const emu::Stopped stopped = run_code({0x50}, registers);  // push rax
  CHECK(stopped.reason == emu::StopReason::fault);
  CHECK(stopped.address.value == uint64_t{0} - 8);
}

// WILD_SEEDS: so many instead.
TEST_CASE("code that makes no sense ends somewhere") {
  const char* more = std::getenv("WILD_SEEDS");
  const uint64_t seeds = more ? std::strtoull(more, nullptr, 10) : 300;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    CAPTURE(seed);
    run_wild(seed);
  }
}

TEST_CASE("many interpreters exist at a time, and each knows where its own code faults") {
  constexpr size_t kMany = 20;
  for (int round = 0; round < 2; round++) {
    std::vector<std::unique_ptr<Interpreted>> all;
    while (all.size() < kMany)
      all.push_back(std::make_unique<Interpreted>(
          std::vector<uint8_t>{0x48, 0xf7, 0xf1, 0x0f, 0x05}));  // div rcx; syscall
    for (size_t i = 0; i < kMany; i++) {
      CAPTURE(i);
      machine::Registers registers{};
      registers.rcx = i % 2;
      const auto expected = i % 2 ? emu::StopReason::system_call : emu::StopReason::fault;
      CHECK(all[i]->run(registers).reason == expected);
    }
  }
}

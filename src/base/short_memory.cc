// SPDX-License-Identifier: MIT
#include "base/short_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>

namespace shadowprof {
namespace {

constexpr size_t kReserveBytes = size_t{32} << 20;

std::atomic<void*> reserve = nullptr;
std::atomic<bool> is_short = false;

void* try_to_map(size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void give_up_reserve() {
  is_short = true;
  void* given_up = reserve.exchange(nullptr);
  if (given_up == nullptr) throw std::bad_alloc();
  ::munmap(given_up, kReserveBytes);
}

std::terminate_handler usual_end = nullptr;

// For what is thrown in other threads than main()'s.
void end_process() {
  if (!is_short) usual_end();
  end_at_short_memory();
}

}  // namespace

void prepare_for_short_memory() {
  if (void* pages = try_to_map(kReserveBytes); pages != MAP_FAILED) reserve = pages;
  std::set_new_handler(give_up_reserve);
  usual_end = std::set_terminate(end_process);
}

void end_at_short_memory() {
  constexpr int kOwnFailure = 125;  // as cli/exit_codes.h
  constexpr char kText[] = "shadowprof: there is no more memory\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(kOwnFailure);
}

bool memory_is_short() {
  return is_short;
}

void* map_pages(size_t bytes) {
  for (;;) {
    void* pages = try_to_map(bytes);
    if (pages != MAP_FAILED) return pages;
    give_up_reserve();
  }
}

}  // namespace shadowprof

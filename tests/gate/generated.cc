// SPDX-License-Identifier: MIT
//
// Makes a function while it runs and names it in /tmp/perf-PID.map, as JIT compilers do.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

int main(int argc, char** argv) {
  // mov %edi, %ecx; 1: dec %ecx; jnz 1b; ret
  constexpr unsigned char kCode[] = {0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  std::memcpy(memory, kCode, sizeof kCode);
  if (::mprotect(memory, 4096, PROT_READ | PROT_EXEC) != 0) return 1;
  const std::string path = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  std::FILE* map = std::fopen(path.c_str(), "w");
  if (map == nullptr) return 1;
  std::fprintf(map, "0x%llx 0x%zx generated::count_down\n",
               static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory)), sizeof kCode);
  std::fclose(map);
  const int times = argc > 1 ? std::atoi(argv[1]) : 10;
  for (int i = 0; i < times; i++) reinterpret_cast<void (*)(int)>(memory)(1'000'000);
  std::printf("%s\n", path.c_str());
}

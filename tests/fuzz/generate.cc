// SPDX-License-Identifier: MIT
//
// usage: generate SEED COUNT FILE    writes the cases SEED, SEED+1, ... for the runner
//        generate --list SEED        prints one of them as assembly
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "generator.h"

using shadowprof::fuzz::Generator;

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--list") == 0) {
    const FuzzCase c = Generator(std::strtoull(argv[2], nullptr, 10)).make();
    std::fputs(shadowprof::fuzz::listing(c).c_str(), stdout);
    return 0;
  }
  if (argc != 4) {
    std::fputs("usage: generate SEED COUNT FILE | generate --list SEED\n", stderr);
    return 2;
  }
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const uint64_t count = std::strtoull(argv[2], nullptr, 10);
  std::FILE* f = std::fopen(argv[3], "wb");
  if (!f) {
    std::perror(argv[3]);
    return 1;
  }
  const uint64_t magic = FUZZ_MAGIC;
  bool written = std::fwrite(&magic, sizeof(magic), 1, f) == 1;
  for (uint64_t i = 0; i < count && written; i++) {
    const FuzzCase c = Generator(seed + i).make();
    written = std::fwrite(&c, sizeof(c), 1, f) == 1;
  }
  return std::fclose(f) == 0 && written ? 0 : 1;
}

// SPDX-License-Identifier: MIT
//
// Loads whose values are known: a flag that is 0 in 97 % of 100,000 records, and a level that is 4
// in 80 %, 5 in 20 %. Prints how many of those that were asked for have which.
//
// usage: flags ROUNDS
#include "known.h"

enum { kRecords = 100000 };
struct Record {
  uint32_t flag;
  uint8_t level;
};
static struct Record records[kRecords];

uint32_t flag_of(const struct Record *record);
uint32_t level_of(const struct Record *record);

NOT_COPIED uint32_t flag_of(const struct Record *record) { return record->flag; }
NOT_COPIED uint32_t level_of(const struct Record *record) { return record->level; }

int main(int argc, char **argv) {
  const uint64_t rounds = number_of(argc, argv, 1, 20);
  uint64_t random = 1, zeros = 0, fours = 0;
  for (int i = 0; i < kRecords; i++) {
    next_random(&random);
    records[i].flag = (random >> 33) % 100 < 97 ? 0 : 1 + (uint32_t)(random >> 61);
    records[i].level = (random >> 43) % 100 < 80 ? 4 : 5;
  }
  for (uint64_t round = 0; round < rounds; round++)
    for (int i = 0; i < kRecords; i++) {
      zeros += flag_of(&records[i]) == 0;
      fours += level_of(&records[i]) == 4;
    }
  const unsigned long long all = rounds * kRecords;
  printf("{\"calls\": [[\"main\", \"flag_of\", %llu], [\"main\", \"level_of\", %llu]], "
         "\"values\": [[\"flag_of\", \"mov\", %llu, {\"0\": %llu}], "
         "[\"level_of\", \"movzx\", %llu, {\"4\": %llu, \"5\": %llu}]]}\n",
         all, all, all, (unsigned long long)zeros, all, (unsigned long long)fours,
         (unsigned long long)(all - fours));
  return 0;
}

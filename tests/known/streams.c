// SPDX-License-Identifier: MIT
//
// Data that is walked in orders that are known, by functions of their own. Prints which sequences
// recur, and what share of all references they are.
//
// usage: streams WHAT ROUNDS
//   list       a list of 40 nodes that are scattered, over and over
//   lists      one of two lists, of 30 and of 45 nodes, drawn anew each time
//   table      a table of 24 lines that follow one another
//   columns    32 elements that are 5 lines apart
//   sweep      each line of a large array in turn
//   random     lines of the same array, drawn
#include <string.h>

#include "known.h"

enum { kLineBytes = 64, kLines = 1 << 18 };

struct node {
  struct node *next;
  char rest[kLineBytes - sizeof(struct node *)];
};
static _Alignas(4096) struct node nodes[kLines];

uint64_t walk_list(const struct node *from);
NOT_COPIED uint64_t walk_list(const struct node *from) {
  uint64_t length = 0;
  for (const struct node *at = from; at; at = at->next) length++;
  return length;
}

uint64_t walk_other(const struct node *from);
NOT_COPIED uint64_t walk_other(const struct node *from) {
  uint64_t length = 1;
  while ((from = from->next)) length++;
  return length;
}

// Each step loads what is there, and goes so many nodes on.
uint64_t walk_array(const struct node *from, uint64_t count, uint64_t step);
NOT_COPIED uint64_t walk_array(const struct node *from, uint64_t count, uint64_t step) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; i++, from += step) {
    __asm__ volatile("addq (%1), %0" : "+r"(sum) : "r"(from) : "memory", "cc");
  }
  return sum;
}

uint64_t walk_at_random(uint64_t count, uint64_t *random);
NOT_COPIED uint64_t walk_at_random(uint64_t count, uint64_t *random) {
  uint64_t sum = 0, state = *random;
  for (uint64_t i = 0; i < count; i++) {
    const struct node *at = nodes + (next_random(&state) >> 32) % kLines;
    __asm__ volatile("addq (%1), %0" : "+r"(sum) : "r"(at) : "memory", "cc");
  }
  *random = state;
  return sum;
}

// Nodes far from one another, in no order.
static struct node *scattered_list(uint64_t length, uint64_t *random) {
  struct node *first = NULL;
  for (uint64_t i = 0; i < length; i++) {
    struct node *node;
    do node = nodes + (next_random(random) >> 32) % kLines;
    while (node->rest[0]);
    node->rest[0] = 1;
    node->next = first;
    first = node;
  }
  return first;
}

static void print(const char *function, unsigned length, unsigned lines, const char *order,
                  double share, const char *behind) {
  printf("[\"%s\", %u, %u, \"%s\", %.4f]%s", function, length, lines, order, share, behind);
}

static uint64_t walk_lists(uint64_t rounds, uint64_t *random) {
  const struct node *first = scattered_list(30, random), *second = scattered_list(45, random);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < rounds; i++)
    sum += next_random(random) >> 63 ? walk_list(first) : walk_other(second);
  print("walk_list", 30, 30, "scattered", 30 / 75.0, ", ");
  print("walk_other", 45, 45, "scattered", 45 / 75.0, "");
  return sum;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  const uint64_t rounds = number_of(argc, argv, 2, 20000);
  uint64_t random = 1, sum = 0;
  printf("{\"streams\": [");
  if (strcmp(what, "lists") == 0) {
    sum += walk_lists(rounds, &random);
  } else if (strcmp(what, "list") == 0) {
    const struct node *list = scattered_list(40, &random);
    for (uint64_t i = 0; i < rounds; i++) sum += walk_list(list);
    print("walk_list", 40, 40, "scattered", 1, "");
  } else if (strcmp(what, "table") == 0) {
    for (uint64_t i = 0; i < rounds; i++) sum += walk_array(nodes, 24, 1);
    print("walk_array", 24, 24, "contiguous", 1, "");
  } else if (strcmp(what, "columns") == 0) {
    for (uint64_t i = 0; i < rounds; i++) sum += walk_array(nodes, 32, 5);
    print("walk_array", 32, 32, "strided", 1, "");
  } else if (strcmp(what, "sweep") == 0) {
    for (uint64_t i = 0; i < rounds / 1000; i++) sum += walk_array(nodes, kLines, 1);
  } else {
    sum += walk_at_random(rounds * 40, &random);
  }
  printf("], \"sum\": %llu}\n", (unsigned long long)sum);
  return 0;
}

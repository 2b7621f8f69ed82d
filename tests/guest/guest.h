// SPDX-License-Identifier: MIT
//
// What every guest program shares: a checksum, a seeded generator, and a check that ends the
// program with status 1. Guests are deterministic and never print an address, a pid or a time, so
// that their output on hardware is the expectation for every engine and mode.
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition) \
  ((condition) ? (void)0 : guest_failed(__FILE__, __LINE__, #condition, errno))

static inline void guest_failed(const char* file, int line, const char* what, int error) {
  dprintf(2, "%s:%d: expected %s (errno %d)\n", file, line, what, error);
  _exit(1);
}

static inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static inline uint64_t mix_bytes(uint64_t hash, const void* data, size_t size) {
  const unsigned char* bytes = (const unsigned char*)data;
  for (; size >= 8; size -= 8, bytes += 8) {
    uint64_t word;
    memcpy(&word, bytes, 8);
    hash = mix(hash, word);
  }
  for (; size > 0; --size) hash = mix(hash, *bytes++);
  return hash;
}

static inline uint64_t next_random(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t z = *state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Some work whose result depends on every step.
static inline uint64_t burn(uint64_t seed, unsigned steps) {
  uint64_t hash = seed;
  for (unsigned i = 0; i < steps; ++i) hash = mix(hash, i) + (hash >> (i & 31));
  return hash;
}

/* SPDX-License-Identifier: MIT
 *
 * A plug-in that counts what it is given, so that a test can compare it with what is known: records
 * of each kind, instructions of blocks, values by the function that computes them, and what must
 * not be. With PLUGIN_SLOW it takes so many microseconds for each call.
 */
#include <shadowprof/collector.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PLACES = 1 << 20, MOST_VALUES = 256 };

struct kinds {
  uint64_t of_kind[SHADOWPROF_LATENCY + 1];
  uint64_t instructions;
  uint64_t unknown;
  uint64_t bytes;
  uint64_t wrong;
  uint64_t values[MOST_VALUES]; /* in read_at */
  uint32_t places;
  char is_block[MOST_PLACES];
  char in_read_at[MOST_PLACES];
  long slow;
};

static void* begin(void) {
  struct kinds* k = calloc(1, sizeof *k);
  const char* slow = getenv("PLUGIN_SLOW");
  k->slow = slow != NULL ? atol(slow) : 0;
  return k;
}

static void place(void* self, const struct shadowprof_place* place) {
  struct kinds* k = self;
  if (place->number != k->places || place->number >= MOST_PLACES || place->code_bytes == 0 ||
      place->address == 0 || (place->function_number != 0) != (place->function[0] != 0))
    k->wrong++;
  k->places = place->number + 1;
  k->is_block[place->number] = place->kind == SHADOWPROF_PLACE_BLOCK;
  k->in_read_at[place->number] = strcmp(place->function, "read_at") == 0;
}

static void records(void* self, const struct shadowprof_record* records, size_t count) {
  struct kinds* k = self;
  size_t i;
  if (k->slow != 0) usleep((useconds_t)k->slow);
  for (i = 0; i < count; i++) {
    const struct shadowprof_record* r = &records[i];
    if (r->kind == 0 || r->kind > SHADOWPROF_LATENCY) {
      k->wrong++;
      continue;
    }
    k->of_kind[r->kind]++;
    if (r->kind < SHADOWPROF_BLOCK) continue;
    if (r->place >= k->places || k->is_block[r->place] != (r->kind == SHADOWPROF_BLOCK)) k->wrong++;
    if (r->kind == SHADOWPROF_BLOCK) k->instructions += r->size;
    if ((r->flags & SHADOWPROF_UNKNOWN) != 0) k->unknown++;
    if (r->kind == SHADOWPROF_LOAD || r->kind == SHADOWPROF_STORE) k->bytes += r->size;
    if (r->kind == SHADOWPROF_VALUE && k->in_read_at[r->place] && r->number < MOST_VALUES)
      k->values[r->number]++;
  }
}

static void add(struct shadowprof_table* table, const char* what, uint64_t number,
                uint64_t weight) {
  struct shadowprof_cell cells[2] = {{0, NULL}, {0, NULL}};
  cells[0].text = what;
  cells[1].number = number;
  table->add(table, cells, weight);
}

static void table(void* self, struct shadowprof_table* table) {
  static const char* const names[] = {"",      "thread", "begin", "end",   "gap",
                                      "block", "load",   "store", "value", "latency"};
  struct kinds* k = self;
  uint64_t i;
  for (i = 1; i <= SHADOWPROF_LATENCY; i++) add(table, names[i], 0, k->of_kind[i]);
  add(table, "instructions", 0, k->instructions);
  add(table, "unknown", 0, k->unknown);
  add(table, "bytes", 0, k->bytes);
  add(table, "wrong", 0, k->wrong);
  add(table, "hostile \033[31m\xff\xe2\x80\xae", 0, 1);
  for (i = 0; i < MOST_VALUES; i++)
    if (k->values[i] != 0) add(table, "read_at", i, k->values[i]);
}

static const struct shadowprof_column columns[] = {{"what", SHADOWPROF_CELL_TEXT},
                                                   {"number", SHADOWPROF_CELL_NUMBER}};

const struct shadowprof_plugin* shadowprof_collector(void) {
  static struct shadowprof_plugin plugin = {
      SHADOWPROF_PLUGIN_VERSION,
      SHADOWPROF_WANTS_BLOCKS | SHADOWPROF_WANTS_ACCESSES | SHADOWPROF_WANTS_VALUES,
      "kinds",
      "times",
      columns,
      2,
      0,
      begin,
      place,
      records,
      table};
  if (getenv("PLUGIN_LATENCIES") != NULL) plugin.wants |= SHADOWPROF_WANTS_LATENCIES;
  return &plugin;
}

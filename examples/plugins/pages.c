/* SPDX-License-Identifier: MIT
 *
 * A plug-in that counts loads by function and page: which pages a function reads, and how often.
 * How many rows a function has is how many pages it works on. Loads through the stack pointer are
 * left out.
 *
 *   cc -shared -fPIC -O2 -o pages.so pages.c
 *   shadowprof run --mode full --plugin ./pages.so -- program
 */
#include <shadowprof/collector.h>

#include <stdlib.h>

enum { PAGE_SHIFT = 12, FIRST_SLOTS = 1 << 12 };

struct count {
  uint64_t page;
  uint64_t loads; /* 0: the slot is free */
  uint32_t function;
};

struct pages {
  uint32_t* function_of; /* by the number of a place */
  size_t places;
  const char** names; /* by the number of a function */
  size_t functions;
  struct count* counts; /* hashed; there is always a free one */
  size_t slots;
  size_t used;
};

static void* grown(void* old, size_t* size, size_t least, size_t each) {
  size_t more = *size == 0 ? 1024 : *size;
  char* grown_to;
  size_t i;
  while (more <= least) more *= 2;
  if (more == *size) return old;
  grown_to = realloc(old, more * each);
  if (grown_to == NULL) abort();
  for (i = *size * each; i < more * each; i++) grown_to[i] = 0;
  *size = more;
  return grown_to;
}

static struct count* slot_of(struct pages* p, uint32_t function, uint64_t page) {
  size_t at = (size_t)((page * 31 + function) * 0x9e3779b97f4a7c15u >> 32) % p->slots;
  while (p->counts[at].loads != 0 &&
         (p->counts[at].page != page || p->counts[at].function != function))
    at = (at + 1) % p->slots;
  return &p->counts[at];
}

static void make_slots(struct pages* p, size_t slots) {
  struct count* old = p->counts;
  const size_t before = p->slots;
  size_t i;
  p->counts = calloc(slots, sizeof *p->counts);
  if (p->counts == NULL) abort();
  p->slots = slots;
  for (i = 0; i < before; i++)
    if (old[i].loads != 0) *slot_of(p, old[i].function, old[i].page) = old[i];
  free(old);
}

static void* begin(void) {
  struct pages* p = calloc(1, sizeof *p);
  if (p != NULL) make_slots(p, FIRST_SLOTS);
  return p;
}

static void place(void* self, const struct shadowprof_place* place) {
  struct pages* p = self;
  p->function_of = grown(p->function_of, &p->places, place->number, sizeof *p->function_of);
  p->function_of[place->number] = place->function_number;
  p->names = grown(p->names, &p->functions, place->function_number, sizeof *p->names);
  p->names[place->function_number] = place->function;
}

static void records(void* self, const struct shadowprof_record* records, size_t count) {
  struct pages* p = self;
  size_t i;
  for (i = 0; i < count; i++) {
    const struct shadowprof_record* r = &records[i];
    struct count* c;
    if (r->kind != SHADOWPROF_LOAD || (r->flags & (SHADOWPROF_UNKNOWN | SHADOWPROF_STACK)) != 0)
      continue;
    c = slot_of(p, p->function_of[r->place], r->number >> PAGE_SHIFT);
    if (c->loads++ != 0) continue;
    c->page = r->number >> PAGE_SHIFT;
    c->function = p->function_of[r->place];
    if (++p->used > p->slots / 2) make_slots(p, p->slots * 2);
  }
}

static int hotter(const void* a, const void* b) {
  const uint64_t x = ((const struct count*)a)->loads, y = ((const struct count*)b)->loads;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* There is room for so many rows only: the hottest come first. The order of the slots is lost, in
 * a copy of the process. */
static void table(void* self, struct shadowprof_table* table) {
  struct pages* p = self;
  size_t i;
  qsort(p->counts, p->slots, sizeof *p->counts, hotter);
  for (i = 0; i < p->used; i++) {
    const struct count* c = &p->counts[i];
    struct shadowprof_cell cells[2] = {{0, NULL}, {0, NULL}};
    cells[0].text = p->names[c->function];
    cells[1].number = c->page << PAGE_SHIFT;
    table->add(table, cells, c->loads);
  }
}

static const struct shadowprof_column columns[] = {{"function", SHADOWPROF_CELL_TEXT},
                                                   {"page", SHADOWPROF_CELL_ADDRESS}};

const struct shadowprof_plugin* shadowprof_collector(void) {
  static const struct shadowprof_plugin plugin = {SHADOWPROF_PLUGIN_VERSION,
                                                  SHADOWPROF_WANTS_ACCESSES,
                                                  "pages",
                                                  "loads",
                                                  columns,
                                                  2,
                                                  0,
                                                  begin,
                                                  place,
                                                  records,
                                                  table};
  return &plugin;
}

/* SPDX-License-Identifier: MIT
 *
 * A plug-in that does what PLUGIN_DOES says: something that it should not. "WHERE-WHAT": where is
 * load, begin, records or table, what is crash, abort, exit or hang. Or what is wrong with its
 * description.
 */
#include <shadowprof/collector.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void misbehave(const char* where) {
  const char* does = getenv("PLUGIN_DOES");
  const size_t length = strlen(where);
  if (does == NULL || strncmp(does, where, length) != 0 || does[length] != '-') return;
  does += length + 1;
  if (strcmp(does, "crash") == 0) raise(SIGSEGV);
  if (strcmp(does, "abort") == 0) abort();
  if (strcmp(does, "exit") == 0) exit(3);
  while (strcmp(does, "hang") == 0) pause();
}

static void* begin(void) {
  static int self;
  const char* does = getenv("PLUGIN_DOES");
  misbehave("begin");
  return does != NULL && strcmp(does, "nothing") == 0 ? NULL : &self;
}

static void records(void* self, const struct shadowprof_record* records, size_t count) {
  (void)self;
  (void)records;
  (void)count;
  misbehave("records");
}

static void table(void* self, struct shadowprof_table* table) {
  const char* does = getenv("PLUGIN_DOES");
  struct shadowprof_cell cell = {0, NULL};
  (void)self;
  cell.number = does != NULL && strcmp(does, "place") == 0 ? 1u << 30 : 0;
  table->add(table, &cell, 1);
  misbehave("table");
}

static const struct shadowprof_column columns[] = {{"place", SHADOWPROF_CELL_PLACE}};

const struct shadowprof_plugin* shadowprof_collector(void) {
  static struct shadowprof_plugin plugin = {SHADOWPROF_PLUGIN_VERSION,
                                            SHADOWPROF_WANTS_BLOCKS,
                                            "broken",
                                            "times",
                                            columns,
                                            1,
                                            0,
                                            begin,
                                            NULL,
                                            records,
                                            table};
  const char* does = getenv("PLUGIN_DOES");
  misbehave("load");
  if (does == NULL) return &plugin;
  if (strcmp(does, "version") == 0) plugin.version = 99;
  if (strcmp(does, "wants") == 0) plugin.wants = 1u << 20;
  if (strcmp(does, "name") == 0) plugin.name = "a name";
  if (strcmp(does, "columns") == 0) plugin.column_count = 9;
  if (strcmp(does, "null") == 0) return NULL;
  return &plugin;
}

/* SPDX-License-Identifier: MIT
 *
 * Plug-ins of shadowprof: a shared object that is given what was recorded of a program, and makes
 * a table of it, which becomes a part of the profile:
 *
 *   shadowprof run --plugin ./pages.so -- program
 *
 * For C (from C99 on) and C++, on x86-64 Linux. docs/plugins.md is the guide.
 *
 * The shared object defines one function:
 *
 *   const struct shadowprof_plugin *shadowprof_collector(void);
 *
 * Each time that shadowprof begins to collect, and once before, to see that it can be used, a
 * process is made in which the object is loaded. Its functions are called there, in this order, by
 * one thread:
 *
 *   begin      once
 *   place      for each place in code, before the first record that names it
 *   records    again and again
 *   table      in a copy of the process (fork), at the end, or where a profile is wanted of what
 *              there is up to now: what it changes is lost, and other threads are not there
 *
 * The process is neither the program's nor shadowprof's, and has their rights: those of the user
 * who started shadowprof. If it ends, by a signal, by exit(), or because a call has not returned
 * for SHADOWPROF_HANG_SECONDS, the profile says so; the run and other plug-ins go on. Its standard
 * output is standard error, its standard input is empty.
 */
#ifndef SHADOWPROF_COLLECTOR_H
#define SHADOWPROF_COLLECTOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHADOWPROF_PLUGIN_VERSION 1
#define SHADOWPROF_HANG_SECONDS 10
#define SHADOWPROF_MOST_COLUMNS 8
#define SHADOWPROF_LONGEST_NAME 32  /* bytes of the names of a table, a column and a weight */
#define SHADOWPROF_LONGEST_TEXT 512 /* bytes of a text in a cell; longer ones are cut */
#define SHADOWPROF_MOST_ROWS 20000  /* of a table; the weight of others is kept as a sum */

/* What a plug-in wants to see. What it does not want is not recorded for it, which costs less. */
enum {
  SHADOWPROF_WANTS_BLOCKS = 1,
  SHADOWPROF_WANTS_ACCESSES = 2,
  SHADOWPROF_WANTS_VALUES = 4,
  SHADOWPROF_WANTS_LATENCIES = 8 /* of loads that do nothing else; the emulator has none */
};

/* Kinds of records. Within a thread they are in the order of execution; what an instruction loads
 * comes before what it stores, and that before its result. Those of several threads follow one
 * another in pieces. Later versions may have more kinds: leave those alone that you do not know. */
enum {
  /* What follows is of another thread: `number` is its id in the program. Where replicas of a
   * program run at a time, each of their threads has a stream of its own: `place` is its id. */
  SHADOWPROF_THREAD = 1,
  /* A sample begins: what follows does not follow on what was there. `number`: which one. */
  SHADOWPROF_SAMPLE_BEGIN,
  /* It ends. With SHADOWPROF_CUT its last part is missing, as the plug-in was too slow; where there
   * was no room for this record either, the next thing that is known of the thread is that another
   * sample begins. */
  SHADOWPROF_SAMPLE_END,
  /* Something ran in between that is in no record: a signal handler begins or ends here, or code
   * ran natively. */
  SHADOWPROF_GAP,
  /* A block was executed: `place`. `size`: how many of its instructions; all, unless a signal, a
   * fault or the end came in between. */
  SHADOWPROF_BLOCK,
  /* The instruction `place` loads or stores `size` bytes at address `number`. With
   * SHADOWPROF_UNKNOWN the address is not known, and `number` is 0: thread-local data, gathers and
   * scatters, what depends on a mask or a count. `size` may be 0 then. The words of a thread's
   * control block that libraries read all the time (its own address, the stack's guard) have no
   * records. */
  SHADOWPROF_LOAD,
  SHADOWPROF_STORE,
  /* The instruction `place` has computed `number`, which has `size` bits. Of a vector register it
   * is the low 64 bits or less. Results that the encoding alone tells have no record. */
  SHADOWPROF_VALUE,
  /* The load `place` took `number` cycles of the time-stamp counter, what reading that takes
   * included. */
  SHADOWPROF_LATENCY
};

/* Bits of shadowprof_record.flags. */
enum {
  SHADOWPROF_UNKNOWN = 1,
  SHADOWPROF_STACK = 2, /* of loads and stores: through the stack pointer */
  SHADOWPROF_CUT = 4
};

struct shadowprof_record {
  uint8_t kind;
  uint8_t flags;
  uint16_t size;
  uint32_t place;
  uint64_t number;
};

enum { SHADOWPROF_PLACE_BLOCK = 1, SHADOWPROF_PLACE_INSTRUCTION = 2 };

/* A place in code. The texts stay as they are until the process ends, `code` until place()
 * returns. */
struct shadowprof_place {
  uint32_t number;   /* 0, 1, 2, ... in the order in which places are told */
  uint32_t kind;
  uint64_t address;  /* in the memory of the program */
  uint64_t offset;   /* in the module's file */
  const char *module;    /* the path of the file; "" where there is none */
  const char *function;  /* its name; "" where it is not known */
  const uint8_t *code;   /* the bytes of the block, or of the instruction */
  uint32_t code_bytes;
  uint32_t instructions; /* of a block; 1 of an instruction */
  uint32_t function_number; /* the same for all places of a function; 0: it is not known */
  uint32_t reserved;
};

/* What the cells of a column are. */
enum {
  SHADOWPROF_CELL_NUMBER = 0,
  SHADOWPROF_CELL_ADDRESS = 1, /* a number that is shown in hexadecimal */
  SHADOWPROF_CELL_TEXT = 2,
  SHADOWPROF_CELL_PLACE = 3 /* the number of a place: shown as function and line */
};

struct shadowprof_column {
  const char *name;
  uint32_t kind;
};

/* `text` of a column of texts, else `number`. */
struct shadowprof_cell {
  uint64_t number;
  const char *text;
};

/* Adds a row. Rows with equal cells are one row, with the sum of their weights; so are rows of
 * several profiles that are merged. */
struct shadowprof_table {
  void (*add)(struct shadowprof_table *table, const struct shadowprof_cell *cells, uint64_t weight);
};

struct shadowprof_plugin {
  uint32_t version; /* SHADOWPROF_PLUGIN_VERSION */
  uint32_t wants;   /* SHADOWPROF_WANTS_..., at least one of them */
  const char *name; /* of its table: letters, digits, - and _ */
  const char *weight; /* what the weight of a row is: "loads" */
  const struct shadowprof_column *columns;
  uint32_t column_count; /* 1 to SHADOWPROF_MOST_COLUMNS */
  uint32_t reserved;
  /* Returns what the others are given as `self`; NULL: it cannot be done. */
  void *(*begin)(void);
  void (*place)(void *self, const struct shadowprof_place *place); /* may be NULL */
  void (*records)(void *self, const struct shadowprof_record *records, size_t count);
  void (*table)(void *self, struct shadowprof_table *table);
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct shadowprof_plugin *shadowprof_collector(void);

#ifdef __cplusplus
}
#endif

#endif

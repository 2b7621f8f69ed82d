/* SPDX-License-Identifier: MIT
 *
 * The marks as functions, for languages that can call those.
 */
#include "shadowprof/marks.h"

void shadowprof_begin(void) {
  SHADOWPROF_BEGIN();
}
void shadowprof_end(void) {
  SHADOWPROF_END();
}

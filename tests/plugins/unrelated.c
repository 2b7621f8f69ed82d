/* SPDX-License-Identifier: MIT
 *
 * A shared object that is no plug-in.
 */
int unrelated(void);
int unrelated(void) {
  return 1;
}

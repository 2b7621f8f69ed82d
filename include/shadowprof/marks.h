/* SPDX-License-Identifier: MIT
 *
 * Marks for `shadowprof run --mode full --within marks`: what a thread executes between the two is
 * counted, and nothing else. For C and C++, with gcc and clang, on x86-64 Linux; elsewhere they do
 * nothing.
 *
 *   #include <shadowprof/marks.h>
 *
 *   SHADOWPROF_BEGIN();
 *   parse(input);
 *   SHADOWPROF_END();
 *
 * A mark is a nop and a jump to the next instruction. It changes no register, no flag and no
 * memory, calls nothing, and needs no library. The compiler moves no access to memory across it.
 * Marks may be nested: the outermost pair counts. Each thread has its own. The two instructions of
 * the end mark are counted, those of the begin mark are not.
 */
#ifndef SHADOWPROF_MARKS_H
#define SHADOWPROF_MARKS_H

#if defined(__x86_64__) && defined(__linux__) && (defined(__GNUC__) || defined(__clang__))
/* nop dword [rax+rax+d], with d "SpBg" or "SpEd"; jmp +0 */
#define SHADOWPROF_BEGIN() \
  __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x53, 0x70, 0x42, 0x67, 0xeb, 0x00" ::: "memory")
#define SHADOWPROF_END() \
  __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x53, 0x70, 0x45, 0x64, 0xeb, 0x00" ::: "memory")
#else
#define SHADOWPROF_BEGIN() ((void)0)
#define SHADOWPROF_END() ((void)0)
#endif

#endif

// SPDX-License-Identifier: MIT
//
// Values beside the one that an instruction names, known by hand, in 100 iterations with the counter
// 100, 99, ... 1:
//   multiply  the counter by 2^63: the upper half is counter / 2, the lower 0 or 2^63
//   divide    the counter by 10: quotient and remainder
//   compare   the counter with 50; compare_memory with 7 in memory; common its two lowest bits
// and calls with doubles: `power` of the counter and 2.0, directly and through a linkage stub; xmm2 is
// cleared before, which nobody reads; `plain` reads no double.
.globl _start
.text
_start:
  mov $100, %r12d
  mov $1, %r13d
  shl $63, %r13
loop:
  mov %r12, %rax
multiply:
  mul %r13
  mov %r12d, %eax
  xor %edx, %edx
  mov $10, %ecx
divide:
  div %ecx
compare:
  cmp $50, %r12
  je same
same:
compare_memory:
  cmp seven(%rip), %r12d
  je equal
equal:
common:
  test $3, %r12b
  je call_it
call_it:
  cvtsi2sd %r12, %xmm0
  movsd two(%rip), %xmm1
  pxor %xmm2, %xmm2
  call power
  cvtsi2sd %r12, %xmm0
  movsd two(%rip), %xmm1
  call stub
  pxor %xmm1, %xmm1
  call plain
  dec %r12
  jnz loop
  xor %edi, %edi
  mov $60, %eax
  syscall
stub:
  endbr64
  jmp *pointer(%rip)
power:
  mulsd %xmm1, %xmm0
  ret
plain:
  ret
.section .data
.balign 64
pointer:
  .quad power
two:
  .double 2.0
seven:
  .long 7
.section .note.GNU-stack, "", @progbits

// SPDX-License-Identifier: MIT
//
// Nested loops. Instructions: 2 before, 100 x (1 + 50 x 3 + 2), 5 after = 15307. The exit system
// call counts as one instruction.
.globl _start
.text
_start:
  xor %eax, %eax
  mov $100, %ecx
outer:
  mov $50, %edx
inner:
  add %edx, %eax
  dec %edx
inner_branch:
  jnz inner
inner_done:
  dec %ecx
outer_branch:
  jnz outer
outer_done:
  xor %edi, %edi
  cmp $127500, %eax
  setne %dil
  mov $60, %eax
  syscall
.section .note.GNU-stack, "", @progbits

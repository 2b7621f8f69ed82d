// SPDX-License-Identifier: MIT
//
// A chain of calls with a tail jump: 50 x (outer calls middle twice, middle jumps to last).
// Instructions: 1 + 50 x 3 (loop) + 50 x 3 (outer) + 100 x 2 (middle) + 100 x 2 (last) + 5 = 706.
.globl _start
.text
_start:
  mov $50, %ebx
loop:
loop_call:
  call outer
  dec %ebx
loop_branch:
  jnz loop
loop_done:
  xor %edi, %edi
  cmp $100, %ebp
  setne %dil
  mov $60, %eax
  syscall
outer:
outer_first:
  call middle
outer_second:
  call middle
outer_end:
  ret
middle:
  inc %r15d
middle_end:
  jmp last
last:
  inc %ebp
last_end:
  ret
.section .note.GNU-stack, "", @progbits

// SPDX-License-Identifier: MIT
//
// A jump table with four cases, each taken 100 times; case n executes n + 1 instructions before its
// jump back. Instructions: 2 + 400 x 3 + 100 x (2 + 3 + 4 + 5) + 400 x 2 + 5 = 3407.
.globl _start
.text
_start:
  mov $400, %ebx
  xor %ebp, %ebp
loop:
  mov %ebx, %eax
  and $3, %eax
dispatch:
  jmp *table(,%rax,8)
case0:
  inc %ebp
case0_end:
  jmp next
case1:
  inc %ebp
  inc %ebp
case1_end:
  jmp next
case2:
  inc %ebp
  inc %ebp
  inc %ebp
case2_end:
  jmp next
case3:
  inc %ebp
  inc %ebp
  inc %ebp
  inc %ebp
case3_end:
  jmp next
next:
  dec %ebx
loop_branch:
  jnz loop
loop_done:
  xor %edi, %edi
  cmp $1000, %ebp
  setne %dil
  mov $60, %eax
  syscall
.section .rodata
.balign 8
table:
  .quad case0, case1, case2, case3
.section .note.GNU-stack, "", @progbits

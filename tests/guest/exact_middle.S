// SPDX-License-Identifier: MIT
//
// Jumps into the middle of a block: the same five instructions are entered at three places, 10, 20
// and 30 times. Instructions: entered at the first 10 x 5, the third 20 x 3, the fifth 30 x 1, each
// with a loop of 3 around it, and 3 x 1 + 5 outside: 50 + 60 + 30 + 60 x 3 + 8 = 328.
.globl _start
.text
_start:
  mov $10, %ebx
loop1:
  call first
  dec %ebx
loop1_branch:
  jnz loop1
  mov $20, %ebx
loop2:
  call third
  dec %ebx
  jnz loop2
  mov $30, %ebx
loop3:
  call fifth
  dec %ebx
loop3_branch:
  jnz loop3
loop3_done:
  xor %edi, %edi
  cmp $30, %ebp
  setne %dil
  mov $60, %eax
  syscall
first:
  inc %eax
  inc %eax
third:
  inc %eax
  inc %ebp
fifth:
  ret
.section .note.GNU-stack, "", @progbits

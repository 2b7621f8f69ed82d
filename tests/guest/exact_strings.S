// SPDX-License-Identifier: MIT
//
// A repeated string instruction counts once per execution, whatever its count, 0 too.
// Instructions: 1 + 10 x 9 + 5 = 96.
.globl _start
.text
_start:
  mov $10, %ebx
loop:
  lea source(%rip), %rsi
  lea destination(%rip), %rdi
  mov $1000, %ecx
  rep movsb
  xor %eax, %eax
  mov $0, %ecx
  rep stosb
  dec %ebx
loop_branch:
  jnz loop
loop_done:
  xor %edi, %edi
  cmpb $7, destination+999(%rip)
  setne %dil
  mov $60, %eax
  syscall
.data
source:
  .fill 1000, 1, 7
.bss
destination:
  .skip 1000
.section .note.GNU-stack, "", @progbits

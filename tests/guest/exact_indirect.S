// SPDX-License-Identifier: MIT
//
// An indirect call that goes to one target 900 times and to another 100 times. Instructions: 2 +
// 1000 x 11 + 900 x 2 + 100 x 3 + 5 = 13107.
.globl _start
.text
_start:
  mov $1000, %ebx
  xor %ebp, %ebp
loop:
  mov %ebx, %eax
  xor %edx, %edx
  mov $10, %ecx
  div %ecx
  lea often(%rip), %rax
  lea seldom(%rip), %rsi
  test %edx, %edx
  cmovz %rsi, %rax
site:
  call *%rax
site_return:
  dec %ebx
loop_branch:
  jnz loop
loop_done:
  xor %edi, %edi
  cmp $1200, %ebp
  setne %dil
  mov $60, %eax
  syscall
often:
  add $1, %ebp
often_return:
  ret
seldom:
  add $3, %ebp
  nop
seldom_return:
  ret
.section .note.GNU-stack, "", @progbits

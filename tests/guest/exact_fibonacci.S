// SPDX-License-Identifier: MIT
//
// fib(20) by two recursive calls: 21891 calls, of which 10946 reach a leaf (4 instructions) and
// 10945 do not (12). With 7 outside: 10945 x 12 + 10946 x 4 + 7 = 175131.
.globl _start
.text
_start:
  mov $20, %edi
start_call:
  call fib
  xor %edi, %edi
  cmp $6765, %eax
  setne %dil
  mov $60, %eax
  syscall
fib:
  cmp $2, %edi
fib_branch:
  jl leaf
fib_recurse:
  push %rdi
  dec %edi
first_call:
  call fib
  pop %rdi
  push %rax
  sub $2, %edi
second_call:
  call fib
  pop %rcx
  add %rcx, %rax
  ret
leaf:
  mov %edi, %eax
  ret
.section .note.GNU-stack, "", @progbits

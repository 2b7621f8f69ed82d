// SPDX-License-Identifier: MIT
//
// A loop of 40 iterations with one branch and one call in each: paths are counted by hand in
// tests/e2e/answers.py.
.globl _start
.text
_start:
  mov $40, %ebx
loop:
  test $1, %bl
  jz even
odd:
  add $3, %r12
  call callee
odd_back:
  nop
  jmp join
even:
  call callee
even_back:
  nop
  jmp join
callee:
  inc %r13
  ret
  nop
join:
  dec %ebx
loop_branch:
  jnz loop
  xor %edi, %edi
  mov $60, %eax
  syscall
.section .note.GNU-stack, "", @progbits

// SPDX-License-Identifier: MIT
//
// Values that are known by hand, in 1000 iterations:
//   counter       1000, 999, ... 1: stride -1, 1000 distinct
//   constant      loaded from memory, always 7: semi-invariant, but not constant in its encoding
//   immediate     5, by its encoding: not listed
//   low_bits      the counter's three lowest bits: 8 distinct, zero in 125, strided while it falls
//   narrow        the same in 8 bits, into a register whose upper bits are not zero
// and an indirect call that goes to `often` in 900 and to `rarely` in 100 of them, with the counter
// in rdi and 7 in rsi, which they read, and others in rcx and rdx, which they do not.
.globl _start
.text
_start:
  mov $1000, %r12d
  mov $-1, %r13
loop:
immediate:
  mov $5, %eax
constant:
  mov seven(%rip), %rsi
counter_copy:
  mov %r12, %rdi
low_bits:
  mov %r12d, %ebx
low_bits_and:
  and $7, %ebx
narrow:
  mov %bl, %r13b
  lea often(%rip), %r14
  mov %r12d, %eax
  xor %edx, %edx
  mov $10, %ecx
divide:
  div %ecx
  test %edx, %edx
  jnz call_it
  lea rarely(%rip), %r14
call_it:
  call *%r14
counter:
  dec %r12
loop_branch:
  jnz loop
  xor %edi, %edi
  mov $60, %eax
  syscall
often:
  lea (%rdi,%rsi), %rax
  ret
rarely:
  lea (%rdi,%rsi), %rax
  ret
.section .data
seven:
  .quad 7
.section .note.GNU-stack, "", @progbits

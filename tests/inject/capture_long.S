// SPDX-License-Identifier: MIT
//
// A loop that runs long enough to fill many trace buffers, so that records meet the guard page at
// every one of their words. model.cc computes what it does: the two must agree.
.globl _start
.text
_start:
  lea table(%rip), %rbx
  mov $0x9e3779b9, %r15d
  xor %esi, %esi
  xor %edi, %edi
  mov $900000, %ecx
again:
  imul $0x41c64e6d, %r15, %r15
  add %rcx, %r15
  mov %r15, %rax
  shr $51, %rax
  mov (%rbx,%rax,8), %rdx
  xor %r15, %rdx
  mov %rdx, (%rbx,%rax,8)
  push %r15
  pop %rdi
  test $1, %dl
  jz even
  lea 3(%rdx,%rsi,2), %rsi
even:
  mov table(%rip), %r12
  dec %ecx
  jnz again
  xor %edi, %edi
  mov $231, %eax
  syscall
.bss
.balign 64
table: .skip 65536
.section .note.GNU-stack, "", @progbits

// SPDX-License-Identifier: MIT
//
// What 100 iterations do to memory, known by hand:
//   narrow, wide        a byte is stored, and the four bytes that it is one of are loaded
//   whole, part         eight bytes are stored, and half of them are loaded
//   page, other_page    eight bytes are stored and never loaded; the same of the page before are
//   split               eight bytes from offset 60 of a line on are loaded
//   dead, over, used    the second store overwrites the first, and is loaded
//   first, again        the same eight bytes, which nobody stores, are loaded twice
.globl _start
.text
_start:
  mov $100, %r12d
  lea data(%rip), %rbx
loop:
narrow:
  movb %r12b, 1(%rbx)
wide:
  mov (%rbx), %eax
whole:
  mov %r12, 8(%rbx)
part:
  mov 12(%rbx), %eax
page:
  mov %r12, 4096+16(%rbx)
other_page:
  mov 16(%rbx), %rax
split:
  mov 64+60(%rbx), %rax
dead:
  mov %r12, 24(%rbx)
over:
  mov %rbx, 24(%rbx)
used:
  mov 24(%rbx), %rax
first:
  mov 32(%rbx), %rax
again:
  mov 32(%rbx), %rcx
  dec %r12
  jnz loop
  xor %edi, %edi
  mov $60, %eax
  syscall
.bss
.balign 4096
data:
  .skip 8192

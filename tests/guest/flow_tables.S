// SPDX-License-Identifier: MIT
//
// Code in bulk for flow_tables.c: 5,000 distinct functions behind one table, a block of 2,000
// instructions without a branch, and a chain of 300 tail jumps.
.intel_syntax noprefix
.section .note.GNU-stack, "", @progbits

// Each instance's own labels carry the macro's counter; the table is filled in the same order.
.macro make_function
  .text
  .p2align 3
.Lmany\@:
  endbr64
  lea rax, [rdi+rdi*2+\@]
  xor rax, \@*3
  ret
  .section .data.rel.ro, "aw"
  .quad .Lmany\@
.endm

.section .data.rel.ro, "aw"
.p2align 3
.globl many_functions
many_functions:
.rept 5000
  make_function
.endr

.text
.p2align 4
.globl long_block
.type long_block, @function
long_block:
  endbr64
  mov rax, rdi
.rept 500
  add rax, 7
  lea rdi, [rdi+rax*2]
  rol rdi, 3
  xor rax, rdi
.endr
  ret
.size long_block, . - long_block

.globl tail_chain
.type tail_chain, @function
tail_chain:
  endbr64
  mov rax, rdi
.rept 300
  add rax, 1
  jmp 1f
  ud2
1:
.endr
  ret
.size tail_chain, . - tail_chain

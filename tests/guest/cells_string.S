// SPDX-License-Identifier: MIT
//
// String instructions: every width, repeat prefix, count (0 too) and direction, overlapping
// operands; and the loop instructions, which also count in rcx.
#include "cells.inc"

.irp op, movsb, movsw, movsd, movsq, cmpsb, cmpsw, cmpsd, cmpsq
  cell "\op", "buf rsi, 0x400; buf rdi, 0x800"
  cell "std; \op; cld", "buf rsi, 0x400; buf rdi, 0x800"
.endr
.irp op, stosb, stosw, stosd, stosq, scasb, scasw, scasd, scasq
  cell "\op", "buf rdi, 0x800"
  cell "std; \op; cld", "buf rdi, 0x800"
.endr
.irp op, lodsb, lodsw, lodsd, lodsq
  cell "\op", "buf rsi, 0x400"
  cell "mov ecx, 5; rep \op", "buf rsi, 0x400"
.endr
.irp count, 0, 1, 2, 7, 33
  .irp op, movsb, movsw, movsd, movsq
    cell "mov ecx, \count; rep \op", "buf rsi, 0x403; buf rdi, 0x801"
    cell "mov ecx, \count; std; rep \op; cld", "buf rsi, 0x700; buf rdi, 0xb00"
  .endr
  .irp op, stosb, stosw, stosd, stosq
    cell "mov ecx, \count; rep \op", "buf rdi, 0x801"
    cell "mov ecx, \count; std; rep \op; cld", "buf rdi, 0x801"
  .endr
  .irp op, cmpsb, cmpsw, cmpsd, cmpsq
    cell "mov ecx, \count; repe \op", "buf rsi, 0x400; buf rdi, 0x800; mov rax, [rsi]; mov [rdi], rax"
    cell "mov ecx, \count; repne \op", "buf rsi, 0x400; buf rdi, 0x800"
  .endr
  .irp op, scasb, scasw, scasd, scasq
    cell "mov ecx, \count; repne \op", "buf rdi, 0x400; mov rax, [rdi+40]"
    cell "mov ecx, \count; repe \op", "buf rdi, 0x400; mov eax, 0; mov [rdi], rax; mov [rdi+8], rax"
    cell "mov ecx, \count; std; repne \op; cld", "buf rdi, 0x400"
  .endr
.endr
// Overlapping, both ways: forward by 1 fills; backward by 1 moves.
cell "mov ecx, 40; rep movsb", "buf rsi, 0x400; buf rdi, 0x401"
cell "mov ecx, 40; rep movsb", "buf rsi, 0x401; buf rdi, 0x400"
cell "mov ecx, 40; std; rep movsb; cld", "buf rsi, 0x440; buf rdi, 0x441"
cell "mov ecx, 20; rep movsq", "buf rsi, 0x400; buf rdi, 0x403"
cell "mov ecx, 1000; rep stosb", "buf rdi, 0x800"
cell "mov ecx, 1500; rep movsb", "buf rsi, 0; buf rdi, 0x800"
cell "mov ecx, 100; rep movsb; mov ecx, 100; rep movsb; mov ecx, 3; rep stosq", "buf rsi, 0x10; buf rdi, 0x800"
// Address-size prefix: the count is ecx and the pointers are 32 bits; only a zero count is safe here.
cell "mov ecx, 0; .byte 0x67; rep movsb", "buf rsi, 0; buf rdi, 0x800"
// A prefix that means nothing, and a segment override on the source.
cell "mov ecx, 4; repne movsb", "buf rsi, 0x100; buf rdi, 0x800"
cell "mov ecx, 4; .byte 0x3e; rep movsb", "buf rsi, 0x100; buf rdi, 0x800"

cell "mov ecx, 10; 1: add rax, rcx; loop 1b"
cell "mov ecx, 10; 1: add rax, rcx; dec ebx; cmp cl, 4; loopne 1b"
cell "mov ecx, 10; 1: inc rax; cmp rcx, rcx; loope 1b"
cell "mov ecx, 10; 1: inc rax; cmp cl, 3; loope 1b"
cell "mov rcx, 0; jrcxz 1f; inc rax; 1: mov rcx, 1; jrcxz 2f; inc rbx; 2: nop"
cell "movabs rcx, 0x100000000; jecxz 1f; inc rax; 1: jrcxz 2f; inc rbx; 2: mov ecx, 1; jecxz 3f; inc rdx; 3: nop"
cell "movabs rcx, 0x100000003; 1: inc rax; .byte 0x67; loop 1b"
cell "mov ecx, 1; 1: inc rax; loop 1b; jrcxz 2f; inc rbx; 2: inc r15"

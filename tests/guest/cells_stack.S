// SPDX-License-Identifier: MIT
//
// Pushes and pops of everything, frames, memory relative to rsp, calls and returns of every shape,
// and bytes below the stack pointer, which belong to the program (the red zone).
#include "cells.inc"

.irp reg, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
  cell "push \reg; pop rax; push rbx; pop \reg"
  cell "lea rax, [rip+cell_stack_callee]; mov \reg, rax; call \reg; mov \reg, 5; mov eax, 6"
  cell "lea rax, [rip+1f]; mov \reg, rax; jmp \reg; ud2; 1: mov \reg, 5; mov eax, 6"
.endr
cell "push ax; push bx; pop cx; pop dx; push 0x12; pop rax; push -1; pop rbx; push 0x12345678; pop rsi"
cell "push rsp; pop rax; sub rax, rsp"
cell "push rsp; mov rax, rsp; sub rax, [rsp]; lea rsp, [rsp+8]"
cell "push rax; push rbx; push qword ptr [rsp+8]; pop rcx; pop rdx; pop rsi"
cell "push rax; push rbx; pop qword ptr [rsp]; pop rcx"
cell "push rax; push rbx; push qword ptr [rsp]; pop qword ptr [rsp+8]; pop rdx; pop rcx"
cell "push qword ptr [rsi]; push qword ptr [rsi+rcx*8]; pop qword ptr [rsi+8]; pop rax", "buf rsi, 0x100; mov ecx, 5"
cell "mov r12, rsp; push r12; pop rsp; mov r12d, 1"
cell "mov rax, rsp; xchg rax, rsp; mov eax, 7"
cell "mov rbp, rsp; lea rsp, [rsp-64]; mov [rsp+8], rax; mov [rbp-64], rbx; mov rcx, [rsp]; mov rdx, [rsp+8]; mov rsp, rbp; mov ebp, 1"
cell "lea rsp, [rsp-0x20]; mov [rsp], rax; mov byte ptr [rsp+3], 0x55; add qword ptr [rsp], 7; lea rdx, [rsp+rcx*8]; mov rbx, [rdx-8]; mov edx, 0; lea rsp, [rsp+0x20]", "mov ecx, 1"
cell "mov [rsp-8], rax; mov [rsp-120], rbx; mov [rsp-128], r15; add [rsp-8], rbx; mov rcx, [rsp-8]; mov rdx, [rsp-120]; xor rdx, [rsp-128]", undef=U_LOGIC
cell "mov qword ptr [rsp-64], 0x12345; lea r8, [rsp-64]; mov r9, [r8]; call 1f; jmp 2f; 1: ret; 2: mov r8d, 0"
cell "mov [rsp-16], r15; mov [rsp-24], r14; mov ecx, 3; 1: add r15, [rsp-16]; sub [rsp-24], r15; loop 1b; mov r14, [rsp-24]"
cell "enter 32, 0; mov [rbp-8], rax; mov rcx, [rsp+24]; leave"
cell "enter 64, 1; mov rax, [rbp-8]; sub rax, rbp; leave", "buf rbp, 0x800"
cell "enter 16, 3; mov rax, [rbp-8]; leave", "buf rbp, 0x800"
cell "push rbp; mov rbp, rsp; lea rsp, [rsp-48]; mov [rbp-48], rdx; mov rax, [rbp-48]; leave"
cell "pushfq; and qword ptr [rsp], 0x8d5; pop rax; pushfw; pop ax; and eax, 0x8d5", undef=U_LOGIC
cell "push rax; and qword ptr [rsp], 0xcd5; popfq; cld"
cell "call 1f; 1: pop rax; lea rbx, [rip+1b]; sub rax, rbx; mov ebx, 0"
cell "call 1f; .quad 0x1122334455667788; 1: pop rax; mov rbx, [rax]; mov eax, 0"
cell "call 2f; jmp 3f; 2: lea rax, [rsp]; ret; 3: mov eax, 1"
cell "lea rax, [rip+1f]; push rax; ret; ud2; 1: mov eax, 2"
cell "push rcx; push rdx; call 2f; jmp 3f; 2: mov rax, [rsp+8]; mov rbx, [rsp+16]; ret 16; 3: inc rsi"
cell "push rcx; call 2f; jmp 3f; 2: ret 8; 3: inc rsi"
cell "lea rax, [rip+cell_stack_callee]; push rax; call [rsp]; pop rax; mov eax, 1"
cell "lea rax, [rip+cell_stack_callee]; push rax; push rbx; call [rsp+8]; pop rbx; pop rax; mov eax, 1"
cell "lea rax, [rip+1f]; push rax; jmp [rsp]; ud2; 1: pop rax; mov eax, 1"
cell "lea rax, [rip+1f]; mov [rsp-8], rax; jmp [rsp-8]; ud2; 1: mov eax, 1"
cell "lea rax, [rip+cell_stack_callee]; mov [rsi+rcx*8], rax; call [rsi+rcx*8]; mov qword ptr [rsi+rcx*8], 0; mov eax, 1", "buf rsi, 0x100; mov ecx, 5"
// The retpoline idioms: the return address on the stack is replaced before the return.
cell "lea r11, [rip+cell_stack_callee]; call cell_retpoline_r11; mov r11d, 1; mov eax, 2"
cell "lea rax, [rip+cell_stack_callee]; call cell_retpoline_rax; mov eax, 2"
// Return addresses that are changed, skipped and used twice.
cell "call 1f; inc rax; inc rax; jmp 2f; 1: add qword ptr [rsp], 3; ret; 2: nop"
cell "call 1f; jmp 3f; 1: call 2f; ud2; 2: lea rsp, [rsp+8]; inc rbx; ret; 3: nop"
cell "call 1f; jmp 2f; 1: mov rax, [rsp]; mov [rsp-16], rax; ret; 2: mov eax, 1"
// Prefixes on branches: notrack, bnd, operand size that is ignored, hints.
cell "lea rax, [rip+1f]; .byte 0x3e; jmp rax; ud2; 1: mov eax, 1"
cell "lea rax, [rip+cell_stack_callee]; .byte 0x3e; call rax; mov eax, 1"
cell "lea rax, [rip+1f]; .byte 0xf2; jmp rax; ud2; 1: mov eax, 1"
cell ".byte 0xf2; call cell_stack_bnd; .byte 0xf2; jmp 1f; ud2; 1: inc rcx; .byte 0x2e; je 2f; inc rdx; 2: .byte 0x3e; jne 3f; inc rbx; 3: nop"
cell ".byte 0x48; jmp 1f; ud2; 1: .byte 0x48; call cell_stack_callee; call cell_stack_rep_ret"
cell "endbr64; nop; .byte 0x66, 0x90; .byte 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 2, 0, 0; pause; xchg ax, ax; inc rax"
// Into the middle of an instruction: the immediate of the first decodes as other instructions.
cell "mov ecx, 3; 1: .byte 0xb8; 2: inc ebx; nop; nop; nop; loop 2b; add rdx, rax; mov eax, 0"
cell "jmp 1f+1; 1: .byte 0xe9, 0xff, 0xc0, 0x48, 0xff, 0xc3; inc rcx"
cell "cmp eax, 1; jmp 2f; 1: mov edx, 0x12345678; 2: inc rsi; mov r8, rsi"
// Into the middle of blocks, at every instruction of one.
.irp n, 0, 1, 2, 3, 4, 5
  cell "lea rax, [rip+1f]; lea rax, [rax+3*\n]; jmp rax; 1: inc rcx; inc rdx; inc rbx; inc rsi; inc rdi; mov eax, 4"
.endr

.text
.p2align 4
cell_stack_callee:
  endbr64
  add qword ptr [rip+cell_data], 0x1234
  inc qword ptr [rip+cell_data+8]
  ret
cell_stack_bnd:
  inc qword ptr [rip+cell_data+8]
  .byte 0xf2
  ret
cell_stack_rep_ret:
  inc qword ptr [rip+cell_data+8]
  .byte 0xf3
  ret
.macro retpoline reg
.p2align 4
cell_retpoline_\reg:
  call 2f
1: pause
  lfence
  jmp 1b
2: mov [rsp], \reg
  ret
.endm
retpoline r11
retpoline rax

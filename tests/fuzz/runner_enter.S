/* SPDX-License-Identifier: MIT */
/* Into a case and out of it. All state of a case is loaded right before its first instruction and
   saved right behind its last, so nothing of the runner's own code can hide a difference. The
   runner is linked statically at a low address: its variables have absolute 32-bit addresses. */
  .text
  .globl enter_case, leave_case
  .type enter_case, @function
enter_case:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, host_rsp
  stmxcsr host_mxcsr
  mov state_mask, %eax
  xor %edx, %edx
  xrstor64 state_image
  push case_flags
  popfq
  mov case_gpr+0, %rax
  mov case_gpr+8, %rcx
  mov case_gpr+16, %rdx
  mov case_gpr+24, %rbx
  mov case_gpr+32, %rsp
  mov case_gpr+40, %rbp
  mov case_gpr+48, %rsi
  mov case_gpr+56, %rdi
  mov case_gpr+64, %r8
  mov case_gpr+72, %r9
  mov case_gpr+80, %r10
  mov case_gpr+88, %r11
  mov case_gpr+96, %r12
  mov case_gpr+104, %r13
  mov case_gpr+112, %r14
  mov case_gpr+120, %r15
  jmp *case_entry
leave_case:
  mov %rax, case_gpr+0
  mov %rcx, case_gpr+8
  mov %rdx, case_gpr+16
  mov %rbx, case_gpr+24
  mov %rsp, case_gpr+32
  mov %rbp, case_gpr+40
  mov %rsi, case_gpr+48
  mov %rdi, case_gpr+56
  mov %r8, case_gpr+64
  mov %r9, case_gpr+72
  mov %r10, case_gpr+80
  mov %r11, case_gpr+88
  mov %r12, case_gpr+96
  mov %r13, case_gpr+104
  mov %r14, case_gpr+112
  mov %r15, case_gpr+120
  mov host_rsp, %rsp
  pushfq
  pop case_flags
  cld
  mov state_mask, %eax
  xor %edx, %edx
  xsave64 state_image
  fninit
  ldmxcsr host_mxcsr
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
  .size enter_case, . - enter_case

  .bss
  .balign 64
  .globl state_image, state_mask, case_gpr, case_flags, case_entry
state_image: .skip 4096
case_gpr: .skip 128
case_flags: .skip 8
case_entry: .skip 8
host_rsp: .skip 8
state_mask: .skip 4
host_mxcsr: .skip 4
  .section .note.GNU-stack,"",@progbits

// SPDX-License-Identifier: MIT
//
// A little of everything that a capture plan records: counters, strides, constants, pointer chases,
// r15 in every role, the stack, string instructions, partial registers; then the same routine from a
// page far away (rip-relative operands out of reach) and from a writable one (code that checks itself).
.set FAR, 0x520000000000
.set ROUTINE_PAGES, 0x1000
.globl _start
.text
_start:
  mov $40, %ecx
  xor %eax, %eax
  lea numbers(%rip), %rsi
stride:                          // a stride, a constant, a counter
  mov (%rsi), %rdx
  add %rdx, %rax
  movl $7, %r8d
  mov %eax, 4(%rsi,%rcx,8)
  add $8, %rsi
  dec %ecx
  jnz stride

  lea nodes(%rip), %rbx          // a chain of pointers
  mov $20, %ecx
chase:
  mov (%rbx), %rbx
  dec %ecx
  jnz chase

  mov $158, %eax                 // arch_prctl: the fs segment begins at the numbers
  mov $0x1002, %edi
  lea numbers(%rip), %rsi
  syscall
  xor %ebp, %ebp

  lea numbers(%rip), %r15        // r15: base, index, destination, source, pushed and popped
  mov 8(%r15), %r14
  mov %r14, 16(%r15)
  xor %r12d, %r12d
many:
  lea 1(%r12), %r15
  lea numbers(%rip), %r13
  movzbl (%r13,%r15,1), %eax
  mov %al, (%r13,%r15,1)
  mov %r15b, %dl
  mov %dl, %ah
  push %r15
  xchg %r15, %rax
  pop %r15
  imul $3, %r15, %r9
  add %r9, %r15
  cmovc %r15, %r10
  sete %r15b
  inc %r12
  cmp $30, %r12
  jne many

  mov $24, %r12d                 // results beside the named one, compares of all widths and places
  lea numbers(%rip), %rsi
both:
  mov (%rsi), %rax
  mul %r12
  mov %r12, %r15
  imulq 8(%rsi)
  and $0xf, %edx
  xor %eax, %eax
  div %r15
  movzbl (%rsi), %eax
  mov $3, %cl
  div %cl
  cltq
  cqto
  xchg %rax, %r15
  mov %r15, %r9
  xadd %r9, %r12
  mov %r15, %r12
  mov $24, %r12d
  sub %ebp, %r12d
  lock cmpxchg %r9, 16(%rsi)
  cmp %bl, %ah
  cmp %dh, (%rsi)
  cmpw $0x1234, 2(%rsi)
  cmpl $-2, 4(%rsi,%rbp,8)
  cmp %r15, 8(%rsi,%r15,2)
  cmp numbers+24(%rip), %r13
  testb $0x80, numbers+33(%rip)
  test %r15, %r15
  testl $0x10000, 8(%rsp)
  testb $1, %ah
  cmpl $9, 16(%esi)
  cmpq $5, %fs:0(%rbp)
  cvtsi2sd %rax, %xmm0           // doubles
  cvtsi2sd %rbp, %xmm1
  addsd %xmm1, %xmm0
  movapd %xmm0, %xmm3
  pxor %xmm2, %xmm2
  jp 0f
  mulsd %xmm3, %xmm3
  sqrtsd numbers(%rip), %xmm2
0:
  add $8, %rsi
  inc %ebp
  cmp $20, %ebp
  jne both
  xor %ebp, %ebp

  mov $7, %ebp                   // vector registers
  lea numbers(%rip), %r15
elements:
  movups 8(%r15,%rbp,8), %xmm8
  movdqa %xmm8, %xmm15
  paddb %xmm8, %xmm15
  pmuludq %xmm15, %xmm8
  movd %ebp, %xmm12
  cvtdq2ps %xmm12, %xmm11
  mulss %xmm11, %xmm11
  cvtss2sd %xmm11, %xmm10
  divsd numbers+16(%rip), %xmm10
  cmpltsd %xmm10, %xmm9
  pcmpeqd %xmm4, %xmm4
  pshufd $0x1b, %xmm8, %xmm5
  movhpd (%r15), %xmm5
  movq %xmm5, %r15
  movq %r15, %xmm6
  movdq2q %xmm6, %mm3
  movq2dq %mm3, %xmm7
  emms
  lea numbers(%rip), %r15
  dec %ebp
  jnz elements

  mov $1, %eax                   // AVX2 and AVX-512, where they are
  cpuid
  nop                            // behind each such instruction: hardware.cc (missed_nop)
  bt $27, %ecx
  jnc no_upper
  xor %ecx, %ecx
  xgetbv
  nop
  mov %eax, %ebp
  mov $7, %eax
  xor %ecx, %ecx
  cpuid
  nop
  mov %ebp, %eax
  and $6, %eax
  cmp $6, %eax
  jne no_upper
  bt $5, %ebx
  jnc no_upper
  mov $5, %ecx
upper:
  vmovupd 8(%r15,%rcx,8), %ymm9
  vaddpd %ymm9, %ymm9, %ymm2
  vpsrlw $3, %ymm2, %ymm13
  vmovsd (%r15,%rcx,8), %xmm14
  vcvtsd2ss %xmm14, %xmm14, %xmm1
  vbroadcastsd numbers+8(%rip), %ymm0
  vextractf128 $1, %ymm9, %xmm3
  dec %ecx
  jnz upper
  vzeroupper
  and $0xe6, %ebp
  cmp $0xe6, %ebp
  jne no_upper
  and $0xc0010000, %ebx          // F, BW and VL
  cmp $0xc0010000, %ebx
  jne no_upper
  mov $6, %ecx
uppermost:
  kmovq (%r15,%rcx,8), %k3
  kmovd %ecx, %k7
  kandq %k3, %k7, %k1
  vmovdqu64 (%r15), %zmm16
  vpaddd %zmm16, %zmm16, %zmm23{%k7}
  vpcmpgtw %ymm16, %ymm23, %k2
  vcvtdq2pd %ymm23, %zmm31{%k7}{z}
  vmulsd (%r15,%rcx,8), %xmm31, %xmm24
  dec %ecx
  jnz uppermost
  vzeroupper
no_upper:

  mov $13, %ecx                  // string instructions
  lea numbers(%rip), %rsi
  lea copies(%rip), %rdi
  rep movsb
  lodsq
  stosl
  mov $5, %ecx
  xor %eax, %eax
  lea copies(%rip), %rdi
  repne scasb

  mov $6, %ecx                   // loop, calls by register and memory
calls:
  push %rcx
  call routine
  lea routine(%rip), %r15
  call *%r15
  call *pointer(%rip)
  pop %rcx
  loop calls

  mov $3, %r9d                   // mapped for reading and writing, then executed
  call copy_routine
  mov $10, %eax                  // mprotect: read and execute
  mov $5, %edx
  syscall
  call run_far
  mov $10, %eax                  // mprotect: all three
  movabs $FAR, %rdi
  mov $ROUTINE_PAGES, %esi
  mov $7, %edx
  syscall
  call run_far

  xor %edi, %edi
  mov $231, %eax                 // exit_group
  syscall

routine:
  mov numbers+24(%rip), %rax
  add numbers+32(%rip), %rax
  mov %rax, copies+24(%rip)
  movzbl numbers+9(%rip), %r15d
  lea copies(%rip), %rdx
  addq $3, copies+32(%rip)
  movslq numbers+40(%rip), %r11
  xor %r15, copies+40(%rip)
  push numbers+48(%rip)
  pop %r15
  mov 8(%rdx), %r15
  ret
routine_end:

// The copy's rip-relative operands name memory behind the far page's own code.
copy_routine:
  mov $9, %eax                   // mmap, fixed
  movabs $FAR, %rdi
  mov $ROUTINE_PAGES, %esi
  mov $3, %edx
  mov $0x32, %r10d
  mov $-1, %r8
  xor %r9d, %r9d
  syscall
  mov $9, %eax                   // a page where the copies' operands are
  movabs $(FAR + 0x1ff000), %rdi
  mov $0x3000, %esi
  syscall
  lea far_routine(%rip), %rsi
  movabs $FAR, %rdi
  mov $(far_routine_end - far_routine), %ecx
  rep movsb
  movabs $FAR, %rdi
  mov $ROUTINE_PAGES, %esi
  ret

run_far:
  mov $8, %ebp
  movabs $FAR, %r15
0:
  call *%r15
  dec %ebp
  jnz 0b
  ret

far_routine:
  mov 0x200000(%rip), %rax
  add $1, %rax
  mov %rax, 0x200000-7(%rip)
  mov 0x200000(%rip), %r15
  movzwl 0x200000(%rip), %ecx
  add %r15, 0x200000(%rip)
  incl 0x200000(%rip)
  lea 0x200000(%rip), %rdi
  cmpb $4, 0x200000(%rip)
  cmp %r15, 0x200000(%rip)
  movabs $FAR, %r15
  add $0x200010, %r15
  mov (%r15), %edx
  push 0x200000(%rip)
  pop %r14
  mov $3, %ecx
1:
  add %ecx, 0x200000(%rip)
  loop 1b
  movabs $FAR, %r15
  ret
far_routine_end:

.data
.balign 64
numbers:
  .quad 1, 2, 3, 0x100000000, 0x8000000000000000, -1, -2, 77
  .skip 1024
copies: .skip 512
pointer: .quad routine
nodes: .quad 1f
2: .quad 3f
1: .quad 2b
3: .quad 4f
4: .quad nodes
.section .note.GNU-stack, "", @progbits

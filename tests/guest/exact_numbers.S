// SPDX-License-Identifier: MIT
//
// Results in vector registers that are known by hand, in 100 iterations; r12 counts down from 100:
//   number        the counter as a double
//   halved        half of it
//   root          the root of 6.25, always 2.5, from writable memory: semi-invariant
//   fixed         loaded from memory that cannot be written to: constant
//   variable      the same from memory that can be: not constant
//   cleared       0.0, by its encoding
//   single        the counter's two lowest bits as a float: 0.0 in 25
//   words, bytes  the first of packed integers: the counter and 1000, and twice its lowest byte
//   copied        of the double, with an instruction that does not say what it copies
//   back          the integer of half the counter in a general-purpose register
.globl _start
.text
_start:
  mov $100, %r12d
loop:
number:
  cvtsi2sd %r12, %xmm0
  movapd %xmm0, %xmm9
halved:
  mulsd half(%rip), %xmm9
root:
  sqrtsd square(%rip), %xmm15
fixed:
  movsd three(%rip), %xmm2
variable:
  movsd square(%rip), %xmm3
cleared:
  pxor %xmm4, %xmm4
  mov %r12d, %eax
  and $3, %eax
single:
  cvtsi2ss %eax, %xmm4
moved:
  movd %r12d, %xmm5
words:
  paddd thousands(%rip), %xmm5
  movd %r12d, %xmm6
bytes:
  paddb %xmm6, %xmm6
copied:
  movaps %xmm0, %xmm7
back:
  cvttsd2si %xmm9, %rax
  dec %r12d
  jnz loop
  xor %edi, %edi
  mov $60, %eax
  syscall
.section .rodata
.balign 16
three:
  .double 3.0
half:
  .double 0.5
thousands:
  .long 1000, 2000, 3000, 4000
.section .data
square:
  .double 6.25
.section .note.GNU-stack, "", @progbits

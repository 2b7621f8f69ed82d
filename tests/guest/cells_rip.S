// SPDX-License-Identifier: MIT
//
// Every kind of operand relative to rip: loads, stores, lea, immediates behind the displacement,
// branches through memory, vector forms with compressed displacements. An engine that moves code
// more than 2 GB away must reach the same bytes.
#include "cells.inc"

.irp op, add, adc, sub, sbb, cmp
  cell "\op rax, qword ptr [rip+cell_data]"
  cell "\op ecx, dword ptr [rip+cell_data+4]"
  cell "\op dx, word ptr [rip+cell_data+9]"
  cell "\op bh, byte ptr [rip+cell_data+11]"
  cell "\op qword ptr [rip+cell_data+16], r14"
  cell "\op byte ptr [rip+cell_data+24], dil"
  cell "\op byte ptr [rip+cell_data+24], 0x81"
  cell "\op word ptr [rip+cell_data+26], 0x8123"
  cell "\op dword ptr [rip+cell_data+28], 0x81234567"
  cell "\op qword ptr [rip+cell_data+32], -0x1234567"
  cell "\op qword ptr [rip+cell_data+32], 3"
  .ifnc \op,cmp
  cell "lock \op qword ptr [rip+cell_data+32], rsi"
  cell "lock \op word ptr [rip+cell_data+32], 0x1234"
  .endif
.endr
.irp op, and, or, xor
  cell "\op rax, qword ptr [rip+cell_data]", undef=U_LOGIC
  cell "\op dword ptr [rip+cell_data+28], 0x81234567", undef=U_LOGIC
.endr
.irp op, inc, dec, not, neg
  cell "\op byte ptr [rip+cell_data+1]"
  cell "\op word ptr [rip+cell_data+2]"
  cell "\op dword ptr [rip+cell_data+4]"
  cell "\op qword ptr [rip+cell_data+8]"
.endr
.irp op, mul, imul
  cell "\op qword ptr [rip+cell_data]", undef=U_MUL
  cell "\op byte ptr [rip+cell_data]", undef=U_MUL
.endr
cell "div dword ptr [rip+cell_data]", "or dword ptr [rip+cell_data], 1; mov edx, 0", undef=U_DIV
cell "imul rax, qword ptr [rip+cell_data], 0x12345; imul cx, word ptr [rip+cell_data+8], 3; imul r15, [rip+cell_data]", undef=U_MUL
cell "test byte ptr [rip+cell_data], 0x11; setz al; test dword ptr [rip+cell_data], 0x1111111; setz bl; test qword ptr [rip+cell_data+8], rcx", undef=U_LOGIC
cell "mov rax, [rip+cell_data]; mov [rip+cell_data+8], rcx; mov byte ptr [rip+cell_data+16], 0x12; mov word ptr [rip+cell_data+18], 0x3456; mov dword ptr [rip+cell_data+20], 0x12345678; mov qword ptr [rip+cell_data+24], -99"
cell "mov r8b, [rip+cell_data]; mov ah, [rip+cell_data+1]; mov [rip+cell_data+2], ch; mov r9w, [rip+cell_data+3]; mov r10d, [rip+cell_data+5]; mov rsi, [rip+cell_data+9]"
cell "movzx eax, byte ptr [rip+cell_data]; movzx rcx, word ptr [rip+cell_data+1]; movsx rdx, byte ptr [rip+cell_data+3]; movsxd rbx, dword ptr [rip+cell_data+4]; movbe rsi, [rip+cell_data+8]", feat=F_MOVBE
cell "lea rax, [rip+cell_data+5]; lea rcx, [rip+cell_data]; sub rax, rcx; mov ecx, 0"
cell "lea r15, [rip+cell_data+77]; lea r14, [rip+cell_data]; sub r15, r14; mov r14d, 0"
cell "lea eax, [rip+cell_data+5]; lea ecx, [rip+cell_data]; sub eax, ecx; mov ecx, 0"
cell "lea rax, [rip+cell_data]; mov rbx, [rax+8]; mov [rax+rcx*8], rbx; xor eax, eax", "mov ecx, 4", undef=U_LOGIC
cell "cmovb rax, [rip+cell_data]; cmovne ecx, [rip+cell_data+8]; cmovs dx, [rip+cell_data+12]; setp byte ptr [rip+cell_data+16]"
cell "xchg [rip+cell_data], rax; xchg [rip+cell_data+8], ecx; xchg [rip+cell_data+13], dh; xadd [rip+cell_data+16], r8; lock xadd [rip+cell_data+24], r9d"
cell "cmpxchg [rip+cell_data], rbx", "mov rax, [rip+cell_data]"
cell "lock cmpxchg [rip+cell_data], r15d; lock cmpxchg8b [rip+cell_data+8]; lock cmpxchg16b [rip+cell_data+16]"
cell "shl qword ptr [rip+cell_data], cl; sar dword ptr [rip+cell_data+8], 5; shld [rip+cell_data+16], rax, 9", undef=U_SHIFT
cell "rol byte ptr [rip+cell_data], cl; rcr word ptr [rip+cell_data+3], 1; ror qword ptr [rip+cell_data+8], 33", undef=0x801
cell "bt qword ptr [rip+cell_data], 5; setc al; bts dword ptr [rip+cell_data], 31; btc [rip+cell_data+8], rcx", "and ecx, 0x1ff", undef=U_BT
cell "popcnt rax, [rip+cell_data]; tzcnt rcx, [rip+cell_data+8]; lzcnt edx, [rip+cell_data+16]; crc32 rbx, qword ptr [rip+cell_data+24]", undef=U_COUNT, feat=F_LZCNT
cell "pdep rax, rbx, [rip+cell_data]; pext r15, r14, [rip+cell_data+8]; rorx rcx, [rip+cell_data], 9; sarx rdx, [rip+cell_data], rsi; mulx r8, r9, [rip+cell_data]", feat=F_BMI2
cell "push qword ptr [rip+cell_data]; pop rax; push rbx; pop qword ptr [rip+cell_data+8]; push word ptr [rip+cell_data+16]; pop word ptr [rip+cell_data+18]"
cell "push qword ptr [rip+cell_data]; push qword ptr [rip+cell_data+8]; pop qword ptr [rip+cell_data]; pop qword ptr [rip+cell_data+8]"
cell "call qword ptr [rip+cell_rip_pointer]; add rax, 1"
cell "call qword ptr [rip+cell_rip_pointer]; call qword ptr [rip+cell_rip_pointer]; mov rax, [rip+cell_data]"
cell "movups xmm1, [rip+cell_data]; movaps xmm2, [rip+cell_data+16]; paddb xmm3, [rip+cell_data+32]; movaps [rip+cell_data+48], xmm4; movq xmm5, [rip+cell_data+3]; movss xmm6, [rip+cell_data+4]; movsd [rip+cell_data+80], xmm7"
cell "pshufd xmm1, [rip+cell_data], 0x1b; shufps xmm2, [rip+cell_data], 0x4e; pinsrq xmm3, [rip+cell_data+8], 1; pextrd [rip+cell_data+4], xmm4, 2; roundsd xmm5, [rip+cell_data+16], 3; palignr xmm6, [rip+cell_data+32], 5", feat=F_SSE42
cell "cvtsi2sd xmm1, qword ptr [rip+cell_data]; cvttsd2si rax, [rip+cell_data+8]; ucomisd xmm2, [rip+cell_data+16]; movhps xmm3, [rip+cell_data+24]; movnti [rip+cell_data+32], rbx; pcmpistri xmm4, [rip+cell_data+48], 0xc; ldmxcsr [rip+cell_rip_mxcsr]", feat=F_SSE42
cell "fld qword ptr [rip+cell_data]; fstp tbyte ptr [rip+cell_data+16]; fild dword ptr [rip+cell_data+32]; fistp qword ptr [rip+cell_data+40]; fnstcw [rip+cell_data+50]; stmxcsr [rip+cell_data+52]"
cell "vmovdqu ymm1, [rip+cell_data]; vpaddd ymm2, ymm3, [rip+cell_data+32]; vmovaps [rip+cell_data+64], ymm4; vbroadcastss ymm5, [rip+cell_data+5]; vpermq ymm6, [rip+cell_data], 0x1b; vblendvps ymm7, ymm8, [rip+cell_data], ymm9; vextracti128 [rip+cell_data+96], ymm10, 1", feat=F_AVX2
cell "vfmadd231pd ymm1, ymm2, [rip+cell_data]; vfnmsub132ss xmm3, xmm4, [rip+cell_data+8]", feat=F_FMA
cell "vmovdqu64 zmm1, [rip+cell_data]; vmovdqu64 [rip+cell_data+64], zmm17; vpaddq zmm2{k1}{z}, zmm3, [rip+cell_data+128]; vmulpd zmm4, zmm5, qword ptr [rip+cell_data+8]{1to8}; vmovups ymm20, [rip+cell_data+192]; vmovsd xmm21, [rip+cell_data+264]", feat=F_AVX512
cell "vpternlogq zmm1{k2}, zmm2, [rip+cell_data], 0x96; vpcmpud k3, zmm3, [rip+cell_data+64], 2; vpmovqb [rip+cell_data+8], zmm4; vpcompressq [rip+cell_data+128]{k4}, zmm5; kmovq k5, [rip+cell_data]; kmovd [rip+cell_data+300], k6; vpshldd zmm6, zmm7, [rip+cell_data], 5", feat=F_VBMI2
cell "vinserti32x4 zmm1, zmm2, [rip+cell_data+16], 3; vcvtusi2sd xmm17, xmm18, qword ptr [rip+cell_data]; vcvttsd2usi rax, [rip+cell_data+8]; vrndscalesd xmm19, xmm20, [rip+cell_data+16], 0x11", feat=F_AVX512
cell "mov eax, 3; 1: add dword ptr [rip+cell_data], 0x7fffffff; adc qword ptr [rip+cell_data+8], 0; dec eax; jnz 1b"

.section .data.rel.ro, "aw"
.p2align 3
cell_rip_pointer: .quad cell_rip_callee
.section .rodata
.p2align 2
cell_rip_mxcsr: .long 0x3f80
.text
cell_rip_callee:
  endbr64
  add qword ptr [rip+cell_data], 0x1234
  ret

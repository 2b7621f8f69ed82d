// SPDX-License-Identifier: MIT
//
// Every form in which an instruction can name r15: base, index, destination, source, byte
// register, pushed, popped, exchanged, in vvvv, as a vector gather's base; and instructions that
// use it together with each other register that an engine might borrow instead.
#include "cells.inc"

// Integer destination and source, all widths.
.irp op, add, adc, sub, sbb, cmp, and, or, xor
  cell "\op r15, rax", undef=U_LOGIC
  cell "\op rax, r15", undef=U_LOGIC
  cell "\op r15d, r14d", undef=U_LOGIC
  cell "\op r15w, cx", undef=U_LOGIC
  cell "\op r15b, sil", undef=U_LOGIC
  cell "\op cl, r15b", undef=U_LOGIC
  cell "\op r15, r15", undef=U_LOGIC
  cell "\op r15, 0x12345678", undef=U_LOGIC
  cell "\op r15b, 0x12", undef=U_LOGIC
  cell "\op r15w, 0x1234", undef=U_LOGIC
  cell "\op qword ptr [r15], r15", "buf r15, 0x100", undef=U_LOGIC
  cell "\op r9, qword ptr [r15+r9*8+16]", "buf r15, 0x100; mov r9d, 5", undef=U_LOGIC
  cell "\op byte ptr [r14+r15], r8b", "buf r14, 0x100; mov r15d, 9", undef=U_LOGIC
.endr
cell "test r15, r15; sete al; test r15b, 0x40; setne bl; test r15d, 0x40000; sets r15b", undef=U_LOGIC
.irp op, inc, dec, not, neg
  cell "\op r15"
  cell "\op r15d"
  cell "\op r15w"
  cell "\op r15b"
  cell "\op qword ptr [r15+8]", "buf r15, 0x100"
  cell "lock \op byte ptr [r15+8]", "buf r15, 0x100"
.endr
.irp op, mul, imul
  cell "\op r15", undef=U_MUL
  cell "\op r15d", undef=U_MUL
  cell "\op r15w", undef=U_MUL
  cell "\op r15b", undef=U_MUL
  cell "\op qword ptr [r15]", "buf r15, 0x100", undef=U_MUL
.endr
cell "imul r15, r14; imul r14, r15, -5; imul r15d, dword ptr [rsi], 99", "buf rsi, 0x100", undef=U_MUL
cell "div r15", "or r15, 1; mov edx, 0", undef=U_DIV
cell "idiv r15d", "mov r15d, -7; cdq", undef=U_DIV

// Moves in every encoding.
cell "mov r15, rax; mov rbx, r15; mov r15d, ecx; mov r14d, r15d; mov r15w, dx; mov r15b, dil; mov dil, r15b"
cell "mov r15, -1; mov r15d, 0x89abcdef; movabs r15, 0x123456789abcdef0; mov r15w, 0x1234; mov r15b, 0x56"
cell "mov qword ptr [r15], rax; mov rcx, qword ptr [r15+8]; mov dword ptr [r15+16], 5; mov byte ptr [r15+20], 6", "buf r15, 0x200"
cell "mov r15, qword ptr [r15]", "buf r15, 0x200"
cell "mov r15d, dword ptr [r15+4]", "buf r15, 0x200"
cell "mov rax, qword ptr [r15+r15*1]", "movabs r15, 0x80000000080"
cell "mov r15, qword ptr [rbx+r15*2]", "buf rbx, 0x200; mov r15d, 33"
cell "mov qword ptr [r15+rbx*8+0x123], r15", "buf r15, 0x200; mov ebx, 2"
cell "mov r15, qword ptr [r15*8+0x100]", "movabs r15, 0x20000000001"
cell "movzx r15d, al; movzx r15, word ptr [rsi]; movsx r15, bl; movsxd r15, ecx; movsx r15d, dx", "buf rsi, 0x200"
cell "movzx eax, r15b; movzx ecx, r15w; movsx rdx, r15b; movsxd rbx, r15d; movsx r15, r15w"
cell "lea r15, [rax+rbx*4+7]; lea rax, [r15+r15*8]; lea r15d, [r15+1]; lea r15, [r15*2+3]; lea ecx, [r15d+4]"
cell "bswap r15; bswap r15d"
cell "xchg rax, r15; xchg r15, rax; xchg r15, r14; xchg r15d, ecx; xchg r15b, sil; xchg ax, r15w"
cell "xchg r15, r15; xchg qword ptr [r15], rax; xchg qword ptr [rsi], r15", "buf r15, 0x200; buf rsi, 0x300"
cell "xchg qword ptr [r15], r15", "buf r15, 0x200"
cell "xadd r15, rax; xadd rcx, r15; xadd r15, r15; xadd r15b, dl"
cell "lock xadd qword ptr [r15+8], r15", "buf r15, 0x200"
cell "lock xadd qword ptr [r15+8], r14", "buf r15, 0x200"
cell "cmpxchg r15, rbx", "mov rax, r15"
cell "cmpxchg r15, rbx; cmpxchg rcx, r15; cmpxchg r15b, dl"
cell "lock cmpxchg qword ptr [r15], r15", "buf r15, 0x200; mov rax, [r15]"
cell "lock cmpxchg16b xmmword ptr [r15]", "buf r15, 0x200; mov rax, [r15]; mov rdx, [r15+8]"
cell "cmpxchg8b qword ptr [r15+r14*8]", "buf r15, 0x200; mov r14d, 3"
cell "cmovb r15, rax; cmovne r15, r14; cmovs rax, r15; cmovo r15d, ecx; cmovp r15, qword ptr [rsi]", "buf rsi, 0x200"
cell "seto r15b; setb r15b; setg byte ptr [r15]", "buf r15, 0x200"
cell "setno byte ptr [rsi+r15]; setnp r15b", "buf rsi, 0x200; mov r15d, 1"

// Shifts, bits, BMI.
.irp op, shl, shr, sar
  cell "\op r15, cl", undef=U_SHIFT
  cell "\op r15d, 7", undef=U_SHIFT
  cell "\op qword ptr [r15], cl", "buf r15, 0x300", undef=U_SHIFT
.endr
.irp op, rol, ror, rcl, rcr
  cell "\op r15, cl", undef=0x801
  cell "\op r15b, 1", undef=0x801
  cell "\op dword ptr [r15], 3", "buf r15, 0x300", undef=0x801
.endr
.irp op, shld, shrd
  cell "\op r15, rax, cl; \op rbx, r15, 7; \op r15, r15, 9", undef=U_SHIFT
.endr
.irp op, bt, bts, btr, btc
  cell "\op r15, rax", undef=U_BT
  cell "\op rax, r15", undef=U_BT
  cell "\op r15d, 5", undef=U_BT
  cell "\op qword ptr [r15], r14", "buf r15, 0x400; mov r14, -500", undef=U_BT
  cell "\op qword ptr [r14], r15", "buf r14, 0x400; mov r15, -500", undef=U_BT
.endr
cell "popcnt r15, r15; popcnt eax, r15d; popcnt r15, qword ptr [rsi]", "buf rsi, 0x400", feat=F_POPCNT
cell "lzcnt r15, rax; tzcnt rax, r15; lzcnt r14, r15", undef=U_COUNT, feat=F_LZCNT
cell "bsf r15, rcx; bsr rdx, r15", "or rcx, 0x1000; or r15, 1", undef=U_SCAN
cell "crc32 r15, rax; crc32 eax, r15b; crc32 r15d, r15d; crc32 r14, r15", feat=F_SSE42
cell "movbe r15, qword ptr [r15]", "buf r15, 0x400", feat=F_MOVBE
cell "movbe qword ptr [r14], r15", "buf r14, 0x400", feat=F_MOVBE
cell "andn r15, rax, rbx", undef=U_BMI, feat=F_BMI1
cell "andn rax, r15, rbx", undef=U_BMI, feat=F_BMI1
cell "andn rax, rbx, r15", undef=U_BMI, feat=F_BMI1
cell "andn r15d, r15d, dword ptr [r15]", "buf r15, 0x400", undef=U_BMI, feat=F_BMI1
.irp op, blsi, blsr, blsmsk
  cell "\op r15, rax", undef=U_BMI, feat=F_BMI1
  cell "\op rax, r15", undef=U_BMI, feat=F_BMI1
  cell "\op r15d, r15d", undef=U_BMI, feat=F_BMI1
  cell "\op r15, qword ptr [r15+8]", "buf r15, 0x400", undef=U_BMI, feat=F_BMI1
.endr
cell "bextr r15, rax, rbx; bextr rax, r15, rbx; bextr rcx, rbx, r15", undef=U_BEXTR, feat=F_BMI1
cell "bzhi r15, rax, rbx; bzhi rax, r15, rbx; bzhi rcx, rbx, r15", undef=U_BMI, feat=F_BMI2
.irp op, pdep, pext
  cell "\op r15, rax, rbx; \op rax, r15, rbx; \op rcx, rbx, r15; \op r15, r15, r15", feat=F_BMI2
  cell "\op rax, r15, qword ptr [rsi]; \op r15, r14, qword ptr [rsi]", "buf rsi, 0x400", feat=F_BMI2
  cell "\op r15d, r14d, dword ptr [r15]", "buf r15, 0x400", feat=F_BMI2
.endr
.irp op, shlx, shrx, sarx
  cell "\op r15, rax, rbx; \op rax, r15, rbx; \op rcx, rbx, r15; \op r15d, r15d, r15d", feat=F_BMI2
  cell "\op rax, qword ptr [rsi], r15; \op r15, qword ptr [rsi+8], r14", "buf rsi, 0x400", feat=F_BMI2
  cell "\op rax, qword ptr [r15], r14", "buf r15, 0x400", feat=F_BMI2
.endr
cell "rorx r15, rax, 5; rorx rax, r15, 50; rorx r15d, dword ptr [rsi], 3", "buf rsi, 0x400", feat=F_BMI2
cell "mulx r15, rax, rbx; mulx rax, r15, rbx; mulx rax, rcx, r15; mulx r15, r14, r13", feat=F_BMI2
cell "mulx r15, r14, qword ptr [r15]", "buf r15, 0x400", feat=F_BMI2
cell "adcx r15, rax; adox rax, r15; adcx r14, r15; adox r15, qword ptr [rsi]", "buf rsi, 0x400", feat=F_ADX

// The stack.
cell "push r15; pop rax; push rbx; pop r15; push r15; push r14; pop r15; pop r14"
cell "push r15w; pop r14w; push cx; pop r15w"
cell "push qword ptr [r15]; pop qword ptr [r15+8]", "buf r15, 0x500"
cell "push r15; pop qword ptr [r14]; push qword ptr [r14+8]; pop r15", "buf r14, 0x500"
cell "push rax; push rbx; mov r15, [rsp]; mov [rsp+8], r15; pop rbx; pop rax"
cell "mov r15, rsp; mov rax, [r15-8]; push rcx; mov rdx, [r15-8]; lea rsp, [r15]; mov eax, 1; mov r15d, 2"
cell "mov r15, rsp; and rsp, -64; push rcx; pop rdx; mov rsp, r15; mov r15d, 3", undef=0x8d5
cell "xchg r15, rsp; xchg rsp, r15; mov r15, 4"

// Strings: r15 is a bystander that must survive, and the count's source.
cell "mov ecx, 9; rep movsb; mov r15, rcx; add r15, rsi; sub r15, rdi", "buf rsi, 0x500; buf rdi, 0x600"

// r15 with r8-r11 and r14 all at once: no register of those is free.
cell "mov r8, [r15]; add r9, r8; xor r10, r9; sub r11, r10; lea r14, [r15+r11]; mov [r15+8], r14; mov r14d, 0", "buf r15, 0x600"
cell "lea r8, [r9+r10*2]; lea r11, [r14+r15*4]; imul r15, r8; add r14, r11; xor r9, r15; adc r10, r14", undef=0xd4
cell "mov r15, [r14+r8*8]; mov [r14+r9*8], r15; mov r10, r15; mov r11, r10", "buf r14, 0x600; mov r8d, 3; mov r9d, 11"
cell "lock cmpxchg qword ptr [r15+r14*8], r8; setz r9b; mov r10, [r15+r14*8]; mov r11, rax", "buf r15, 0x600; mov r14d, 2; mov rax, [r15+16]"
// With every register in use in one block, rip-relative operands included.
cell "add rax, r15; add rcx, rax; add rdx, rcx; add rbx, rdx; add rbp, rbx; add rsi, rbp; add rdi, rsi; add r8, rdi; add r9, r8; add r10, r9; add r11, r10; add r12, r11; add r13, r12; add r14, r13; add r15, r14; add r15, [rip+cell_data+8]; add [rip+cell_data+16], r15; adc rax, r15"
cell "mov r15, [rip+cell_data]; mov [rip+cell_data+8], r15; xchg [rip+cell_data+16], r15; cmp r15, [rip+cell_data+24]; inc qword ptr [rip+cell_data+40]"
cell "imul r15, qword ptr [rip+cell_data+32], 77; push qword ptr [rip+cell_data]; pop r15; cmovne r15, [rip+cell_data+64]", undef=U_MUL
cell "bts [rip+cell_data], r15d; lock xadd [rip+cell_data+8], r15; lock cmpxchg [rip+cell_data+8], r15", "and r15d, 0xff", undef=U_BT
cell "mulx r15, r14, [rip+cell_data]; pdep r14, r15, [rip+cell_data+8]; shlx r15, [rip+cell_data+8], r15", feat=F_BMI2

// Branches by what r15 says.
cell "test r15, r15; jns 1f; not r15; 1: cmp r15b, 0x40; ja 2f; inc r14; 2: inc r15", undef=U_LOGIC
cell "mov ecx, 5; 1: add r15, rcx; loop 1b; mov rcx, r15; jrcxz 2f; inc r15; 2: nop"
cell "lea r15, [rip+cell_r15_callee]; call r15; mov r15d, 1; xor eax, eax", undef=U_LOGIC
cell "lea r15, [rip+1f]; jmp r15; ud2; 1: mov r15d, 7"
cell "lea rax, [rip+cell_r15_callee]; mov [r15], rax; call [r15]; mov qword ptr [r15], 0; mov eax, 0", "buf r15, 0x700"
cell "lea rax, [rip+1f]; mov [r15+r14*8], rax; jmp [r15+r14*8]; ud2; 1: mov qword ptr [r15+r14*8], 0; mov eax, 0", "buf r15, 0x700; mov r14d, 4"
cell "lea r15, [rip+1f]; push r15; ret; ud2; 1: mov r15d, 9"

// General-purpose registers in vector instructions: SSE, VEX, EVEX.
cell "movd xmm1, r15d; movq xmm2, r15; movq r15, xmm3; movd r15d, xmm4; pinsrq xmm5, r15, 1; pextrq r15, xmm5, 0", feat=F_SSE42
cell "pinsrb xmm5, r15d, 3; pinsrw xmm6, r15d, 4; pinsrd xmm7, r15d, 2; pextrb r15d, xmm7, 5; pextrw r14d, xmm8, 6; pmovmskb r15d, xmm9", feat=F_SSE42
cell "cvtsi2sd xmm1, r15; cvtsi2ss xmm2, r15d; cvttsd2si r15, xmm1; cvtss2si r15d, xmm2; movmskpd r15d, xmm3; movmskps r14d, xmm4"
cell "movups xmm1, [r15]; movaps [r15+16], xmm2; paddd xmm3, [r15+32]; movntdq [r15+r14*8], xmm3; pextrq [r15+8], xmm1, 1", "buf r15, 0x800; mov r14d, 8", feat=F_SSE42
cell "vmovd xmm1, r15d; vmovq xmm2, r15; vmovq r15, xmm3; vmovd r14d, xmm4; vpinsrq xmm5, xmm6, r15, 1; vpextrq r15, xmm5, 0", feat=F_AVX
cell "vpinsrb xmm5, xmm1, r15d, 3; vpinsrw xmm6, xmm2, r15d, 4; vpextrb r15d, xmm7, 5; vpmovmskb r14d, ymm9; vpmovmskb r15d, ymm10", feat=F_AVX2
cell "vcvtsi2sd xmm1, xmm2, r15; vcvtsi2ss xmm2, xmm3, r15d; vcvttsd2si r15, xmm1; vmovmskpd r14d, ymm3; vmovmskps r15d, ymm4", feat=F_AVX
cell "vmovdqu ymm1, [r15]; vmovdqa [r15+32], ymm2; vpaddd ymm3, ymm4, [r15+r14*4]; vbroadcastsd ymm5, [r15+8]; vmaskmovps [r15+64], ymm1, ymm2", "buf r15, 0x800; mov r14d, 9", feat=F_AVX2
cell "vmovdqu ymm1, [rsi+r15]; vextracti128 [rsi+r15*2], ymm2, 1; vinsertf128 ymm3, ymm4, [rsi+r15*4], 1", "buf rsi, 0x800; mov r15d, 32", feat=F_AVX2
cell "vpcmpeqd ymm0, ymm0, ymm0; vpgatherqq ymm1, [r15+ymm14*8], ymm0", "buf r15, 0x800", feat=F_AVX2
cell "vpcmpeqd ymm0, ymm0, ymm0; vgatherdps ymm1, [r15+ymm15*4], ymm0", "buf r15, 0x800", feat=F_AVX2
cell "vpcmpeqd xmm0, xmm0, xmm0; vpgatherqd xmm1, [r15+ymm14*8+3], xmm0; vpcmpeqd ymm0, ymm0, ymm0; vgatherqpd ymm2, [r14+ymm14*4], ymm0", "buf r15, 0x800; buf r14, 0x900", feat=F_AVX2
cell "vmovdqu64 zmm1, [r15]; vmovdqu32 [r15+64]{k1}, zmm2; vpaddd zmm3{k2}{z}, zmm4, [r15+r14*4]; vaddpd zmm5, zmm6, qword ptr [r15+8]{1to8}", "buf r15, 0x800; mov r14d, 9", feat=F_AVX512
cell "vmovdqu64 zmm1, [r15+64*3]; vmovdqu64 [r15+64*5], zmm17; vmovups ymm18, [r15+32*7]; vmovsd xmm19, [r15+8*9]", "buf r15, 0x800", feat=F_AVX512
cell "vpbroadcastq zmm1, r15; vpbroadcastd zmm17{k1}, r15d; vpbroadcastb ymm2, r15d; vpbroadcastw zmm30, r15d; vpbroadcastq zmm31{k3}{z}, r14", feat=F_AVX512
cell "vmovq xmm17, r15; vmovq r15, xmm18; vmovd xmm19, r15d; vpinsrq xmm20, xmm21, r15, 1; vpextrq r14, xmm20, 1; vpextrd r15d, xmm22, 2", feat=F_AVX512
cell "vcvtsi2sd xmm17, xmm18, r15; vcvtusi2sd xmm19, xmm20, r15; vcvttsd2usi r15, xmm19; vcvtsd2si r14, xmm17; vcvtusi2ss xmm21, xmm22, r15d", feat=F_AVX512
cell "kmovq k1, r15; kmovd k2, r15d; kmovw k3, r15d; kmovb k4, r15d; kmovq r15, k5; kmovw r14d, k6; kmovd r15d, k7", feat=F_AVX512
cell "kmovq k1, [r15]; kmovq [r15+8], k2; kmovw [r15+r14*2], k3", "buf r15, 0x900; mov r14d, 11", feat=F_AVX512
cell "kxnorq k1, k1, k1; vpgatherqq zmm1{k1}, [r15+zmm30*8]; kxnorq k1, k1, k1; vpgatherdd zmm2{k1}, [r15+zmm31*4+64]", "buf r15, 0x900", feat=F_AVX512
cell "kxnorq k1, k1, k1; vpscatterqq [r15+zmm30*8]{k1}, zmm1; kxnorq k1, k1, k1; vscatterdps [r15+zmm31*4]{k1}, zmm2", "buf r15, 0x900", feat=F_AVX512
cell "vpcompressd [r15]{k1}, zmm1; vpexpandq zmm2{k2}, [r15+256]; vpmovqb [r15+8*5], zmm3; vextracti64x4 [r15+32*9], zmm4, 1", "buf r15, 0x900", feat=F_AVX512
cell "fld qword ptr [r15]; fadd dword ptr [r15+8]; fstp tbyte ptr [r15+r14*8]; fild qword ptr [r15+8]; fistp word ptr [r15+40]", "buf r15, 0x900; mov r14d, 2; mov dword ptr [r15+4], 0x40080000; mov dword ptr [r15+8], 0x40400000; mov dword ptr [r15+12], 5"
cell "stmxcsr [r15]; fnstcw [r15+4]; fnstsw [r15+6]; ldmxcsr [r15]; fldcw [r15+4]", "buf r15, 0x900"
cell "movnti [r15], r14; movnti [r14], r15d; clflush [r15]; prefetcht1 [r15+r15]", "buf r15, 0x900; buf r14, 0xa00"
cell "rdtsc; mov r15, rax; rdtscp; cmp rax, r15; mov eax, 0; mov ecx, 0; mov edx, 0; mov r15d, 0", undef=0x8d5
.text
cell_r15_callee:
  endbr64
  lea rax, [r15+1]
  add qword ptr [rip+cell_data], 0x1234
  ret

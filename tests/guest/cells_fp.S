// SPDX-License-Identifier: MIT
//
// x87 with all rounding modes, tags and stored environments; SSE to SSE4.2, AES, SHA; the state that
// fxsave and xsave write. Instruction pointers in those images are cleared: an engine may keep its
// copy of the code elsewhere.
#include "cells.inc"

// Two small doubles and an integer at the scratch page's start.
.macro numbers
  buf rsi, 0x100
  mov dword ptr [rsi], 0x11111111
  mov dword ptr [rsi+4], 0x40091234
  mov dword ptr [rsi+8], 0x22222222
  mov dword ptr [rsi+12], 0xbff81234
  mov dword ptr [rsi+16], 1234567
.endm
.irp op, fadd, fsub, fsubr, fmul, fdiv, fdivr
  cell "fld qword ptr [rsi]; \op qword ptr [rsi+8]; fstp tbyte ptr [rsi+32]", "numbers"
  cell "fld qword ptr [rsi]; fld qword ptr [rsi+8]; \op st, st(1); \op\()p st(1), st; fstp tbyte ptr [rsi+32]", "numbers"
.endr
.irp op, fsqrt, fabs, fchs, fsin, fcos, frndint, fxtract, fptan, f2xm1, fxam, ftst
  cell "fld qword ptr [rsi]; fld1; faddp; fdiv qword ptr [rsi]; \op; fstp tbyte ptr [rsi+32]; fnstsw ax", "numbers"
.endr
.irp op, fpatan, fyl2x, fyl2xp1, fprem, fprem1, fscale
  cell "fld1; fld qword ptr [rsi]; fabs; fdivr st, st(1); \op; fst qword ptr [rsi+32]; fnstsw ax; ffree st(0); fincstp", "numbers"
.endr
.irp op, fld1, fldz, fldpi, fldl2e, fldl2t, fldlg2, fldln2
  cell "\op; fstp tbyte ptr [rsi+32]; \op; \op"  , "numbers"
.endr
// Rounding (0, 4, 8, c) and precision (0, 2, 3) control.
.irp control, 0x37f, 0x77f, 0xb7f, 0xf7f, 0x07f, 0x27f, 0xc7f
  cell "mov word ptr [rsi+20], \control; fldcw [rsi+20]; fld qword ptr [rsi]; fdiv qword ptr [rsi+8]; fist dword ptr [rsi+24]; fld st(0); frndint; fstp qword ptr [rsi+32]; fsqrt; fstp dword ptr [rsi+40]; fild dword ptr [rsi+16]; fistp word ptr [rsi+44]", "numbers"
.endr
cell "fild word ptr [rsi]; fild dword ptr [rsi+4]; fild qword ptr [rsi+8]; fistp qword ptr [rsi+32]; fisttp dword ptr [rsi+40]; fbstp tbyte ptr [rsi+48]", "buf rsi, 0x100"
cell "fld1; fldpi; fldz; fxch st(1); fcomi st, st(2); setb al; fucomip st, st(1); seta bl; fcompp; fnstsw ax; sahf; setp cl", "buf rsi, 0x100"
cell "fld1; fldpi; fcmovb st, st(1); fcmovne st, st(1); fcmovu st, st(1); fstp qword ptr [rsi]; fstp qword ptr [rsi+8]", "buf rsi, 0x100"
cell "fld1; fldl2e; fldpi; ffree st(1); fdecstp; fincstp; fnstenv [rsi]; mov dword ptr [rsi+12], 0; mov qword ptr [rsi+16], 0; mov dword ptr [rsi+24], 0; fldenv [rsi]", "buf rsi, 0x100"
cell "fld1; fldl2e; fldpi; fnsave [rsi]; mov dword ptr [rsi+12], 0; mov qword ptr [rsi+16], 0; mov dword ptr [rsi+24], 0; fldz; frstor [rsi]; faddp", "buf rsi, 0x100"
cell "fldz; fld1; fdivrp st(1), st; fnstsw ax; fnclex; fnstsw ax; fld tbyte ptr [rsi]; fstp st(0)", "buf rsi, 0x100"
cell "fld1; fldz; fdivp; fwait; fnstsw ax; and eax, 0x3f; fninit; fnstcw [rsi]; emms", "buf rsi, 0x100", undef=U_LOGIC
cell "fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1; fldpi; fnstsw ax; fstp st(3)"
cell "movq mm0, [rsi]; movq mm1, [rsi+8]; paddw mm0, mm1; pmaddwd mm1, mm0; pshufw mm2, mm0, 0x1b; movq [rsi+16], mm2; movd eax, mm0; pmovmskb ecx, mm1; emms", "buf rsi, 0x100"
cell "movq2dq xmm1, mm3; movdq2q mm4, xmm2; punpcklbw mm4, mm4; psadbw mm4, mm3; movntq [rsi], mm4; maskmovq mm4, mm3; emms", "buf rsi, 0x100; buf rdi, 0x200"
cell "fld1; fxsave64 [rsi]; mov dword ptr [rsi+4], 0; mov word ptr [rsi+6], 0; mov qword ptr [rsi+8], 0; mov qword ptr [rsi+16], 0; xorps xmm1, xmm1; fxrstor64 [rsi]; mov dword ptr [rsi+416], 0", "buf rsi, 0x400"
cell "fld1; fxsave [rsi]; mov word ptr [rsi+6], 0; mov qword ptr [rsi+8], 0; mov qword ptr [rsi+16], 0; fxrstor [rsi]", "buf rsi, 0x400"
cell "mov eax, 7; mov edx, 0; fld1; xsave64 [rsi]; mov word ptr [rsi+6], 0; mov qword ptr [rsi+8], 0; mov qword ptr [rsi+16], 0; fninit; vpxor ymm0, ymm0, ymm0; xrstor64 [rsi]", "buf rsi, 0x400; mov qword ptr [rsi+512], 0; mov qword ptr [rsi+520], 0; mov qword ptr [rsi+528], 0; mov qword ptr [rsi+536], 0; mov qword ptr [rsi+544], 0; mov qword ptr [rsi+552], 0; mov qword ptr [rsi+560], 0; mov qword ptr [rsi+568], 0", feat=F_AVX2

// SSE state: rounding modes, sticky flags, denormals.
.irp mxcsr, 0x1f80, 0x3f80, 0x5f80, 0x7f80, 0x9fc0
  cell "mov dword ptr [rsi], \mxcsr; ldmxcsr [rsi]; divpd xmm1, xmm5; mulps xmm2, xmm6; sqrtsd xmm3, xmm1; cvtsd2si rax, xmm1; cvtpd2dq xmm4, xmm5; cvtps2dq xmm7, xmm2; cvtsi2ss xmm8, rbx; stmxcsr [rsi+4]", "buf rsi, 0x100"
.endr
.irp op, addps, subps, mulps, divps, minps, maxps, andps, orps, xorps, andnps, unpcklps, unpckhps, sqrtps, rcpps, rsqrtps
  cell "\op xmm2, xmm6; \op xmm3, [rsi]", "buf rsi, 0x100"
.endr
.irp op, addpd, subpd, mulpd, divpd, minpd, maxpd, sqrtpd, unpcklpd, addsubpd, haddpd, hsubpd, cvtpd2ps, cvtpd2dq, cvttpd2dq, cvtps2pd, cvtdq2pd
  cell "\op xmm1, xmm5; \op xmm9, xmm13", feat=F_SSE42
.endr
.irp op, addss, subss, mulss, divss, minss, maxss, sqrtss, rcpss, rsqrtss, cvtss2sd
  cell "\op xmm2, xmm6; \op xmm10, dword ptr [rsi]", "buf rsi, 0x100"
.endr
.irp op, addsd, subsd, mulsd, divsd, minsd, maxsd, sqrtsd, cvtsd2ss
  cell "\op xmm1, xmm5; \op xmm9, qword ptr [rsi]", "buf rsi, 0x100"
.endr
.irp op, comiss, ucomiss
  cell "\op xmm2, xmm6; setp al; setb bl; \op xmm10, dword ptr [rsi]", "buf rsi, 0x100"
.endr
.irp op, comisd, ucomisd
  cell "\op xmm1, xmm5; setp al; setb bl; \op xmm9, qword ptr [rsi]", "buf rsi, 0x100"
.endr
.irp kind, eq, lt, le, unord, neq, nlt, nle, ord
  cell "cmp\kind\()ps xmm2, xmm6; cmp\kind\()sd xmm1, xmm5"
.endr
.irp op, paddb, paddw, paddd, paddq, paddsb, paddsw, paddusb, paddusw, psubb, psubw, psubd, psubq, psubsb, psubusw, pmullw, pmulhw, pmulhuw, pmuludq, pmaddwd, pavgb, pavgw, psadbw, pminub, pmaxub, pminsw, pmaxsw, pand, pandn, por, pxor, pcmpeqb, pcmpeqw, pcmpeqd, pcmpgtb, pcmpgtw, pcmpgtd, packsswb, packssdw, packuswb, punpcklbw, punpckhwd, punpckldq, punpckhqdq, psllw, pslld, psllq, psraw, psrad, psrlw, psrld, psrlq
  cell "\op xmm0, xmm4; \op xmm8, [rsi]", "buf rsi, 0x100"
.endr
.irp op, pshufb, phaddw, phaddd, phsubw, pmaddubsw, psignb, psignd, pmulhrsw, pabsb, pabsw, pabsd, pminsb, pmaxud, pmulld, pmuldq, pcmpeqq, pcmpgtq, packusdw, phminposuw, pmovsxbw, pmovzxwd, pmovsxdq, ptest
  cell "\op xmm0, xmm4; \op xmm8, xmm12", feat=F_SSE42
.endr
cell "pblendvb xmm4, xmm8, xmm0; blendvps xmm4, xmm9, xmm0; blendvpd xmm5, xmm8, xmm0; pblendw xmm6, xmm7, 0x5a", feat=F_SSE42
cell "dpps xmm2, xmm6, 0xf1; dppd xmm1, xmm5, 0x31; mpsadbw xmm3, xmm4, 5; insertps xmm7, xmm8, 0x5c; extractps eax, xmm9, 2; roundps xmm10, xmm6, 1; roundss xmm11, xmm2, 2", feat=F_SSE42
cell "pcmpestri xmm0, xmm4, 0x0c; setc bl; pcmpistri xmm8, xmm12, 0x18; setz bh", "mov eax, 9; mov edx, 12", feat=F_SSE42
cell "pcmpestrm xmm4, xmm8, 0x40; pcmpistrm xmm3, xmm12, 0x08", "mov eax, -3; mov edx, 22", feat=F_SSE42
cell "pslldq xmm1, 3; psrldq xmm2, 5; psllw xmm3, 4; psrad xmm4, 9; psrlq xmm5, 33; pshuflw xmm6, xmm7, 0x1b; pshufhw xmm8, xmm9, 0xb1; palignr xmm10, xmm11, 7", feat=F_SSE42
cell "movhlps xmm1, xmm2; movlhps xmm3, xmm4; movss xmm5, xmm6; movsd xmm7, xmm8; movddup xmm9, xmm10; movshdup xmm11, xmm12; lddqu xmm13, [rsi+1]; movdqu [rsi+17], xmm1; maskmovdqu xmm2, xmm3", "buf rsi, 0x100; buf rdi, 0x200", feat=F_SSE42
cell "movntps [rsi], xmm1; movntpd [rsi+16], xmm2; movntdqa xmm3, [rsi]; sfence; movlpd [rsi+32], xmm4; movhpd xmm5, [rsi+40]", "buf rsi, 0x100", feat=F_SSE42
cell "extrq xmm1, 9, 5; insertq xmm2, xmm3, 7, 11; movntsd [rsi], xmm4", "buf rsi, 0x100", feat=F_SSE4A
.irp op, aesenc, aesenclast, aesdec, aesdeclast, aesimc
  cell "\op xmm0, xmm4; \op xmm8, [rsi]", "buf rsi, 0x100", feat=F_AES
.endr
cell "aeskeygenassist xmm1, xmm2, 0x36; aeskeygenassist xmm3, [rsi], 1", "buf rsi, 0x100", feat=F_AES
cell "pclmulqdq xmm0, xmm4, 0x10; pclmulqdq xmm8, [rsi], 1", "buf rsi, 0x100", feat=F_PCLMUL
.irp op, sha1msg1, sha1msg2, sha1nexte, sha256msg1, sha256msg2
  cell "\op xmm1, xmm4; \op xmm8, [rsi]", "buf rsi, 0x100", feat=F_SHA
.endr
cell "sha1rnds4 xmm1, xmm4, 2; sha256rnds2 xmm5, xmm8", feat=F_SHA
cell "gf2p8affineqb xmm0, xmm4, 0x5a; gf2p8affineinvqb xmm1, xmm8, 0xa5; gf2p8mulb xmm2, [rsi]", "buf rsi, 0x100", feat=F_GFNI

// SPDX-License-Identifier: MIT
//
// AVX, AVX2, FMA and AVX-512: arithmetic over whole registers, masks, upper halves and what
// vzeroupper leaves, gathers and scatters, and each extension that cpuid offers.
#include "cells.inc"

.irp op, vaddps, vsubps, vmulps, vdivps, vminps, vmaxps, vandps, vxorps, vhaddps, vaddsubps
  cell "\op ymm1, ymm2, ymm6; \op xmm3, xmm10, [rsi]", "buf rsi, 0x100", feat=F_AVX
.endr
.irp op, vaddpd, vmulpd, vdivpd, vunpcklpd
  cell "\op ymm1, ymm5, ymm9; \op xmm3, xmm13, [rsi]", "buf rsi, 0x100", feat=F_AVX
.endr
.irp op, vpaddb, vpaddq, vpsubd, vpmulld, vpmuludq, vpmaddwd, vpand, vpandn, vpxor, vpcmpeqd, vpcmpgtq, vpshufb, vpackusdw, vpunpckhbw, vpsadbw, vphaddd, vpmaxuw
  cell "\op ymm1, ymm4, ymm8; \op xmm3, xmm12, [rsi]", "buf rsi, 0x100", feat=F_AVX2
.endr
.irp op, vpsllvd, vpsrlvq, vpsravd, vpermd, vpermps
  cell "\op ymm1, ymm4, ymm7; \op ymm3, ymm12, [rsi]", "buf rsi, 0x100", feat=F_AVX2
.endr
cell "vminps zmm1{k1}, zmm2, zmm6; vmaxps zmm3, zmm10, dword ptr [rsi]{1to16}; vmaxpd zmm17, zmm21, zmm25, {sae}", "buf rsi, 0x100", feat=F_AVX512
cell "vpermq ymm1, ymm4, 0x1b; vpermpd ymm2, ymm5, 0xb1; vperm2i128 ymm3, ymm4, ymm8, 0x21; vpermilps ymm6, ymm7, 0x1b; vpblendd ymm8, ymm9, ymm10, 0x5a; vpalignr ymm11, ymm12, ymm13, 5", feat=F_AVX2
cell "vbroadcastss ymm1, xmm2; vpbroadcastb ymm3, xmm4; vbroadcastf128 ymm5, [rsi]; vpbroadcastq ymm6, [rsi+8]; vpmovzxbd ymm7, [rsi+3]; vpmovsxwq ymm8, xmm9", "buf rsi, 0x100", feat=F_AVX2
cell "vmovaps ymm0, ymm15; vzeroupper; vmovaps xmm1, xmm2; addps xmm3, xmm4", feat=F_AVX
cell "vzeroall; vmovd xmm1, eax", feat=F_AVX
cell "vmovd xmm1, eax; movd xmm2, ecx; vmovaps xmm3, xmm4; movaps xmm5, xmm6; vcvtps2pd ymm7, xmm2; vcvtpd2ps xmm8, ymm9", feat=F_AVX
cell "vtestps ymm1, ymm2; setc al; vptest ymm3, ymm4; setz bl; vucomisd xmm1, xmm5; setp cl; vcmpps ymm6, ymm2, ymm10, 0x1d; vcmpsd xmm7, xmm1, xmm5, 0x0b", feat=F_AVX
cell "vmaskmovps ymm1, ymm2, [rsi]; vmaskmovpd [rsi+64], ymm3, ymm4; vpmaskmovd [rsi+128], ymm5, ymm6; vpmaskmovq xmm7, xmm8, [rsi]", "buf rsi, 0x100", feat=F_AVX2
cell "vpcmpeqd ymm0, ymm0, ymm0; vpgatherdd ymm1, [rsi+ymm15*4], ymm0; vpcmpeqd ymm0, ymm0, ymm0; vgatherqpd ymm2, [rsi+ymm14*8], ymm0; vpgatherqd xmm3, [rsi+ymm14*4], xmm4", "buf rsi, 0x100", feat=F_AVX2
.irp form, 132, 213, 231
  cell "vfmadd\form\()pd ymm1, ymm5, ymm9; vfmsub\form\()ps ymm2, ymm6, ymm10; vfnmadd\form\()sd xmm13, xmm1, xmm5; vfnmsub\form\()ss xmm14, xmm2, [rsi]; vfmaddsub\form\()ps ymm6, ymm2, ymm10", "buf rsi, 0x100", feat=F_FMA
.endr
cell "vcvtph2ps ymm1, xmm4; vcvtps2ph xmm2, ymm6, 0; vcvtps2ph [rsi], ymm10, 3", "buf rsi, 0x100", feat=F_F16C
cell "vaesenc xmm1, xmm2, xmm3; vaesdeclast xmm4, xmm5, [rsi]; vaesimc xmm6, xmm7", "buf rsi, 0x100", feat=F_AVX
cell "vaesenc ymm1, ymm4, ymm8; vaesdeclast ymm2, ymm12, [rsi]", "buf rsi, 0x100", feat=F_VAES
cell "vpclmulqdq ymm1, ymm4, ymm8, 0x11; vpclmulqdq ymm2, ymm12, [rsi], 0x10", "buf rsi, 0x100", feat=F_VPCLMUL
cell "vgf2p8affineqb ymm1, ymm4, ymm8, 0x5a; vgf2p8mulb ymm2, ymm12, [rsi]", "buf rsi, 0x100", feat=F_GFNI

.irp op, vaddps, vsubps, vmulps, vdivps
  cell "\op zmm1, zmm2, zmm6; \op zmm17{k1}, zmm18, zmm22; \op zmm3{k2}{z}, zmm10, dword ptr [rsi]{1to16}; \op zmm4, zmm2, zmm6, {rz-sae}", "buf rsi, 0x100", feat=F_AVX512
.endr
.irp op, vaddpd, vmulpd, vdivpd
  cell "\op zmm1, zmm5, zmm9; \op zmm17{k1}, zmm21, zmm25; \op ymm16{k3}, ymm29, qword ptr [rsi]{1to4}; \op zmm3, zmm1, zmm5, {ru-sae}", "buf rsi, 0x100", feat=F_AVX512
.endr
.irp op, vpaddb, vpaddw, vpsubusb, vpmullw, vpavgb, vpshufb, vpmaddubsw, vpackuswb, vpunpcklbw, vpminsb
  cell "\op zmm1, zmm4, zmm8; \op zmm17{k1}, zmm20, [rsi+64]; \op ymm30{k6}{z}, ymm31, ymm16", "buf rsi, 0x100", feat=F_AVX512
.endr
.irp op, vpaddd, vpmulld, vpandd, vpandnd, vpord, vpxord, vpsllvd, vprolvd, vprorvd, vpermd, vpmaxsd
  cell "\op zmm1, zmm4, zmm8; \op zmm17{k1}, zmm20, [rsi+64]; \op zmm18{k2}{z}, zmm19, dword ptr [rsi+4]{1to16}", "buf rsi, 0x100", feat=F_AVX512
.endr
.irp op, vpaddq, vpmullq, vpxorq, vpsravq, vpermq, vpminuq, vpermi2q, vpermt2q
  cell "\op zmm1, zmm4, zmm8; \op zmm17{k1}, zmm20, [rsi+64]; \op zmm18{k2}{z}, zmm19, qword ptr [rsi+8]{1to8}", "buf rsi, 0x100", feat=F_AVX512
.endr
cell "vpternlogd zmm1, zmm2, zmm3, 0x96; vpternlogq zmm17{k1}, zmm18, [rsi], 0xca; valignq zmm4, zmm5, zmm6, 3; vshufi64x2 zmm7, zmm8, zmm9, 0x1b; vpsrldq zmm10, zmm11, 3; vprold zmm12, zmm13, 7", "buf rsi, 0x100", feat=F_AVX512
cell "vpcmpub k1, zmm1, zmm4, 1; vpcmpd k2{k3}, zmm2, zmm6, 5; vcmppd k4, zmm1, zmm5, 0x11; vptestmd k5, zmm7, zmm8; vpmovb2m k6, zmm9; vpmovd2m k7, zmm10; vpmovm2w zmm11, k6", feat=F_AVX512
cell "kandq k1, k2, k3; korw k2, k3, k4; kxord k3, k4, k5; kxnorb k4, k5, k6; knotq k5, k6; kshiftlq k6, k7, 9; kshiftrw k7, k1, 3; kunpckdq k1, k2, k3; kaddd k2, k3, k4; kandnq k3, k4, k5", feat=F_AVX512
cell "kortestq k1, k2; setz al; setc bl; ktestd k3, k4; setz cl; kmovq rax, k5; kmovd ebx, k6; kmovw k7, ecx", feat=F_AVX512
cell "vpcompressd zmm1{k1}, zmm2; vpexpandq zmm3{k2}{z}, zmm4; vpcompressq [rsi]{k3}, zmm5; vexpandps zmm6{k4}, [rsi+128]", "buf rsi, 0x100", feat=F_AVX512
cell "vpmovqd ymm1, zmm2; vpmovdb xmm3, zmm4; vpmovswb ymm5{k1}, zmm6; vpmovusqw [rsi], zmm7; vpmovzxbq zmm8, xmm9; vpmovsxwd zmm10{k2}{z}, ymm11", "buf rsi, 0x100", feat=F_AVX512
cell "kxnorq k1, k1, k1; vpgatherdq zmm1{k1}, [rsi+ymm31*8]; kmovb k2, eax; vgatherqps ymm2{k2}, [rsi+zmm30*4]; kmovw k3, ecx; vpscatterdd [rsi+zmm31*4]{k3}, zmm3", "buf rsi, 0x100", feat=F_AVX512
cell "vmovdqu8 zmm1{k1}, [rsi+1]; vmovdqu16 [rsi+128]{k2}, zmm2; vmovapd zmm17, zmm5; vmovntdq [rsi+256], zmm18; vbroadcasti32x4 zmm3, [rsi]; vextractf32x4 xmm20, zmm21, 3; vinserti64x4 zmm22, zmm23, ymm24, 1", "buf rsi, 0x100", feat=F_AVX512
cell "vmovaps zmm16, zmm17; vzeroupper; vmovaps xmm18, xmm19; vaddps ymm1, ymm2, ymm6", feat=F_AVX512
cell "vfmadd231ps zmm1{k1}, zmm2, zmm6, {rd-sae}; vfnmsub213pd zmm17, zmm21, qword ptr [rsi]{1to8}; vscalefpd zmm3, zmm5, zmm9; vgetexpps zmm4, zmm6; vgetmantpd zmm7, zmm9, 4; vrcp14ps zmm8, zmm10; vrsqrt14pd zmm11, zmm13; vreduceps zmm12, zmm14, 0x21; vrangepd zmm15, zmm1, zmm5, 2; vfixupimmps zmm16, zmm18, zmm19, 0; vfpclassps k2, zmm22, 0x18", "buf rsi, 0x100", feat=F_AVX512
cell "vcvtpd2udq ymm1, zmm5; vcvtps2qq zmm2, ymm6; vcvtuqq2pd zmm3, zmm4; vcvttps2udq zmm7{k1}, zmm10; vcvtqq2ps ymm8, zmm12", feat=F_AVX512
cell "vpconflictd zmm1, zmm15; vplzcntq zmm2{k1}, zmm4; vpbroadcastmb2q zmm3, k5; vdbpsadbw zmm6, zmm7, zmm8, 3", feat=F_AVX512
cell "vpermb zmm1, zmm4, zmm8; vpermi2b zmm2{k1}, zmm12, zmm16; vpmultishiftqb zmm3, zmm20, [rsi]", "buf rsi, 0x100", feat=F_VBMI
cell "vpshldvd zmm1, zmm4, zmm8; vpshrdq zmm2{k1}, zmm12, zmm16, 7; vpcompressb zmm3{k2}, zmm20; vpexpandw zmm5{k3}{z}, zmm24", feat=F_VBMI2
cell "vpdpbusd zmm1, zmm4, zmm8; vpdpwssds zmm2{k1}, zmm12, [rsi]", "buf rsi, 0x100", feat=F_VNNI
cell "vpopcntd zmm1, zmm4; vpopcntq zmm17{k1}, [rsi]", "buf rsi, 0x100", feat=F_VPOPCNT
cell "vpopcntb zmm1, zmm4; vpshufbitqmb k1, zmm2, zmm8", feat=F_BITALG
cell "vpmadd52luq zmm1, zmm4, zmm8; vpmadd52huq zmm17{k1}, zmm20, [rsi]", "buf rsi, 0x100", feat=F_IFMA
cell "vgf2p8affineqb zmm1{k1}, zmm4, zmm8, 0x5a; vgf2p8mulb zmm2, zmm12, [rsi]", "buf rsi, 0x100", feat=F_GFNI512
cell "vaesenc zmm1, zmm4, zmm8; vaesdec zmm17, zmm20, [rsi]; vpclmulqdq zmm3, zmm12, zmm16, 1", "buf rsi, 0x100", feat=F_VAES512

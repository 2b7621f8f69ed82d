// SPDX-License-Identifier: MIT
//
// The integer instruction set in all widths, with flags observed directly and through setcc, cmov
// and carry chains.
#include "cells.inc"

// Two operands, every width, register, memory and immediate forms.
.macro arithmetic op, u
  cell "\op al, bl", undef=\u
  cell "\op ah, ch", undef=\u
  cell "\op ax, bx", undef=\u
  cell "\op eax, ebx", undef=\u
  cell "\op rax, rbx", undef=\u
  cell "\op r8b, sil", undef=\u
  cell "\op r9w, r10w", undef=\u
  cell "\op r11d, r12d", undef=\u
  cell "\op rcx, rcx", undef=\u
  cell "\op al, 0x81", undef=\u
  cell "\op ax, 0x8123", undef=\u
  cell "\op eax, 0x81234567", undef=\u
  cell "\op rax, -0x12345678", undef=\u
  cell "\op rdx, 5", undef=\u
  cell "\op byte ptr [rsi+1], 0x7f", "buf rsi, 0x100", undef=\u
  cell "\op word ptr [rsi+2], 0x7fff", "buf rsi, 0x100", undef=\u
  cell "\op dword ptr [rsi+4], 0x7fffffff", "buf rsi, 0x100", undef=\u
  cell "\op qword ptr [rsi+rcx*8], -2", "buf rsi, 0x100; mov ecx, 3", undef=\u
  cell "\op byte ptr [rdi], dh", "buf rdi, 0x100", undef=\u
  cell "\op word ptr [rdi+3], dx", "buf rdi, 0x100", undef=\u
  cell "\op dword ptr [rdi+61], edx", "buf rdi, 0x100", undef=\u
  cell "\op qword ptr [rdi-5], rdx", "buf rdi, 0x100", undef=\u
.endm
.macro arithmetic_load op, u
  cell "\op bl, byte ptr [rdi]", "buf rdi, 0x100", undef=\u
  cell "\op bx, word ptr [rdi+r9*2]", "buf rdi, 0x100; mov r9d, 7", undef=\u
  cell "\op ebx, dword ptr [r12+r13*4+64]", "buf r12, 0x100; mov r13d, 7", undef=\u
  cell "\op rbx, qword ptr [r13+0]", "buf r13, 0x100", undef=\u
.endm
.irp op, add, adc, sub, sbb, cmp
  arithmetic \op, U_NONE
  arithmetic_load \op, U_NONE
.endr
.irp op, and, or, xor
  arithmetic \op, U_LOGIC
  arithmetic_load \op, U_LOGIC
.endr
arithmetic test, U_LOGIC

// One operand.
.irp op, inc, dec, not, neg
  cell "\op al"
  cell "\op bh"
  cell "\op r10b"
  cell "\op cx"
  cell "\op edx"
  cell "\op rdi"
  cell "\op byte ptr [rsi]", "buf rsi, 0x200"
  cell "\op word ptr [rsi+1]", "buf rsi, 0x200"
  cell "\op dword ptr [rsi+2]", "buf rsi, 0x200"
  cell "\op qword ptr [rsi+3]", "buf rsi, 0x200"
  cell "lock \op qword ptr [rsi+8]", "buf rsi, 0x200"
.endr

// Multiply and divide. Divisors are made odd and dividends small enough not to fault.
.irp op, mul, imul
  cell "\op bl", undef=U_MUL
  cell "\op bh", undef=U_MUL
  cell "\op bx", undef=U_MUL
  cell "\op ebx", undef=U_MUL
  cell "\op rbx", undef=U_MUL
  cell "\op qword ptr [rsi]", "buf rsi, 0x200", undef=U_MUL
.endr
cell "imul ax, bx", undef=U_MUL
cell "imul eax, r9d", undef=U_MUL
cell "imul r10, rdx", undef=U_MUL
cell "imul rcx, qword ptr [rsi+8]", "buf rsi, 0x200", undef=U_MUL
cell "imul cx, dx, 0x1234", undef=U_MUL
cell "imul ecx, edx, -3", undef=U_MUL
cell "imul rcx, r8, 0x12345678", undef=U_MUL
cell "imul rcx, qword ptr [rsi+8], -77", "buf rsi, 0x200", undef=U_MUL
cell "div bl", "or bl, 1; movzx eax, al", undef=U_DIV
cell "div bx", "or bx, 1; mov edx, 0", undef=U_DIV
cell "div ebx", "or ebx, 1; mov edx, 0", undef=U_DIV
cell "div rbx", "or rbx, 1; mov edx, 0", undef=U_DIV
cell "div rbx", "mov edx, 12345; mov ebx, 123456", undef=U_DIV
cell "div qword ptr [rsi]", "buf rsi, 0x200; mov edx, 0; or qword ptr [rsi], 1", undef=U_DIV
cell "idiv bl", "or bl, 1; and eax, 0x3f", undef=U_DIV
cell "cwd; idiv bx", "mov ebx, 7", undef=U_DIV
cell "cdq; idiv ebx", "mov ebx, -9", undef=U_DIV
cell "cqo; idiv rbx", "mov rbx, -77", undef=U_DIV

// Sign extension, byte order, tables.
.irp op, cbw, cwde, cdqe, cwd, cdq, cqo
  cell "\op"
.endr
cell "xlatb", "buf rbx, 0x300"
cell "bswap eax"
cell "bswap rcx"
cell "bswap r12"
.irp source, al, ah, cl, dh, sil, r9b
  cell "movzx edx, \source"
  cell "movsx edx, \source"
  .ifnc \source,ah
  .ifnc \source,dh
  cell "movsx r10, \source"
  cell "movzx r11, \source"
  .endif
  .endif
.endr
cell "movzx eax, bx; movsx rcx, dx; movsxd rdx, esi"
cell "movzx r9d, byte ptr [rsi]; movsx r10, word ptr [rsi+1]; movsxd r11, dword ptr [rsi+2]", "buf rsi, 0x300"
cell "movbe ax, word ptr [rsi]", "buf rsi, 0x300", feat=F_MOVBE
cell "movbe r9d, dword ptr [rsi+1]", "buf rsi, 0x300", feat=F_MOVBE
cell "movbe qword ptr [rsi+5], r10", "buf rsi, 0x300", feat=F_MOVBE
.irp source, al, r9b
  cell "crc32 edx, \source", feat=F_SSE42
  cell "crc32 r10, \source", feat=F_SSE42
.endr
cell "crc32 ecx, dx", feat=F_SSE42
cell "crc32 ecx, edx", feat=F_SSE42
cell "crc32 rcx, rdx", feat=F_SSE42
cell "crc32 rcx, qword ptr [rsi]", "buf rsi, 0x300", feat=F_SSE42

// Moves, immediate sizes, high bytes, lea.
cell "mov ah, bl; mov bh, ch; mov cl, dh; mov dh, al"
cell "xchg ah, bh; add ch, ah; sub dh, bh; xor al, ch; cmp ah, dl", undef=U_NONE
cell "mov al, 0x12; mov cx, 0x3456; mov edx, 0x789abcde; mov rbx, -5; movabs r9, 0x123456789abcdef0"
cell "mov byte ptr [rsi], 1; mov word ptr [rsi+2], 2; mov dword ptr [rsi+4], 3; mov qword ptr [rsi+8], -4", "buf rsi, 0x300"
cell "movabs al, byte ptr [0x100000000040]; movabs qword ptr [0x100000000050], rax"
cell "movabs eax, dword ptr [0x100000000044]; movabs ax, word ptr [0x100000000054]"
cell "lea rax, [rbx+rcx*8+0x1234]; lea ecx, [rdx+rdx]; lea dx, [rsi+rdi*2-1]; lea r8, [r9*4]"
cell "lea eax, [ebx+ecx*2]; lea rdx, [r12d+r13d*8-9]"
cell "cmovo rax, rbx; cmovno rcx, rdx; cmovb rsi, rdi; cmovae r8, r9; cmove r10, r11; cmovne r12, r13"
cell "cmovbe eax, ebx; cmova ecx, edx; cmovs esi, edi; cmovns r8d, r9d; cmovp r10w, r11w; cmovnp r12w, ax"
cell "cmovl rax, rbx; cmovge rcx, qword ptr [rsi]; cmovle rdx, rdi; cmovg ebx, dword ptr [rsi+8]", "buf rsi, 0x300"
cell "seto al; setno bl; setb cl; setae dl; sete sil; setne dil; setbe bpl; seta r8b"
cell "sets r9b; setns r10b; setp r11b; setnp r12b; setl r13b; setge r14b; setle ah; setg bh; sete byte ptr [rsi]", "buf rsi, 0x300"
cell "lahf; mov cl, ah; sahf; lahf"
cell "mov ah, cl; sahf; setb dl"
cell "stc; adc rax, 0; cmc; adc rbx, 0; clc; sbb rcx, rcx; std; cld"
cell "pushfq; pop rax; and eax, 0x8d5; push rax; popfq; pushfq; pop rbx; and ebx, 0x8d5", undef=0
cell "and eax, 0xcd5; push rax; popfq; setb bl; seto cl"
cell "add rax, rbx; adc rcx, rdx; adc rsi, rdi; adc r8, r9; adc r10, r11; sbb r12, r13; sbb rbp, rax"
cell "add rax, rbx; inc rcx; adc rdx, 0; dec rsi; sbb rdi, 0"
cell "adcx rax, rbx; adox rcx, rdx; adcx r8, r9; adox r10, qword ptr [rsi]", "buf rsi, 0x300", feat=F_ADX

// Bit tests: register offsets reach memory far from the operand.
.irp op, bt, bts, btr, btc
  cell "\op ax, bx", undef=U_BT
  cell "\op eax, ebx", undef=U_BT
  cell "\op rax, r9", undef=U_BT
  cell "\op edx, 37", undef=U_BT
  cell "\op rdx, 37", undef=U_BT
  cell "\op qword ptr [rsi], 63", "buf rsi, 0x400", undef=U_BT
  cell "\op dword ptr [rsi], eax", "buf rsi, 0x400; mov eax, -1000", undef=U_BT
  cell "\op qword ptr [rsi], r10", "buf rsi, 0x400; mov r10d, 5000", undef=U_BT
  cell "\op word ptr [rsi], cx", "buf rsi, 0x400; mov ecx, -77", undef=U_BT
.endr
.irp op, bts, btr, btc
  cell "lock \op qword ptr [rsi], r10", "buf rsi, 0x400; mov r10d, 700", undef=U_BT
.endr
.irp op, bsf, bsr
  cell "\op ax, bx", undef=U_SCAN
  cell "\op ecx, edx", "or edx, 0x100", undef=U_SCAN
  cell "\op r9, r10", "mov r11d, 1; cmp r11d, 0; cmove r10, r11", undef=U_SCAN
  cell "\op r9, qword ptr [rsi]", "buf rsi, 0x400; mov byte ptr [rsi+3], 8", undef=U_SCAN
.endr
.irp op, lzcnt, tzcnt
  cell "\op ax, bx", undef=U_COUNT, feat=F_LZCNT
  cell "\op ecx, edx", undef=U_COUNT, feat=F_LZCNT
  cell "\op r9, r10", undef=U_COUNT, feat=F_LZCNT
  cell "\op r9, qword ptr [rsi]", "buf rsi, 0x400", undef=U_COUNT, feat=F_LZCNT
.endr
cell "popcnt ax, bx", feat=F_POPCNT
cell "popcnt ecx, edx", feat=F_POPCNT
cell "popcnt r9, qword ptr [rsi]", "buf rsi, 0x400", feat=F_POPCNT

// Shifts and rotates: by 1, by an immediate, by cl (any count), by 0.
.macro shifts op, u
  cell "\op al, 1", undef=\u
  cell "\op bh, 1", undef=\u
  cell "\op cx, 1", undef=\u
  cell "\op edx, 1", undef=\u
  cell "\op r9, 1", undef=\u
  cell "\op al, 3", undef=\u
  cell "\op bx, 9", undef=\u
  cell "\op edx, 31", undef=\u
  cell "\op r10, 63", undef=\u
  cell "\op al, cl", undef=\u
  cell "\op bx, cl", undef=\u
  cell "\op edx, cl", undef=\u
  cell "\op rdx, cl", undef=\u
  cell "\op r11, cl", "mov cl, 0", undef=0
  cell "\op edx, cl", "mov cl, 32", undef=0
  cell "\op rdx, 0", undef=0
  cell "\op byte ptr [rsi], 1", "buf rsi, 0x400", undef=\u
  cell "\op word ptr [rsi+1], cl", "buf rsi, 0x400", undef=\u
  cell "\op dword ptr [rsi+2], 5", "buf rsi, 0x400", undef=\u
  cell "\op qword ptr [rsi+3], cl", "buf rsi, 0x400", undef=\u
.endm
.irp op, shl, shr, sar
  shifts \op, U_SHIFT
.endr
.irp op, rol, ror
  shifts \op, 0x801
.endr
.irp op, rcl, rcr
  shifts \op, U_ROTATE
.endr
.irp op, shld, shrd
  cell "\op ax, bx, 5", undef=U_SHIFT
  cell "\op eax, ebx, 17", undef=U_SHIFT
  cell "\op rax, rbx, 33", undef=U_SHIFT
  cell "\op edx, ebx, cl", undef=U_SHIFT
  cell "\op r9, r10, cl", undef=U_SHIFT
  cell "\op qword ptr [rsi], r10, cl", "buf rsi, 0x400", undef=U_SHIFT
.endr

// BMI1 and BMI2.
cell "andn eax, ebx, ecx", undef=U_BMI, feat=F_BMI1
cell "andn rax, rbx, qword ptr [rsi]", "buf rsi, 0x400", undef=U_BMI, feat=F_BMI1
.irp op, blsi, blsr, blsmsk
  cell "\op eax, ebx", undef=U_BMI, feat=F_BMI1
  cell "\op r9, r10", undef=U_BMI, feat=F_BMI1
  cell "\op r9, qword ptr [rsi]", "buf rsi, 0x400", undef=U_BMI, feat=F_BMI1
.endr
cell "bextr eax, ebx, ecx", undef=U_BEXTR, feat=F_BMI1
cell "bextr r9, r10, r11", undef=U_BEXTR, feat=F_BMI1
cell "bextr r9, qword ptr [rsi], r11", "buf rsi, 0x400", undef=U_BEXTR, feat=F_BMI1
cell "bzhi eax, ebx, ecx", undef=U_BMI, feat=F_BMI2
cell "bzhi r9, r10, r11", undef=U_BMI, feat=F_BMI2
.irp op, pdep, pext
  cell "\op eax, ebx, ecx", feat=F_BMI2
  cell "\op r9, r10, r11", feat=F_BMI2
  cell "\op r9, r10, qword ptr [rsi]", "buf rsi, 0x400", feat=F_BMI2
.endr
.irp op, shlx, shrx, sarx
  cell "\op eax, ebx, ecx", feat=F_BMI2
  cell "\op r9, r10, r11", feat=F_BMI2
  cell "\op r9, qword ptr [rsi], r11", "buf rsi, 0x400", feat=F_BMI2
.endr
cell "rorx eax, ebx, 7; rorx r9, r10, 40; rorx r11, qword ptr [rsi], 1", "buf rsi, 0x400", feat=F_BMI2
cell "mulx rax, rbx, rcx; mulx r9d, r10d, r11d; mulx r12, r12, qword ptr [rsi]", "buf rsi, 0x400", feat=F_BMI2

// Exchange and compare-exchange, plain and locked.
cell "xchg rax, rbx; xchg ecx, edx; xchg r8w, r9w; xchg sil, dil; xchg ax, cx; xchg rax, r10"
cell "xchg eax, eax; xchg qword ptr [rsi], rax; xchg byte ptr [rsi+9], bh", "buf rsi, 0x500"
.irp prefix, , lock
  cell "\prefix xadd byte ptr [rsi], al", "buf rsi, 0x500"
  cell "\prefix xadd word ptr [rsi], ax", "buf rsi, 0x500"
  cell "\prefix xadd dword ptr [rsi], r9d", "buf rsi, 0x500"
  cell "\prefix xadd qword ptr [rsi], r9", "buf rsi, 0x500"
  cell "\prefix cmpxchg byte ptr [rsi], bl", "buf rsi, 0x500"
  cell "\prefix cmpxchg word ptr [rsi], bx", "buf rsi, 0x500"
  cell "\prefix cmpxchg dword ptr [rsi], ebx", "buf rsi, 0x500"
  cell "\prefix cmpxchg qword ptr [rsi], rbx", "buf rsi, 0x500"
  cell "\prefix cmpxchg qword ptr [rsi], rbx", "buf rsi, 0x500; mov rax, [rsi]"
  cell "\prefix cmpxchg8b qword ptr [rsi]", "buf rsi, 0x500"
  cell "\prefix cmpxchg8b qword ptr [rsi]", "buf rsi, 0x500; mov eax, [rsi]; mov edx, [rsi+4]"
  cell "\prefix cmpxchg16b xmmword ptr [rsi]", "buf rsi, 0x500"
  cell "\prefix cmpxchg16b xmmword ptr [rsi]", "buf rsi, 0x500; mov rax, [rsi]; mov rdx, [rsi+8]"
.endr
cell "xadd rax, rbx; xadd cl, dh; cmpxchg rcx, rdx; cmpxchg r8b, r9b"
.irp op, add, adc, sub, sbb
  cell "lock \op dword ptr [rsi+4], eax", "buf rsi, 0x500"
  cell "lock \op qword ptr [rsi+4], -7", "buf rsi, 0x500"
  cell "lock \op byte ptr [rsi+4], 7", "buf rsi, 0x500"
.endr
.irp op, and, or, xor
  cell "lock \op dword ptr [rsi+4], eax", "buf rsi, 0x500", undef=U_LOGIC
  cell "lock \op word ptr [rsi+4], 0x5a5a", "buf rsi, 0x500", undef=U_LOGIC
.endr
cell "mfence; lfence; sfence; pause; nop; nop dword ptr [rax+rax+0x12345678]; movnti qword ptr [rsi], rbx", "buf rsi, 0x500"
cell "prefetcht0 [rsi]; prefetchnta [rax]; prefetchw [rsi]; clflush [rsi]; mov rbx, [rsi]", "buf rsi, 0x500"
cell "mov eax, ds; mov ebx, es; mov ecx, gs"
cell "mov rax, qword ptr fs:[0]; sub rax, qword ptr fs:[0x10]"
cell "rdtsc; shl rdx, 32; or rax, rdx; rdtsc; mov eax, 0; mov edx, 0", undef=0x8d5
cell "mov eax, 0; cpuid; mov eax, 1"
cell "xor eax, eax; xor ecx, ecx; xgetbv; and eax, 7", undef=U_LOGIC, feat=F_XSAVE

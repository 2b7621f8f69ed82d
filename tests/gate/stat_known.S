// SPDX-License-Identifier: MIT
//
// A program without a C library, of which every count is known: stat.py says them.
        .intel_syntax noprefix
        .globl _start
        .text
_start: mov     ecx, 1000
.Lloop: mov     rax, [rip + number]             // a load
        mov     [rip + number], rax             // a store
        add     qword ptr [rip + number], 1     // both
        nop     word ptr [rax + rax]            // neither, and nor are these
        prefetcht0 [rip + number]
        lea     rax, [rip + number]
        call    leaf                            // a store
        test    ecx, 1
        jz      .Leven                          // taken 500 times
        push    rax                             // 500 stores
        pop     rax                             // 500 loads
.Leven: dec     ecx
        jnz     .Lloop                          // taken 999 times
        lea     rsi, [rip + number]
        lea     rdi, [rip + copy]
        mov     ecx, 16
        rep movsb                               // one load, one store
        mov     eax, 60
        xor     edi, edi
        syscall
        .type   leaf, @function
leaf:   ret                                     // a load
        .size   leaf, . - leaf
        .size   _start, . - _start
        .type   _start, @function

        .data
number: .quad   0, 0
copy:   .quad   0, 0
        .section .note.GNU-stack, "", @progbits

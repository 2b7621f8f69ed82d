// SPDX-License-Identifier: MIT
//
// A program without a C library, whose regions have counts that are known by hand: within.py says
// them. Each function is called kTimes times.
        .intel_syntax noprefix
        .equ    kTimes, 10

        .macro  function name
        .globl  \name
        .type   \name, @function
\name:
        .endm
        .macro  end name
        .size   \name, . - \name
        .endm
        .macro  mark_begin
        .byte   0x0f, 0x1f, 0x84, 0x00, 0x53, 0x70, 0x42, 0x67, 0xeb, 0x00
        .endm
        .macro  mark_end
        .byte   0x0f, 0x1f, 0x84, 0x00, 0x53, 0x70, 0x45, 0x64, 0xeb, 0x00
        .endm

        .text
function _start
        mov     ebp, kTimes
.Lloop: call    work
        call    leaf                    // not within work
        mov     edi, 5
        call    down
        call    jumps_on
        lea     r14, [rip + .Lfar]
        mov     r15, rsp
        call    leaves_far
        ud2
.Lfar:  call    comes_back
        call    changes_stack
        call    makes_call
        call    marked
        dec     ebp
        jnz     .Lloop
        mov     eax, 60
        xor     edi, edi
        syscall
end _start

// 16 instructions, 3 of them of leaf.
function work
        push    rbx
        mov     ebx, 3
1:      call    leaf
        dec     ebx
        jnz     1b
        pop     rbx
        ret
end work

function leaf
        ret
end leaf

// With 5: six activations within one another, 28 instructions.
function down
        test    edi, edi
        jz      1f
        dec     edi
        call    down
1:      ret
end down

// 3 instructions: what it jumps to returns for it.
function jumps_on
        add     eax, 1
        jmp     leaf
end jumps_on

// 5 instructions, and no return.
function leaves_far
        push    rbx
        push    rbx
        call    throws
        ud2
end leaves_far

function throws
        mov     rsp, r15
        jmp     r14
end throws

// 8 instructions: the jump leads back into it.
function comes_back
        sub     rsp, 8
        mov     r12, rsp
        lea     r13, [rip + 1f]
        call    jumps_back
        ud2
1:      add     rsp, 8
        ret
end comes_back

function jumps_back
        mov     rsp, r12
        jmp     r13
end jumps_back

// 9 instructions on its own stack, 5 of them of swap.
function changes_stack
        lea     rdi, [rip + own_stack]
        lea     rsi, [rip + other_stack]
        call    swap
        ret
end changes_stack

// What has its own stack, and runs whenever changes_stack has left it.
function other
        call    leaf
        lea     rdi, [rip + other_stack]
        lea     rsi, [rip + own_stack]
        call    swap
        jmp     other
end other

function swap
        push    rbx
        mov     [rdi], rsp
        mov     rsp, [rsi]
        pop     rbx
        ret
end swap

// 3 instructions, one of them a system call.
function makes_call
        mov     eax, 39                 // getpid
        syscall
        ret
end makes_call

// 9 instructions between the outermost marks: three additions, and two for each of the inner marks
// and for the outer end mark.
function marked
        mark_begin
        add     eax, 1
        mark_begin
        add     eax, 1
        mark_end
        add     eax, 1
        mark_end
        call    leaf
        ret
end marked

        .data
        .balign 16
own_stack:
        .quad   0
other_stack:
        .quad   first_frame
        .fill   4096
first_frame:
        .quad   0                       // rbx
        .quad   other
        .section .note.GNU-stack, "", @progbits

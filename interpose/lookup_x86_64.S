// dlsym and dlvsym as the program calls them: ask where to go, then jump there as if the program had called it itself.
//
// Neither takes anything but its three argument registers, so these are all that must survive the question.

        .macro  FORWARD name, target
        .globl  \name
        .type   \name, @function
        .balign 16
\name:
        .cfi_startproc
        endbr64
        push    %rdi
        .cfi_adjust_cfa_offset 8
        push    %rsi
        .cfi_adjust_cfa_offset 8
        push    %rdx                    // the stack is aligned to 16 again
        .cfi_adjust_cfa_offset 8
        call    \target
        pop     %rdx
        .cfi_adjust_cfa_offset -8
        pop     %rsi
        .cfi_adjust_cfa_offset -8
        pop     %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *%rax
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .hidden vramtrack_dlsym_target
        .hidden vramtrack_dlvsym_target

        .text
        FORWARD dlsym, vramtrack_dlsym_target
        FORWARD dlvsym, vramtrack_dlvsym_target

        .section .note.GNU-stack, "", @progbits

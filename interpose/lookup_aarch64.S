// dlsym and dlvsym as the program calls them: ask where to go, then jump there as if the program had called it itself.
//
// Neither takes anything but its three argument registers, so these and the link register are all that must survive the
// question. The jump goes through x16, as branch target identification wants of a tail call.

        .macro  FORWARD name, target
        .globl  \name
        .type   \name, %function
        .balign 16
\name:
        .cfi_startproc
        hint    #34                     // bti c
        stp     x29, x30, [sp, #-48]!
        .cfi_adjust_cfa_offset 48
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        bl      \target
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_adjust_cfa_offset -48
        .cfi_restore x29
        .cfi_restore x30
        br      x16
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .hidden vramtrack_dlsym_target
        .hidden vramtrack_dlvsym_target

        .text
        FORWARD dlsym, vramtrack_dlsym_target
        FORWARD dlvsym, vramtrack_dlvsym_target

        .section .note.GNU-stack, "", %progbits

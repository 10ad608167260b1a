# The same as keeper.x86_64.s, for another processor.
    ldr x0, [sp]                // how many words we were given
    cmp x0, #3
    mov x0, #0
    b.lo leave
    ldr x19, [sp, #16]          // IN
    ldr x1, [sp, #24]
    mov x0, #-100               // paths are from here
    mov x2, #2                  // both ends, or a reader that is gone would end us
    mov x8, #56                 // openat
    svc #0
    mov x20, x0
session:
    mov x0, #-100
    mov x1, x19
    mov x2, #0
    mov x8, #56                 // openat; waits for somebody
    svc #0
    mov x21, x0
    mov x0, #1
    tbnz x21, #63, leave
order:
    mov x0, x21
    mov x1, sp
    mov x2, #1
    mov x8, #63                 // read
    svc #0
    cmp x0, #1
    b.ne over
    ldrb w1, [sp]
    mov x0, #-1                 // everybody but us and the first process
    mov x8, #129                // kill
    svc #0
    strb w0, [sp, #1]
    mov x0, x20
    mov x1, sp
    mov x2, #2
    mov x8, #64                 // write
    svc #0
    b order
over:
    mov x0, x21
    mov x8, #57                 // close
    svc #0
clear:
    mov x1, #9
    mov x0, #-1
    mov x8, #129                // kill
    svc #0
    cbnz x0, session            // nobody is left
    mov x0, #0
    mov x1, #16960
    movk x1, #15, lsl #16       // a millisecond
    stp x0, x1, [sp, #-16]!
    mov x0, sp
    mov x1, #0
    mov x8, #101                // nanosleep
    svc #0
    add sp, sp, #16
    b clear
leave:
    mov x8, #93                 // exit
    svc #0

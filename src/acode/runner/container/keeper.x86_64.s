# The first program of a container whose image has no shell: keeper IN REPLY
#
# It keeps the container up and ends what runs there. Whoever opens the pipe IN writes bytes, each
# a signal for everybody else here; the answer at REPLY is that byte and 0 if somebody was there.
# When the pipe closes, because its owner has finished or is gone, everybody else is killed.
# Without arguments it does nothing, successfully: that is how the engine asks for our health.
# `keeper.py` holds the assembled bytes; a test compares them.
    .intel_syntax noprefix
    pop rdi                     # how many words we were given
    cmp edi, 3
    mov edi, 0
    jb leave
    pop rax
    pop r12                     # IN
    pop rdi
    mov esi, 2                  # both ends, or a reader that is gone would end us
    mov eax, 2                  # open
    syscall
    mov r13d, eax
session:
    mov rdi, r12
    xor esi, esi
    mov eax, 2                  # open; waits for somebody
    syscall
    mov edi, 1
    test eax, eax
    js leave
    mov ebx, eax
order:
    mov edi, ebx
    mov rsi, rsp
    mov edx, 1
    xor eax, eax                # read
    syscall
    cmp eax, 1
    jne over
    movzx esi, byte ptr [rsp]
    or rdi, -1                  # everybody but us and the first process
    mov eax, 62                 # kill
    syscall
    mov [rsp + 1], al
    mov edi, r13d
    mov rsi, rsp
    mov edx, 2
    mov eax, 1                  # write
    syscall
    jmp order
over:
    mov edi, ebx
    mov eax, 3                  # close
    syscall
clear:
    mov esi, 9
    or rdi, -1
    mov eax, 62                 # kill
    syscall
    test eax, eax
    jnz session                 # nobody is left
    push 1000000                # a millisecond
    push 0
    mov rdi, rsp
    xor esi, esi
    mov eax, 35                 # nanosleep
    syscall
    pop rax
    pop rax
    jmp clear
leave:
    mov eax, 60                 # exit
    syscall

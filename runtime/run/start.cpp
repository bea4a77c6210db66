// SPDX-License-Identifier: Apache-2.0
//
// The entry of an executable that ashlarc links, which needs no files of a C compiler: it calls main() through the C library, as their
// start files do. A program that a C++ compiler links has those instead. glibc 2.34 and later run constructors themselves.

#if defined(__x86_64__)
// The kernel passes the stack, with argc and argv, and the loader its destructor in rdx (System V ABI, "Process Initialization").
__asm__(R"(
  .globl _start
  .type _start, @function
_start:
  .cfi_startproc
  .cfi_undefined rip
  xorl %ebp, %ebp
  movq %rdx, %r9
  popq %rsi
  movq %rsp, %rdx
  andq $-16, %rsp
  pushq %rax
  pushq %rsp
  xorl %r8d, %r8d
  xorl %ecx, %ecx
  movq main@GOTPCREL(%rip), %rdi
  callq *__libc_start_main@GOTPCREL(%rip)
  hlt
  .cfi_endproc
  .size _start, .-_start
)");
#elif defined(__aarch64__)
__asm__(R"(
  .globl _start
  .type _start, %function
_start:
  .cfi_startproc
  .cfi_undefined x30
  mov x29, #0
  mov x30, #0
  mov x5, x0
  ldr x1, [sp]
  add x2, sp, #8
  mov x6, sp
  adrp x0, :got:main
  ldr x0, [x0, :got_lo12:main]
  mov x3, #0
  mov x4, #0
  bl __libc_start_main
  brk #0
  .cfi_endproc
  .size _start, .-_start
)");
#endif

// What destructors of static objects are registered with (Itanium C++ ABI): it names the executable.
extern "C" {
extern void *__dso_handle;
__attribute__((visibility("hidden"))) void *__dso_handle = &__dso_handle;
}

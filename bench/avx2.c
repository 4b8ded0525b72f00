// Lets a program believe that its processor has AVX2 at most, whatever library of it asks: to time smelt and ONNX Runtime beside
// each other as on such a processor. Linux on x86-64, where the processor lets CPUID fault (cpuid_fault in /proc/cpuinfo).
//
// usage: gcc -O1 -shared -fPIC -o avx2.so bench/avx2.c
//        LD_PRELOAD=$PWD/avx2.so PYTHONPATH=build/python .venv/bin/python bench/user_models.py --folder FOLDER …
//
// FOLDER: one of its own, for timings in the cache are of one processor. The clock and the caches stay those of the processor.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define BIT(n) (1u << (n))

// Of leaf 7: AVX-512's parts, AMX's, and vector AES and products that came with AVX-512.
static const unsigned avx512_b = BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31);
static const unsigned avx512_c = BIT(1) | BIT(6) | BIT(9) | BIT(10) | BIT(11) | BIT(12) | BIT(14);
static const unsigned avx512_d = BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25);
// Of leaf 7, 1: AVX-VNNI, BF16, AMX's FP16, AVX-IFMA; AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10.
static const unsigned later_a = BIT(4) | BIT(5) | BIT(21) | BIT(23);
static const unsigned later_d = BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19);

// Of this thread and those that it starts.
static long let_cpuid(int run) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, run); }

static void on_fault(int number, siginfo_t* info, void* context) {
  greg_t* r = ((ucontext_t*)context)->uc_mcontext.gregs;
  const unsigned char* at = (const unsigned char*)r[REG_RIP];
  (void)info;
  if (at[0] != 0x0f || at[1] != 0xa2) {  // not CPUID: the fault happens again, and ends the program
    signal(number, SIG_DFL);
    return;
  }
  const unsigned leaf = (unsigned)r[REG_RAX], part = (unsigned)r[REG_RCX];
  unsigned a, b, c, d;
  let_cpuid(1);
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
  let_cpuid(0);
  if (leaf == 7 && part == 0) b &= ~avx512_b, c &= ~avx512_c, d &= ~avx512_d;
  if (leaf == 7 && part == 1) a &= ~later_a, d &= ~later_d;
  r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
  r[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &action, NULL);
  if (let_cpuid(0)) perror("avx2.so: CPUID does not fault here");
}

// Lets a program believe that its processor has AVX2 at most, whatever library of it asks. as_avx2.py builds and uses it.
//
// The dynamic linker loads it as an auditor (LD_AUDIT) and tells it of each program and library that it maps, before any code of
// those runs. Of those that the file CPUID_LIST names, each CPUID instruction becomes UD2, which is as long, and the signal that
// UD2 raises is answered with what CPUID says less AVX-512, AMX and what came with them. A line of the file: a path, then the
// instructions' addresses in hexadecimal, as objdump prints them. Linux on x86-64.
#define _GNU_SOURCE
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static const unsigned char cpuid[] = {0x0f, 0xa2}, ud2[] = {0x0f, 0x0b};

enum { most = 4096 };
static uintptr_t replaced[most];
static size_t count;

static int is_replaced(uintptr_t at) {
  for (size_t i = 0; i < count; ++i) {
    if (replaced[i] == at) return 1;
  }
  return 0;
}

static void on_ud2(int number, siginfo_t* info, void* context) {
  greg_t* r = ((ucontext_t*)context)->uc_mcontext.gregs;
  (void)info;
  if (!is_replaced((uintptr_t)r[REG_RIP])) {  // the program's own: it happens again, and ends the program
    signal(number, SIG_DFL);
    return;
  }
  const unsigned leaf = (unsigned)r[REG_RAX], part = (unsigned)r[REG_RCX];
  unsigned a, b, c, d;
  __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
  if (leaf == 7 && part == 0) b &= ~avx512_b, c &= ~avx512_c, d &= ~avx512_d;
  if (leaf == 7 && part == 1) a &= ~later_a, d &= ~later_d;
  r[REG_RAX] = a, r[REG_RBX] = b, r[REG_RCX] = c, r[REG_RDX] = d;
  r[REG_RIP] += sizeof(ud2);
}

static void fail(const char* path, const char* why) {
  fprintf(stderr, "as_avx2: %s: %s\n", path, why);
  _exit(3);  // a timing as another processor would be wrong
}

static void replace(const char* path, uintptr_t at) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = at / page * page, bytes = at + sizeof(ud2) - begin;
  if (count == most) fail(path, "has too many CPUID instructions");
  if (mprotect((void*)begin, bytes, PROT_READ | PROT_WRITE | PROT_EXEC)) fail(path, "its code cannot be changed");
  if (memcmp((void*)at, cpuid, sizeof(cpuid)) != 0) fail(path, "has changed since it was listed");
  memcpy((void*)at, ud2, sizeof(ud2));
  mprotect((void*)begin, bytes, PROT_READ | PROT_EXEC);
  replaced[count++] = at;
}

unsigned la_version(unsigned version) {
  struct sigaction action = {.sa_sigaction = on_ud2, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGILL, &action, NULL);
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map* map, Lmid_t where, uintptr_t* cookie) {
  char path[PATH_MAX];
  const char* name = map->l_name[0] ? map->l_name : "/proc/self/exe";  // the program itself has no name
  const char* listed = getenv("CPUID_LIST");
  FILE* file = listed && realpath(name, path) ? fopen(listed, "r") : NULL;
  char* line = NULL;
  size_t room = 0;
  (void)where;
  (void)cookie;
  while (file && getline(&line, &room, file) > 0) {
    char* rest = NULL;
    const char* of = strtok_r(line, "\t\n", &rest);
    if (!of || strcmp(of, path) != 0) continue;
    for (const char* word = strtok_r(NULL, "\t\n", &rest); word; word = strtok_r(NULL, "\t\n", &rest)) {
      replace(path, map->l_addr + strtoull(word, NULL, 16));
    }
  }
  free(line);
  if (file) fclose(file);
  return 0;
}

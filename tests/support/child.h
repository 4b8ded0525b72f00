// A piece of a test in a process of its own: what crashes or never ends there does not end the test.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMELT_ADDRESS_SANITIZER  // clang's way to say it
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SMELT_ADDRESS_SANITIZER
#endif

namespace smelt::test {

/// Ends what this process may take at so many bytes of addresses. Not under AddressSanitizer, which takes terabytes of them.
inline void limit_addresses([[maybe_unused]] size_t bytes) {
#ifndef SMELT_ADDRESS_SANITIZER
  const rlimit memory{bytes, bytes};
  setrlimit(RLIMIT_AS, &memory);
#endif
}

/// f() in a child: the status it exits with, or minus the signal that ended it (strsignal names it).
template <class F> int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace smelt::test

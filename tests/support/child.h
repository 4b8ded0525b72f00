// A piece of a test in a process of its own: what crashes or never ends there does not end the test.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace smelt::test {

/// f() in a child: the status it exits with, or minus the signal that ended it (strsignal names it).
template <class F> int in_child(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace smelt::test

// A program of the machine, run to its end. No shell comes between, so that no name is a command.
#pragma once

#include <string>
#include <vector>

namespace smelt {

struct Finished {
  int not_started = 0;  // an errno: ENOENT where the program is not installed
  bool in_time = false;
  int status = 0;      // as waitpid gives it
  std::string output;  // its standard output
};

/// Looks for words[0] on PATH. `input` is its standard input (-1: none). After `limit_s` seconds it is killed; those in which it
/// was ready and had no core do not count. Throws Error where there is no pipe.
Finished run_program(const std::vector<std::string>& words, int input, int limit_s);

}  // namespace smelt

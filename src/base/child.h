// A program that runs beside this one and is spoken to by lines.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace smelt {

/// Killed where it still runs when this goes. Its standard error is this process's.
class Child {
 public:
  /// Looks for words[0] on PATH where it has no slash. Throws Error where it cannot be started.
  explicit Child(const std::vector<std::string>& words);
  ~Child();
  Child(const Child&) = delete;

  /// Throws Error where the program has ended.
  void say(const std::string& line);
  /// The next line of its output, without its end. Throws Error where it ends before, or says nothing for so long.
  std::string line(double limit_s);
  int pid() const { return process_; }

 private:
  [[noreturn]] void lost(const std::string& what) const;
  std::string name_, read_;
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace smelt

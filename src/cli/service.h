// Models that processes of their own serve: how smelt profile --with and --watch start them and speak with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/child.h"
#include "cli/common.h"
#include "profile/contention.h"

namespace smelt::cli {

/// How a model's process is started.
struct Place {
  int threads = 0;         // 0: as the user asked
  std::vector<int> cores;  // empty: all
  int nice = 0;
  bool idle = false;  // it runs only on cores that nobody else wants (SCHED_IDLE)
  bool spins = true;  // false: its threads sleep at once where they wait
};

/// What a process says of a model once it is ready.
struct Readied {
  std::vector<StepInfo> steps;  // name, operator and bytes
  std::vector<profile::Limiter> limiters;
  std::vector<double> alone_us;  // of each step, in a short look while nothing else runs
  double bytes_per_s = 0;        // of memory; 0: not known
};

/// A process that serves one model, or several by threads.
class Service {
 public:
  /// The models' options are those of `m`; --shapes are of its own model alone.
  Service(const ModelArguments& m, const std::vector<std::string>& paths, const Place& place);

  /// Waits until its models are built. Throws Error where the process ends.
  std::vector<Readied> ready();
  /// Serves for so long; `rate` requests a second, or one after the other where it is 0.
  void go(double seconds, double rate);
  /// Throws Error where there is none within `limit_s`, or where the process ends.
  std::vector<profile::Served> answer(double limit_s);
  int pid() const { return child_.pid(); }

 private:
  Child child_;
};

/// The lines that the process of a Service writes.
std::string ready_line(const std::vector<Readied>& models);
std::string answer_line(const std::vector<profile::Served>& served);

/// The command that runs one of smelt's verbs on these models (the first with `m`'s options, and --shapes where it is m's own).
std::vector<std::string> command_of(const char* verb, const ModelArguments& m, const std::vector<std::string>& paths,
                                    const Place& place = {});

/// The processors that this process may use.
std::vector<int> processors();

}  // namespace smelt::cli

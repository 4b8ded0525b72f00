// Models on the same cores as tables, JSON, a trace and a page: what `smelt profile A --with B` says.
#pragma once

#include <string>
#include <vector>

#include "profile/gpu_contention.h"
#include "report/table.h"

namespace smelt::report {

/// One way to have the models run together, as it was measured.
struct Arranged {
  std::string name, how;  // how: what to do for it
  std::vector<profile::Served> served;
};

struct Contended {
  std::vector<std::string> names;  // of the models' files; the first is the one that is to be helped
  std::vector<profile::Alone> alone;
  std::vector<double> predicted;   // slow-downs
  std::vector<Arranged> arranged;  // the first: nothing is done about it
  double p99_us = 0;               // that the first model is to keep; 0: as low as can be
  // Of models on a GPU:
  bool gpu = false;
  std::vector<profile::GpuLoss> losses;      // as they are
  std::vector<profile::GpuAlone> gpu_alone;  // what the prediction is made from
  std::string limits_from;
  profile::SlowDown slow_down(size_t model) const;
  /// Of the first model's steps.
  std::vector<profile::StepSlowDown> step_slow_downs() const;
};

/// The arrangement to take: of those that keep the target, the one in which the others get most done; where none does, and
/// without a target, the one of the lowest 99th percentile.
const Arranged& chosen(const Contended& c);

/// One row a model: together against alone, what it lost to what, and what was expected.
Table contention_table(const Contended& c);
/// One row a step of the first model.
Table contended_step_table(const Contended& c);
/// One row a kernel, copy or fill of a model on a GPU: what it takes alone, from which the slow-down is predicted.
Table gpu_work_table(const Contended& c);
/// One row an arrangement: the first model's latency, and what the others get done. The note says which to take.
Table remedy_table(const Contended& c);
/// "detector beside resnet50: 2.1 times as slow; p99 from 210 ms to 150 ms by …".
std::string contention_verdict(const Contended& c);

/// All of it with a format and a version (docs/contention.schema.json): the tables, and requests and steps of the last
/// tenths of a second on one clock, as they are and as chosen.
std::string contention_json(const Contended& c);
/// The last of it alone, as JSON: an array with an object for each of the two arrangements, or one where nothing helps.
std::string contention_timelines(const Contended& c);
/// Chrome/Perfetto trace events of that time: each model a process, with its requests and their waiting above its steps.
std::string contention_trace(const Contended& c);

}  // namespace smelt::report

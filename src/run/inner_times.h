// The time of steps inside the bodies of If, Loop and Scan: on the processor by its clock, on a device by the device's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "smelt/session.h"

namespace smelt::run {

/// A step of a body.
struct InnerStep {
  std::vector<std::string> path;  // the nodes that it is inside of, each with its body: "loop: body", "if_3: then_branch"
  StepInfo step;
  int64_t calls = 0;
  int64_t ns = 0;  // of all calls; with what is inside of it
};

/// While one lives, runs that this thread starts note the steps of bodies here.
class InnerTimes {
 public:
  InnerTimes();
  ~InnerTimes();
  InnerTimes(const InnerTimes&) = delete;
  /// This thread's; null: nobody asks.
  static InnerTimes* current();

  /// In the order in which the steps first ran.
  std::vector<InnerStep> steps() const { return steps_; }

  /// A body of a node runs while this lives.
  class Inside {
   public:
    Inside(const std::string& node, const std::string& body);
    ~Inside();
    Inside(const Inside&) = delete;

   private:
    InnerTimes* times_;
  };
  bool is_inside() const { return !path_.empty(); }
  /// A call of a body's step; `describe` is asked when it is the first. `step`: which, for parts of a fused node that run apart share
  /// its name.
  void add(size_t step, const std::string& name, int64_t ns, const std::function<StepInfo()>& describe);

 private:
  InnerTimes* before_;
  std::vector<std::string> path_;
  std::vector<InnerStep> steps_;
  std::map<std::tuple<std::vector<std::string>, size_t, std::string>, size_t> at_;
};

}  // namespace smelt::run

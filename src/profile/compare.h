// How far two results differ: per output, and the first node at which two plans of one model differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::profile {

struct Difference {
  std::string name;
  bool comparable = true;  // false: types or shapes differ, or strings differ
  std::string why_not;
  int64_t count = 0;
  double max_abs = 0, mean_abs = 0;
  double max_rel = 0;       // max |a - b| / (|b| + 1e-12 + rms(b) * 1e-3)
  double rms_rel = 0;       // rms(a - b) / rms(b)
  double cosine_error = 0;  // 1 - cos of the angle between them, in float64
  int64_t different = 0;    // elements not equal
  int64_t nonfinite = 0;    // elements that are NaN or infinite in one, and something else in the other
};

/// The difference of a from the reference b. Integers and bool compare exactly; NaN equals NaN.
Difference difference(const std::string& name, const Tensor& a, const Tensor& b);

struct Tolerance {
  double rtol = 1e-3, atol = 1e-5;  // |a - b| <= atol + rtol * max(|b|, rms(b)): numpy.allclose, and the tensor's scale
};
bool within(const Tensor& a, const Tensor& b, const Tolerance& t);

struct Bisection {
  std::string value, node;  // the first value, in execution order, beyond the tolerance, and its node
  std::vector<std::string> sources;
  Difference difference;
  int compared = 0;  // values that both plans compute
};

/// A plan and its inputs, in the plan's order.
struct Fed {
  const Plan& plan;
  const std::vector<Tensor>& inputs;
};

/// Compares every value that both plans compute under one name, in execution order. Returns the first value beyond the
/// tolerance, or nothing. It runs the plans' graphs as they are, with these values as outputs.
std::optional<Bisection> bisect(const Fed& before, const Fed& after, const Tolerance& tolerance);

}  // namespace smelt::profile

// ONNX's backend test cases, as tests/conformance/generate.py writes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::conformance {

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

struct Case {
  std::string name;  // "node/test_abs": its folder below the root
  std::filesystem::path folder;
  Tolerance tolerance;
};

/// Every case below `root`, by name.
std::vector<Case> list_cases(const std::filesystem::path& root);

/// The tensors of a data set's folder: input_0.pb, input_1.pb, … for "input".
std::vector<Tensor> read_tensors(const std::filesystem::path& folder, const std::string& what);

/// Imports the model and evaluates every data set with the reference operators. Empty when all outputs agree, otherwise
/// the first difference or error in one line.
std::string run_case(const Case& c);

/// Empty when `actual` has the type, the shape and, within the tolerance, the values of `expected`. NaN equals NaN;
/// integers, bools and strings must be equal. bf16 gets two units in the last place, as in ONNX's own runner.
std::string difference(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance);

struct Outcome {
  std::string name, failure;  // failure: empty when it passed
};

/// Runs each case in a process of its own, as many at a time as the machine has cores, so that a crash or a hang (longer
/// than `seconds`) is a failure of that case only.
std::vector<Outcome> run_all(const std::vector<Case>& cases, unsigned seconds);

}  // namespace smelt::conformance

// The ways in which a case runs: as imported, by references alone, optimised, and with other tactics than the first.
#pragma once

#include <string>
#include <vector>

#include "fuzz/operators/case.h"

namespace smelt::fuzz {

constexpr int bad_case = 66;  // the status of a process that found something itself

/// The outputs, or the message of the Error.
struct Outcome {
  std::vector<Tensor> outputs;
  std::vector<SequenceOutput> sequences{};  // that the outputs hold
  std::string refused;
  bool stopped = false;  // refused because it took too long
};

/// Whether a case gives the same twice: random numbers need not, and ONNX leaves open what NaN and what is beyond an integer's range is
/// quantized to.
bool repeatable(const OperatorCase& c);

/// Runs the case in every way, and gives what it is as imported. Ends the process with bad_case where ways differ by more than rounding,
/// where an exception is no Error, or where the reference alone refuses what an operator's rule accepts.
Outcome run_in_every_way(const OperatorCase& c, const std::string& device, Random& random);

/// Runs the case as imported, by references alone and optimised, and ends the process with bad_case where one of them, from the model's
/// bytes to the outputs, takes more than `seconds` of the processor, or on a GPU, with its kernels compiled, of the clock.
Outcome run_soon(const OperatorCase& c, const std::string& device, double seconds);

}  // namespace smelt::fuzz

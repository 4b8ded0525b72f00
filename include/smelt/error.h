// The one exception type for everything that a user can cause or must be told. An error message has four parts: where,
// what was expected, what was found, and what to do next.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "smelt/export.h"

namespace smelt {

/// The command's exit codes. Python has an exception class for each. stopped: cancelled, or beyond a time limit.
enum class ExitCode : int { ok = 0, failed = 1, usage = 2, unsupported = 3, accuracy = 4, not_proven = 5, stopped = 6 };

class SMELT_API Error : public std::runtime_error {
 public:
  /// `what` is one clear line: "model.onnx: node 'conv3' (Conv): W has shape [64, 32, 3], expected rank 4".
  /// `next` says what to do about it and is printed on a line of its own; it may be empty.
  explicit Error(std::string what, std::string next = {}, ExitCode code = ExitCode::failed);
  ExitCode code() const { return code_; }
  const std::string& next() const { return next_; }
  /// The same error with "where: " in front, for callers that know more about the place.
  Error at(std::string_view where) const;

 private:
  std::string next_;
  ExitCode code_;
};

}  // namespace smelt

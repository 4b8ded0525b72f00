// Runs of arrays as most callers bring them, without Python in between: NumPy's arrays of the model's types, all inputs of them.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "numpy_arrays.h"
#include "smelt/session.h"

namespace smelt::python {

class DirectRuns {
 public:
  /// The session of a plan of the processor; it must live as long as this.
  explicit DirectRuns(Session& session);

  /// The outputs as arrays: those of `names`, or all where it is None or empty. None, and nothing was run, for anything that is not
  /// such a call: Session.run in Python takes it then, or says what is wrong with it.
  nanobind::object run(nanobind::handle feeds, nanobind::handle names) const;

 private:
  struct Input {
    nanobind::object name;
    DType type;
  };
  std::optional<std::vector<Tensor>> inputs_of(nanobind::handle feeds) const;
  std::optional<std::vector<size_t>> outputs_of(nanobind::handle names) const;

  Session& session_;
  NumpyArrays arrays_;
  std::vector<Input> inputs_;
  bool has_arrays_;  // of each output
};

}  // namespace smelt::python

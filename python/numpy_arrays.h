// NumPy's arrays without its headers: the functions of its C API that are used, by their numbers, and how an array lies in memory.
// Both are its ABI, which NumPy 1 and 2 share.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "smelt/tensor.h"

namespace smelt::python {

class NumpyArrays {
 public:
  /// Imports NumPy.
  NumpyArrays();

  /// Whether it has the type's elements: numbers of 8 to 64 bits, and strings.
  static bool has(DType type);
  /// A view of a C-contiguous array of numbers, which is kept alive with it, or a copy of an object array of str; nothing for every
  /// other object, and for arrays of types that differ from `type`.
  std::optional<Tensor> tensor_of(nanobind::handle value, DType type) const;
  /// A view of the memory of a tensor on the host, or an object array of its strings. The type is one that it has.
  nanobind::object array_of(const Tensor& t) const;

 private:
  void** api_;
};

}  // namespace smelt::python

// Which packed weights kernels ask for.
#pragma once

#include <utility>
#include <vector>

#include "smelt/tensor.h"

namespace smelt::ops {

/// While it lives, all forms that stores give out on this thread (WeightStore::packed), each with the constant that it is of. The
/// innermost one of a thread is told.
class PackedForms {
 public:
  PackedForms();
  ~PackedForms();
  PackedForms(const PackedForms&) = delete;

  using Form = std::pair<Tensor, Tensor>;  // the constant, the form
  const std::vector<Form>& list() const { return list_; }

  /// For stores: tells the thread's innermost one, where there is one.
  static void tell(const Tensor& constant, const Tensor& form);

 private:
  PackedForms* outer_;
  std::vector<Form> list_;
};

}  // namespace smelt::ops

// Weights packed for a kernel, shared: several Executions of one plan, and several kernels of one Execution, that want the
// same constant in the same form get the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "smelt/tensor.h"

namespace smelt::ops {

class WeightStore {
 public:
  /// Once so many bytes of forms are made, further ones of less than a huge page lie side by side in huge pages (base/memory.h). A
  /// small model does not pay for such a page.
  explicit WeightStore(int64_t bytes_apart = int64_t{1} << 20) : bytes_apart_(bytes_apart) {}

  /// `constant` in the form that `packing` names ("onednn:OIhw8i8o:f32:64x64x3x3"): made by `pack` the first time, shared
  /// afterwards. The name must say everything that the form depends on but the constant. Thread-safe; a form is packed
  /// once even when several threads ask for it at the same time. When pack throws, the next caller tries again.
  Tensor packed(const Tensor& constant, std::string_view packing, const std::function<Tensor()>& pack);

  /// Bytes of all packed forms; the constants themselves are not counted.
  int64_t bytes() const;

 private:
  /// The form, or its copy among others in a block of huge pages.
  Tensor placed(Tensor form);

  struct Entry {
    std::mutex packing;  // held while the form is made
    Tensor source;       // keeps the constant's memory, and with it the key, from being reused
    Tensor form;
  };
  /// Where the constant lies, as what it is read, and the packing.
  using Key = std::tuple<const void*, DType, Shape, std::string>;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Entry>> entries_;
  int64_t bytes_ = 0, bytes_apart_;
  Tensor block_;  // what small forms are laid into
  int64_t used_ = 0;
};

}  // namespace smelt::ops

// Packed weights that several plans of a process hold at once: sessions of one model, or of models with the same weights.
#pragma once

#include <memory>
#include <string>

#include "smelt/tensor.h"

namespace smelt::ops {

/// A form and what it was packed from. While one lives it is found by others.
struct SharedForm {
  std::string name;  // a lasting form's whole name (WeightStore::packed)
  Tensor constant, form;
};

/// A form of that name and of so many bytes, packed from the same bytes as the constant holds; null where no plan has one, or where the
/// file that the other plan's constant lies in has been written to since. Compares all bytes. Thread-safe, as share is.
std::shared_ptr<const SharedForm> find_shared(const Tensor& constant, const std::string& name, int64_t form_bytes);

/// Lets others find the form while what is returned lives.
std::shared_ptr<const SharedForm> share(const Tensor& constant, const std::string& name, const Tensor& form);

}  // namespace smelt::ops

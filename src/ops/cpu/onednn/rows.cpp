#include "ops/cpu/onednn/rows.h"

#include "ops/core/strides.h"

namespace smelt::ops::onednn {

std::optional<std::string> rejects_rows(const BoundTensor& x, const BoundTensor& y) {
  if (x.type != DType::f32 || y.type != DType::f32)
    return fmt::format("elements of {}", name(x.type != DType::f32 ? x.type : y.type));
  if (x.shape.empty() || x.shape.size() > 5) return fmt::format("rank {}; it knows 1 to 5", x.shape.size());
  for (const BoundTensor* t : {&x, &y}) {
    if (t->layout != Layout::plain || !is_dense(*t)) return "a tensor that is not dense and plain";
  }
  if (elements(x.shape) == 0) return "an empty tensor";
  return std::nullopt;
}

}  // namespace smelt::ops::onednn

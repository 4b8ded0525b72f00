#include "ops/cpu/onednn/rows.h"

#include "ops/core/strides.h"

namespace smelt::ops::onednn {

std::optional<Refusal> rejects_rows(const BoundTensor& x, const BoundTensor& y) {
  if (x.type != DType::f32 || y.type != DType::f32)
    return refuse(Reason::wrong_type, "elements of {}", name(x.type != DType::f32 ? x.type : y.type));
  if (x.shape.empty() || x.shape.size() > 5) return refuse(Reason::wrong_rank, "rank {}; it knows 1 to 5", x.shape.size());
  for (const BoundTensor* t : {&x, &y}) {
    if (t->layout != Layout::plain || !is_dense(*t)) return refuse(Reason::wrong_layout, "a tensor that is not dense and plain");
  }
  if (elements(x.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  return std::nullopt;
}

}  // namespace smelt::ops::onednn

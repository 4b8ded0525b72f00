// Einsum on a GPU, a thread an element of the result (src/kernels/reduce/einsum.cuh).
#include <algorithm>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
#include "ops/einsum/einsum.h"
#include "ops/einsum/offer.h"

namespace smelt::ops {
namespace {

/// Axes of extent 1 left out; at least one axis.
void without_ones(Shape& extents, std::vector<Shape>& strides) {
  Shape kept;
  std::vector<Shape> steps(strides.size());
  for (size_t a = 0; a < extents.size(); ++a) {
    if (extents[a] == 1) continue;
    kept.push_back(extents[a]);
    for (size_t k = 0; k < strides.size(); ++k) steps[k].push_back(strides[k][a]);
  }
  if (kept.empty()) {
    kept.push_back(1);
    for (Shape& s : steps) s.push_back(0);
  }
  extents = kept, strides = steps;
}

}  // namespace

void offer_einsum_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.outputs[0].type;
  const bool real = type == DType::f32 || type == DType::f64 || type == DType::f16 || type == DType::bf16;
  if (!real && (!is_integer(type) || bits(type) < 8))
    return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  std::vector<Shape> shapes;
  for (const BoundTensor& t : b.inputs) shapes.push_back(t.shape);
  Contraction c = einsum_contraction(*b.node, shapes);
  without_ones(c.outer, c.outer_strides);
  without_ones(c.summed, c.summed_strides);
  const int64_t count = elements(c.outer), terms = elements(c.summed);
  if (count >= int64_t{1} << 31 || terms >= int64_t{1} << 31)
    return offer.refuse("cuda", Reason::too_large, "{} elements of {} terms; it counts to 2^31 of each", count, terms);
  const size_t operands = shapes.size();
  const KernelEntry einsum{
      "einsum", "256",
      fmt::format("EinsumArgs<{}, {}, {}, {}>", expr::cuda_type(type), operands, c.outer.size(), c.summed.size()),
      fmt::format("contract<{}>", real ? "double" : expr::cuda_type(type))};
  const double moved = static_cast<double>(count) * static_cast<double>(terms * static_cast<int64_t>(operands)) * 2;
  offer.candidates.push_back({"cuda", "", gpu_estimate_us(*machine.gpu, moved), [=, gpu = machine.gpu] {
                                LaunchPlan plan("einsum", "#include \"reduce/einsum.cuh\"\n");
                                if (count > 0) {
                                  Launch& l = plan.launch(einsum, blocks_of(count, 256));
                                  for (size_t k = 0; k < operands; ++k) l.input(k);
                                  l.output(0);
                                  for (const std::vector<Shape>* all : {&c.outer_strides, &c.summed_strides})
                                    for (const Shape& s : *all)
                                      for (size_t i = s.size(); i-- > 0;) l.value(s[i]);
                                  for (const Shape* s : {&c.outer, &c.summed})
                                    for (size_t i = s->size(); i-- > 0;)
                                      l.value(Divider(static_cast<uint32_t>(std::max<int64_t>(1, (*s)[i]))));
                                  l.value(static_cast<uint32_t>(count)).value(static_cast<uint32_t>(terms));
                                }
                                return launched(std::move(plan), *gpu);
                              }});
}

}  // namespace smelt::ops

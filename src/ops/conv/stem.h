// ai.smelt's StemConv and StemQLinearConv: ai.smelt's Conv or QLinearConv as a model's first layer.
//
//   attributes   the convolution's, of one segment
//   image        a program over x's elements that gives what is convolved; left out: x is
//   pool_kernel, pool_strides, pool_pads (begins, then ends)   of windows, the largest of whose results is the output; left out: all are
//
// Operands of what is pooled vary by channel alone, so that they broadcast to both results alike.
#pragma once

#include <memory>
#include <optional>

#include "ops/core/family.h"
#include "ops/core/operator.h"

namespace smelt::ops {

void infer_stem_conv(InferContext& c);
void run_stem_conv(ComputeContext& c);
int64_t stem_conv_flops(const BoundNode& b);

namespace conv {

bool is_stem(const Node& node);
/// The convolution, its pooling, and its image's program.
Node stem_convolution(const Node& node);
std::optional<Node> stem_pool(const Node& node);
std::optional<expr::Program> stem_image(const Node& node);

/// The parts one behind the other, bound; images between them are dense. `between`: how what is pooled lies.
struct StemParts {
  std::shared_ptr<const Node> convolution, image, pool;  // image, pool: null where there is none
  BoundNode convolved, converted, pooled;
  explicit StemParts(const BoundNode& b, Layout between = Layout::nhwc);
};

/// "stem": one kernel for all of it. Whether it takes less time than its parts is a plan's to find out (plan/first_layers.h).
void offer_stem_cuda(const BoundNode& node, const Machine& machine, Offer& offer);

}  // namespace conv
}  // namespace smelt::ops

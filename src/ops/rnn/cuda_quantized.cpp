// DynamicQuantizeLSTM on a GPU: an LSTM over the weights in floats, with X and the state rounded to the 8 bits that they are quantised to
// (src/kernels/rnn/rounded.cuh).
#include <algorithm>

#include "base/error.h"
#include "kernels/rnn/rounded.h"
#include "ops/rnn/cuda_recurrent.h"
#include "ops/rnn/offer.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {
namespace {

constexpr int64_t part = 4096, most_parts = 256;  // elements of X that a block rounds, at least; blocks

/// The weights of input i with their scale and zero point, as an LSTM's.
Tensor weights(const BoundNode& b, size_t i, int64_t columns) {
  const size_t scale = i == 1 ? 8 : 10;
  const Tensor* zero = b.constant(scale + 1);
  return dequantized_weights(*b.constant(i), *b.constant(scale), zero ? *zero : Tensor(), columns);
}

BufferRef table_of(LaunchPlan& plan, const Tensor& t) {
  return plan.table(std::vector<float>(t.data<float>(), t.data<float>() + t.size()));
}

}  // namespace

void offer_quantized_lstm_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  for (const size_t i : {1, 2, 8, 9, 10, 11}) {
    const bool given = i < b.inputs.size() && b.inputs[i].type != DType::undefined;
    if (given && !b.constant(i)) return offer.refuse("cuda", Reason::not_constant, "input {} is no constant", i);
  }
  auto made = layer_on_gpu(b);
  if (!made) return offer.refuse("cuda", made.refusal());
  LayerOnGpu layer = *made;
  layer.rounded = true;
  const bool batch_first = b.node->get_int("layout", 0) != 0;
  layer.before = [b, batch_first](LaunchPlan& plan, LayerOnGpu& l) {
    const int64_t columns = lstm_gates * l.args.hidden, size = elements(b.inputs[0].shape);
    l.inputs[1] = table_of(plan, weights(b, 1, columns));
    l.inputs[2] = table_of(plan, weights(b, 2, columns));
    if (size == 0) return;
    const int64_t parts = std::clamp<int64_t>(size / part, 1, most_parts);
    const kernels::RoundedInputArgs a{.x = nullptr,
                                      .lengths = nullptr,
                                      .ranges = nullptr,
                                      .y = nullptr,
                                      .steps = l.args.steps,
                                      .batch = l.args.batch,
                                      .input = l.args.input,
                                      .batch_first = batch_first,
                                      .parts = static_cast<uint32_t>(parts)};
    const BufferRef rounded = plan.reserve(size * 4);
    const std::vector<TensorMember> tensors{
        {a.x, l.inputs[0]}, {a.lengths, l.inputs[4]}, {a.ranges, plan.reserve(parts * 8)}, {a.y, rounded}};
    const device::cuda::LaunchShape shape{.grid = {parts, 1, 1}, .block = {256, 1, 1}};
    plan.launch({"input_range", "round_threads", "RoundedInputArgs", "range_of_input"}, shape).args(a, tensors);
    plan.launch({"round_input", "round_threads", "RoundedInputArgs", "rounded_input"}, shape).args(a, tensors);
    l.inputs[0] = rounded;
  };
  offer_layer_cuda(layer, machine, offer);
}

}  // namespace smelt::ops

// RNN, GRU and LSTM on a GPU (src/kernels/rnn/recurrent.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/core/strides.h"
#include "ops/rnn/cuda_recurrent.h"
#include "ops/rnn/offer.h"
#include "ops/rnn/recurrent.h"

namespace smelt::ops {
namespace {

struct Formula {
  std::string_view name, code;  // of v, with {0} and {1} for alpha and beta
};
constexpr Formula formulas[] = {{"Relu", "fmaxf(v, 0.f)"},
                                {"Tanh", "tanhf(v)"},
                                {"Sigmoid", "1.f / (1.f + expf(-v))"},
                                {"Affine", "{0} * v + {1}"},
                                {"LeakyRelu", "v >= 0 ? v : {0} * v"},
                                {"ThresholdedRelu", "v > {0} ? v : 0.f"},
                                {"ScaledTanh", "{0} * tanhf({1} * v)"},
                                {"HardSigmoid", "fminf(fmaxf({0} * v + {1}, 0.f), 1.f)"},
                                {"Elu", "v >= 0 ? v : {0} * (expf(v) - 1.f)"},
                                {"Softsign", "v / (1.f + fabsf(v))"},
                                {"Softplus", "log1pf(expf(-fabsf(v))) + fmaxf(v, 0.f)"}};

/// One struct where both directions have the same functions.
Result<ActivationSource> activations(const Node& n, const std::vector<std::string>& otherwise, int64_t directions) {
  const std::vector<Activation> functions = recurrent_activations(n, otherwise, directions);
  std::vector<std::string> code(static_cast<size_t>(std::max<int64_t>(1, directions)));  // of each direction's f, g and h
  for (size_t i = 0; i < functions.size(); ++i) {
    const auto* formula = std::ranges::find(formulas, functions[i].name, &Formula::name);
    if (formula == std::end(formulas)) return refuse(Reason::wrong_attribute, "activation {}", functions[i].name);
    const auto number = [](double v) { return fmt::format("{:a}f", static_cast<double>(static_cast<float>(v))); };
    const std::string value = fmt::format(fmt::runtime(formula->code), number(functions[i].alpha), number(functions[i].beta));
    code[i / otherwise.size()] += fmt::format("  static __device__ __forceinline__ float {}(float v) {{ return {}; }}\n",
                                              "fgh"[i % otherwise.size()], value);
  }
  const bool same = code.front() == code.back();
  ActivationSource source{fmt::format("struct First {{\n{}}};\n", code.front()), same ? "First, First" : "First, Second"};
  if (!same) source.structs += fmt::format("struct Second {{\n{}}};\n", code.back());
  return source;
}

bool given(const std::vector<BoundTensor>& tensors, size_t i) {
  return i < tensors.size() && tensors[i].type != DType::undefined;
}

/// What follows from the extents.
Result<LayerOnGpu> finish(const BoundNode& b, LayerOnGpu layer) {
  const Node& n = *b.node;
  const bool batch_first = n.get_int("layout", 0) != 0;
  kernels::RecurrentArgs<void, void>& a = layer.args;
  const int64_t h = a.hidden, directions = a.directions;
  const Shape xs = batch_first ? Shape{a.input, a.steps * a.input} : Shape{a.batch * a.input, a.input};
  const Shape ys =
      batch_first ? Shape{directions * h, h, a.steps * directions * h} : Shape{directions * a.batch * h, a.batch * h, h};
  const Shape states = batch_first ? Shape{h, directions * h} : Shape{a.batch * h, h};
  std::ranges::copy(xs, a.x_strides), std::ranges::copy(ys, a.y_strides), std::ranges::copy(states, a.state_strides);
  a.clip = n.get_float("clip", 0);
  a.reverse = n.get_string("direction", "forward") == "reverse";
  a.linear_before_reset = static_cast<int32_t>(n.get_int("linear_before_reset", 0));
  a.input_forget = static_cast<int32_t>(n.get_int("input_forget", 0));
  auto act = activations(n, default_activations(layer.gates), directions);
  if (!act) return act.refusal();
  layer.activations = *act;
  if (directions * a.batch >= int64_t{1} << 28)
    return refuse(Reason::too_large, "{} sequences; it counts to 2^28", directions * a.batch);
  const DType length_type = given(b.inputs, 4) ? b.inputs[4].type : DType::i32;
  const DType type = b.inputs[0].type;
  layer.types = fmt::format("{}, {}", expr::cuda_type(type), expr::cuda_type(length_type));
  layer.element_bytes = bytes(type, 1);
  for (size_t i = 0; i < 8; ++i)
    layer.inputs.push_back(given(b.inputs, i) ? std::optional(BufferRef{BufferRef::input, i}) : std::nullopt);
  for (size_t o = 0; o < 3; ++o) layer.outputs.push_back(given(b.outputs, o));
  return layer;
}

}  // namespace

std::vector<TensorMember> LayerOnGpu::tensors(const kernels::RecurrentArgs<void, void>& of) const {
  std::vector<TensorMember> list;
  const auto input = [&](size_t i, const void* const& pointer) {
    if (inputs[i]) list.emplace_back(pointer, inputs[i]);
  };
  const auto output = [&](size_t o, void* const& pointer) {
    if (outputs[o]) list.emplace_back(pointer, BufferRef{BufferRef::output, o});
  };
  input(0, of.x), input(1, of.w), input(2, of.r), input(3, of.bias), input(4, of.lengths);
  input(5, of.first_h), input(6, of.first_c), input(7, of.peepholes);
  output(0, of.y), output(1, of.last_h), output(2, of.last_c);
  return list;
}

Result<LayerOnGpu> layer_on_gpu(const BoundNode& b) {
  const Node& n = *b.node;
  const DType type = b.inputs[0].type;
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
    return refuse(Reason::wrong_type, "its type is {}", name(type));
  if (const auto why = rejects_layouts(b)) return *why;
  LayerOnGpu layer;
  layer.gates = n.op == "RNN" ? 1 : n.op == "GRU" ? 3 : 4;
  const Shape &x = b.inputs[0].shape, &w = b.inputs[1].shape;
  const bool batch_first = n.get_int("layout", 0) != 0;
  kernels::RecurrentArgs<void, void>& a = layer.args;
  a.steps = x[batch_first ? 1 : 0], a.batch = x[batch_first ? 0 : 1], a.input = x[2];
  a.hidden = (n.op == "DynamicQuantizeLSTM" ? w[2] : w[1]) / layer.gates, a.directions = w[0];
  return finish(b, std::move(layer));
}

void offer_recurrent_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const auto made = layer_on_gpu(b);
  if (!made) return offer.refuse("cuda", made.refusal());
  offer_layer_cuda(*made, machine, offer);
}

void offer_layer_cuda(const LayerOnGpu& layer, const Machine& machine, Offer& offer) {
  offer_resident_cuda(layer, machine, offer);
  const kernels::RecurrentArgs<void, void>& a = layer.args;
  constexpr int64_t most_shared = 48 << 10;
  const int64_t shared = (layer.gates + 2) * a.hidden * 4, blocks = a.directions * a.batch;
  if (shared > most_shared)
    return offer.refuse("cuda", Reason::too_large, "a state of {} needs {} bytes of shared memory; a block has {}", a.hidden,
                        shared, most_shared);
  const KernelEntry recurrent{
      "recurrent", "recurrent_threads, 1", fmt::format("RecurrentArgs<{}>", layer.types),
      fmt::format("recur<{}, {}{}>", layer.gates, layer.activations.names, layer.rounded ? ", true" : "")};
  // Each step waits for the one before it, and for the weights to come by once more.
  const double step = 3 + static_cast<double>(layer.gates * a.hidden * (a.input + a.hidden) * layer.element_bytes) / 50e3;
  offer.candidates.push_back({"cuda", "", static_cast<double>(a.steps) * step, [=, gpu = machine.gpu] {
                                LaunchPlan plan("recurrent", "#include \"rnn/recurrent.cuh\"\n\n" + layer.activations.structs);
                                LayerOnGpu l = layer;
                                if (l.before) l.before(plan, l);
                                if (blocks > 0 && l.args.hidden > 0)
                                  plan.launch(recurrent, {.grid = {blocks, 1, 1}, .block = {256, 1, 1}, .shared_bytes = shared})
                                      .args(l.args, l.tensors(l.args));
                                return launched(std::move(plan), *gpu);
                              }});
}

}  // namespace smelt::ops

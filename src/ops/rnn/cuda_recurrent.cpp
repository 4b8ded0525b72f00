// RNN, GRU and LSTM on a GPU (src/kernels/rnn/recurrent.cuh).
#include <algorithm>

#include "base/error.h"
#include "expr/cuda.h"
#include "kernels/rnn/recurrent.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"
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

/// The node's activations as the kernel takes them: a struct for each direction, and their names as its template's arguments; one
/// struct where both directions have the same functions.
struct ActivationSource {
  std::string structs, names;
};

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

}  // namespace

void offer_recurrent_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  const DType type = b.inputs[0].type;
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
    return offer.refuse("cuda", Reason::wrong_type, "its type is {}", name(type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  const int64_t gates = n.op == "RNN" ? 1 : n.op == "GRU" ? 3 : 4;
  const Shape &x = b.inputs[0].shape, &w = b.inputs[1].shape;
  const bool batch_first = n.get_int("layout", 0) != 0;
  kernels::RecurrentArgs<void, void> a{};
  a.steps = x[batch_first ? 1 : 0], a.batch = x[batch_first ? 0 : 1], a.input = x[2];
  a.hidden = w[1] / gates;
  const int64_t h = a.hidden, directions = w[0];
  const Shape xs = batch_first ? Shape{a.input, a.steps * a.input} : Shape{a.batch * a.input, a.input};
  const Shape ys =
      batch_first ? Shape{directions * h, h, a.steps * directions * h} : Shape{directions * a.batch * h, a.batch * h, h};
  const Shape states = batch_first ? Shape{h, directions * h} : Shape{a.batch * h, h};
  std::ranges::copy(xs, a.x_strides), std::ranges::copy(ys, a.y_strides), std::ranges::copy(states, a.state_strides);
  a.clip = n.get_float("clip", 0);
  a.reverse = n.get_string("direction", "forward") == "reverse";
  a.linear_before_reset = static_cast<int32_t>(n.get_int("linear_before_reset", 0));
  a.input_forget = static_cast<int32_t>(n.get_int("input_forget", 0));
  const std::vector<std::string> otherwise = default_activations(gates);
  const auto act = activations(n, otherwise, directions);
  if (!act) return offer.refuse("cuda", act.refusal());
  constexpr int64_t most_shared = 48 << 10;
  const int64_t shared = (gates + 2) * h * 4, blocks = directions * a.batch;
  if (shared > most_shared)
    return offer.refuse("cuda", Reason::too_large, "a state of {} needs {} bytes of shared memory; a block has {}", h, shared,
                        most_shared);
  if (blocks >= int64_t{1} << 31) return offer.refuse("cuda", Reason::too_large, "{} sequences; it counts to 2^31", blocks);
  const DType length_type = given(b.inputs, 4) ? b.inputs[4].type : DType::i32;
  const KernelEntry recurrent{"recurrent", "recurrent_threads, 1",
                              fmt::format("RecurrentArgs<{}, {}>", expr::cuda_type(type), expr::cuda_type(length_type)),
                              fmt::format("recur<{}, {}>", gates, act->names)};
  const std::string source = "#include \"rnn/recurrent.cuh\"\n\n" + act->structs;
  std::vector<bool> in, out;
  for (size_t i = 0; i < 8; ++i) in.push_back(given(b.inputs, i));
  for (size_t o = 0; o < 3; ++o) out.push_back(given(b.outputs, o));
  // Each step waits for the one before it, and for the weights to come by once more.
  const double step = 3 + static_cast<double>(gates * h * (a.input + h)) * static_cast<double>(bytes(type, 1)) / 50e3;
  offer.candidates.push_back(
      {"cuda", "", static_cast<double>(a.steps) * step, [=, gpu = machine.gpu] {
         LaunchPlan plan("recurrent", source);
         if (blocks > 0 && h > 0) {
           std::vector<TensorMember> tensors;
           const auto input = [&](size_t i, const void* const& pointer) {
             if (in[i]) tensors.emplace_back(pointer, BufferRef{BufferRef::input, i});
           };
           const auto output = [&](size_t o, void* const& pointer) {
             if (out[o]) tensors.emplace_back(pointer, BufferRef{BufferRef::output, o});
           };
           input(0, a.x), input(1, a.w), input(2, a.r), input(3, a.bias), input(4, a.lengths);
           input(5, a.first_h), input(6, a.first_c), input(7, a.peepholes);
           output(0, a.y), output(1, a.last_h), output(2, a.last_c);
           plan.launch(recurrent, {.grid = {blocks, 1, 1}, .block = {256, 1, 1}, .shared_bytes = shared}).args(a, tensors);
         }
         return launched(std::move(plan), *gpu);
       }});
}

}  // namespace smelt::ops

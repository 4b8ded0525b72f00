// ONNX Runtime's products with more around them, on the processor: FusedGemm is Gemm and a sweep; MatMulIntegerToFloat is
// MatMulInteger and a sweep; DynamicQuantizeMatMul quantises its left operand before.
#include <algorithm>
#include <cctype>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/matmul/family.h"
#include "ops/matmul/offer.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/pointwise/named_activation.h"
#include "ops/quantize/family.h"

namespace smelt::ops::matmul {
namespace {

/// A node of its own, which candidates refer to until they are prepared.
struct OwnNode {
  Node node;
  BoundNode bound;
};

std::vector<Candidate> candidates_of(const TacticFamily& family, const BoundNode& b, const Machine& machine, Offer& refused) {
  Offer inner;
  inner.wanted.at_once = refused.wanted.at_once;
  for (const OperatorTactics& tactics : family.operators)
    if (inner.candidates.empty() && tactics.cpu && tactics.handles(*b.node)) tactics.cpu(b, machine, inner);
  for (const RefusedTactic& r : inner.refused) refused.refuse(r.tactic, r.why);
  return inner.candidates;
}

/// The node's activation over its result; nothing where the expression language has no such function.
std::optional<expr::Program> activation_program(const Node& node, DType type) {
  using expr::Fn;
  std::string name = node.get_string("activation", "");
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const Activation a = fused_activation(node);
  expr::Program p;
  const DType computing = type == DType::f64 ? type : DType::f32;
  const expr::Ref x = p.cast(p.input(type), computing);
  const auto number = [&](double v) { return p.constant(computing, v); };
  expr::Ref r = x;
  if (name == "relu" || name == "tanh" || name == "sigmoid" || name == "softplus" || name == "softsign")
    r = p.call(name == "relu"       ? Fn::relu
               : name == "tanh"     ? Fn::tanh
               : name == "sigmoid"  ? Fn::sigmoid
               : name == "softplus" ? Fn::softplus
                                    : Fn::softsign,
               x);
  else if (name == "leakyrelu" || name == "elu" || name == "thresholdedrelu")
    r = p.call(name == "leakyrelu" ? Fn::leaky_relu : name == "elu" ? Fn::elu : Fn::thresholded_relu, x, number(a.alpha));
  else if (name == "hardsigmoid" || name == "clip")
    r = p.call(name == "clip" ? Fn::clip : Fn::hard_sigmoid, x, number(a.alpha), number(a.beta));
  else if (!name.empty())
    return std::nullopt;
  p.output(p.cast(r, type));
  return p;
}

class GemmThenSweep final : public Kernel {
 public:
  GemmThenSweep(std::unique_ptr<Kernel> product, const expr::Program& p, const BoundTensor& y, int threads)
      : product_(std::move(product)), sweep_(p, y.shape, {memory_strides(y), memory_strides(y)}, threads) {}
  int64_t workspace() const override { return std::max(product_->workspace(), sweep_.workspace()); }
  void run(const Buffers& b) override {
    product_->run(b);
    const void* const y[] = {b.outputs[0]};
    sweep_.run(y, b.outputs, b.workspace);
  }

 private:
  std::unique_ptr<Kernel> product_;
  Sweep sweep_;
};

/// Where the parts of an integer product that is scaled to floats are among its inputs; SIZE_MAX: there is none.
struct Parts {
  size_t a_scale, b_scale, a_zero, b_zero, bias;
};

class ScaledProduct final : public Kernel {
 public:
  ScaledProduct(const BoundNode& b, const Parts& at, const expr::Program& p, const std::vector<Shape>& views,
                std::unique_ptr<Kernel> quantize, std::unique_ptr<Kernel> product, int threads)
      : at_(at),
        has_bias_(b.has(at.bias)),
        quantize_(std::move(quantize)),
        product_(std::move(product)),
        sweep_(p, b.outputs[0].shape, views, threads),
        quantized_bytes_(quantize_ ? aligned(elements(b.inputs[0].shape)) + 128 : 0),
        sums_bytes_(aligned(elements(b.outputs[0].shape) * 4 + 64)) {}
  int64_t workspace() const override {
    return quantized_bytes_ + sums_bytes_ +
           std::max({quantize_ ? quantize_->workspace() : 0, product_->workspace(), sweep_.workspace()});
  }
  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const auto input = [&](size_t i) { return i < b.inputs.size() ? b.inputs[i] : nullptr; };
    const void *a = b.inputs[0], *a_scale = input(at_.a_scale), *a_zero = input(at_.a_zero);
    void* sums = memory + quantized_bytes_;
    char* scratch = memory + quantized_bytes_ + sums_bytes_;
    if (quantize_) {
      char* parameters = memory + quantized_bytes_ - 128;
      void* const out[] = {memory, parameters, parameters + 64};
      quantize_->run({b.inputs.first(1), out, scratch});
      a = memory, a_scale = parameters, a_zero = parameters + 64;
    }
    const void* const in[] = {a, b.inputs[1], a_zero, input(at_.b_zero)};
    product_->run({in, std::span(&sums, 1), scratch});
    const void* const operands[] = {sums, a_scale, b.inputs[at_.b_scale], input(at_.bias)};
    sweep_.run(std::span(operands, has_bias_ ? 4 : 3), b.outputs, scratch);
  }

 private:
  Parts at_;
  bool has_bias_;
  std::unique_ptr<Kernel> quantize_, product_;
  Sweep sweep_;
  int64_t quantized_bytes_, sums_bytes_;
};

/// float(sum) · (a's scale · b's scale) + bias
expr::Program scaling(bool has_bias) {
  using expr::Fn;
  expr::Program p;
  const expr::Ref sum = p.input(DType::i32), a = p.input(DType::f32), b = p.input(DType::f32);
  const expr::Ref bias = has_bias ? p.input(DType::f32) : -1;
  expr::Ref r = p.call(Fn::mul, p.cast(sum, DType::f32), p.call(Fn::mul, a, b));
  if (has_bias) r = p.call(Fn::add, r, bias);
  p.output(r);
  return p;
}

}  // namespace

void offer_fused_gemm(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& y = b.outputs[0];
  const auto program = activation_program(*b.node, y.type);
  if (!program) return offer.refuse("cpu", Reason::unsupported, "activation = {}", b.node->get_string("activation", ""));
  const Shape steps[] = {memory_strides(y)};
  if (const auto why = Sweep::rejects(*program, y.shape, steps)) return offer.refuse("cpu", *why);
  auto own = std::make_shared<OwnNode>();
  own->node.op = "Gemm";
  own->node.attrs = b.node->attrs;
  own->bound = b;
  own->bound.node = &own->node;
  for (const Candidate& c : candidates_of(matmul_family, own->bound, machine, offer)) {
    offer.candidates.push_back(
        {c.tactic, c.config, c.estimate_us + 1, [own, program, y, prepare = c.prepare, threads = machine.threads] {
           return std::make_unique<GemmThenSweep>(prepare(), *program, y, threads);
         }});
  }
}

void offer_scaled_product(const BoundNode& b, const Machine& machine, Offer& offer) {
  const bool dynamic = b.node->op == "DynamicQuantizeMatMul";
  const Parts at = dynamic ? Parts{SIZE_MAX, 2, SIZE_MAX, 3, 4} : Parts{2, 3, 4, 5, 6};
  const BoundTensor &a = b.inputs[0], &y = b.outputs[0];
  const int64_t columns = y.shape.empty() ? 1 : y.shape.back();
  if (y.type != DType::f32) return offer.refuse("cpu", Reason::wrong_type, "a result of {}", name(y.type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  Shape none(y.shape.size(), 0), by_column = none;
  if (!by_column.empty()) by_column.back() = 1;
  std::vector<Shape> views = {memory_strides(y), none};
  if (!dynamic && elements(b.inputs[at.a_scale].shape) != 1)
    return offer.refuse("cpu", Reason::wrong_shape, "several scales of the left operand");
  for (size_t i : {at.b_scale, at.bias}) {
    if (!b.has(i)) continue;
    const int64_t count = elements(b.inputs[i].shape);
    if (b.inputs[i].type != DType::f32 || (count != 1 && count != columns))
      return offer.refuse("cpu", Reason::wrong_shape, "{} scales or biases for {} columns", count, columns);
    views.push_back(count == 1 ? none : by_column);
  }
  views.push_back(memory_strides(y));

  std::function<std::unique_ptr<Kernel>()> quantize;
  double estimate = 1;
  auto first = std::make_shared<OwnNode>(), own = std::make_shared<OwnNode>();
  BoundTensor left = a, left_zero = b.has(at.a_zero) ? b.inputs[at.a_zero] : BoundTensor{};
  if (dynamic) {
    left = {DType::u8, a.shape};
    left_zero = {DType::u8, {}};
    first->node.op = "DynamicQuantizeLinear";
    first->bound.node = &first->node;
    first->bound.inputs = {a};
    first->bound.outputs = {left, {DType::f32, {}}, left_zero};
    const auto found = candidates_of(quantize_family, first->bound, machine, offer);
    if (found.empty()) return;
    quantize = found[0].prepare;
    estimate += found[0].estimate_us;
  }
  own->node.op = "MatMulInteger";
  own->bound.node = &own->node;
  own->bound.weights = b.weights;
  own->bound.inputs = {left, b.inputs[1], left_zero, b.has(at.b_zero) ? b.inputs[at.b_zero] : BoundTensor{}};
  own->bound.outputs = {{DType::i32, y.shape}};
  const expr::Program program = scaling(b.has(at.bias));
  for (const Candidate& c : candidates_of(matmul_family, own->bound, machine, offer)) {
    offer.candidates.push_back({c.tactic, c.config, c.estimate_us + estimate,
                                [b, at, program, views, quantize, first, own, prepare = c.prepare, threads = machine.threads] {
                                  return std::make_unique<ScaledProduct>(b, at, program, views, quantize ? quantize() : nullptr,
                                                                         prepare(), threads);
                                }});
  }
}

}  // namespace smelt::ops::matmul

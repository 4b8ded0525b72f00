// A matrix product with what follows it, its buffers and its kernels' times.
#pragma once

#include <algorithm>
#include <cstring>
#include <future>

#include "bench.h"
#include "ops/matmul/cuda_hopper.h"
#include "ops/matmul/cuda_offer.h"

namespace smelt::bench {

struct Mnk {
  int64_t m, n, k;
};

/// A type, f16 where none is given, and what follows the product: "relu", "bf16:gelu". "t:" before it: weights [N, K].
struct ProductKind {
  DType type = DType::f16;
  std::string epilogue;
  bool transposed = false;
  /// Of all but the product's operands: 8-bit floats are multiplied alone.
  DType result() const { return type == DType::f8e4m3fn ? DType::f16 : type; }
  static ProductKind parse(const std::string& text) {
    if (text.starts_with("t:")) {
      ProductKind kind = parse(text.substr(2));
      kind.transposed = true;
      return kind;
    }
    const size_t colon = text.find(':');
    if (colon == text.npos) return {DType::f16, text};
    const auto type = parse_dtype(text.substr(0, colon));
    if (!type) fail("'{}' begins with no type", text);
    return {*type, text.substr(colon + 1)};
  }
};

/// none; or a bias, then relu, gelu (its tanh form, which cuBLASLt has too), gelu_erf, silu, or a residual of the result's shape;
/// "scaled": the product over √k, the bias and relu, so that the results of a chain of products stay numbers.
inline expr::Program product_program(const ProductKind& kind, int64_t k) {
  const DType type = kind.result();
  if (kind.epilogue == "none") return expr::conversion(DType::f32, type);
  const std::pair<std::string_view, expr::Fn> activations[] = {{"relu", expr::Fn::relu},
                                                               {"scaled", expr::Fn::relu},
                                                               {"gelu", expr::Fn::gelu_tanh},
                                                               {"gelu_erf", expr::Fn::gelu},
                                                               {"silu", expr::Fn::silu}};
  expr::Program p;
  expr::Ref sum = p.input(DType::f32);
  const expr::Ref bias = p.input(type);
  const bool residual = kind.epilogue == "residual";
  const expr::Ref other = residual ? p.input(type) : bias;
  if (kind.epilogue == "scaled") sum = p.call(expr::Fn::mul, sum, p.constant(DType::f32, 1 / std::sqrt(static_cast<double>(k))));
  sum = p.call(expr::Fn::add, sum, p.cast(bias, DType::f32));
  if (residual) {
    p.output(p.cast(p.call(expr::Fn::add, sum, p.cast(other, DType::f32)), type));
    return p;
  }
  const auto* found = std::ranges::find(activations, kind.epilogue, &std::pair<std::string_view, expr::Fn>::first);
  if (found == std::end(activations))
    fail("EPILOGUE is '{}', expected none, relu, gelu, gelu_erf, silu, residual or scaled, with a type before it or not",
         kind.epilogue);
  p.output(p.cast(p.call(found->second, sum), type));
  return p;
}

/// Blocks that are larger than any workspace a candidate wants; kept for all problems.
inline void* workspace(int64_t bytes) {
  static std::shared_ptr<cuda::Memory> memory;
  if (!memory || memory->bytes() < bytes) memory.reset(), memory = gpu()->device->allocate(bytes, "a workspace");
  return reinterpret_cast<void*>(memory->address());
}

/// What is multiplied, with its buffers.
class Product {
 public:
  Product(const Mnk& s, const ProductKind& kind)
      : moved_(bytes(kind.type, s.m * s.k + s.k * s.n) + bytes(kind.result(), s.m * s.n * (kind.epilogue == "residual" ? 2 : 1))),
        a_(kind.type, s.m * s.k, moved_),
        b_(kind.type, s.k * s.n, moved_),
        bias_(kind.result(), s.n, moved_),
        residual_(kind.result(), kind.epilogue == "residual" ? s.m * s.n : 1, moved_),
        y_(kind.result(), s.m * s.n, moved_) {
    const DType type = kind.type, result = kind.result();
    node_.domain = smelt_domain;
    node_.op = "MatMul";
    node_.program = product_program(kind, s.k);
    const Shape weights = kind.transposed ? Shape{s.n, s.k} : Shape{s.k, s.n};
    if (kind.transposed) node_.attrs["transB"] = int64_t{1};
    bound_.inputs = {{type, {s.m, s.k}}, {type, weights}};
    bound_.inputs[1].constant = Tensor::empty(type, weights);  // weights; its values lie in b_
    if (kind.epilogue != "none") bound_.inputs.push_back({result, {s.n}});
    if (kind.epilogue == "residual") bound_.inputs.push_back({result, {s.m, s.n}});
    for (size_t i = 0; i < bound_.inputs.size(); ++i) node_.inputs.push_back(ValueId(static_cast<int>(i)));
    bound_.outputs = {{result, {s.m, s.n}}};
    node_.outputs = {ValueId(9)};
    bound_.node = &node_;
  }
  Product(const Product&) = delete;
  const ops::BoundNode& node() const { return bound_; }
  /// The same with other weights, of which there are as many as two L2 caches do not hold.
  ops::BoundNode node(size_t copy) const {
    const Tensor& w = bound_.inputs[1].constant;
    // Random numbers: multiplying zeros takes less power, and the clock is higher.
    if (copies_.empty()) copies_.push_back(random_values(w.type(), w.size()).reshaped(w.shape()));
    while (copies_.size() <= copy) {
      copies_.push_back(Tensor::empty(w.type(), w.shape()));
      std::memcpy(copies_.back().raw(), copies_[0].raw(), static_cast<size_t>(w.nbytes()));
    }
    ops::BoundNode b = bound_;
    b.inputs[1].constant = copies_[copy];
    return b;
  }
  size_t copies() const {
    return static_cast<size_t>(std::clamp<int64_t>(3 * gpu()->info.l2_bytes / bound_.inputs[1].constant.nbytes() + 1, 2, 64));
  }
  int64_t moved() const { return moved_; }
  const void* weights(int call) const { return b_.at(call); }
  const void* bias(int call) const { return bias_.at(call); }

  /// What the kernel makes of the first of the buffers, whose result is poisoned before.
  Tensor result(ops::Kernel& kernel) const {
    const cuda::Device::Current current(*gpu()->device);
    Tensor y = Tensor::empty(bound_.outputs[0].type, bound_.outputs[0].shape);
    const auto at = reinterpret_cast<cuda::abi::Address>(y_.at(0));
    const auto size = static_cast<size_t>(y.nbytes());
    cuda::check(cuda::driver().fill_bytes(at, 0xff, size, nullptr), "filling a result");
    const void* in[] = {a_.at(0), b_.at(0), bias_.at(0), residual_.at(0)};
    void* out[] = {y_.at(0)};
    kernel.run({std::span(in, bound_.inputs.size()), out, workspace(std::max<int64_t>(1, kernel.workspace())), nullptr});
    cuda::check(cuda::driver().copy_to_host(y.raw(), at, size, nullptr), "copying a result");
    cuda::check(cuda::driver().stream_synchronize(nullptr), "copying a result");
    return y;
  }

  /// Sorted samples, µs. early: each call may begin before the one before it has ended (device/cuda/early_kernels.h).
  std::vector<double> time(ops::Kernel& kernel, int replays, bool early = false) const {
    void* memory = workspace(std::max<int64_t>(1, kernel.workspace()));
    auto us = cuda::time_graph(gpu()->device,
                               [&](int call, cuda::abi::Stream stream) {
                                 const void* in[] = {a_.at(call), b_.at(call), bias_.at(call), residual_.at(call)};
                                 void* out[] = {y_.at(call)};
                                 kernel.run({std::span(in, bound_.inputs.size()), out, memory, stream});
                               },
                               {.calls = moved_ > (64 << 20) ? 20 : 60, .replays = replays, .budget_us = 2e5, .early = early});
    std::ranges::sort(us);
    return us;
  }

 private:
  int64_t moved_;
  Rotating a_, b_, bias_, residual_, y_;
  Node node_;
  ops::BoundNode bound_;
  mutable std::vector<Tensor> copies_;
};

/// Kernels that keep the weights themselves: each call takes the next, so that their weights are as cold as those of others.
class InTurn final : public ops::Kernel {
 public:
  explicit InTurn(std::vector<std::unique_ptr<ops::Kernel>> kernels) : kernels_(std::move(kernels)) {}
  int64_t workspace() const override { return kernels_[0]->workspace(); }
  void run(const ops::Buffers& b) override { kernels_[next_++ % kernels_.size()]->run(b); }

 private:
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;
  size_t next_ = 0;
};

/// A kernel of the tactic hopper; in turn where it keeps the weights.
inline std::unique_ptr<ops::Kernel> hopper_kernel(const Product& product, const ops::matmul::HopperConfig& c) {
  const auto make = [&](const ops::BoundNode& node) {
    const auto p = ops::matmul::cuda_problem(node);
    return ops::matmul::hopper_product(*p, c, *gpu());
  };
  if (!c.transposed && !c.packed) return make(product.node());
  std::vector<std::unique_ptr<ops::Kernel>> kernels;
  for (size_t i = 0; i < product.copies(); ++i) kernels.push_back(make(product.node(i)));
  return std::make_unique<InTurn>(std::move(kernels));
}

/// The kernels of the product's offer, compiled side by side.
inline std::vector<std::future<std::unique_ptr<ops::Kernel>>> prepare(const Product& product, const ops::Offer& offer) {
  std::vector<std::future<std::unique_ptr<ops::Kernel>>> kernels;
  const auto found = ops::matmul::cuda_problem(product.node());
  const auto configs = ops::matmul::hopper_configs(*found, *gpu());
  for (size_t i = 0; i < product.copies(); ++i) product.node(i);  // made before threads ask for them
  for (const ops::Candidate& c : offer.candidates) {
    const auto own = [&](const ops::matmul::HopperConfig& h) { return h.print() == c.config; };
    if (c.tactic == "hopper")
      kernels.push_back(std::async(std::launch::async,
                                   [&product, h = *std::ranges::find_if(*configs, own)] { return hopper_kernel(product, h); }));
    else
      kernels.push_back(std::async(c.tactic == "cublaslt" ? std::launch::deferred : std::launch::async, c.prepare));
  }
  return kernels;
}

inline ops::Offer offer_of(const Product& p) {
  ops::Machine machine;
  machine.gpu = gpu();
  return ops::offer(p.node(), machine);
}

}  // namespace smelt::bench

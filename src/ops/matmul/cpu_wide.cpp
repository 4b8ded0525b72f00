// Products of doubles and of integers of 32 and 64 bits: own tiles, then the program as a sweep over the result.
#include "base/value_of.h"
#include "ops/core/strides.h"
#include "ops/cpu/wide/gemm.h"
#include "ops/matmul/offer.h"
#include "ops/matmul/packed_in_run.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops::matmul {
namespace {

/// The program's operands as views of the result: the sums, the node's operands, the result.
std::vector<Shape> views_of(const Product& p) {
  const BoundTensor& y = p.bound.outputs[0];
  std::vector<Shape> views = {strides(y.shape)};
  for (size_t i = p.operands; i < p.bound.inputs.size(); ++i)
    if (p.bound.has(i)) views.push_back(broadcast_strides(p.bound.inputs[i], y.shape.size()));
  views.push_back(memory_strides(y));
  return views;
}

class WideProduct final : public Kernel {
 public:
  WideProduct(const Product& p, wide::Type type, int threads)
      : batches_(p, threads),
        gemm_(type, p.problem.m, p.problem.n, p.problem.k, batches_.share()),
        a_row_(p.a_row),
        a_column_(p.a_column),
        b_row_(p.b_row),
        b_column_(p.b_column),
        n_(p.problem.n),
        matrix_(p.problem.m * p.problem.n),
        count_(elements(p.bound.outputs[0].shape)),
        size_(wide::bytes(type)),
        alpha_(p.alpha),
        threads_(threads) {
    if (const auto& program = p.node->program) {
      sweep_.emplace(*program, p.bound.outputs[0].shape, views_of(p), threads);
      for (size_t i = p.operands; i < p.bound.inputs.size(); ++i)
        if (p.bound.has(i)) operands_.push_back(i);
      read_.resize(1 + operands_.size());
    }
  }

  int64_t workspace() const override {
    return std::max(batches_.workers() * gemm_.workspace(), sweep_ ? sweep_->workspace() : 0);
  }

  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    char* const sums = static_cast<char*>(b.outputs[0]);
    const auto element = [this](const void* data, int64_t at) { return static_cast<const char*>(data) + at * size_; };
    batches_.run([&](int64_t i, int worker, int) {
      gemm_.run({element(b.inputs[0], batches_.a(i)), a_row_, a_column_},
                {element(b.inputs[1], batches_.b(i)), b_row_, b_column_}, sums + i * matrix_ * size_, n_,
                memory + worker * gemm_.workspace());
    });
    if (alpha_ != 1) scale(reinterpret_cast<double*>(sums));
    if (!sweep_) return;
    read_[0] = sums;
    for (size_t i = 0; i < operands_.size(); ++i) read_[1 + i] = b.inputs[operands_[i]];
    sweep_->run(read_, b.outputs, memory);
  }

 private:
  void scale(double* sums) const {
    parallel(useful_threads(threads_, count_), count_, 1024, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sums[i] *= alpha_;
    });
  }

  Batches batches_;
  wide::Gemm gemm_;
  int64_t a_row_, a_column_, b_row_, b_column_, n_, matrix_, count_, size_;
  double alpha_;  // of doubles
  int threads_;
  std::optional<Sweep> sweep_;
  std::vector<size_t> operands_;   // inputs that the program reads behind the sums
  std::vector<const void*> read_;  // by a run's sweep
};

std::optional<Refusal> rejects(const Product& p) {
  const DType type = p.problem.input;
  if (p.bound.inputs[1].type != type || p.problem.output != type)
    return refuse(Reason::wrong_type, "{} x {} to {}", smelt::name(type), smelt::name(p.bound.inputs[1].type),
                  smelt::name(p.problem.output));
  if (type != DType::f64 && p.alpha != 1) return refuse(Reason::wrong_attribute, "integers times alpha");
  if (const auto& program = p.node->program) {
    if (program->type(0) != type) return refuse(Reason::wrong_type, "a program over {}", smelt::name(program->type(0)));
    const Shape result[] = {memory_strides(p.bound.outputs[0])};
    return Sweep::rejects(*program, p.bound.outputs[0].shape, result);
  }
  return std::nullopt;
}

}  // namespace

void offer_wide(const BoundNode& node, const Machine& machine, Offer& offer) {
  const auto type = wide::type_of(node.inputs[0].type);
  if (!type) return offer.refuse("cpu", Reason::wrong_type, "a product of {}", smelt::name(node.inputs[0].type));
  Product p = product(node);
  if (const auto why = rejects_tensors(p)) return offer.refuse("cpu", *why);
  if (const auto why = rejects(p)) return offer.refuse("cpu", *why);
  if (p.node->program) p.problem.epilogue = p.node->program->print();
  offer.problem = print(p.problem);
  // One Zen 3 core at 3.2 GHz, reckoned: multiply-adds of 256 bits, of 64-bit integers in parts.
  const double flops_per_us = *type == wide::Type::f64 ? 35e3 : *type == wide::Type::i32 ? 20e3 : 6e3;
  const double packed = static_cast<double>(p.problem.batch()) * static_cast<double>(p.problem.k * p.problem.n) / 1e3;
  const double us = 1 + (p.problem.flops() / flops_per_us + packed) / machine.threads;
  offer.candidates.push_back(
      {"cpu", "tiles", us, [p, type, threads = machine.threads] { return std::make_unique<WideProduct>(p, *type, threads); }});
}

}  // namespace smelt::ops::matmul

// A matrix product with a constant right operand: its panels are packed once, with alpha.
#include <fmt/core.h>

#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/matmul/cpu_indirect_rows.h"
#include "ops/matmul/offer.h"

namespace smelt::ops::matmul {
namespace {

std::optional<Refusal> rejects(const Request& r) {
  const Product& p = r.product;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2 and FMA");
  const auto floating = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; };
  if (!floating(p.problem.input) || !floating(p.problem.output) || !floating(p.bound.inputs[1].type)) {
    return refuse(Reason::wrong_type, "types {} and {} > {}", smelt::name(p.problem.input), smelt::name(p.bound.inputs[1].type),
                  smelt::name(p.problem.output));
  }
  if (!p.bound.inputs[1].constant.valid() || p.a_column != 1 || !p.problem.b_batch.empty())
    return refuse(Reason::unsupported, "packed in the run");
  if (auto why = rejects_operands(p.bound.inputs.size())) return why;
  return std::nullopt;
}

class IndirectProduct final : public Kernel {
 public:
  IndirectProduct(const Product& p, CpuEpilogue epilogue, int threads)
      : threads_(threads),
        epilogue_(std::move(epilogue)),
        converted_(p.bound.inputs[0], threads),
        parts_(igemm::split(std::vector<int64_t>{p.problem.k})),
        rows_(tall_rows(p), parts_),
        schedule_(igemm::schedule(p.problem.m, p.problem.n, parts_, !epilogue_.simple(), threads)) {
    const Tensor& b = p.bound.inputs[1].constant;
    const FormKind is{DType::f32, {igemm::packed_floats(p.problem.k, p.problem.n)}};
    const auto make = [&] {
      const Tensor source = b.type() == DType::f32 ? b : b.cast(DType::f32);
      std::vector<int64_t> offsets;
      for (int64_t k = 0; k < p.problem.k; ++k) offsets.push_back(k * p.b_row);
      Tensor t = Tensor::empty(is.type, is.shape);
      igemm::pack(t.data<float>(), source.data<float>(), offsets, p.b_column, p.problem.n);
      if (p.alpha != 1) {
        for (float& v : t.span<float>()) v *= static_cast<float>(p.alpha);
      }
      return t;
    };
    packed_ = p.bound.weights
                  ? p.bound.weights->packed(b, Key("igemm").field(p.b_row).field(p.b_column).field(p.alpha).text(), is, make)
                  : make();
  }

  int64_t workspace() const override {
    return converted_.workspace() + aligned(igemm::workspace(schedule_)) + threads_ * epilogue_.scratch();
  }

  bool in_place(size_t i) const override { return epilogue_.in_place(i); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    rows_.set(converted_.into_f32(b.inputs[0], memory));
    igemm::Run r;
    r.rows = &rows_;
    r.b = packed_.data<float>();
    r.workspace = memory;
    memory += aligned(igemm::workspace(schedule_));
    const CpuEpilogue::Runner runner(epilogue_, b, memory);
    runner.end(r);
    igemm::run(schedule_, r);
  }

 private:
  int threads_;
  CpuEpilogue epilogue_;
  ConvertToF32 converted_;
  std::vector<igemm::Part> parts_;
  MatrixRows rows_;
  igemm::Schedule schedule_;
  Tensor packed_;
};

}  // namespace

void offer_indirect(const Request& r, Offer& offer) {
  if (const auto why = rejects(r)) return offer.refuse("avx2", *why);
  const Problem& p = r.product.problem;
  // One Zen 3 core at 3.2 GHz, measured: 93 GFLOP/s, and 12 GB/s of B from memory where few rows reuse it.
  constexpr double bytes_per_us = 12e3;
  const double flops_per_us = 93e3 * igemm::rate();
  const double compute = p.flops() * igemm::padding(p.n) / flops_per_us, memory = igemm::moved(p.m, p.n, p.k) / bytes_per_us;
  const double us = std::max(compute, memory) + igemm::tiles_us(p.m, p.n);
  offer.candidates.push_back(
      {"avx2", "packed", 2 + us / r.threads, [product = r.product, epilogue = r.epilogue, threads = r.threads] {
         return std::make_unique<IndirectProduct>(product, epilogue, threads);
       }});
}

}  // namespace smelt::ops::matmul

// Convolutions of 8-bit integers of few channels and few outputs a group over plain images, tap by tap: taps.h. Bytes become floats as lines are
// copied; sums, which floats hold exactly, become bytes again while they are in the cache.
#include "ops/conv/int8_problem.h"
#include "ops/conv/taps.h"
#include "ops/core/quantized_program.h"
#include "ops/cpu/integer/requantize_pass.h"

namespace smelt::ops::conv {
namespace {

std::shared_ptr<const integer::RequantizePass> ending_of(const Request& q) {
  return integer::RequantizePass::match_channels(q.node, q.at.operands, q.quantization().scales);
}

class Int8TapsConv final : public Kernel {
 public:
  explicit Int8TapsConv(const Request& q)
      : taps_(q.problem, q.threads, row_floats(q)),
        end_(ending_of(q)),
        x_(q.at.x),
        is_signed_(q.problem.input == DType::i8),
        zero_(q),
        start_(start_of_sums(q)) {
    const auto make = [&] {
      const std::vector<float> weights = int8_weights_as_floats(q);
      Tensor to = Tensor::empty(DType::f32, {static_cast<int64_t>(weights.size())});
      taps_.pack(weights.data(), to.data<float>());
      return to;
    };
    const std::string form = int8_packing(q, taps_.packing().text()).text();
    packed_ = q.node.weights ? q.node.weights->packed(q.weight().constant, form, make) : make();
  }

  int64_t workspace() const override { return taps_.workspace(); }

  void run(const Buffers& b) override {
    const int32_t zero = zero_.of(b);
    const auto* image = static_cast<const uint8_t*>(b.inputs[x_]);
    const integer::RowFunctions& rows = avx2::integer_rows();
    const auto widen = is_signed_ ? rows.dequantize_i8 : rows.dequantize_u8;
    const auto load = [&](int64_t at, int64_t n, float* to) -> const float* {
      widen(to, image + at, n, zero, 1);
      return to;
    };
    taps_.run(packed_.data<float>(), b.workspace, load, [&](const TapsLines& l) {
      auto* sums = reinterpret_cast<int32_t*>(l.row);
      for (int64_t h = 0; h < l.lines; ++h)
        float_taps().whole(l.sums + h * l.step, start_[static_cast<size_t>(l.channel)], l.columns, sums + h * l.columns);
      end_->run_channel(sums, l.lines * l.columns, l.channel, l.at, b);
    });
  }

 private:
  /// Sums of all lines of a channel, and as many behind them as are written too many and read.
  static int64_t row_floats(const Request& q) {
    const Taps taps(q.problem, q.threads);
    return taps.plan().lines * taps.form().out[2] + float_taps_lanes;
  }

  Taps taps_;
  std::shared_ptr<const integer::RequantizePass> end_;
  size_t x_;
  bool is_signed_;
  ImageZero zero_;
  std::vector<int32_t> start_;
  Tensor packed_;
};

std::optional<Refusal> rejects(const Request& q) {
  const Problem& p = q.problem;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2");
  for (const DType t : {p.input, q.weight().type})
    if (!is_byte(t)) return refuse(Reason::wrong_type, "taps: an image or weights of {}", smelt::name(t));
  if (auto why = Taps::rejects(q.node, p, q.threads)) return why;
  if (auto why = rejects_float_sums(q, false)) return why;
  if (!ending_of(q)) return refuse(Reason::unsupported, "taps: a program other than one pass to bytes");
  return std::nullopt;
}

}  // namespace

void offer_int8_taps(const Request& q, Offer& offer) {
  if (auto why = rejects(q)) return offer.refuse("cpu", *why);
  const double end_us = static_cast<double>(elements(q.problem.y)) / 8e3 / q.threads;
  offer.candidates.push_back(
      {"cpu", "taps", Taps::estimate_us(q.problem, q.threads) + end_us, [q] { return std::make_unique<Int8TapsConv>(q); }});
}

}  // namespace smelt::ops::conv

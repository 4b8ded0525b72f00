// MoE and QMoE on the processor. The tokens of an expert are rows that lie behind each other; a task multiplies them with some rows of its
// weights, which are read where the model stored them: as floats (cpu_skinny.cpp), or of 2, 4 or 8 bits in blocks (cpu_block_rows.cpp). Of
// an expert with many tokens such weights are widened once, panel by panel (cpu_block_panels.cpp).
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/number.h"
#include "expr/cpu.h"
#include "expr/simd/widest.h"
#include "ops/core/align.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cpu/igemm/tiles.h"
#include "ops/cpu/parallel.h"
#include "ops/matmul/block_problem.h"
#include "ops/matmul/experts.h"
#include "ops/matmul/simd/skinny.h"

namespace smelt::ops::matmul {
namespace {

const SkinnyTable& skinny() { return simd::widest_of(base::skinny_table, avx2::skinny_table, avx512::skinny_table); }
const BlockTable& blocks() { return simd::best() == simd::Isa::avx2 ? avx2::block_product_table() : base::block_product_table(); }

/// Numbers of `bits` bits, rows that begin at bytes, as bytes.
Tensor as_bytes(const Tensor& packed, int64_t rows, int64_t columns, int64_t bits) {
  Tensor out = Tensor::empty(DType::u8, {rows, columns});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < columns; ++i)
      out.data<uint8_t>()[r * columns + i] = static_cast<uint8_t>(
          packed_number(static_cast<const uint8_t*>(packed.raw()) + r * packed_bytes(columns, bits), i, bits));
  return out;
}

/// Elements of a block; where a row has one scale, what is no less than the row.
int64_t block_of(const Node& node, int64_t k) {
  const int64_t given = node.get_int("block_size", 0);
  return given > 0 ? given : std::max<int64_t>(16, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k))));
}

/// One of the two layers, of all experts: rows of n from rows of k.
class ExpertLayer {
 public:
  ExpertLayer(const BoundNode& b, size_t layer, int64_t n, int64_t k)
      : in_(layers_of(*b.node)[layer]), n_(n), k_(k), has_bias_(b.has(in_.bias)), is_quantized_(in_.scales != no_input) {
    // Weights of a task stay in the L2 cache while groups of rows go by.
    constexpr int64_t l2_weights = 1 << 15, most = 128;
    columns_ = std::clamp<int64_t>(l2_weights / std::max<int64_t>(k, 1) / 4 * 4, 4, most);
    if (is_quantized_) columns_ = std::max(columns_ / at_once * at_once, at_once);
    if (!is_quantized_) return;
    weights_.bits = static_cast<int>(bits_of(*b.node, layer));
    weights_.block = block_of(*b.node, k);
    weights_.k = k;
    weights_.q_step = packed_bytes(k, weights_.bits);
    weights_.blocks = divide_up(k, weights_.block);
    weights_.zero = 1 << (weights_.bits - 1);
    if (!b.has(in_.zeros)) return;
    const Tensor& zeros = b.inputs[in_.zeros].constant;
    const int64_t experts = b.inputs[in_.weights].shape[0];
    const bool whole = b.inputs[in_.scales].shape.size() == 2;  // a scale for each row: its zero points lie side by side
    const int64_t rows = whole ? experts : experts * n, columns = whole ? n : weights_.blocks, bits = weights_.bits;
    const auto make = [&] { return as_bytes(zeros, rows, columns, bits); };
    const std::string form = Key("zero points of experts").field(Shape{rows, columns, bits}).text();
    zeros_ = b.weights ? b.weights->packed(zeros, form, make) : make();
    weights_.zeros = zeros_.data<uint8_t>();
  }

  int64_t columns() const { return columns_; }
  int64_t parts() const { return divide_up(n_, columns_); }
  /// Floats of a row as run() reads it.
  int64_t row() const { return is_quantized_ ? blocks().row_floats(weights_) + weights_.blocks : k_; }
  int64_t scratch() const {
    return is_quantized_ ? aligned(std::max(4 * weights_.blocks + block_memory, at_once * (panel_rows + 1)) * 4) : 0;
  }

  /// Whether the weights of an expert with so many rows are widened as panels.
  bool widens(int64_t rows) const { return is_quantized_ && rows >= least_rows && igemm::supported(); }

  /// A row of k floats as run() reads it where its expert has so many; `to` may be `from` where they are the same.
  void spread(const float* from, float* to, int64_t rows) const {
    if (keeps_rows(rows)) {
      if (from != to) std::copy_n(from, k_, to);
      return;
    }
    blocks().spread(weights_, from, to, to + row() - weights_.blocks);
  }
  /// Whether it reads rows as they are.
  bool keeps_rows(int64_t rows) const { return !is_quantized_ || widens(rows); }

  /// Part `part` of the columns: y [rows, n] of x [rows, row()].
  void run(const Buffers& b, int64_t expert, int64_t part, const float* x, int64_t rows, float* y, float* scratch) const {
    const int64_t first = part * columns_, columns = std::min(columns_, n_ - first), at = expert * n_ + first;
    if (widens(rows)) {
      for (int64_t j = 0; j < columns; j += at_once)
        run_panels(b, at + j, std::min(at_once, columns - j), x, rows, y + first + j, scratch);
      return;
    }
    for (int64_t r = 0; r < rows; r += skinny_rows, x += skinny_rows * row(), y += skinny_rows * n_) {
      const int count = static_cast<int>(std::min<int64_t>(skinny_rows, rows - r));
      if (is_quantized_)
        add_quantized(b, at, columns, x, count, y + first, scratch);
      else
        skinny().along(simd::FloatKind::f32, static_cast<const float*>(b.inputs[in_.weights]) + at * k_, k_, k_, columns, x, k_,
                       count, y + first, n_);
      if (!has_bias_) continue;
      const float* bias = static_cast<const float*>(b.inputs[in_.bias]) + at;
      for (int i = 0; i < count; ++i)
        for (int64_t j = 0; j < columns; ++j) y[i * n_ + first + j] += bias[j];
    }
  }

 private:
  // Two panels of 16 columns and so many rows of K stay in the L1 cache while the tokens go by. Seven tokens of 64 by four experts of 256, 3.5
  // each: 49 us so from four tokens on, 64 from six on.
  static constexpr int64_t at_once = 2 * igemm::tile_columns, panel_rows = 256, least_rows = 4;

  BlockWeights weights_at(const Buffers& b, int64_t row) const {
    BlockWeights w = weights_;
    w.q = static_cast<const uint8_t*>(b.inputs[in_.weights]);
    w.scales = b.inputs[in_.scales];
    return block_weights_at(w, row);
  }

  /// `columns` columns, at most two panels, of `rows` rows; `at`: the first one's row of all weights.
  void run_panels(const Buffers& b, int64_t at, int64_t columns, const float* x, int64_t rows, float* y, float* scratch) const {
    using igemm::tile_columns;
    const BlockWeights w = weights_at(b, at);
    const igemm::Tiles tiles = igemm::float_tiles();
    float* bias = scratch + at_once * panel_rows;
    if (has_bias_) {
      std::fill_n(bias, at_once, 0.0f);
      std::copy_n(static_cast<const float*>(b.inputs[in_.bias]) + at, columns, bias);
    }
    for (int64_t from = 0; from < k_; from += panel_rows) {
      const int64_t to = std::min(k_, from + panel_rows);
      const auto length = static_cast<int32_t>(to - from);
      const auto width_at = [&](int64_t j) { return columns - j <= tile_columns / 2 ? tile_columns / 2 : tile_columns; };
      for (int64_t j = 0; j < columns; j += tile_columns)
        avx2::block_panel(block_weights_at(w, j), std::min<int64_t>(columns - j, tile_columns), width_at(j), from, to,
                          scratch + j * length);
      const int64_t most = tiles.most_panels() * tile_columns;
      for (int64_t j = 0; j < columns; j += most) {
        igemm::Tile tile{};
        tile.lengths = &length;
        tile.parts = 1;
        tile.columns = static_cast<int32_t>(std::min(most, columns - j));
        tile.b = scratch + j * length;
        if (tile.columns > tile_columns) tile.beside = tile.b + tile_columns * length;
        if (has_bias_ && from == 0) tile.bias = bias + j;
        igemm::for_tiles(tiles, tile, width_at(j) == tile_columns, rows,
                         [&](int64_t i, int count, igemm::TileRows& rows_at, igemm::Tile& own) {
                           for (int r = 0; r < count; ++r) {
                             rows_at.a[r] = x + (i + r) * row() + from;
                             rows_at.c[r] = y + (i + r) * n_ + j;
                             rows_at.residual[r] = rows_at.c[r];  // the sums so far
                           }
                           own.rows = rows_at.a, own.c = rows_at.c;
                           own.residual = from > 0 ? rows_at.residual : nullptr;
                         });
      }
    }
  }

  void add_quantized(const Buffers& b, int64_t at, int64_t columns, const float* x, int rows, float* y, float* scratch) const {
    const BlockWeights w = weights_at(b, at);
    const float* sums = x + row() - w.blocks;
    blocks().start(w, columns, sums, row(), rows, y, n_, scratch);
    blocks().add(w, columns, 0, k_, x, row(), rows, y, n_, scratch);
  }

  LayerInputs in_;
  int64_t n_, k_, columns_;
  bool has_bias_, is_quantized_;
  BlockWeights weights_;
  Tensor zeros_;
};

/// Between the layers; of swiglu in0 is the gate and in1 what it lets through.
expr::Program activation_program(const ExpertActivation& a) {
  using expr::Fn;
  expr::Program p;
  const expr::Ref x = p.input(DType::f32);
  const auto number = [&](float v) { return p.constant(DType::f32, static_cast<double>(v)); };
  if (a.type == "relu") p.output(p.call(Fn::relu, x));
  if (a.type == "gelu") p.output(p.call(Fn::gelu_tanh, x));
  if (a.type == "silu") p.output(p.call(Fn::silu, x));
  if (a.type == "identity") p.output(x);
  if (!a.gated()) return p;
  expr::Ref gate = x, value = p.input(DType::f32);
  if (std::isfinite(a.limit)) {
    gate = p.call(Fn::min, gate, number(a.limit));
    value = p.call(Fn::clip, value, number(-a.limit), number(a.limit));
  }
  const expr::Ref open = p.call(Fn::sigmoid, a.alpha == 1 ? gate : p.call(Fn::mul, gate, number(a.alpha)));
  if (a.beta != 0) value = p.call(Fn::add, value, number(a.beta));
  p.output(p.call(Fn::mul, p.call(Fn::mul, gate, open), value));
  return p;
}

class ExpertsKernel final : public Kernel {
 public:
  ExpertsKernel(const BoundNode& b, int threads)
      : node_(*b.node),
        hidden_(b.inputs[0].shape.back()),
        tokens_(b.inputs[1].shape[0]),
        experts_(b.inputs[1].shape[1]),
        wide_(b.inputs[layers_of(node_)[0].weights].shape[1]),
        activation_(node_),
        inner_(activation_.gated() ? wide_ / 2 : wide_),
        rows_(tokens_ * node_.get_int("k", 1)),
        first_(b, 0, wide_, hidden_),
        second_(b, 1, hidden_, inner_),
        evaluator_(activation_program(activation_), simd::widest(), inner_),
        threads_(useful_threads(threads, rows_ * hidden_ * inner_ / 8)),
        rows_of_token_(static_cast<size_t>(rows_)),
        taken_(static_cast<size_t>(tokens_)) {
    routes_.of_experts.resize(static_cast<size_t>(experts_));
    for (auto& r : routes_.of_experts) r.reserve(static_cast<size_t>(tokens_));
  }

  int64_t workspace() const override {
    return bytes_of(first_.row()) + bytes_of(wide_) + bytes_of(second_.row()) + bytes_of(hidden_) + threads_ * thread_bytes();
  }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const auto next = [&](int64_t floats) {
      char* here = memory;
      memory += bytes_of(floats);
      return reinterpret_cast<float*>(here);
    };
    float *own = next(first_.row()), *between = next(wide_), *activated = next(second_.row()), *result = next(hidden_);
    const auto scratch = [&](int thread) { return reinterpret_cast<float*>(memory + thread * thread_bytes()); };
    order(b);
    const float* x = static_cast<const float*>(b.inputs[0]);
    const auto rows = static_cast<int64_t>(tokens_of_rows_.size());
    parallel(threads_, rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r)
        first_.spread(x + tokens_of_rows_[static_cast<size_t>(r)] * hidden_, own + r * first_.row(),
                      rows_beside_[static_cast<size_t>(r)]);
    });
    run_layer(b, first_, own, wide_, between, scratch);
    parallel(threads_, rows, 1, [&](int64_t begin, int64_t end, int thread) {
      char* mine = reinterpret_cast<char*>(scratch(thread));
      float* row = reinterpret_cast<float*>(mine + aligned(evaluator_.scratch()));
      for (int64_t r = begin; r < end; ++r) {
        const float* from = between + r * wide_;
        float* to = activated + r * second_.row();
        const int64_t beside = rows_beside_[static_cast<size_t>(r)];
        const bool keeps = second_.keeps_rows(beside);
        void* out = keeps ? to : row;
        const expr::Operand operands[] = {{from, activation_.gated() ? 2 : 1}, {from + 1, 2}};
        evaluator_.run(inner_, std::span(operands, activation_.gated() ? 2 : 1), std::span(&out, 1), mine);
        if (!keeps) second_.spread(row, to, beside);
      }
    });
    run_layer(b, second_, activated, hidden_, result, scratch);
    combine(static_cast<float*>(b.outputs[0]), result);
  }

 private:
  struct Work {
    int64_t expert, first_row, rows;
  };
  int64_t bytes_of(int64_t floats) const { return aligned(rows_ * floats * 4); }
  int64_t thread_bytes() const {
    return std::max({first_.scratch(), second_.scratch(), aligned(evaluator_.scratch()) + aligned(inner_ * 4)});
  }

  /// The rows of all experts, and of each token its rows.
  void order(const Buffers& b) {
    route_tokens(node_, static_cast<const float*>(b.inputs[1]), tokens_, experts_, routes_);
    work_.clear(), tokens_of_rows_.clear(), weights_of_rows_.clear(), rows_beside_.clear();
    std::ranges::fill(taken_, 0);
    const int64_t each = rows_ / std::max<int64_t>(tokens_, 1);
    for (int64_t e = 0; e < experts_; ++e) {
      const auto& routes = routes_.of_experts[static_cast<size_t>(e)];
      if (routes.empty()) continue;
      work_.push_back({e, static_cast<int64_t>(tokens_of_rows_.size()), static_cast<int64_t>(routes.size())});
      for (const Route& r : routes) {
        const auto token = static_cast<size_t>(r.token);
        rows_of_token_[static_cast<size_t>(r.token * each + taken_[token]++)] = static_cast<int64_t>(tokens_of_rows_.size());
        tokens_of_rows_.push_back(r.token);
        weights_of_rows_.push_back(r.weight);
        rows_beside_.push_back(static_cast<int64_t>(routes.size()));
      }
    }
  }

  template <class Scratch>
  void run_layer(const Buffers& b, const ExpertLayer& layer, const float* x, int64_t n, float* y, const Scratch& scratch) const {
    const int64_t parts = layer.parts();
    parallel_dynamic(threads_, static_cast<int64_t>(work_.size()) * parts, [&](int64_t task, int thread) {
      const Work& w = work_[static_cast<size_t>(task / parts)];
      layer.run(b, w.expert, task % parts, x + w.first_row * layer.row(), w.rows, y + w.first_row * n, scratch(thread));
    });
  }

  void combine(float* y, const float* result) const {
    const int64_t each = rows_ / std::max<int64_t>(tokens_, 1);
    parallel(threads_, tokens_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        float* to = y + t * hidden_;
        std::fill_n(to, hidden_, 0.0f);
        for (int64_t i = 0; i < taken_[static_cast<size_t>(t)]; ++i) {
          const int64_t r = rows_of_token_[static_cast<size_t>(t * each + i)];
          const float weight = weights_of_rows_[static_cast<size_t>(r)];
          for (int64_t j = 0; j < hidden_; ++j) to[j] += weight * result[r * hidden_ + j];
        }
      }
    });
  }

  Node node_;
  int64_t hidden_, tokens_, experts_, wide_;
  ExpertActivation activation_;
  int64_t inner_, rows_;  // rows: at most
  ExpertLayer first_, second_;
  expr::Evaluator evaluator_;
  int threads_;
  // Of a run.
  Routes routes_;
  std::vector<Work> work_;
  std::vector<int64_t> tokens_of_rows_, rows_of_token_, taken_,
      rows_beside_;  // rows_beside_: of the same expert, itself among them
  std::vector<float> weights_of_rows_;
};

int64_t inner_of(const BoundNode& b) {
  const int64_t wide = b.inputs[layers_of(*b.node)[0].weights].shape[1];
  return ExpertActivation(*b.node).gated() ? wide / 2 : wide;
}

std::optional<Refusal> rejects_experts(const BoundNode& b) {
  if (auto why = rejects_layouts(b)) return why;
  if (elements(b.outputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty result");
  const auto layers = layers_of(*b.node);
  for (size_t layer = 0; layer < 2; ++layer) {
    const LayerInputs& in = layers[layer];
    const Shape& w = b.inputs[in.weights].shape;
    if (elements(w) == 0) return refuse(Reason::wrong_shape, "empty weights");
    if (in.scales == no_input) continue;
    const int64_t bits = bits_of(*b.node, layer), k = layer == 0 ? b.inputs[0].shape.back() : inner_of(b);
    const DType type = bits == 2 ? DType::u2 : bits == 4 ? DType::u4 : DType::u8;
    if (auto why = rejects_blocks(type, k, block_of(*b.node, k))) return why;
    if (b.has(in.zeros) && !b.constant(in.zeros)) return refuse(Reason::not_constant, "computed zero points");
  }
  return std::nullopt;
}

}  // namespace

void offer_experts(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects_experts(b)) return offer.refuse("cpu", *why);
  const auto layers = layers_of(*b.node);
  const double rows = static_cast<double>(b.inputs[1].shape[0] * b.node->get_int("k", 1));
  const double weights =
      static_cast<double>(elements(b.inputs[layers[0].weights].shape)) / static_cast<double>(b.inputs[1].shape[1]);
  offer.candidates.push_back(
      {"cpu", "", 5 + 4 * rows * weights / 30e3 / machine.threads, [b, node = *b.node, threads = machine.threads] {
         BoundNode bound = b;
         bound.node = &node;
         return std::make_unique<ExpertsKernel>(bound, threads);
       }});
}

}  // namespace smelt::ops::matmul

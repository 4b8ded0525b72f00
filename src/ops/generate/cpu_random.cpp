// Random numbers on the processor: the references' (ops/reference_only/random_generator.h) for every seed and number of threads. One
// thread makes the words of the next chunk while the others turn those of the last one into numbers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/generate/offer.h"
#include "ops/generate/twister.h"
#include "ops/reference_only/random_generator.h"

namespace smelt::ops {
namespace {

constexpr int64_t most_states = 128;  // of a chunk: 320 KB
constexpr int64_t parts = 16;         // of a chunk's numbers, for the threads

/// Calls use(words, states) for chunk after chunk while it returns true; it runs as the pieces of a region in which the next chunk is made.
class Chunks {
 public:
  Chunks(uint32_t seed, int64_t states, int threads, void* memory)
      : twister_(seed), states_(states), threads_(threads), memory_(static_cast<uint32_t*>(memory)) {}
  static int64_t bytes(int64_t states) { return 2 * aligned(states * Twister::words * 4); }

  /// Calls each(part, words, chunk) for the parts of every chunk, then done(chunk), which says whether there is to be another.
  template <class Each, class Done> void run(const Each& each, const Done& done) {
    twister_.next(memory(0), states_);
    for (int64_t chunk = 0;; ++chunk) {
      const bool alone = threads_ == 1;  // then what may not be asked for is not made
      parallel_dynamic(threads_, parts + (alone ? 0 : 1), [&](int64_t piece, int) {
        if (!alone && piece == 0) return twister_.next(memory(chunk + 1), states_);
        each(alone ? piece : piece - 1, memory(chunk), chunk);
      });
      if (!done(chunk)) return;
      if (alone) twister_.next(memory(chunk + 1), states_);
    }
  }

 private:
  uint32_t* memory(int64_t chunk) const { return memory_ + chunk % 2 * (bytes(states_) / 8); }
  Twister twister_;
  int64_t states_;
  int threads_;
  uint32_t* memory_;
};

class RandomKernel : public Kernel {
 public:
  RandomKernel(const BoundNode& b, int threads, int64_t words)
      : node_(*b.node),
        type_(b.outputs[0].type),
        count_(elements(b.outputs[0].shape)),
        states_(std::clamp<int64_t>(words / Twister::words + 1, 1, most_states)),
        threads_(useful_threads(threads, 2 * words)) {}
  int64_t workspace() const override { return Chunks::bytes(states_); }

 protected:
  Chunks chunks(const Buffers& b) const { return {seed_of(node_), states_, threads_, b.workspace}; }
  int64_t chunk_words() const { return states_ * Twister::words; }

  Node node_;
  DType type_;
  int64_t count_, states_;
  int threads_;
};

/// y[i] = f(u, i) for each number: RandomUniform and Bernoulli.
class UniformKernel : public RandomKernel {
 public:
  UniformKernel(const BoundNode& b, int threads) : RandomKernel(b, threads, 2 * elements(b.outputs[0].shape)) {}

  void run(const Buffers& b) override {
    const double low = node_.get_float("low", 0), range = node_.get_float("high", 1) - low;
    if (type_ == DType::f64)
      each(b, static_cast<double*>(b.outputs[0]), [=](double u, int64_t) { return low + range * u; });
    else
      each(b, static_cast<float*>(b.outputs[0]), [=](double u, int64_t) { return static_cast<float>(low + range * u); });
  }

 protected:
  template <class T, class F> void each(const Buffers& b, T* y, const F& f) const {
    const int64_t numbers = chunk_words() / 2;
    chunks(b).run(
        [&](int64_t part, const uint32_t* words, int64_t chunk) {
          const int64_t first = chunk * numbers, end = std::min(count_ - first, numbers * (part + 1) / parts);
          for (int64_t i = numbers * part / parts; i < end; ++i) y[first + i] = f(uniform_of(words + 2 * i), first + i);
        },
        [&](int64_t chunk) { return (chunk + 1) * numbers < count_; });
  }
};

class BernoulliKernel final : public UniformKernel {
 public:
  BernoulliKernel(const BoundNode& b, int threads)
      : UniformKernel(b, threads), one_(Tensor::scalar(1.0).cast(type_)), wide_(b.inputs[0].type == DType::f64) {}

  void run(const Buffers& b) override {
    with_bytes(one_.nbytes(), [&]<class T>(T one) {
      std::memcpy(&one, one_.raw(), sizeof one);
      T* y = static_cast<T*>(b.outputs[0]);
      const auto draw = [&](const auto* p) {
        each(b, y, [p, one](double u, int64_t i) { return u < static_cast<double>(p[i]) ? one : T{}; });
      };
      wide_ ? draw(static_cast<const double*>(b.inputs[0])) : draw(static_cast<const float*>(b.inputs[0]));
    });
  }

 private:
  Tensor one_;
  bool wide_;
};

/// Marsaglia's polar method: of two numbers in the unit square those in the circle give two results. How many a part gives is known
/// when it is done, so that parts write beside each other first.
class NormalKernel final : public RandomKernel {
 public:
  NormalKernel(const BoundNode& b, int threads) : RandomKernel(b, threads, 3 * elements(b.outputs[0].shape)) {}

  int64_t workspace() const override { return RandomKernel::workspace() + parts * part_bytes(); }
  void run(const Buffers& b) override { type_ == DType::f64 ? draw<double>(b) : draw<float>(b); }

 private:
  int64_t pairs() const { return chunk_words() / 4; }
  int64_t part_bytes() const { return aligned(2 * 8 * (pairs() / parts + 1)); }

  static constexpr int64_t together = 128;  // pairs

  /// Those in the circle first, without a jump, then their factors. Returns where the next results go.
  template <class T> static T* add(const uint32_t* words, int64_t pairs, double mean, double scale, T* to) {
    double xs[together + 1], ys[together + 1], squares[together + 1], logs[together];
    int64_t n = 0;
    for (int64_t i = 0; i < pairs; ++i) {
      const double x = 2 * uniform_of(words + 4 * i) - 1, y = 2 * uniform_of(words + 4 * i + 2) - 1, square = x * x + y * y;
      xs[n] = x, ys[n] = y, squares[n] = square;
      n += static_cast<int64_t>(square < 1) & static_cast<int64_t>(square != 0);
    }
    for (int64_t i = 0; i < n; ++i) logs[i] = std::log(squares[i]);
    for (int64_t i = 0; i < n; ++i) {
      const double factor = std::sqrt(-2 * logs[i] / squares[i]);
      to[2 * i] = static_cast<T>(mean + scale * (ys[i] * factor));
      to[2 * i + 1] = static_cast<T>(mean + scale * (xs[i] * factor));
    }
    return to + 2 * n;
  }

  template <class T> void draw(const Buffers& b) const {
    const double mean = node_.get_float("mean", 0), scale = node_.get_float("scale", 1);
    const auto own = [&](int64_t part) {
      return reinterpret_cast<T*>(static_cast<char*>(b.workspace) + RandomKernel::workspace() + part * part_bytes());
    };
    int64_t found[parts], written = 0;
    chunks(b).run(
        [&](int64_t part, const uint32_t* words, int64_t) {
          T* to = own(part);
          for (int64_t i = pairs() * part / parts, end = pairs() * (part + 1) / parts; i < end; i += together)
            to = add(words + 4 * i, std::min(together, end - i), mean, scale, to);
          found[part] = to - own(part);
        },
        [&](int64_t) {
          for (int64_t part = 0; part < parts; ++part) {
            const int64_t n = std::min(found[part], count_ - written);
            std::copy_n(own(part), n, static_cast<T*>(b.outputs[0]) + written);
            written += n;
          }
          return written < count_;
        });
  }
};

class MultinomialKernel final : public UniformKernel {
 public:
  MultinomialKernel(const BoundNode& b, int threads)
      : UniformKernel(b, threads),
        wide_(b.inputs[0].type == DType::f64),
        rows_(b.inputs[0].shape[0]),
        classes_(b.inputs[0].shape[1]),
        samples_(b.outputs[0].shape[1]),
        row_threads_(useful_threads(threads, 8 * rows_ * classes_ + 32 * count_)) {}

  int64_t workspace() const override { return RandomKernel::workspace() + drawn_bytes() + row_threads_ * sums_bytes(); }

  void run(const Buffers& b) override {
    auto* drawn = reinterpret_cast<double*>(static_cast<char*>(b.workspace) + RandomKernel::workspace());
    each(b, drawn, [](double u, int64_t) { return u; });
    parallel(row_threads_, rows_, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* sums = reinterpret_cast<double*>(reinterpret_cast<char*>(drawn) + drawn_bytes() + thread * sums_bytes());
      for (int64_t row = begin; row < end; ++row) {
        if (wide_)
          add_up(static_cast<const double*>(b.inputs[0]) + row * classes_, sums);
        else
          add_up(static_cast<const float*>(b.inputs[0]) + row * classes_, sums);
        for (int64_t i = row * samples_; i < (row + 1) * samples_; ++i) {
          const int64_t at = std::upper_bound(sums, sums + classes_ - 1, drawn[i] * sums[classes_ - 1]) - sums;
          if (type_ == DType::i64)
            static_cast<int64_t*>(b.outputs[0])[i] = at;
          else
            static_cast<int32_t*>(b.outputs[0])[i] = static_cast<int32_t>(at);
        }
      }
    });
  }

 private:
  int64_t drawn_bytes() const { return aligned(count_ * 8); }
  int64_t sums_bytes() const { return aligned(classes_ * 8); }

  template <class T> void add_up(const T* logs, double* sums) const {
    const auto largest = static_cast<double>(*std::max_element(logs, logs + classes_));
    double sum = 0;
    for (int64_t k = 0; k < classes_; ++k) sums[k] = sum += std::exp(static_cast<double>(logs[k]) - largest);
  }

  bool wide_;
  int64_t rows_, classes_, samples_;
  int row_threads_;
};

}  // namespace

void offer_random_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const std::string& op = b.node->op;
  const DType type = b.outputs[0].type;
  const bool bernoulli = op == "Bernoulli", multinomial = op == "Multinomial";
  const bool is_known = bernoulli     ? (is_float(type) || is_integer(type) || type == DType::boolean) && bits(type) >= 8
                        : multinomial ? type == DType::i32 || type == DType::i64
                                      : type == DType::f32 || type == DType::f64;
  if (!is_known) return offer.refuse("cpu", Reason::wrong_type, "results of {}", name(type));
  if ((bernoulli || multinomial) && b.inputs[0].type != DType::f32 && b.inputs[0].type != DType::f64)
    return offer.refuse("cpu", Reason::wrong_type, "probabilities of {}", name(b.inputs[0].type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  const auto add = [&]<class K>(const K*, double ns) {
    offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(b.outputs[0].shape)) * ns / 1e3 / machine.threads,
                                [b, node = *b.node, threads = machine.threads] {
                                  BoundNode bound = b;
                                  bound.node = &node;
                                  return std::make_unique<K>(bound, threads);
                                }});
  };
  if (bernoulli) return add(static_cast<const BernoulliKernel*>(nullptr), 4);
  if (multinomial) return add(static_cast<const MultinomialKernel*>(nullptr), 40);
  if (op.starts_with("RandomNormal")) return add(static_cast<const NormalKernel*>(nullptr), 10);
  add(static_cast<const UniformKernel*>(nullptr), 4);
}

}  // namespace smelt::ops

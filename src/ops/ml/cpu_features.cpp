// ArrayFeatureExtractor, Binarizer, FeatureVectorizer, Imputer, Normalizer and Scaler on the processor: rows of features by threads.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/strided_copy.h"
#include "ops/ml/features.h"
#include "ops/ml/ml.h"
#include "ops/ml/offer.h"

namespace smelt::ops {
namespace {

/// A kernel that is one function.
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(std::function<void(const Buffers&)> f) : f_(std::move(f)) {}
  void run(const Buffers& b) override { f_(b); }

 private:
  std::function<void(const Buffers&)> f_;
};

/// Rows of `features` elements, and the threads that they are for.
struct Rows {
  int64_t count, features;
  int threads;

  Rows(const Shape& x, int most) : features(std::max<int64_t>(1, features_of(x))) {
    count = elements(x) / features;
    threads = useful_threads(most, 4 * elements(x));
  }
  template <class F> void each(const F& f) const {
    parallel(threads, count, std::max<int64_t>(1, 4096 / features), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) f(r);
    });
  }
};

bool is_read(DType type) { return type == DType::f32 || type == DType::f64 || type == DType::i32 || type == DType::i64; }

/// f(T{}) for a type that these kernels read.
template <class F> void with_type(DType type, const F& f) {
  switch (type) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::i32: return f(int32_t{});
    default: return f(int64_t{});
  }
}

using Run = std::function<void(const Buffers&)>;

Run scaler(const BoundNode& b, const Rows& rows) {
  const PerFeature offset(*b.node, "offset", rows.features, 0), scale(*b.node, "scale", rows.features, 1);
  std::vector<float> offsets, scales;
  for (size_t i = 0; i < static_cast<size_t>(rows.features); ++i) {
    offsets.push_back(static_cast<float>(offset[i]));
    scales.push_back(static_cast<float>(scale[i]));
  }
  return [rows, offsets, scales, type = b.inputs[0].type](const Buffers& m) {
    with_type(type, [&]<class T>(T) {
      using A = std::conditional_t<std::is_same_v<T, float>, float, double>;
      rows.each([&](int64_t r) {
        const T* x = static_cast<const T*>(m.inputs[0]) + r * rows.features;
        float* y = static_cast<float*>(m.outputs[0]) + r * rows.features;
        const float *off = offsets.data(), *by = scales.data();
        for (int64_t i = 0; i < rows.features; ++i)
          y[i] = static_cast<float>((static_cast<A>(x[i]) - static_cast<A>(off[i])) * static_cast<A>(by[i]));
      });
    });
  };
}

enum class Norm : uint8_t { max, l1, l2 };

template <Norm norm, class T> double sum_of(const T* x, int64_t n) {
  constexpr int64_t chains = 8;  // sums beside each other, which do not wait for one another
  double sums[chains] = {};
  const auto term = [](double v) { return norm == Norm::l1 ? std::abs(v) : v * v; };
  int64_t i = 0;
  for (; i + chains <= n; i += chains) {
#pragma GCC unroll 8
    for (int64_t u = 0; u < chains; ++u) sums[u] += term(static_cast<double>(x[i + u]));
  }
  for (; i < n; ++i) sums[0] += term(static_cast<double>(x[i]));
  return ((sums[0] + sums[2]) + (sums[1] + sums[3])) + ((sums[4] + sums[6]) + (sums[5] + sums[7]));
}

/// As a loop from the first on finds it: a NaN is the largest where it is the first, and no other is.
template <class T> T largest_of(const T* x, int64_t n) {
  constexpr int64_t chains = 8;
  T top[chains];
  std::fill_n(top, chains, x[0]);
  int64_t i = 0;
  for (; i + chains <= n; i += chains) {
#pragma GCC unroll 8
    for (int64_t u = 0; u < chains; ++u) top[u] = std::max(top[u], x[i + u]);
  }
  for (; i < n; ++i) top[0] = std::max(top[0], x[i]);
  return *std::max_element(top, top + chains);
}

/// What a row is divided by.
template <class T> double norm_of(const T* x, int64_t n, Norm norm) {
  if (norm == Norm::max) return static_cast<double>(largest_of(x, n));
  return norm == Norm::l1 ? sum_of<Norm::l1>(x, n) : std::sqrt(sum_of<Norm::l2>(x, n));
}

Run normalizer(const BoundNode& b, const Rows& rows) {
  const std::string text = b.node->get_string("norm", "MAX");
  if (text != "MAX" && text != "L1" && text != "L2") fail("norm is '{}', expected MAX, L1 or L2", text);
  const Norm norm = text == "MAX" ? Norm::max : text == "L1" ? Norm::l1 : Norm::l2;
  return [rows, norm, type = b.inputs[0].type](const Buffers& m) {
    with_type(type, [&]<class T>(T) {
      rows.each([&](int64_t r) {
        const T* x = static_cast<const T*>(m.inputs[0]) + r * rows.features;
        float* y = static_cast<float*>(m.outputs[0]) + r * rows.features;
        const double by = norm_of(x, rows.features, norm), over = by == 0 ? 1 : by;
        const double inverse = 1 / over;
        // Of floats the product in double is the quotient but for a rounding in 2^29; divisions take four times as long.
        if (std::is_same_v<T, float> && std::isnormal(inverse)) {
          for (int64_t i = 0; i < rows.features; ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) * inverse);
          return;
        }
        for (int64_t i = 0; i < rows.features; ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) / over);
      });
    });
  };
}

Run binarizer(const BoundNode& b, const Rows& rows) {
  return [rows, type = b.inputs[0].type, threshold = static_cast<double>(b.node->get_float("threshold", 0))](const Buffers& m) {
    with_type(type, [&]<class T>(T) {
      using A = std::conditional_t<std::is_same_v<T, float>, float, double>;  // the threshold is a float
      const A least = static_cast<A>(threshold);
      rows.each([&](int64_t r) {
        const T* x = static_cast<const T*>(m.inputs[0]) + r * rows.features;
        T* y = static_cast<T*>(m.outputs[0]) + r * rows.features;
        for (int64_t i = 0; i < rows.features; ++i) y[i] = static_cast<A>(x[i]) > least ? T{1} : T{};
      });
    });
  };
}

Run imputer(const BoundNode& b, const Rows& rows) {
  Run run;
  with_type(b.inputs[0].type, [&]<class T>(T) {
    run = [rows, imputed = Imputed<T>(*b.node, rows.features)](const Buffers& m) {
      rows.each([&](int64_t r) {
        const T* x = static_cast<const T*>(m.inputs[0]) + r * rows.features;
        T* y = static_cast<T*>(m.outputs[0]) + r * rows.features;
        for (int64_t i = 0; i < rows.features; ++i) y[i] = imputed(x[i], i);
      });
    };
  });
  return run;
}

Run extractor(const BoundNode& b, const Rows& rows) {
  const int64_t size = element_bytes(b.inputs[0].type), wanted = elements(b.inputs[1].shape);
  return [rows, size, wanted](const Buffers& m) {
    const auto* index = static_cast<const int64_t*>(m.inputs[1]);
    for (int64_t k = 0; k < wanted; ++k)
      if (index[k] < 0 || index[k] >= rows.features) fail("index {} is outside [0, {})", index[k], rows.features);
    with_bytes(size, [&]<class T>(T) {
      const T* from = static_cast<const T*>(m.inputs[0]);
      T* to = static_cast<T*>(m.outputs[0]);
      rows.each([&](int64_t r) {
        for (int64_t k = 0; k < wanted; ++k) to[r * wanted + k] = from[r * rows.features + index[k]];
      });
    });
  };
}

Run vectorizer(const BoundNode& b, const Rows&, int threads) {
  struct Part {
    DType type;
    int64_t features, kept, width;
  };
  std::vector<Part> parts;
  const std::vector<int64_t> widths = vectorized_widths(*b.node, b.inputs.size());
  for (size_t i = 0; i < widths.size(); ++i) {
    const int64_t features = features_of(b.inputs[i].shape);
    parts.push_back({b.inputs[i].type, features, std::min(features, widths[i]), widths[i]});
  }
  return [parts, all = Rows(b.outputs[0].shape, threads)](const Buffers& m) {
    all.each([&](int64_t r) {
      float* y = static_cast<float*>(m.outputs[0]) + r * all.features;
      for (size_t i = 0; i < parts.size(); ++i) {
        const Part& p = parts[i];
        with_type(p.type, [&]<class T>(T) {
          const T* x = static_cast<const T*>(m.inputs[i]) + r * p.features;
          std::transform(x, x + p.kept, y, [](T v) { return static_cast<float>(v); });
        });
        std::fill(y + p.kept, y + p.width, 0.0f);
        y += p.width;
      }
    });
  };
}

Run run_of(const BoundNode& b, int threads) {
  const Rows rows(b.inputs[0].shape, threads);
  const std::string& op = b.node->op;
  if (op == "Scaler") return scaler(b, rows);
  if (op == "Normalizer") return normalizer(b, rows);
  if (op == "Binarizer") return binarizer(b, rows);
  if (op == "Imputer") return imputer(b, rows);
  if (op == "ArrayFeatureExtractor") return extractor(b, rows);
  return vectorizer(b, rows, threads);
}

}  // namespace

void offer_features_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const bool picks = b.node->op == "ArrayFeatureExtractor";
  if (picks && b.inputs[1].type != DType::i64)
    return offer.refuse("cpu", Reason::wrong_type, "indices of {}", name(b.inputs[1].type));
  for (size_t i = 0; i < (picks ? 1 : b.inputs.size()); ++i)
    if (picks ? !StridedCopy::can_move(element_bytes(b.inputs[i].type)) : !is_read(b.inputs[i].type))
      return offer.refuse("cpu", Reason::wrong_type, "elements of {}", name(b.inputs[i].type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (elements(b.outputs[0].shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  const double estimate = 1 + static_cast<double>(elements(b.inputs[0].shape)) / 1000 / machine.threads;
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<FunctionKernel>(run_of(bound, threads));
                              }});
}

}  // namespace smelt::ops

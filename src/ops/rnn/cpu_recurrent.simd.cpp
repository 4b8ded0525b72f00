#include "expr/simd/math.h"
#include "expr/simd/reduce.h"
#include "expr/simd/transpose.h"
#include "ops/rnn/simd/products.h"

namespace smelt::SMELT_ISA {
namespace {

using ops::GateActivation;
using ops::GateFunction;
using ops::GateStep;
using simd::FloatKind;

// -- packing

void pack(FloatKind type, const void* data, int64_t hidden, int64_t k, int64_t first, int64_t count, int64_t begin, int64_t end,
          float* to) {
  with_float_type(type, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(data);
    const int64_t step = count * lanes;
    for (int64_t n = begin; n < end; ++n) {
      const int64_t units = hidden - n * lanes < lanes ? hidden - n * lanes : lanes;
      for (int64_t g = 0; g < count; ++g) {
        const H* rows = from + ((first + g) * hidden + n * lanes) * k;
        float* panel = to + n * k * step + g * lanes;
        for_registers(k, [&](int64_t i, int64_t here) {
          F32 v[lanes];
          for (int u = 0; u < lanes; ++u) v[u] = u < units ? get(rows + u * k + i, here) : splat(0.0f);
          transpose(v);
          for (int64_t e = 0; e < here; ++e) store(panel + (i + e) * step, v[e]);
        });
      }
    }
  });
}

// -- products

void product(const ops::PanelProduct& p) {
  switch (p.gates) {
    case 1: return panel_product<1>(p);
    case 2: return panel_product<2>(p);
    case 3: return panel_product<3>(p);
    default: return panel_product<4>(p);
  }
}

// -- gates

/// 1 / (1 + exp(-x)), with exp's scale in one factor: beyond ±87 the result is that at ±87, 1.6e-38 from 0 or exactly 1.
SMELT_INLINE F32 sigmoid(F32 x) {
  WholeInBits<127> n;
  const F32 r = reduce_by_ln2(raw_min(F32(87), raw_max(F32(-87), -x)), n);
  const F32 e = exp_reduced(r) * n.power_of_two();
  return F32(1) / (F32(1) + e);
}
/// simd::tanh's formula for arguments whose exponential stays small: no overflow has to be kept off.
SMELT_INLINE F32 state_tanh(F32 x) {
  const F32 a = raw_min(F32(10), abs(x));
  WholeInBits<127> n;
  const F32 p = expm1_reduced(reduce_by_ln2(a + a, n));
  const F32 scale = n.power_of_two();
  const F32 t = fma(scale, p, scale - F32(1));
  return with_sign_of(t / (t + F32(2)), x);
}

__attribute__((noinline)) F32 any_activation(F32 x, const GateActivation& a) {
  const F32 alpha = splat(a.alpha), beta = splat(a.beta), zero = splat(0.0f);
  switch (a.function) {
    case GateFunction::sigmoid: return sigmoid(x);
    case GateFunction::tanh: return tanh(x);
    case GateFunction::relu: return raw_max(zero, x);
    case GateFunction::affine: return alpha * x + beta;
    case GateFunction::leaky_relu: return pick(x < zero, alpha * x, x);
    case GateFunction::thresholded_relu: return pick(x > alpha, x, zero);
    case GateFunction::scaled_tanh: return alpha * tanh(beta * x);
    case GateFunction::hard_sigmoid: return raw_min(F32(1), raw_max(zero, alpha * x + beta));
    case GateFunction::elu: return pick(x < zero, alpha * expm1(x), x);
    case GateFunction::softsign: return x / (F32(1) + abs(x));
    case GateFunction::softplus: return raw_max(zero, x) + log1p(exp(-abs(x)));
    case GateFunction::clip: return raw_min(beta, raw_max(alpha, x));
  }
  return x;
}

/// ONNX's defaults, inlined.
struct Default {
  SMELT_INLINE static F32 gate(F32 x, const GateActivation&) { return sigmoid(x); }
  SMELT_INLINE static F32 state(F32 x, const GateActivation&) { return state_tanh(x); }
};
struct Any {
  SMELT_INLINE static F32 gate(F32 x, const GateActivation& a) { return any_activation(x, a); }
  SMELT_INLINE static F32 state(F32 x, const GateActivation& a) { return any_activation(x, a); }
};

/// Bounds come first: a NaN passes through.
SMELT_INLINE F32 clipped(F32 x, F32 bound) { return raw_min(bound, raw_max(-bound, x)); }

/// body(input, sum, unit): pointers to a panel's part of a row, and the offset of its first unit in the states.
template <int input_gates, int sum_gates, class F> SMELT_INLINE void for_units(const GateStep& s, F&& body) {
  for (int64_t r = 0; r < s.rows; ++r) {
    const float *in = s.inputs[r], *sums = s.sums + r * s.sums_stride;
    for (int64_t n = 0; n < s.panels; ++n, in += input_gates * lanes, sums += sum_gates * lanes)
      body(in, sums, r * s.state_stride + n * lanes, n * lanes);
  }
}
SMELT_INLINE F32 total(const float* a, const float* b, int gate) { return load(a + gate * lanes) + load(b + gate * lanes); }

template <class A> void rnn_of(const GateStep& s) {
  const F32 bound = splat(s.clip);
  for_units<1, 1>(s, [&](const float* in, const float* sums, int64_t at, int64_t) {
    store(s.after + at, A::state(clipped(total(in, sums, 0), bound), s.f));
  });
}

/// (1 - z) n + z h
SMELT_INLINE F32 mixed(F32 z, F32 n, F32 h) { return fma(z, h, (F32(1) - z) * n); }

template <class A> void gru_linear_of(const GateStep& s) {
  const F32 bound = splat(s.clip);
  for_units<3, 3>(s, [&](const float* in, const float* sums, int64_t at, int64_t) {
    const F32 z = A::gate(clipped(total(in, sums, 0), bound), s.f);
    const F32 r = A::gate(clipped(total(in, sums, 1), bound), s.f);
    const F32 n = A::state(clipped(fma(r, load(sums + 2 * lanes), load(in + 2 * lanes)), bound), s.g);
    store(s.after + at, mixed(z, n, load(s.before + at)));
  });
}

template <class A> void gru_gates_of(const GateStep& s) {
  const F32 bound = splat(s.clip);
  for_units<3, 2>(s, [&](const float* in, const float* sums, int64_t at, int64_t) {
    store(s.update + at, A::gate(clipped(total(in, sums, 0), bound), s.f));
    store(s.scaled + at, A::gate(clipped(total(in, sums, 1), bound), s.f) * load(s.before + at));
  });
}

template <class A> void gru_candidate_of(const GateStep& s) {
  const F32 bound = splat(s.clip);
  for_units<3, 1>(s, [&](const float* in, const float* sums, int64_t at, int64_t) {
    const F32 n = A::state(clipped(load(in + 2 * lanes) + load(sums), bound), s.g);
    store(s.after + at, mixed(load(s.update + at), n, load(s.before + at)));
  });
}

template <class A> void lstm_of(const GateStep& s) {
  const F32 bound = splat(s.clip);
  for_units<4, 4>(s, [&](const float* in, const float* sums, int64_t at, int64_t unit) {
    const auto peeped = [&](F32 v, int64_t which, F32 cell) {
      return s.peepholes ? fma(load(s.peepholes + which * s.peephole_stride + unit), cell, v) : v;
    };
    F32 cell = load(s.cell + at);
    const F32 i = A::gate(clipped(peeped(total(in, sums, 0), 0, cell), bound), s.f);
    const F32 f = s.coupled ? F32(1) - i : A::gate(clipped(peeped(total(in, sums, 2), 2, cell), bound), s.f);
    cell = fma(f, cell, i * A::state(clipped(total(in, sums, 3), bound), s.g));
    store(s.cell + at, cell);
    const F32 o = A::gate(clipped(peeped(total(in, sums, 1), 1, cell), bound), s.f);
    store(s.after + at, o * A::state(cell, s.h));
  });
}

bool is(const GateActivation& a, GateFunction f) { return a.function == f; }

void rnn(const GateStep& s) { is(s.f, GateFunction::tanh) ? rnn_of<Default>(s) : rnn_of<Any>(s); }
void gru_linear(const GateStep& s) {
  is(s.f, GateFunction::sigmoid) && is(s.g, GateFunction::tanh) ? gru_linear_of<Default>(s) : gru_linear_of<Any>(s);
}
void gru_gates(const GateStep& s) { is(s.f, GateFunction::sigmoid) ? gru_gates_of<Default>(s) : gru_gates_of<Any>(s); }
void gru_candidate(const GateStep& s) { is(s.g, GateFunction::tanh) ? gru_candidate_of<Default>(s) : gru_candidate_of<Any>(s); }
void lstm(const GateStep& s) {
  const bool usual = is(s.f, GateFunction::sigmoid) && is(s.g, GateFunction::tanh) && is(s.h, GateFunction::tanh);
  usual ? lstm_of<Default>(s) : lstm_of<Any>(s);
}

// -- conversions

void store_as(FloatKind type, const float* from, int64_t n, void* data) {
  with_float_type(type, [&]<class H>(const H*) {
    H* to = static_cast<H*>(data);
    for_registers(n, [&](int64_t i, int64_t count) { put(to + i, get(from + i, count), count); });
  });
}

void load_from(FloatKind type, const void* data, int64_t n, float* to) {
  with_float_type(type, [&]<class H>(const H*) {
    const H* from = static_cast<const H*>(data);
    for_registers(n, [&](int64_t i, int64_t count) { put(to + i, get(from + i, count), count); });
  });
}

}  // namespace

const ops::RecurrentSimd& recurrent_simd() {
  static constexpr ops::RecurrentSimd table = {lanes,     pack,          product, rnn,      gru_linear,
                                               gru_gates, gru_candidate, lstm,    store_as, load_from};
  return table;
}

}  // namespace smelt::SMELT_ISA

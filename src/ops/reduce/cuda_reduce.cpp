// Reductions on a GPU (src/kernels/reduce/reduce.cuh): generated for the programs, the state, the ranks and the widths; extents,
// strides and the number of parts are arguments.
#include "ops/reduce/cuda_reduce.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "expr/cuda.h"
#include "ops/cpu/strided_copy.h"
#include "ops/cuda/launches.h"
#include "ops/cuda/source.h"

namespace smelt::ops {
namespace {

struct Problem {
  ReduceForm form;
  std::vector<Shape> strides;       // of before's operands, along form.shape
  Views kept, reduced;              // kept: before's operands, after's, y; reduced: before's operands
  bool rows = true;                 // the reduced elements lie side by side, not the results
  std::vector<int64_t> alignments;  // of before's operands
  int64_t results = 1, values = 1;  // values: that go into one result
  double moved = 0;
};

struct Split {
  int64_t vec = 1, team = 32, side = 1;  // threads that share a result; results (rows) or chunks of them (columns) a block
  int64_t parts = 1;
  int64_t threads() const { return team * side; }
};

Result<Problem> problem_of(const BoundNode& b, const ReduceForm& f) {
  Problem p{.form = f, .strides = {}, .kept = {}, .reduced = {}, .alignments = {}};
  const size_t rank = f.shape.size();
  const BoundTensor& y = b.outputs[0];
  const auto is_reduced = [&](size_t a) { return std::ranges::find(f.axes, static_cast<int64_t>(a)) != f.axes.end(); };
  Shape kept_shape, reduced_shape;
  for (size_t a = 0; a < rank; ++a) {
    (is_reduced(a) ? reduced_shape : kept_shape).push_back(f.shape[a]);
    (is_reduced(a) ? p.values : p.results) *= f.shape[a];
  }
  if (elements(y.shape) != p.results)
    return refuse(Reason::wrong_shape, "{} results are broadcast to {}", p.results, to_string(y.shape));
  std::vector<Shape> kept, reduced;
  for (const size_t i : f.before_inputs) {
    const Shape s = broadcast_strides(b.inputs[i], rank);
    p.strides.push_back(s);
    p.alignments.push_back(b.inputs[i].alignment);
    Shape k, r;
    for (size_t a = 0; a < rank; ++a) (is_reduced(a) ? r : k).push_back(s[a]);
    kept.push_back(k);
    reduced.push_back(r);
    p.moved += static_cast<double>(storage_bytes(b.inputs[i]));
  }
  // y's axes are the kept ones, with a 1 in the place of each reduced one where keepdims says so.
  const auto of_result = [&](const Shape& s) {
    Shape k;
    for (size_t a = 0; a < rank; ++a)
      if (!is_reduced(a)) k.push_back(s[f.keepdims ? a : k.size()]);
    return k;
  };
  for (const size_t i : f.after_inputs) kept.push_back(of_result(broadcast_strides(b.inputs[i], y.shape.size())));
  kept.push_back(of_result(memory_strides(y)));
  p.moved += static_cast<double>(storage_bytes(y));
  p.kept = merged(kept_shape, kept, 0);
  p.reduced = merged(reduced_shape, reduced, 0);
  const bool kept_contiguous = p.kept.strides[0].back() == 1 && p.kept.extents.back() > 1;
  p.rows = !kept_contiguous || (p.reduced.strides[0].back() == 1 && p.reduced.extents.back() > 1);
  if (f.indexed && p.reduced.extents.size() > 1) return refuse(Reason::wrong_axis, "places along several axes");
  if (!WalkArgument::fits(p.kept, 1) || !WalkArgument::fits(p.reduced, 1))
    return refuse(Reason::too_large, "{} results of {} values; it counts to 2^31 of each", p.results, p.values);
  return p;
}

/// How the kernel reads before's operand k by vectors of `vec` along the axis where elements lie side by side.
int step_of(const Problem& p, size_t k, int64_t bytes, int64_t vec) {
  Shape s = p.rows ? p.kept.strides[k] : p.reduced.strides[k];
  const Shape& inner = p.rows ? p.reduced.strides[k] : p.kept.strides[k];
  s.insert(s.end(), inner.begin(), inner.end());
  return access_step(s, bytes, p.alignments[k], vec);
}

/// The kernels of src/kernels/reduce/reduce.cuh, but for their entries.
std::string source_of(const BoundNode& b, const Problem& p, const Split& s) {
  const ReduceForm& f = p.form;
  const std::string_view value = expr::cuda_type(f.before.type(f.before.outputs()[0]));
  std::string code = "#include \"reduce/reduce.cuh\"\n\n" + expr::to_cuda(f.before, "Before") + expr::to_cuda(f.after, "After");
  if (!f.start.empty())
    code += fmt::format("struct Start {{ static __device__ __forceinline__ {} value() {{ return {}; }} }};\n", value, f.start);
  std::vector<std::string> inputs, outputs;  // views; types
  for (size_t k = 0; k < f.before_inputs.size(); ++k) {
    const DType type = b.inputs[f.before_inputs[k]].type;
    inputs.push_back(fmt::format("View<{}, {}>", expr::cuda_type(type), step_of(p, k, element_bytes(type), s.vec)));
  }
  for (const size_t i : f.after_inputs) outputs.emplace_back(expr::cuda_type(b.inputs[i].type));
  outputs.emplace_back(expr::cuda_type(b.outputs[0].type));
  return code + fmt::format(
                    "using State = {};\n"
                    "struct Kernel : Reduce<ReduceConfig{{.rows = {}, .vec = {}, .team = {}, .side = {}, .parts = {}}},\n"
                    "                       State, Before, {}, After, {},\n"
                    "                       Types<{}>, Types<{}>> {{}};\n",
                    f.state, p.rows, s.vec, s.team, s.side, s.parts, value, expr::cuda_type(f.after.type(0)),
                    fmt::join(inputs, ", "), fmt::join(outputs, ", "));
}

std::unique_ptr<Kernel> kernel_of(const BoundNode& b, const Problem& p, const Split& s, const Gpu& gpu, const std::string& name) {
  LaunchPlan plan(name, source_of(b, p, s));
  const int64_t vec = p.rows ? 1 : s.vec;
  const WalkArgument kept(p.kept, vec), reduced(p.reduced, p.rows ? s.vec : 1);
  if (p.results == 0) return launched(std::move(plan), gpu);
  const std::string arguments = fmt::format("ReduceArgs<{}, {}, {}, {}>", p.kept.extents.size(), p.reduced.extents.size(),
                                            p.reduced.strides.size(), p.kept.strides.size());
  const BufferRef parts = s.parts > 1 ? plan.reserve(s.parts * kept.chunks() * vec * p.form.state_bytes) : BufferRef{};
  const auto launch = [&](const std::string& entry, int64_t threads, const device::cuda::LaunchShape& shape) {
    Launch& l = plan.launch({entry, std::to_string(threads), arguments, "Kernel::" + entry}, shape);
    for (const size_t i : p.form.before_inputs) l.input(i);
    for (const size_t i : p.form.after_inputs) l.input(i);
    l.output(0);
    s.parts > 1 ? l.at(parts) : l.value(uint64_t{0});
    l.value(p.values).value(kept).value(reduced);
  };
  launch("reduce", s.threads(),
         {.grid = {(kept.chunks() + s.side - 1) / s.side, s.parts}, .block = {static_cast<unsigned>(s.threads()), 1, 1}});
  if (s.parts > 1) launch("finish", 256, blocks_of(kept.chunks() * vec * 32, 256));
  return launched(std::move(plan), gpu);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t power_above(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, n)))); }

constexpr double launch_us = 2, latency_us = 0.8;  // only rank candidates that are not measured

/// The time that the memory takes, or the round trips of each thread, four loads at once, whichever is longer.
double estimate(const Problem& p, const Split& s, const Gpu& gpu) {
  const int64_t values = p.rows ? ceil_div(p.values, s.vec) : p.values, results = p.rows ? p.results : ceil_div(p.results, s.vec);
  const double threads = static_cast<double>(ceil_div(results, s.side) * s.parts * s.threads());
  const double waves = std::max(1.0, threads / (2048.0 * std::max(1, gpu.info.multiprocessors)));
  const double trips = static_cast<double>(ceil_div(ceil_div(values, s.parts), 4 * s.team));
  return (s.parts > 1 ? launch_us : 0) + std::max(gpu_estimate_us(gpu, p.moved), launch_us + trips * latency_us * waves);
}

std::vector<Split> splits_of(const BoundNode& b, const Problem& p, const Gpu& gpu) {
  int64_t widest = 1;
  for (int64_t vec = 16; vec > 1 && widest == 1; vec /= 2) {
    const int64_t row = p.rows ? p.reduced.extents.back() : p.kept.extents.back();
    bool fits = vec <= row && !(p.form.indexed && !p.rows && vec > 2);
    for (size_t k = 0; k < p.strides.size() && fits; ++k) {
      const int64_t size = element_bytes(b.inputs[p.form.before_inputs[k]].type);
      fits = vec * size <= 16 && step_of(p, k, size, vec) >= 0;
    }
    if (fits) widest = vec;
  }
  std::vector<Split> list;
  const int64_t wanted = 2 * std::max(1, gpu.info.multiprocessors);
  const auto add = [&](Split s) {
    for (const Split& o : list)
      if (o.vec == s.vec && o.team == s.team && o.side == s.side) return;
    const int64_t chunks = p.rows ? ceil_div(p.values, s.vec) : p.values;
    const int64_t blocks = ceil_div(p.rows ? p.results : ceil_div(p.results, s.vec), s.side);
    list.push_back(s);
    s.parts = std::min(ceil_div(wanted, std::max<int64_t>(1, blocks)), ceil_div(chunks, 8 * s.team));
    if (s.parts > 1) list.push_back(s);
  };
  if (p.rows) {
    const int64_t chunks = ceil_div(p.values, widest), first = std::clamp<int64_t>(power_above(ceil_div(chunks, 4)), 1, 256);
    for (const int64_t team : {first, std::min<int64_t>(1024, first * 4), std::max<int64_t>(1, first / 4)})
      add({.vec = widest, .team = team, .side = std::max<int64_t>(1, (team <= 64 ? 256 : 512) / team)});
  } else {
    for (const int64_t vec : {widest, std::max<int64_t>(1, widest / 4), int64_t{1}}) {
      const int64_t side = std::min<int64_t>(32, power_above(ceil_div(p.results, vec)));
      for (const int64_t most : {8, 32}) {
        const int64_t team = std::min({power_above(p.values), most * 32 / side, 1024 / side});
        if (side * team * vec * p.form.state_bytes <= 48 * 1024) add({.vec = vec, .team = team, .side = side});
      }
    }
  }
  return list;
}

}  // namespace

void offer_folds_cuda(const BoundNode& b, const ReduceForm& form, const Gpu& gpu, Offer& offer) {
  const auto p = problem_of(b, form);
  if (!p) return offer.refuse("cuda", p.refusal());
  for (const Split& s : splits_of(b, *p, gpu)) {
    const std::string config = fmt::format("{} v{} t{} n{}{}", p->rows ? "rows" : "columns", s.vec, s.team, s.side,
                                           s.parts > 1 ? fmt::format(" p{}", s.parts) : "");
    offer.candidates.push_back({"cuda", config, estimate(*p, s, gpu), [b, node = *b.node, p = *p, s, &gpu, config] {
                                  BoundNode bound = b;
                                  bound.node = &node;
                                  return kernel_of(bound, p, s, gpu, "reduce:" + config);
                                }});
  }
}

}  // namespace smelt::ops

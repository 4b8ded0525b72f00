#include "ops/matmul/cuda_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/core/strides.h"
#include "ops/matmul/gated_product.h"
#include "ops/matmul/normed_product.h"

namespace smelt::ops::matmul {
namespace {

/// The tensor with an axis of extent 1 before its last `behind` axes, as far as it has them.
BoundTensor with_axis(const BoundTensor& t, size_t behind) {
  BoundTensor r = t;
  r.strides = memory_strides(t);
  const auto at = static_cast<std::ptrdiff_t>(t.shape.size() - std::min(behind, t.shape.size()));
  r.shape.insert(r.shape.begin() + at, 1);
  r.strides.insert(r.strides.begin() + at, 0);
  return r;
}

/// `t` is [batch…, rows, columns]; transposed: [batch…, columns, rows]. Its strides along `rank` batch axes, rows and columns.
struct Matrix {
  Shape batch;
  int64_t row, column;
};
Matrix matrix(const BoundTensor& t, bool transposed, size_t rank) {
  Shape s = broadcast_strides(t, rank + 2);
  Matrix m{{}, s[rank], s[rank + 1]};
  if (transposed) std::swap(m.row, m.column);
  s.resize(rank);
  m.batch = std::move(s);
  return m;
}

/// Chooses the axis that copies run along, and their width. Single bytes that lie side by side are copied by 16 through registers: copies
/// that nobody waits for have four bytes at least.
void choose_copies(CudaOperand& o, int64_t outer_extent, int64_t k_extent, const Shape& batch, int64_t element) {
  if (outer_extent == 1) o.outer = 0;
  if (k_extent == 1) o.k = 0;
  o.k_major = o.k == 1 || o.outer != 1;
  const int64_t along = o.k_major ? k_extent : outer_extent, lines = o.k_major ? outer_extent : k_extent;
  const int64_t step = o.k_major ? o.outer : o.k;
  const bool adjacent = (o.k_major ? o.k : o.outer) == 1;
  for (o.vec = 16 / element; o.vec > 1; o.vec /= 2) {
    bool fits = adjacent && along % o.vec == 0 && (lines == 1 || step % o.vec == 0) && o.alignment % (o.vec * element) == 0;
    for (size_t d = 0; d < batch.size(); ++d) fits = fits && (batch[d] == 1 || o.batch[d] % o.vec == 0);
    if (fits) break;
  }
  if (element == 1 && adjacent && o.vec < 4) o.vec = 16, o.anywhere = true;
}

std::optional<Refusal> rejects(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (type != DType::f16 && type != DType::bf16 && type != DType::f32 && type != DType::f8e4m3fn && !is_wide(type))
    return refuse(Reason::wrong_type,
                  "a product of {}, they multiply f16, bf16, f32, f8e4m3fn, f64 and integers of 32 and 64 bits",
                  smelt::name(type));
  if (b.inputs[1].type != type)
    return refuse(Reason::wrong_type, "operands of {} and {}, they take two of one type", smelt::name(type),
                  smelt::name(b.inputs[1].type));
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && t.layout != Layout::plain)
        return refuse(Reason::wrong_layout, "a tensor stored as {}", name(t.layout));
  return std::nullopt;
}

}  // namespace

double CudaProblem::moved_bytes() const {
  const auto matrices = [&](const CudaOperand& o) {
    int64_t count = 1;
    for (size_t d = 0; d < batch.size(); ++d)
      if (o.batch[d] != 0) count *= batch[d];
    return static_cast<double>(count);
  };
  const double element = static_cast<double>(bytes(type, 1)), depth = static_cast<double>(k);
  const double of_a = image_bytes > 0 ? image_bytes : element * depth * matrices(a) * static_cast<double>(m);
  const int64_t of_one = n / 2;  // columns of each of two products that a gate makes one
  const double unwritten = gated ? element * static_cast<double>(m) * static_cast<double>(of_one) : 0;
  return of_a + element * depth * matrices(b) * static_cast<double>(n) + static_cast<double>(epilogue.moved_bytes()) - unwritten;
}

Views CudaProblem::batch_views() const { return in_order(batch, {a.batch, b.batch}); }

kernels::GemmArgs<void, void, void> CudaProblem::gemm_args(int64_t tile_m, int64_t tile_n) const {
  kernels::GemmArgs<void, void, void> args{};
  args.a_row = a.outer;
  args.a_k = a.k;
  args.b_k = b.k;
  args.b_column = b.outer;
  args.m = static_cast<uint32_t>(m);
  args.n = static_cast<uint32_t>(n);
  args.k = static_cast<uint32_t>(k);
  args.tiles_m = static_cast<uint32_t>((m + tile_m - 1) / tile_m);
  args.tiles_n = static_cast<uint32_t>((n + tile_n - 1) / tile_n);
  return args;
}

BoundTensor MatrixResult::view(const BoundTensor& t) const {
  const BoundTensor r = vector_b ? with_axis(t, 0) : t;
  return vector_a ? with_axis(r, 1) : r;
}

std::pair<CudaGeometry, MatrixResult> cuda_geometry(const Product& product, const BoundTensor& a, const BoundTensor& b,
                                                    const BoundTensor& y) {
  MatrixResult result{.vector_a = a.shape.size() == 1, .vector_b = b.shape.size() == 1, .y = {}, .axes = {}};
  result.y = result.view(y);
  const size_t rank = product.batch.size();
  const bool trans_a = product.node->get_int("transA", 0) != 0 && !result.vector_a;
  const bool trans_b = product.node->get_int("transB", 0) != 0 && !result.vector_b;
  const Matrix left = matrix(result.vector_a ? with_axis(a, 1) : a, trans_a, rank);
  const Matrix right = matrix(result.vector_b ? with_axis(b, 0) : b, trans_b, rank);
  CudaGeometry g;
  g.m = result.y.shape[rank], g.n = result.y.shape[rank + 1], g.k = product.problem.k;
  g.batch = product.batch;
  g.a = {left.row, left.column, left.batch, a.alignment};
  g.b = {right.column, right.row, right.batch, b.alignment};
  // Batches that b repeats over are more rows of a, where they lie at a row's distance.
  while (!g.batch.empty()) {
    const int64_t extent = g.batch.back(), step = g.a.batch.back();
    if (extent != 1 && (g.b.batch.back() != 0 || (g.m != 1 && step != g.m * g.a.outer))) break;
    if (extent != 1 && g.m == 1) g.a.outer = step;
    g.m *= extent;
    g.batch.pop_back(), g.a.batch.pop_back(), g.b.batch.pop_back();
  }
  choose_copies(g.a, g.m, g.k, g.batch, bytes(a.type, 1));
  choose_copies(g.b, g.n, g.k, g.batch, bytes(b.type, 1));
  result.axes.column = rank + 1;
  for (size_t d = 0; d < g.batch.size(); ++d) result.axes.batches.push_back(d);
  return {g, result};
}

std::optional<Refusal> uncountable(const CudaGeometry& g) {
  constexpr int64_t most = (int64_t{1} << 31) - 1024;
  if (g.m <= most && g.n <= most && g.k <= most) return std::nullopt;
  return refuse(Reason::too_large, "{} x {} x {}: 2^31 rows, columns and steps are counted", g.m, g.n, g.k);
}

Result<CudaProblem> cuda_problem(const BoundNode& node) {
  if (auto why = rejects(node)) return *why;
  const Product product = matmul::product(node);
  const BoundNode& b = product.bound;
  const auto [geometry, result] = cuda_geometry(product, b.inputs[0], b.inputs[1], b.outputs[0]);
  if (auto why = uncountable(geometry)) return *why;
  const int64_t up = node.node->get_int(gate_attribute, 0);  // the program's input that is the second product; 0: there is one
  std::vector<EpilogueOperand> operands = epilogue_operands(b, 2);
  if (up < 0 || up > static_cast<int64_t>(operands.size()) + 1)
    return refuse(Reason::wrong_shape, "input {} of a program of {} is the second product", up, operands.size() + 1);
  if (up > 0) operands.insert(operands.begin() + (up - 1), {BoundTensor{.type = b.inputs[0].type, .shape = b.outputs[0].shape}});
  for (EpilogueOperand& o : operands) o.tensor = result.view(o.tensor);
  const DType type = b.inputs[0].type, sums = is_wide(type) ? type : DType::f32;
  if (!is_float(type) && product.alpha != 1) return refuse(Reason::wrong_attribute, "integers times alpha");
  const expr::Program program = epilogue_program(*b.node, sums, result.y.type, product.alpha);
  if (program.type(0) != sums)
    return refuse(Reason::wrong_type, "sums in {}, they are taken in {}", smelt::name(program.type(0)), smelt::name(sums));
  auto made = CudaEpilogue::make(program, result.y, std::move(operands), result.axes);
  if (!made) return made.refusal();

  CudaProblem r{geometry};
  r.type = r.type_b = b.inputs[0].type;
  r.constant_b = b.inputs[1].constant.valid();
  if (up > 0) {
    r.gated = true;
    r.n = b.inputs[1].shape.back();
    if (r.n != 2 * result.y.shape.back() || r.n % 128 != 0 || product.alpha != 1)
      return refuse(Reason::wrong_shape, "{} columns of two products, gated ones make whole 128", r.n);
  }
  const bool repeats = std::ranges::all_of(r.b.batch, [](int64_t step) { return step == 0; });
  if (repeats && b.inputs[1].strides.empty() && b.inputs[1].shape == Shape{r.k, r.n} &&
      b.inputs[1].constant.shape() == Shape{r.k, r.n} && r.b.outer == 1)
    r.weights = b.inputs[1].constant;
  const std::string norm = b.node->get_string(norm_attribute, "");
  if (!norm.empty()) {
    r.norm = norm == "rms" ? kernels::HopperNorm::rms : kernels::HopperNorm::layer;
    r.epsilon = b.node->get_float(norm_epsilon_attribute, 0);
    if (product.alpha != 1) return refuse(Reason::wrong_attribute, "rows that are normalised, times alpha");
  }
  r.epilogue = std::move(*made);
  r.problem = product.problem;
  Key key((norm.empty() ? "" : "normed " + norm + " ") + (up > 0 ? fmt::format("gated{} ", up) : "") + r.epilogue.text());
  add_operand(key, 'a', b.inputs[0]);
  add_operand(key, 'b', b.inputs[1]);
  r.problem.epilogue = key.text();
  return r;
}

void add_operand(Key& key, char name, const BoundTensor& t) {
  constexpr int64_t widest = 16;  // bytes of an access
  if (t.strides.empty() && t.alignment >= widest) return;
  key.option(";", name).option("=", t).option("@", t.alignment);
}

}  // namespace smelt::ops::matmul

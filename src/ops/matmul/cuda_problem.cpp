#include "ops/matmul/cuda_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/strides.h"

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

/// Chooses the axis that copies run along, and their width.
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
}

std::string rejects(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (type != DType::f16 && type != DType::bf16 && type != DType::f32)
    return fmt::format("a product of {}, they multiply f16, bf16 and f32", smelt::name(type));
  if (b.inputs[1].type != type)
    return fmt::format("operands of {} and {}, they take two of one type", smelt::name(type), smelt::name(b.inputs[1].type));
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.type != DType::undefined && t.layout != Layout::plain) return fmt::format("a tensor stored as {}", name(t.layout));
  return {};
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
  return element * depth * (matrices(a) * static_cast<double>(m) + matrices(b) * static_cast<double>(n)) +
         static_cast<double>(epilogue.moved_bytes());
}

std::variant<CudaProblem, std::string> cuda_problem(const BoundNode& node) {
  if (std::string why = rejects(node); !why.empty()) return why;
  const Product product = matmul::product(node);
  const BoundNode& b = product.bound;
  const bool vector_a = b.inputs[0].shape.size() == 1, vector_b = b.inputs[1].shape.size() == 1;
  const auto as_matrix = [&](const BoundTensor& t) {   // the result and what broadcasts to it
    BoundTensor r = vector_b ? with_axis(t, 0) : t;
    return vector_a ? with_axis(r, 1) : r;
  };
  const Problem& p = product.problem;
  const size_t rank = product.batch.size();
  const bool trans_a = node.node->get_int("transA", 0) != 0 && !vector_a,
             trans_b = node.node->get_int("transB", 0) != 0 && !vector_b;
  const Matrix a = matrix(vector_a ? with_axis(b.inputs[0], 1) : b.inputs[0], trans_a, rank);
  const Matrix w = matrix(vector_b ? with_axis(b.inputs[1], 0) : b.inputs[1], trans_b, rank);

  const BoundTensor y = as_matrix(b.outputs[0]);
  CudaOperand left{a.row, a.column, a.batch, b.inputs[0].alignment}, right{w.column, w.row, w.batch, b.inputs[1].alignment};
  // Batches that b repeats over are more rows of a, where they lie at a row's distance.
  Shape batch = product.batch;
  int64_t m = y.shape[rank];
  while (!batch.empty()) {
    const int64_t extent = batch.back(), step = left.batch.back();
    if (extent != 1 && (right.batch.back() != 0 || (m != 1 && step != m * left.outer))) break;
    if (extent != 1 && m == 1) left.outer = step;
    m *= extent;
    batch.pop_back(), left.batch.pop_back(), right.batch.pop_back();
  }
  EpilogueAxes axes{rank + 1, {}};
  for (size_t d = 0; d < batch.size(); ++d) axes.batches.push_back(d);
  std::vector<EpilogueOperand> operands = epilogue_operands(b, 2);
  for (EpilogueOperand& o : operands) o.tensor = as_matrix(o.tensor);
  const expr::Program program = epilogue_program(*b.node, y.type, product.alpha);
  if (program.type(0) != DType::f32) return fmt::format("sums in {}, they are taken in f32", smelt::name(program.type(0)));
  auto made = EpilogueCuda::make(program, y, std::move(operands), axes);
  if (auto* why = std::get_if<std::string>(&made)) return *why;

  CudaProblem r{.type = b.inputs[0].type, .m = m, .n = y.shape[rank + 1], .k = p.k, .batch = batch, .a = left, .b = right,
                .epilogue = std::move(std::get<EpilogueCuda>(made)), .problem = p};
  constexpr int64_t most = (int64_t{1} << 31) - 1024;
  if (r.m > most || r.n > most || r.k > most)
    return fmt::format("{} x {} x {}: 2^31 rows, columns and steps are counted", r.m, r.n, r.k);
  const int64_t element = bytes(r.type, 1);
  choose_copies(r.a, r.m, r.k, batch, element);
  choose_copies(r.b, r.n, r.k, batch, element);
  r.problem.epilogue = r.epilogue.text();
  // What the printed form does not say of a and b: strides, and where they begin.
  for (size_t i : {size_t{0}, size_t{1}})
    if (!b.inputs[i].strides.empty() || b.inputs[i].alignment < 16)
      r.problem.epilogue += fmt::format(";{}={}@{}", i == 0 ? 'a' : 'b', ops::print(b.inputs[i]), b.inputs[i].alignment);
  return r;
}

}  // namespace smelt::ops::matmul

// MatMulBnb4: weights in the 4-bit floats of bitsandbytes, FP4 and NF4 (Dettmers et al., "QLoRA", 2023), with a largest value for
// each block. They become a constant of the scales' type: ONNX has no such types.
#include <array>

#include "import/microsoft/call.h"

namespace smelt::importer::microsoft {
namespace {

constexpr std::array<float, 16> fp4 = {0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                                       -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
constexpr std::array<float, 16> nf4 = {
    -1.0f,           -0.69619280099f, -0.52507305145f, -0.39491748809f, -0.28444138169f, -0.18477343022f, -0.09105003625f, 0.0f,
    0.079580299556f, 0.16093020141f,  0.2461123019f,   0.33791524171f,  0.44070982933f,  0.5626170039f,   0.72295683622f,  1.0f};
constexpr int64_t most = int64_t{1} << 28;  // of an extent or a block

/// [n, k] of the codes, the upper half of a byte first, times the value of their block.
Tensor widened(const uint8_t* codes, const std::vector<double>& largest, const std::array<float, 16>& values, int64_t n,
               int64_t k, int64_t block) {
  Tensor w = Tensor::empty(DType::f32, {n, k});
  auto* to = w.data<float>();
  for (int64_t i = 0; i < n * k; ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
    to[i] = values[static_cast<size_t>(code)] * static_cast<float>(largest[static_cast<size_t>(i / block)]);
  }
  return w;
}

}  // namespace

// A [.., K], B u8 [(N K + 1) / 2], absmax [blocks]
void matmul_bnb4(Call& c) {
  c.refuse_flag("training_mode");
  if (c.integer("transB", 1) != 1) c.refuse("transB is {}, expected 1", c.integer("transB", 1));
  const int64_t k = c.integer("K", 0), n = c.integer("N", 0), block = c.integer("block_size", 0),
                kind = c.integer("quant_type", -1);
  if (k < 1 || n < 1 || block < 1 || k > most || n > most || block > most || kind < 0 || kind > 1)
    c.refuse("K, N, block_size and quant_type are {}, {}, {} and {}", k, n, block, kind);
  const Tensor b = c.constant_input(1), largest = c.constant_input(2);
  const int64_t blocks = (n * k + block - 1) / block;
  if (b.type() != DType::u8 || b.size() != (n * k + 1) / 2)
    c.refuse("its weights are {}{}, expected {} bytes", name(b.type()), to_string(b.shape()), (n * k + 1) / 2);
  if (!is_float(largest.type()) || largest.size() != blocks)
    c.refuse("its absmax is {}{}, expected {} floats", name(largest.type()), to_string(largest.shape()), blocks);
  const Tensor w = widened(b.data<uint8_t>(), largest.to_doubles(), kind == 0 ? fp4 : nf4, n, k, block);
  const std::string columns =
      c.before("Transpose", {c.keep(w.cast(largest.type()))}, {MakeAttribute("perm", std::vector<int64_t>{1, 0})});
  c.become("MatMul", {c.input(0), columns});
}

}  // namespace smelt::importer::microsoft

// Weights of 2, 4 or 8 bits in blocks: MatMulNBits and GatherBlockQuantized become ONNX's DequantizeLinear with a block size.
//
// The bytes of the weights are those of ONNX's types of 2 and 4 bits, the lowest bits first, so the constants are the file's own under
// another type.
#include <algorithm>

#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

constexpr int64_t most = int64_t{1} << 28;  // of an extent or a block: sizes in bits stay below 2^63

DType unsigned_of(const Call& c, int64_t bits) {
  if (bits == 2) return DType::u2;
  if (bits == 4) return DType::u4;
  if (bits == 8) return DType::u8;
  c.refuse("bits is {}, expected 2, 4 or 8", bits);
}

/// The same bytes as another tensor.
Tensor as(const Tensor& t, DType type, Shape shape) {
  auto keep = std::make_shared<Tensor>(t);
  return Tensor::borrow(type, std::move(shape), keep->raw(), keep);
}

/// Element i of a row that begins at a byte.
uint8_t element(const uint8_t* row, int64_t i, int64_t bits) {
  const int64_t at = i * bits;
  return static_cast<uint8_t>((row[at / 8] >> (at % 8)) & ((1 << bits) - 1));
}

/// [rows, columns] in bytes of elements whose rows begin at a byte each.
Tensor unpacked(const Tensor& packed, int64_t rows, int64_t columns, int64_t bits) {
  const int64_t stride = (columns * bits + 7) / 8;
  Tensor out = Tensor::empty(DType::u8, {rows, columns});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < columns; ++i)
      out.data<uint8_t>()[r * columns + i] = element(static_cast<const uint8_t*>(packed.raw()) + r * stride, i, bits);
  return out;
}

/// The same in elements of `bits` bits, without gaps between rows.
Tensor repacked(const Tensor& bytes, int64_t bits, DType type) {
  if (bits == 8) return bytes;
  Tensor out = Tensor::zeros(type, bytes.shape());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < bytes.size(); ++i)
    to[i * bits / 8] = static_cast<uint8_t>(to[i * bits / 8] | (bytes.data<uint8_t>()[i] << (i * bits % 8)));
  return out;
}

Tensor filled(const Shape& shape, uint8_t value) {
  Tensor t = Tensor::empty(DType::u8, shape);
  std::fill_n(t.data<uint8_t>(), t.size(), value);
  return t;
}

}  // namespace

namespace {

/// The weights [K, N] of a product whose columns of K share scales by g_idx, or whose zero points are floats: as the scales' type.
Tensor widened_weights(Call& c, const Tensor& b, int64_t bits, int64_t k, int64_t n, int64_t block, int64_t blocks) {
  const Tensor scales = c.constant_input(2);
  if (scales.size() != n * blocks) c.refuse("its scales are {}, expected {} of them", to_string(scales.shape()), n * blocks);
  const Tensor scale = scales.cast(DType::f32);
  Tensor zero;
  if (c.has(3)) {
    const Tensor given = c.constant_input(3);
    const bool packed = given.type() == DType::u8;
    const int64_t expected = packed ? n * ((blocks * bits + 7) / 8) : n * blocks;
    if (given.size() != expected) c.refuse("its zero points are {}, expected {} of them", to_string(given.shape()), expected);
    zero = (packed ? unpacked(given, n, blocks, bits) : given).cast(DType::f32);
  }
  std::vector<int64_t> groups(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) groups[static_cast<size_t>(i)] = i / block;
  if (c.has(4)) {
    const Tensor given = c.constant_input(4);
    if (given.size() < k) c.refuse("its g_idx is {}, expected {} numbers", to_string(given.shape()), k);
    const auto numbers = given.to_ints();
    for (int64_t i = 0; i < k; ++i) {
      const int64_t group = groups[static_cast<size_t>(i)] = numbers[static_cast<size_t>(i)];
      if (group < 0 || group >= blocks) c.refuse("its g_idx has {}, expected 0 to {}", group, blocks - 1);
    }
  }
  Tensor w = Tensor::empty(DType::f32, {k, n});
  for (int64_t row = 0; row < n; ++row) {
    const uint8_t* bytes = static_cast<const uint8_t*>(b.raw()) + row * blocks * block * bits / 8;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = row * blocks + groups[static_cast<size_t>(i)];
      const float from = zero.valid() ? zero.data<float>()[at] : static_cast<float>(1 << (bits - 1));
      w.data<float>()[i * n + row] = scale.data<float>()[at] * (static_cast<float>(element(bytes, i, bits)) - from);
    }
  }
  return w.cast(scales.type());
}

}  // namespace

// A [.., K], B u8 [N, blocks, bytes of a block], scales [N, blocks], zero points?, g_idx?, bias?
void matmul_n_bits(Call& c) {
  c.refuse_flag("weight_prepacked");
  const int64_t bits = c.integer("bits", 4), k = c.integer("K", 0), n = c.integer("N", 0), block = c.integer("block_size", 0);
  const DType type = unsigned_of(c, bits);
  if (k < 1 || n < 1 || block < 16 || k > most || n > most || block > most)
    c.refuse("K, N and block_size are {}, {} and {}", k, n, block);
  const int64_t blocks = (k + block - 1) / block;
  const Tensor b = c.constant_input(1);
  if (b.type() != DType::u8 || b.nbytes() != n * blocks * block * bits / 8)
    c.refuse("its weights are {}{}, expected {} bytes", name(b.type()), to_string(b.shape()), n * blocks * block * bits / 8);
  const auto become_product = [&](const Name& w) {
    if (!c.has(5)) return c.become("MatMul", {c.input(0), w});
    c.become("Add", {c.before("MatMul", {c.input(0), w}), c.input(5)});
  };
  if (c.has(4) || (c.has(3) && c.constant_input(3).type() != DType::u8))
    return become_product(c.keep(widened_weights(c, b, bits, k, n, block, blocks)));
  Tensor zeros;
  if (!c.has(3)) {
    zeros = filled({n, blocks}, static_cast<uint8_t>(1 << (bits - 1)));
  } else {
    const Tensor given = c.constant_input(3);
    if (given.nbytes() != n * ((blocks * bits + 7) / 8))
      c.refuse("its zero points are {}, expected {} bytes", to_string(given.shape()), n * ((blocks * bits + 7) / 8));
    zeros = unpacked(given, n, blocks, bits);
  }
  const Name scales = c.before("Reshape", {c.input(2), c.constant({n, blocks})});
  // How exact the least of the products may be that read these weights: no attribute of ONNX's, and not written to files.
  Name w = c.before("DequantizeLinear", {c.keep(as(b, type, {n, blocks * block})), scales, c.keep(repacked(zeros, bits, type))},
                    {MakeAttribute("axis", int64_t{1}), MakeAttribute("block_size", block),
                     MakeAttribute("accuracy_level", c.integer("accuracy_level", 0))});
  if (blocks * block != k) w = c.before("Slice", {w, c.constant({0}), c.constant({k}), c.constant({1})});
  become_product(c.before("Transpose", {w}, {MakeAttribute("perm", std::vector<int64_t>{1, 0})}));
}

namespace {

/// Elements of 4 bits from bytes [.., bytes], the lower half of a byte first: bytes [.., columns].
Name halves(Call& c, const Name& bytes, int64_t columns) {
  const auto byte = [&](int64_t v) { return c.scalar(onnx::TensorProto::UINT8, static_cast<double>(v)); };
  const Name low = c.before("BitwiseAnd", {bytes, byte(15)});
  const Name high = c.before("BitShift", {bytes, byte(4)}, {MakeAttribute("direction", std::string("RIGHT"))});
  const Name both = c.before("Concat", {unsqueeze(c, low, {-1}), unsqueeze(c, high, {-1})}, {MakeAttribute("axis", int64_t{-1})});
  const Name rows = c.before("Shape", {bytes}, {MakeAttribute("end", int64_t{-1})});
  return c.before("Reshape", {both, c.before("Concat", {rows, c.constant({columns})}, {MakeAttribute("axis", int64_t{0})})});
}

}  // namespace

// data, indices, scales, zero points?: rows are gathered as bytes, and dequantised behind that.
void gather_block_quantized(Call& c) {
  const Tensor data = c.constant_input(0);
  const bool is_packed = data.type() == DType::u8, is_signed = data.type() == DType::i4;
  const int64_t bits = is_packed ? c.integer("bits", 4) : 4, block = c.integer("block_size", 128);
  if (!is_packed && !is_signed && data.type() != DType::u4)
    c.refuse("its data is of {}, expected u8, u4 or i4", name(data.type()));
  if (bits != 4 && bits != 8) c.refuse("bits is {}, expected 4 or 8", bits);
  const int64_t rank = data.rank();
  if (data.size() < 1 || std::any_of(data.shape().begin(), data.shape().end(), [](int64_t d) { return d > most; }))
    c.refuse("its data is {}", to_string(data.shape()));
  const auto axis_of = [&](const char* attribute, int64_t otherwise) {
    const int64_t axis = c.integer(attribute, otherwise);
    return axis < 0 ? axis + rank : axis;
  };
  if (rank != 2 || axis_of("gather_axis", 0) != 0 || axis_of("quantize_axis", 1) != 1)
    c.refuse("data of rank {}, gathered along axis {} and quantized along axis {}: expected 2, 0 and 1", rank,
             axis_of("gather_axis", 0), axis_of("quantize_axis", 1));
  const int64_t rows = data.shape()[0], columns = is_packed ? data.shape()[1] * 8 / bits : data.shape()[1];
  const int64_t blocks = block < 1 ? 0 : (columns + block - 1) / block;
  if (block < 16 || block > most || columns % 2 != 0)
    c.refuse("rows of {} elements in blocks of {}: expected an even number, and blocks of at least 16", columns, block);
  // A signed v is (v ^ 8) - 8, so bytes get their upper half's first bit turned and a zero point of 8 more.
  const uint8_t turn = is_signed ? 0x88 : 0;
  Tensor bytes = as(data, DType::u8, {rows, columns * bits / 8});
  if (turn) {
    Tensor turned = Tensor::empty(DType::u8, bytes.shape());
    std::transform(bytes.data<uint8_t>(), bytes.data<uint8_t>() + bytes.size(), turned.data<uint8_t>(),
                   [&](uint8_t v) { return static_cast<uint8_t>(v ^ turn); });
    bytes = std::move(turned);
  }
  Tensor zeros;
  if (c.has(3)) {
    const Tensor given = c.constant_input(3);
    const int64_t expected = is_packed ? rows * ((blocks * bits + 7) / 8) : (rows * blocks + 1) / 2;
    if (given.type() != data.type() || given.nbytes() != expected)
      c.refuse("its zero points are {}{}, expected {} bytes of {}", name(given.type()), to_string(given.shape()), expected,
               name(data.type()));
    zeros = is_packed ? unpacked(given, rows, blocks, bits) : unpacked(given, 1, rows * blocks, 4);
    zeros = as(zeros, DType::u8, {rows, blocks});
    for (int64_t i = 0; i < zeros.size(); ++i)
      zeros.data<uint8_t>()[i] = static_cast<uint8_t>(zeros.data<uint8_t>()[i] ^ (turn & 15));
  } else {
    zeros = filled({rows, blocks}, is_signed ? 8 : is_packed ? static_cast<uint8_t>(1 << (bits - 1)) : 0);
  }
  const auto gather = [&](const Name& table) { return c.before("Gather", {table, c.input(1)}); };
  Name x = gather(c.keep(bytes));
  if (bits == 4) x = halves(c, x, columns);
  c.become("DequantizeLinear", {x, gather(c.input(2)), gather(c.keep(zeros))},
           {MakeAttribute("axis", int64_t{-1}), MakeAttribute("block_size", block)});
}

}  // namespace smelt::importer::microsoft

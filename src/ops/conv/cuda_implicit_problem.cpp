#include "ops/conv/cuda_implicit_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/core/strides.h"
#include "ops/core/window.h"
#include "ops/cpu/strided_copy.h"

namespace smelt::ops::conv {
namespace {

/// Rows and columns: a line is an image of one row, a volume has its depth before them.
void plane(int64_t (&to)[2], const Shape& spatial, int64_t fill) {
  to[0] = spatial.size() >= 2 ? spatial[spatial.size() - 2] : fill;
  to[1] = spatial.back();
}

/// A transposed convolution of which every output pixel has one tap, and no tap is cut off.
bool windows_side_by_side(const GpuRequest& r) {
  const Problem& p = r.problem;
  if (p.spatial() != 2 || p.x.size() > 1 || r.node.node->program) return false;
  for (size_t a = 0; a < 2; ++a)
    if (p.stride[a] != p.w[a + 2] || p.pad_begin[a] != 0 || p.y[a + 2] != p.x[0].shape[a + 2] * p.stride[a] ||
        (p.dilation[a] != 1 && p.w[a + 2] != 1))
      return false;
  return true;
}

std::optional<Refusal> rejects(const GpuRequest& r, Axes most) {
  const Problem& p = r.problem;
  const bool half = p.input == DType::f16 || p.input == DType::bf16, integers = p.quantization.has_value();
  if (p.transposed && !windows_side_by_side(r))
    return refuse(Reason::unsupported, "a transposed convolution whose windows overlap, or are cut off");
  if (p.group != 1) return refuse(Reason::wrong_attribute, "{} groups; it knows one", p.group);
  if (p.spatial() > (most == Axes::three ? size_t{3} : size_t{2}))
    return refuse(Reason::wrong_rank, "{} spatial axes, expected 1 {}", p.spatial(), most == Axes::three ? "to 3" : "or 2");
  if (p.spatial() == 3 && std::ranges::any_of(p.x, [](const Input& x) { return x.upsample != 1; }))
    return refuse(Reason::unsupported, "a volume that is upsampled");
  const bool floats = half || p.input == DType::f32 || p.input == DType::f8e4m3fn;
  if (!integers && (!floats || r.weight().type != p.input))
    return refuse(Reason::wrong_type, "{} by {}", smelt::name(p.input), smelt::name(r.weight().type));
  if (!r.weight().constant.valid()) return refuse(Reason::not_constant, "weights that are not constant");
  if (elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (p.x.size() > size_t{ImplicitProblem::most_segments})
    return refuse(Reason::too_large, "{} inputs, expected at most {}", p.x.size(), ImplicitProblem::most_segments);
  for (const Input& x : p.x) {
    if (!std::has_single_bit(static_cast<uint64_t>(x.upsample)))
      return refuse(Reason::unsupported, "upsampling by {}, expected a power of 2", x.upsample);
    if (elements(x.shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  }
  for (size_t i = 0; i < p.x.size(); ++i)
    if (const int64_t span = storage_bytes(r.node.inputs[i]) / bytes(p.input, 1); span >= int64_t{1} << 31)
      return refuse(Reason::too_large, "an image that spans {} elements; it counts to 2^31", span);
  return std::nullopt;
}

/// Elements of the widest access that all of these are multiples of.
int64_t common_width(std::initializer_list<int64_t> counts, int64_t element) {
  int64_t width = 16 / element;
  for (const int64_t c : counts)
    while (c % width != 0) width /= 2;
  return width;
}

int64_t whole_tiles(int64_t count, int64_t tile) { return (count + tile - 1) / tile * tile; }

}  // namespace

int64_t ImplicitProblem::k(int64_t tile) const {
  int64_t sum = 0;
  for (const ImageSegment& s : segments) sum += taps[0] * taps[1] * whole_tiles(s.channels, tile);
  return sum;
}

Result<ImplicitProblem> implicit_problem(const GpuRequest& r, Axes most) {
  if (auto why = rejects(r, most)) return *why;
  const Problem& p = r.problem;
  ImplicitProblem q;
  q.type = p.input;
  q.m = p.outputs();
  q.n = p.y[0];
  int64_t out[2], in[2];
  plane(out, spatial_of(p.y), 1);
  q.out_height = out[0];
  q.out_width = out[1];
  plane(q.stride, p.stride, 1);
  plane(q.pad, p.pad_begin, 0);
  plane(q.dilation, p.dilation, 1);
  plane(q.taps, spatial_of(p.w), 1);
  Shape grid = spatial_of(p.x[0].shape);
  for (int64_t& extent : grid) extent *= p.x[0].upsample;
  plane(in, grid, 1);
  q.in_height = in[0];
  q.in_width = in[1];
  if (p.spatial() == 3)
    q.depth = Depth{.out = p.y[2],
                    .in = p.x[0].shape[2],
                    .stride = p.stride[0],
                    .pad = p.pad_begin[0],
                    .dilation = p.dilation[0],
                    .taps = p.w[2]};
  const int64_t element = bytes(p.input, 1);
  if (p.transposed) {  // pixels of x are the rows, and the taps are batches
    q.transposed = true;
    q.batches = q.taps[0] * q.taps[1];
    q.out_height = q.in_height;
    q.out_width = q.in_width;
    for (size_t a = 0; a < 2; ++a) q.taps[a] = q.stride[a] = q.dilation[a] = 1, q.pad[a] = 0;
  }
  if (copies_with_padding(p)) {
    constexpr int64_t channels = ImplicitProblem::padded_channels;
    q.padded = true;
    q.taps_w = q.taps[1];
    // Of integers, which zeros of the weights make zero whatever they are, whole copies are read.
    if (element == 1) q.taps[1] = whole_tiles(q.taps[1], 16 / channels);
    q.in_height = (q.out_height - 1) * q.stride[0] + (q.taps[0] - 1) * q.dilation[0] + 1;
    q.in_width = whole_tiles((q.out_width - 1) * q.stride[1] + q.taps[1], 4);  // rows begin on 16 bytes
    const auto row = static_cast<int32_t>(q.in_width * channels);
    q.segments = {{.x = nullptr,
                   .image = static_cast<int32_t>(q.in_height) * row,
                   .row = row,
                   .pixel = channels,
                   .channels = static_cast<int32_t>(q.taps[1] * channels),
                   .shift = 0,
                   .tiles = 0}};
    q.vec = common_width({q.stride[1] * channels, q.taps[1] * channels}, element);
    q.taps[1] = 1;
    q.pad[0] = q.pad[1] = 0;
    if (q.n * q.in_height * row >= int64_t{1} << 31)
      return refuse(Reason::too_large, "a padded image of {} elements; it counts to 2^31", q.n * q.in_height * row);
    return q;
  }
  q.vec = 16 / element;
  for (size_t i = 0; i < p.x.size(); ++i) {
    const BoundTensor& x = r.node.inputs[i];
    const Shape strides = five_strides(x);
    if (strides[1] != 1 && x.shape[1] > 1)
      return refuse(Reason::wrong_layout, "input {}, whose channels do not lie side by side", i);
    q.vec = std::min(q.vec, widest_channels(x));
    ImageSegment s{};
    s.image = static_cast<int32_t>(strides[0]);
    s.row = static_cast<int32_t>(strides[3]);
    s.pixel = static_cast<int32_t>(strides[4]);
    s.channels = static_cast<int32_t>(x.shape[1]);
    s.shift = std::countr_zero(static_cast<uint64_t>(p.x[i].upsample));
    if (s.shift != 0 && p.spatial() == 1) return refuse(Reason::unsupported, "a line that is upsampled");
    if (q.depth) q.depth->planes.push_back(strides[2]);
    q.segments.push_back(s);
  }
  return q;
}

ImplicitArguments implicit_arguments(const ImplicitProblem& p, const matmul::CudaConfig& c) {
  ImplicitArguments args{};
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  const int64_t k_tiles = p.k(c.tile_k) / c.tile_k;
  for (size_t i = 0; i < p.segments.size(); ++i) {
    args.segments[i] = p.segments[i];
    args.segments[i].tiles = narrow((p.segments[i].channels + c.tile_k - 1) / c.tile_k);
  }
  args.w_row = k_tiles * c.tile_k;
  args.w_batch = p.m * k_tiles * c.tile_k;
  args.m = static_cast<uint32_t>(p.pixels());
  args.n = static_cast<uint32_t>(p.m);
  args.tiles_n = static_cast<uint32_t>((p.m + c.tile_n - 1) / c.tile_n);
  args.tiles = static_cast<uint32_t>((p.pixels() + c.tile_m - 1) / c.tile_m) * args.tiles_n;
  args.k_tiles = narrow(k_tiles);
  args.split_tiles = narrow((k_tiles + c.splits - 1) / c.splits);
  set_geometry(args, p);
  std::ranges::transform(p.taps, args.taps, narrow);
  return args;
}

matmul::CudaProblem implicit_product(const GpuRequest& r, const ImplicitProblem& p, int64_t tile) {
  matmul::CudaProblem product{{p.pixels(), p.m, p.k(tile), {p.batches}, {}, {}}, p.type, p.type, implicit_epilogue(r, p), {}};
  product.a.vec = p.vec;
  product.b.vec = 16 / bytes(p.type, 1);
  product.a.batch = {0};
  product.b.batch = {1};
  for (const Input& x : r.problem.x) product.image_bytes += static_cast<double>(bytes(p.type, elements(x.shape)));
  return product;
}

CudaEpilogue implicit_epilogue(const GpuRequest& r, const ImplicitProblem& p) {
  if (!p.transposed) return r.epilogue(4);
  // y as [N, H, KH, W, KW, M]: rows N, H and W, batches KH and KW. A bias broadcasts along M.
  const Shape strides = memory_strides(r.node.outputs[0]), &taps = r.problem.stride;
  BoundTensor y = r.node.outputs[0];
  y.layout = Layout::plain;
  y.shape = {p.n, p.in_height, taps[0], p.in_width, taps[1], p.m};
  y.strides = {strides[0], strides[2] * taps[0], strides[2], strides[3] * taps[1], strides[3], strides[1]};
  std::vector<EpilogueOperand> operands = r.operands;
  for (EpilogueOperand& o : operands) o.tensor.shape = {p.m};
  return *CudaEpilogue::make(r.program, y, std::move(operands), {5, {2, 4}}, 4);
}

Key implicit_packing(const ImplicitProblem& p, int64_t tile) {
  Key key("conv:implicit");
  if (p.transposed) return key.field("transposed").field(p.k(tile));
  key.flag(":padded", p.padded);
  for (const ImageSegment& s : p.segments) key.field(s.channels).option("/", whole_tiles(s.channels, tile));
  return key;
}

Tensor implicit_weights(const Tensor& w, const ImplicitProblem& p, int64_t tile) {
  const int64_t size = bytes(w.type(), 1), k = p.k(tile);
  const Shape& s = w.shape();
  Tensor to = Tensor::empty(w.type(), {p.batches, p.m, k});
  char* const out = static_cast<char*>(to.raw());
  const char* const from = static_cast<const char*>(w.raw());
  if (p.batches * p.m * k != w.size()) std::memset(out, 0, static_cast<size_t>(to.nbytes()));
  if (p.transposed) {
    StridedCopy({s[0], p.m, p.batches}, {p.m * p.batches, p.batches, 1}, {1, k, p.m * k}, size, 1).run(out, from);
    return to;
  }
  const int64_t rows = p.taps[0], columns = p.padded ? p.taps_w : p.taps[1], taps = rows * columns;
  int64_t base = 0, first = 0;  // of the segment: its place in K, its first channel
  for (const ImageSegment& segment : p.segments) {
    const int64_t span = whole_tiles(segment.channels, tile), channels = p.padded ? s[1] : segment.channels;
    const int64_t row = p.padded ? span : columns * span, column = p.padded ? ImplicitProblem::padded_channels : span;
    StridedCopy({p.m, rows, columns, channels}, {s[1] * taps, columns, 1, taps}, {k, row, column, 1}, size, 1)
        .run(out + base * size, from + first * taps * size);
    base += rows * row;
    first += channels;
  }
  return to;
}

std::shared_ptr<device::cuda::Memory> implicit_weights_there(const GpuRequest& r, const ImplicitProblem& p, int64_t tile) {
  const Tensor& w = r.weight().constant;
  return r.gpu->weights->packed(r.gpu->device, w, implicit_packing(p, tile).text(), [&] { return implicit_weights(w, p, tile); });
}

}  // namespace smelt::ops::conv
